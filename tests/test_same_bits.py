"""What CONTRIBUTING.md says is the same bits on any machine, and what only to a stated tolerance, on a processor made older.

The same program runs as it is, and with NumPy's and OpenBLAS's vector code of an old processor and a C library without fused
multiplication. Where a switch does not exist the run is the same, and the test says less.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import contextlib, hashlib, io, json, sys
import numpy as np
from estimators import BetaBinomial, GaussianMeans, GaussianTally, LinearClients, NonparametricRates
from estimators.server.robust_pca import robust_pca
from estimators.tables.datasets import surgical_mortality
from theory import api, find, page
from theory.engine.judging import judge

bits, numbers = {}, {}
rng = np.random.default_rng(5)
uniforms, normals = rng.random(10_000), rng.standard_normal(100_000)
bits["uniforms"], bits["normals"] = uniforms.tobytes().hex(), normals.tobytes().hex()
means, variances = normals[:60].round(6), (0.2 + uniforms[:60]).round(6)
parts = [GaussianTally.of(means[i::3], variances[i::3]) for i in range(3)]
bits["tally"] = repr((parts[0] + parts[1] + parts[2]).fit()) == repr((parts[2] + parts[0] + parts[1]).fit())
data = surgical_mortality()
for model, *arguments in (
    (GaussianMeans(), means, variances),
    (BetaBinomial(), data.deaths, data.operations),
    (NonparametricRates(), data.deaths, data.operations),
    (LinearClients(), list(normals[:900].reshape(30, 10, 3)), list(normals[900:1200].reshape(30, 10))),
):
    model.fit(*arguments)
    numbers[type(model).__name__] = [*np.ravel(model.posterior_mean_), *np.ravel(model.posterior_sd_)]
numbers["exp"] = np.exp(uniforms).tolist()
numbers["product"] = (normals[:40_000].reshape(200, 200) @ normals[40_000:80_000].reshape(200, 200)).ravel().tolist()
ids = "fedhdp:table4:c", "generative:thm4:variance-estimate"
bits["ledger"] = page.render([find(i) for i in ids], {i: judge(find(i), api.DEFAULT_ROOT, True) for i in ids})
print(json.dumps({"bits": bits, "numbers": numbers}))
"""

TOLERANCE = 2e-13
"""Of CONTRIBUTING.md, for fitted models, over the largest number of each."""


def older():
    """Return the environment in which the numerical libraries take an old processor's code."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(found),
        "OPENBLAS_CORETYPE": "Prescott",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F,-AVX512VL",
        "PYTHONHASHSEED": "77",
    }


def outcome(environment):
    """Return what the program prints in `environment`."""
    full = {**os.environ, **environment}
    said = subprocess.run([sys.executable, "-c", PROGRAM], env=full, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


@pytest.fixture(scope="module")
def runs():
    return outcome({}), outcome(older())


def test_bits_that_are_the_same_on_any_processor(runs):
    here, there = runs
    assert here["bits"]["tally"] is True
    for name, value in here["bits"].items():
        assert there["bits"][name] == value, name


def test_fits_agree_to_the_tolerance_that_is_told(runs):
    here, there = runs
    for name in here["numbers"]:
        one, other = np.array(here["numbers"][name]), np.array(there["numbers"][name])
        assert np.max(abs(one - other)) <= TOLERANCE * np.max(abs(one)), name


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the switches are those of x86-64")
def test_the_older_processor_is_another_one(runs):
    """Negative control: were nothing switched, the two tests above would say nothing."""
    here, there = runs
    assert here["numbers"]["exp"] != there["numbers"]["exp"] or here["numbers"]["product"] != there["numbers"]["product"]
