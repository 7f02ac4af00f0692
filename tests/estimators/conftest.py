"""Fixtures of the tests of `estimators`.

Belongs here: what all of them are held to.  Does not belong here: fixtures of every test (tests/conftest.py).
"""

from pathlib import Path

import _pytest
import pytest

PACKAGE = Path(__file__).parents[2] / "estimators"
BELOW = Path(_pytest.__file__).parent  # who calls a test, where a warning points too far up
# A round of training is called by the loop of rounds, however far below the user's line that is.
ROUNDS = PACKAGE / "federated"


@pytest.fixture(autouse=True)
def warnings_point_at_who_asked(monkeypatch):
    """Hold every warning that a test expects by `pytest.warns` to the file of the test, which stands for the user's."""
    leave = pytest.WarningsRecorder.__exit__

    def checked(self, kind, *rest):
        leave(self, kind, *rest)
        if kind is None:
            found = [(Path(w.filename), w.lineno, str(w.message)) for w in self.list]
            inside = [w for w in found if w[0].is_relative_to(PACKAGE) and w[0].parent != ROUNDS]
            astray = inside + [w for w in found if w[0].is_relative_to(BELOW)]
            assert not astray, "a warning points elsewhere than at the call; see its stacklevel"

    monkeypatch.setattr(pytest.WarningsRecorder, "__exit__", checked)
