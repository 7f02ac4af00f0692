"""What a simulation returns does not depend on how many threads the linear algebra takes."""

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from estimators.montecarlo.moments import Moments

for size in (1, 3):  # a product of vectors takes threads sooner than one of matrices
    moments = Moments.of(np.random.default_rng(0).random((200_000, size)))
    print(*(value.hex() for value in [*moments.mean, *moments.scatter.ravel()]))
"""


def printed(threads):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_moments_of_a_sample_are_the_same_bits_for_any_threads_of_blas():
    one = printed(1)
    assert len(one.split()) == 14
    assert printed(2) == one
    assert printed(4) == one
