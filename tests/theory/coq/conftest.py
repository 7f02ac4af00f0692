"""Where tests of Coq work: folders of their own, with the files by hand as `make prove` has compiled them, if it has.

A compiled file has a stamp of what it was made from, so that what is old here is made anew, as in any folder.
"""

import shutil

import pytest

from theory.coq import checker

WORK = checker.WORK
MADE = WORK.resolve()  # tests change folders


@pytest.fixture(scope="session")
def compiled_into():
    """A function that makes a folder, which holds what is compiled."""

    def fill(folder):
        folder.mkdir()
        for stamp in MADE.glob("*.stamp"):  # before the file itself: one that is being replaced has an old stamp then
            shutil.copy(stamp, folder)
            shutil.copy(stamp.with_suffix(".vo"), folder)
        return folder

    return fill


@pytest.fixture(scope="module")
def own_work(tmp_path_factory, compiled_into):
    """The path of coqc, which works in a folder of the module's own."""
    checker.WORK = compiled_into(tmp_path_factory.mktemp("coq") / "work")
    yield checker.coqc()[0]
    checker.WORK = WORK
