"""Claim packs as others would install them: a package and the metadata of its distribution on a path of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKS = Path(__file__).parent / "packs"
ROOT = PACKS.parents[2]


@pytest.fixture(scope="session")
def install_pack():
    """Install a pack of `packs` in a folder; returns the folder."""

    def install(site, package, key):
        shutil.copytree(PACKS / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[borrow.papers]\n{key} = {package}\n")
        return site

    return install


@pytest.fixture(scope="session")
def run_borrow():
    """Run the command line with the packs of a folder; returns exit status, standard output, standard error."""

    def run(site, cwd, *argv):
        path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
        ran = subprocess.run(
            [sys.executable, "-m", "borrow", *map(str, argv)], cwd=cwd, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        return ran.returncode, ran.stdout, ran.stderr

    return run
