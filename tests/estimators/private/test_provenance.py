"""Where guarantees come from: every report says whether its noise was seeded, through JSON, and what that leaves."""

from contextlib import suppress

import numpy as np
import pytest

from estimators.accounting import Guarantee
from estimators.private import MeanClient, RateClient, RegressionClient, provenance_of, read_report, release_prior
from estimators.private.noise import MECHANISMS

SEEDED = np.random.default_rng(0)
KINDS = (*MECHANISMS, "two-point", "answers", "finite-output", "none")


def sent(kind, generator):
    """Reports by one mechanism of every client that has it."""
    found = []
    for make, data in (
        (lambda **more: MeanClient(bounds=(0.0, 1.0), **more), [0.2, 0.4]),
        (lambda **more: RateClient(**more), [0, 1]),
    ):
        for adjacency in ("row", "client"):
            settings = {"mechanism": kind, "eps": 1.0} if kind != "none" else {"eps": np.inf}
            with suppress(ValueError):  # a mechanism of the other client, or of none here
                client = make(adjacency=adjacency, delta=1e-6 if "gaussian" in kind else 0.0, **settings)
                found.append(client.report(data, generator))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_report_says_whether_it_was_seeded(kind):
    for generator, seeded in ((SEEDED, True), (None, False)):
        reports = sent(kind, generator)
        assert reports or kind == "finite-output"
        for report in reports:
            assert report.guarantee.simulated is seeded
            assert read_report(report.to_json()) == report
            assert str(report.guarantee).startswith("simulated, no guarantee; ") is seeded


def test_regressions_and_central_releases_say_it_too():
    for generator, seeded in ((SEEDED, True), (None, False)):
        client = RegressionClient(norm=1.0, eps=1.0, delta=1e-6)
        assert client.report(np.ones((3, 1)), np.ones(3), generator).guarantee.simulated is seeded
        release = release_prior([0.1, 0.5, 0.7], 0.1, bounds=(0.0, 1.0), eps=1.0, delta=1e-6, generator=generator)
        assert release.guarantee.simulated is seeded


def test_what_is_not_covered_depends_on_the_release():
    row = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")
    real = Guarantee(1.0, 1e-6, "client", "client", "gaussian", rho=0.02)
    assert any("several rows" in each for each in provenance_of([row])["not_covered"])
    assert not any("several rows" in each for each in provenance_of([real])["not_covered"])
    assert any("floating-point" in each for each in provenance_of([real])["not_covered"])
    both = provenance_of([row, row, real])
    assert [each["clients"] for each in both["guarantees"]] == [2, 1]
    assert provenance_of([Guarantee(np.inf, 0.0, "row", "client", "none")])["guarantees"][0]["eps"] is None
