"""Fixtures of the tests of `estimators`.

Belongs here: what all of them are held to.  Does not belong here: fixtures of every test (tests/conftest.py).
"""

from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def warnings_point_at_who_asked(monkeypatch):
    """Hold every warning that a test expects by `pytest.warns` to the file of the test, which stands for the user's."""
    leave = pytest.WarningsRecorder.__exit__

    def checked(self, kind, *rest):
        leave(self, kind, *rest)
        if kind is None:
            elsewhere = {f"{w.filename}:{w.lineno}: {w.message}" for w in self.list if not w.filename.startswith(HERE)}
            assert not elsewhere, "a warning points elsewhere than at the call; see its stacklevel"

    monkeypatch.setattr(pytest.WarningsRecorder, "__exit__", checked)
