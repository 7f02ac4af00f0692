"""Fixtures of the tests of `estimators`.

Belongs here: what all of them are held to.  Does not belong here: fixtures of every test (tests/conftest.py).
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
# A round of training is called by the loop of rounds, however far below the user's line that is.
ROUNDS = HERE.parents[1] / "estimators" / "federated"


@pytest.fixture(autouse=True)
def warnings_point_at_who_asked(monkeypatch):
    """Hold every warning that a test expects by `pytest.warns` to the file of the test, which stands for the user's."""
    leave = pytest.WarningsRecorder.__exit__

    def checked(self, kind, *rest):
        leave(self, kind, *rest)
        if kind is None:
            found = [(Path(w.filename), w.lineno, str(w.message)) for w in self.list]
            elsewhere = [w for w in found if not w[0].is_relative_to(HERE) and w[0].parent != ROUNDS]
            assert not elsewhere, "a warning points elsewhere than at the call; see its stacklevel"

    monkeypatch.setattr(pytest.WarningsRecorder, "__exit__", checked)
