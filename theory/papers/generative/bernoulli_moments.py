"""Bernoulli clients whose prior is unknown (Sections 2.2 and 5.2.2): what the printed moment estimates really estimate.

The printed estimate of the prior's variance is the variance of the clients' shares of ones, which includes the sampling
noise; an unbiased estimate from pairs of samples is at the end.

Belongs here: claims on moment estimates without privacy. Does not belong here: Theorem 3 (bernoulli_bound.py), privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.beta_binomial import (
    M3,
    PRIOR,
    ZERO,
    N,
    between,
    centre,
    counts,
    draw_clients,
    enumerate_clients,
    naive_estimate,
    prior_moment,
    share_variance,
    shares,
    within,
)

UNKNOWN = (*PRIOR, N, M3)
POINTS = ({"alpha": 2, "beta": 3, "n": 2, "m": 4}, {"alpha": "1/2", "beta": 1, "n": 3, "m": 5})


# --- moments -----------------------------------------------------------------------------------------------------------


def _moments_derive(alpha: Any, beta: Any) -> Derivation:
    d = Derivation()
    mu = d.say("Every share of ones has the prior's mean, so their mean has it too:", prior_moment(alpha, beta, 1))
    spread = d.say("Variance of the prior:", simplest(prior_moment(alpha, beta, 2) - mu**2))
    return d.conclude("mu, and mu (1-mu)/sigma^2 - 1:", (mu, simplest(mu * (1 - mu) / spread - 1)))


def _moments_oracle(alpha: Any, beta: Any, n: Any, m: Any) -> tuple[Any, Any]:
    def others_mean(z: int, how_many: tuple[int, ...]) -> Fraction:
        return sum(shares(how_many), Fraction(0)) / (int(m) - 1)

    # alpha + beta is E[p(1-p)]/Var(p): the prior's moments from counts of two samples of one client.
    both = counts(alpha, beta, 2)
    first, second = both[1] / 2 + both[2], both[2]
    return rational(enumerate_clients(alpha, beta, n, m, others_mean)), rational((first - second) / (second - first**2))


def _moments_simulate(alpha: float, beta: float, n: int, m: int) -> simulation.Simulation:
    variance = float(bernoulli.prior_variance(alpha, beta))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, alpha, beta, n, m)
        return np.stack([z[:, 1:].mean(axis=1) / n, (p * (1 - p)).mean(axis=1) / variance], axis=1)

    return simulation.sample_means(draw, labels=("mean of mu_hat_i", "E[p(1-p)]/Var(p)"))


register(
    Claim(
        id="generative:bern:moments",
        title="Mean of the others' shares, and alpha+beta from the prior's moments",
        place="Section 2.2, unknown alpha, beta",
        statement="""mu_hat_i = sum_{l != i} xbar_l/(m-1) estimates the prior's mean without bias, and alpha+beta =
            mu(1-mu)/sigma^2 - 1. (What sigma_hat_i^2 estimates: generative:bern:variance-estimate.)""",
        latex=r"""\widehat{\mu}_{i}=\frac{1}{m-1}\sum_{l\neq i}\overline{X}_{l},\qquad\alpha+\beta=\nicefrac{{\mu(1-\mu)}}%
            {{\sigma^{2}}}-1""",
        kind="identity",
        variables=UNKNOWN,
        examples=POINTS,
        printed=lambda alpha, beta: (centre(alpha, beta), alpha + beta),
        derive=_moments_derive,
        oracle=_moments_oracle,
        not_computed=Exempt(kind="few"),
        simulate=_moments_simulate,
        entries=("mean of mu_hat_i", "alpha + beta"),
        assumes={"law": "bernoulli"},
        unit="dimensionless",
    )
)


def _appendix_derive(alpha: Any, beta: Any) -> Derivation:
    d = Derivation()
    return d.conclude("An estimate of the prior's mean must have this mean:", prior_moment(alpha, beta, 1))


def _appendix_oracle(alpha: Any, beta: Any, n: Any) -> Any:
    return rational(sum(z * q for z, q in enumerate(counts(alpha, beta, n))) / int(n))


register(
    Claim(
        id="generative:bern:moments:appendix",
        title="The moment estimates as the proof writes them",
        place="Section 5.2.2, after (48)",
        statement="""The proof of Theorem 3 defines mu_hat_i = sum_{l != i} z_l/n as the empirical mean. Judged as its mean,
            which should be mu.""",
        latex=r"\hat{\mu}_i=\sum_{l\neq i}\frac{z_l}{n},\qquad\hat{\sigma}^2_i=\sum_{l\neq i}(\frac{z_l}{n}-\hat{\mu}_i)^2",
        kind="identity",
        variables=UNKNOWN,
        examples=POINTS,
        printed=lambda alpha, beta, m: (m - 1) * alpha / (alpha + beta),
        derive=_appendix_derive,
        oracle=_appendix_oracle,
        corrected=lambda alpha, beta: centre(alpha, beta),
        corrected_text="mu_hat_i = sum_{l != i} z_l / (n (m-1)), and sigma_hat_i^2 divided by m-2, as Section 2.2 has them",
        slip="the divisors m-1 and m-2 of Section 2.2 are left out",
        counterexample={"alpha": 1, "beta": 1, "n": 1, "m": 4},
        not_computed=Exempt(kind="few"),
        finding="The mean of the other clients is written as a sum, without its divisor.",
        simulate=lambda alpha, beta, n, m: simulation.sample_means(
            lambda gen, reps: draw_clients(gen, reps, alpha, beta, n, m)[1][:, 1:].mean(axis=1, keepdims=True) / n
        ),
        assumes={"law": "bernoulli"},
        unit="dimensionless",
    )
)


# --- the variance estimate ---------------------------------------------------------------------------------------------


def _variance_derive(alpha: Any, beta: Any, n: Any, m: Any) -> Derivation:
    d = Derivation()
    spread = simplest(prior_moment(alpha, beta, 2) - prior_moment(alpha, beta, 1) ** 2)
    noise = simplest(prior_moment(alpha, beta, 1, 1) / n)
    d.say("A share of ones is p plus sampling noise: its variance is Var(p) plus E[p(1-p)]/n,", (spread, noise))
    v = spread + noise
    d.say("""The centre mu_hat_l is the mean of the m-1 other shares, all independent of share l, so a square (xbar_l -
        mu_hat_l)^2 has mean""", v * (1 + 1 / (m - 1)))  # fmt: skip
    return d.conclude("There are m-1 squares, and the divisor is m-2:", simplest((m - 1) * v * (1 + 1 / (m - 1)) / (m - 2)))


def naive_mean(alpha: Any, beta: Any, n: Any, m: Any) -> Any:
    """Exact mean of the printed estimate of the prior's variance, by enumeration of all clients' counts."""

    def estimate(z: int, how_many: tuple[int, ...]) -> Fraction:
        return naive_estimate(Fraction(z, int(n)), shares(how_many))

    return rational(enumerate_clients(alpha, beta, n, m, estimate))


def _naive_estimates(z: np.ndarray, n: int) -> np.ndarray:
    """The printed estimate of client 0, for many replicates."""
    x = z / n
    m = x.shape[1]
    centres = (x.sum(axis=1, keepdims=True) - x) / (m - 1)
    return ((x - centres)[:, 1:] ** 2).sum(axis=1, keepdims=True) / (m - 2)


register(
    Claim(
        id="generative:bern:variance-estimate",
        title="What the printed estimate of the prior's variance estimates",
        place="Section 2.2, unknown alpha, beta, before (6)",
        statement="""sigma_hat_i^2 = sum_{l != i} (xbar_l - mu_hat_l)^2/(m-2) estimates the variance sigma^2 of the prior.
            Judged as its exact mean.""",
        latex=r"""\widehat{\sigma}_{i}^{2}=\frac{1}{m-2}\sum_{l\neq i}(\overline{X}_{l}-\widehat{\mu}_{l})^{2},%
            \qquad\sigma^{2}=\nicefrac{{\alpha\beta}}{{(\alpha+\beta)^{2}(\alpha+\beta+1)}}""",
        kind="identity",
        variables=UNKNOWN,
        examples=POINTS,
        printed=lambda alpha, beta: alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1)),
        derive=_variance_derive,
        oracle=naive_mean,
        corrected=lambda alpha, beta, n, m: (between(alpha, beta) + within(alpha, beta, n)) * m / (m - 2),
        corrected_text="""m/(m-2) (sigma^2 + E[p(1-p)]/n): the sampling noise stays however many clients there are; m/(m-2)
            comes from the centre mu_hat_l in place of mu_hat_i""",
        counterexample={"alpha": 1, "beta": 1, "n": 1, "m": 4},
        computed=lambda alpha, beta, n, m: float(bernoulli.naive_variance_mean(alpha, beta, n, m)),
        simulate=lambda alpha, beta, n, m: simulation.sample_means(
            lambda gen, reps: _naive_estimates(draw_clients(gen, reps, alpha, beta, n, m)[1], n)
        ),
        unit="squared probability",
        finding="The estimate of the clients' variance contains the sampling noise, however many clients there are.",
        assumes={"law": "bernoulli"},
        remark="""With n = 1 its mean is mu(1-mu) m/(m-2) whatever sigma^2: one sample per client shows nothing of sigma^2.
            The proof's version, centred at mu_hat_i, has mean sigma^2 + E[p(1-p)]/n. It is also not free of client i's
            own data as the text says: mu_hat_l contains xbar_i.""",
    )
)


def _version_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    v = d.say("""Centred at the mean of the same m-1 shares and divided by m-2, the sum of squares is the usual sample
        variance, unbiased for the variance of one share:""", simplest(share_variance(alpha, beta, n)))  # fmt: skip
    return d.conclude("so it estimates", v)


def _version_oracle(alpha: Any, beta: Any, n: Any, m: Any) -> Any:
    def estimate(z: int, how_many: tuple[int, ...]) -> Fraction:
        return naive_estimate(Fraction(z, int(n)), shares(how_many), printed_centre=False)

    return rational(enumerate_clients(alpha, beta, n, m, estimate))


register(
    Claim(
        id="generative:bern:variance-estimate:own-centre",
        title="The variance estimate with the centre of the proof",
        place="Section 5.2.2, after (48), with its divisors restored",
        statement="sum_{l != i} (xbar_l - mu_hat_i)^2/(m-2), which leaves client i's data out, estimates sigma^2.",
        latex=r"\hat{\sigma}^2_i=\sum_{l\neq i}(\frac{z_l}{n}-\hat{\mu}_i)^2",
        kind="identity",
        variables=UNKNOWN,
        examples=POINTS,
        printed=lambda alpha, beta: alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1)),
        derive=_version_derive,
        oracle=_version_oracle,
        corrected=lambda alpha, beta, n: between(alpha, beta) + within(alpha, beta, n),
        corrected_text="sigma^2 + E[p(1-p)]/n, the variance of one share of ones",
        counterexample={"alpha": 1, "beta": 1, "n": 1, "m": 4},
        computed=lambda alpha, beta, n: float(bernoulli.naive_variance_mean(alpha, beta, n)),
        simulate=lambda alpha, beta, n, m: simulation.sample_means(
            lambda gen, reps: (draw_clients(gen, reps, alpha, beta, n, m)[1][:, 1:] / n).var(axis=1, ddof=1, keepdims=True),
        ),
        unit="squared probability",
        finding="The estimate of the clients' variance contains the sampling noise, also with the proof's centre.",
        assumes={"law": "bernoulli"},
        related=("generative:bern:variance-estimate",),
    )
)


# --- "without using their own data" ------------------------------------------------------------------------------------

OTHER_SHARES = Variable("shares", "fraction", "the other clients' shares of ones", closed=True, lengths=(2, 3, 4))
OWN = Variable("own", "fraction", "the client's own share of ones", closed=True)
NEW = Variable("new", "fraction", "another value of it", closed=True)


def _own_data_derive(shares: list[Any], own: Any, new: Any) -> Derivation:
    d = Derivation()
    m, x = len(shares) + 1, sp.Symbol("x")
    centres = [(x + sum(shares) - share) / (m - 1) for share in shares]
    d.say("mu_hat_l is the mean of all shares but the l-th, the own share x among them:", tuple(centres))
    squares = sum((share - centre) ** 2 for share, centre in zip(shares, centres, strict=True))
    estimate = d.say("so the estimate, as a function of x, is", sp.expand(squares / (m - 2)))
    return d.conclude("Its change when the own share changes:", sp.factor(estimate.subs(x, new) - estimate.subs(x, own)))


def _own_data_oracle(shares: list[Any], own: Any, new: Any) -> Any:
    return naive_estimate(new, shares) - naive_estimate(own, shares)


def _own_data_corrected(shares: list[Any], own: Any, new: Any) -> Any:
    m = len(shares) + 1
    return (new - own) * ((m - 1) * (own + new) - 2 * sum(shares)) / sp.Integer((m - 1) ** 2 * (m - 2))


register(
    Claim(
        id="generative:bern:variance-estimate:own-data",
        title="Does a client's variance estimate leave its own data out?",
        place="Section 2.2, unknown alpha, beta, before (6)",
        statement="""Each client's estimates of mu and sigma^2 are made without using its own data. Judged: a change of the
            own share of ones changes sigma_hat_i^2 by 0.""",
        latex=r"""\text{(without using their own data) as: }\widehat{\mu}_{i}=\frac{1}{m-1}\sum_{l\neq i}\overline{X}_{l}%
            \text{ and }\widehat{\sigma}_{i}^{2}=\frac{1}{m-2}\sum_{l\neq i}(\overline{X}_{l}-\widehat{\mu}_{l})^{2}""",
        kind="identity",
        variables=(OTHER_SHARES, OWN, NEW),
        examples=(
            {"shares": ["1/2", "1/4"], "own": 0, "new": 1},
            {"shares": ["1/2", "1/4", 1], "own": "1/3", "new": "1/2"},
        ),
        printed=lambda: ZERO,
        derive=_own_data_derive,
        oracle=_own_data_oracle,
        corrected=_own_data_corrected,
        corrected_text="""(x' - x)((m-1)(x + x') - 2 sum of the others' shares)/((m-1)^2 (m-2)): the centres mu_hat_l, l !=
            i, contain the own share""",
        counterexample={"shares": [0, 0], "own": 0, "new": 1},
        not_computed=Exempt(kind="refuted"),
        not_simulated=Exempt(kind="deterministic", note="a function of the data"),
        finding="Each client's variance estimate contains its own data, through the centres of the others.",
        unit="squared probability",
        related=("generative:bern:variance-estimate", "generative:thm3:own-data"),
        remark="""mu_hat_i does leave it out. The proof of Theorem 3 takes both as functions of the others' data only; with
            the centre mu_hat_i, as the proof writes it, they are.""",
    )
)


# --- unbiased estimates, for any n_i -----------------------------------------------------------------------------------

N_K = Variable("n_k", "size", "samples of each client", low=2, lengths=(2, 3))


def _unbiased_derive(alpha: Any, beta: Any, n_k: Sequence[Any]) -> Derivation:
    d = Derivation()
    p, m = prior_moment(alpha, beta, 1), len(n_k)
    pairs = []
    for n in n_k:
        # E[x(x-1) | p]: n(n-1) ordered pairs of different samples, each both ones with probability p^2.
        pairs.append(n * (n - 1) * prior_moment(alpha, beta, 2) / (n * (n - 1)))
    d.say("""Of a client's n(n-1) ordered pairs of samples x(x-1) are both ones, each with probability p^2; the share of such
        pairs has mean E[p^2], whatever n:""", tuple(simplest(x) for x in pairs))  # fmt: skip
    d.say("The product of two different clients' shares of ones has mean mu^2, as the clients are independent.")
    products = [p * p for i in range(m) for j in range(m) if i != j]
    return d.conclude(
        "Mean of the former minus mean of the latter:", simplest(sum(pairs) / m - sum(products) / len(products))
    )


def _unbiased_oracle(alpha: Any, beta: Any, n_k: Sequence[Any]) -> Any:
    """Joint enumeration of all clients' counts, with the estimate written through the spread of the shares."""
    laws = [counts(alpha, beta, n) for n in n_k]
    m, total = len(n_k), Fraction(0)
    for zs in product(*(range(len(law)) for law in laws)):
        weight = Fraction(1)
        for law, z in zip(laws, zs, strict=True):
            weight *= law[z]
        x = [Fraction(z, int(n)) for z, n in zip(zs, n_k, strict=True)]
        mean = sum(x) / m
        spread = sum((v - mean) ** 2 for v in x) / (m - 1)
        both = sum(Fraction(z * (z - 1), int(n * (n - 1))) for z, n in zip(zs, n_k, strict=True)) / m
        total += weight * (both - mean**2 + spread / m)
    return rational(total)


def _unbiased_simulate(alpha: float, beta: float, n_k: Sequence[int]) -> simulation.Simulation:
    n = np.array(n_k)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        z = draw_clients(gen, reps, alpha, beta, n, len(n))[1]
        x = z / n
        both = (z * (z - 1) / (n * (n - 1))).mean(axis=1)
        return (both - x.mean(axis=1) ** 2 + x.var(axis=1, ddof=1) / len(n))[:, None]

    return simulation.sample_means(draw, labels=("mean of the estimate",))


register(
    Claim(
        id="generative:bern:moments:unbiased",
        title="Unbiased estimate of the prior's variance, for any numbers of samples",
        place="Section 2.2, unknown alpha, beta (not in the paper)",
        statement="""The mean of x(x-1)/(n(n-1)) over clients, minus the mean product of two different clients' shares of
            ones, has mean sigma^2 exactly, for every m >= 2 and any unequal n_i >= 2.""",
        latex=r"""\widehat\sigma^2=\frac1m\sum_i\frac{z_i(z_i-1)}{n_i(n_i-1)}-\frac{1}{m(m-1)}\sum_{i\neq j}\overline
            X_i\overline X_j""",
        kind="identity",
        variables=(*PRIOR, N_K),
        examples=({"alpha": "1/2", "beta": "1/2", "n_k": [2, 4]}, {"alpha": "1/4", "beta": "1/2", "n_k": [3, 2, 5]}),
        printed=lambda alpha, beta: between(alpha, beta),
        derive=_unbiased_derive,
        oracle=_unbiased_oracle,
        computed=lambda alpha, beta: float(bernoulli.prior_variance(alpha, beta)),
        simulate=_unbiased_simulate,
        ours=True,
        assumes={"law": "bernoulli"},
        unit="squared probability",
        remark="""estimators.closed_forms.bernoulli.moments. No assumption on the prior is used; n_i = 1 clients only enter
            the mean. The tail bound that the proof of Theorem 3 borrows fits such an estimate, not the printed one.""",
    )
)


__all__ = ["naive_mean"]
