"""Algorithm 1 of Section 2.3.2: what clustering the clients' models does to the estimated prior, and EM in its place.

Belongs here: Algorithm 1. Does not belong here: the known prior (mixture.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import mixture
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import SIGMA2_X
from theory.papers.generative.normal import DIGITS, exported, number

P = Variable("p", "positive", "prior probabilities, up to a common factor", lengths=(2, 3), extreme=False)
MUS = Variable("mus", "real", "the values that a client's parameter can take", lengths=(2, 3), extreme=False)
NOISE = Variable("sigma2_x", "positive", SIGMA2_X.meaning, extreme=False)
SAMPLES = Variable("n", "size", "samples per client", extreme=False)


# --- Algorithm 1 -------------------------------------------------------------------------------------------------------

MU = Variable("mu", "positive", "the two values are mu and -mu, equally likely", extreme=False)
FREE_NOISE = Variable("sigma2_x", "positive", SIGMA2_X.meaning, extreme=False)


def _alg1_corrected(mu: Any, sigma2_x: Any, n: Any) -> Any:
    s = sigma2_x / n
    return mu - mu * sp.erfc(mu / sp.sqrt(2 * s)) + sp.sqrt(2 * s / sp.pi) * sp.exp(-(mu**2) / (2 * s))


def _alg1_derive(mu: Any, sigma2_x: Any, n: Any) -> Derivation:
    d = Derivation()
    d.say("With more and more clients their means fill the mixture of N(mu, s) and N(-mu, s), s = sigma2_x/n.")
    d.say("By symmetry two clusters meet at 0, and their centres, the means of the two halves, are plus and minus E|xbar|.")
    x, s = sp.Symbol("x", real=True), sp.Symbol("s", positive=True)
    density = d.say("|xbar| has the law of |N(mu, s)|, with the density of xbar", sp.exp(-((x - mu) ** 2) / (2 * s)))
    whole = sp.integrate(density, (x, -sp.oo, sp.oo))
    value = sp.integrate(x * density, (x, 0, sp.oo)) - sp.integrate(x * density, (x, -sp.oo, 0))
    return d.conclude(
        "Its mean, the centre of the upper cluster in the limit:", sp.simplify(value / whole).subs(s, sigma2_x / n)
    )


def _alg1_oracle(mu: Any, sigma2_x: Any, n: Any) -> Any:
    """Mean of the upper half of the mixture by quadrature of its density."""
    with mpmath.workdps(DIGITS + 5):
        centre, s = number(mu), number(sigma2_x) / int(n)
        sd = mpmath.sqrt(s)

        def part(x: Any) -> Any:
            return x * (mpmath.exp(-((x - centre) ** 2) / (2 * s)) + mpmath.exp(-((x + centre) ** 2) / (2 * s)))

        ends = sorted({mpmath.mpf(0), max(mpmath.mpf(0), centre - 16 * sd), centre, centre + 4 * sd, centre + 16 * sd})
        return exported(mpmath.quad(part, ends) / mpmath.sqrt(2 * mpmath.pi * s))


def _alg1_simulate(mu: float, sigma2_x: float, n: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = np.where(gen.random(reps) < 0.5, mu, -mu)
        means = theta + gen.normal(0, np.sqrt(sigma2_x), (n, reps)).mean(axis=0)
        upper = means > 0  # the two halves have the same share in the limit
        return (2 * upper * means)[:, None]

    return simulation.sample_means(draw, labels=["mean of the upper half"], draws=n + 1)


register(
    Claim(
        id="generative:alg1",
        title="Estimating the prior by clustering",
        place="Section 2.3.2, Algorithm 1, lines 1 and 11",
        statement="""Clustering the clients' models estimates the priors: the cluster centres are the candidates. Judged for
            two equally likely values mu and -mu and arbitrarily many clients, where the upper centre should be mu.""",
        latex=r"""\mathbb{P}^{(t)},\bm{\mu}_1^{(t)},\ldots,\bm{\mu}_k^{(t)}\leftarrow\mathsf{Cluster}(\bm{\theta}_1^{(t)},%
            \ldots,\bm{\theta}_m^{(t)},k)""",
        kind="algorithm line",
        variables=(MU, FREE_NOISE, SAMPLES),
        examples=({"mu": 1, "sigma2_x": 1, "n": 1}, {"mu": 2, "sigma2_x": 3, "n": 2}),
        printed=lambda mu: mu,
        derive=_alg1_derive,
        oracle=_alg1_oracle,
        not_computed=Exempt(kind="refuted"),
        finding="Cluster centres lie farther apart than the values they should estimate, however many clients there are.",
        simulate=_alg1_simulate,
        corrected=_alg1_corrected,
        corrected_text="mu erf(mu/sqrt(2s)) + sqrt(2s/pi) exp(-mu^2/(2s)), s = sigma2_x/n, which is above mu",
        counterexample={"mu": 1, "sigma2_x": 1, "n": 1},
        assumes={"law": "gaussian"},
        unit="units of the samples",
        remark="""However many clients there are, the first centres are too far out (1.167 for mu = sigma2_x/n = 1), for each
            cluster loses its inner tail to the other. Further rounds do not mend this: they draw the centres together
            without end (generative:alg1:collapse). As printed the first round also uses P^(1) and mu^(1) before any are
            computed. EM keeps the truth as its fixed point (generative:alg1:em).""",
    )
)

LOW = Variable("low", "real", "lower centre before the round")
GAP = Variable("gap", "positive", "upper centre minus lower centre before the round", extreme=False)
SHARE = Variable("share", "fraction", "share of the upper cluster before the round", extreme=False)
RATIO = {"lengths": (1, 2, 3), "extreme": False}
UPPER = Variable(
    "above", "positive", "likelihood of the lower over the upper centre, per client now in the upper cluster", **RATIO
)
LOWER = Variable("below", "positive", "the same ratio, per client now in the lower cluster", **RATIO)


def _moved(gap: Any, share: Any, above: Any, below: Any) -> tuple[Any, Any]:
    """New upper minus old lower centre, and old upper minus new lower centre."""
    up = sum(share / (share + (1 - share) * ratio) for ratio in above) / len(above)
    down = sum((1 - share) * ratio / (share + (1 - share) * ratio) for ratio in below) / len(below)
    return gap * up, gap * down


def _collapse_derive(gap: Any, share: Any, above: Any, below: Any) -> Derivation:
    d = Derivation()
    d.say("A client whose data have the likelihood ratio R (lower over upper centre) puts this weight on the upper centre:",
          share / (share + (1 - share) * sp.Symbol("R", positive=True)))  # fmt: skip
    d.say("Its model is the lower centre plus that share of the gap, strictly between the centres.")
    d.say("A centre of the next clustering is the plain mean of its members' models, so it lies strictly between them too.")
    value = _moved(gap, share, above, below)
    return d.conclude("New upper minus old lower centre, and old upper minus new lower centre:", value)


def _collapse_oracle(low: Any, gap: Any, share: Any, above: Any, below: Any) -> tuple[Any, Any]:
    def model(ratio: Any) -> Any:
        masses = [(1 - share) * ratio, share]
        return (masses[0] * low + masses[1] * (low + gap)) / sum(masses)

    upper = sum(map(model, above)) / len(above)
    lower = sum(map(model, below)) / len(below)
    return upper - low, low + gap - lower


def _collapse_computed(gap: float, share: float, above: list[float], below: list[float]) -> tuple[float, float]:
    def centre(ratios: list[float]) -> float:
        means = gap / 2 - np.log(ratios) / gap  # with unit variance a mean at this place has the wanted likelihood ratio
        return float(np.mean(mixture.posterior_mean(means, [1 - share, share], [0.0, gap], 1.0)))

    return centre(above), gap - centre(below)


register(
    Claim(
        id="generative:alg1:collapse",
        title="Algorithm 1 draws its centres together",
        place="Section 2.3.2, Algorithm 1, lines 6 and 11",
        statement="""For k = 2, any data and any clustering into non-empty clusters, each round moves both centres strictly
            into the interval between the previous ones. Judged: both distances are at most the old gap.""",
        latex=r"""\bm{\theta}_i^t\leftarrow\sum_{l=1}^{k}\alpha_l^{(i)}\bm{\mu}_l^{(t)},\qquad\mathsf{Cluster}(%
            \bm{\theta}_1^{(t)},\ldots,\bm{\theta}_m^{(t)},k)""",
        kind="upper bound",
        variables=(LOW, GAP, SHARE, UPPER, LOWER),
        examples=({"low": -1, "gap": 2, "share": "1/2", "above": ["1/4", "1/3"], "below": [2, 4]},),
        printed=lambda gap: (gap, gap),
        relation="<=",
        derive=_collapse_derive,
        oracle=_collapse_oracle,
        computed=_collapse_computed,
        shifts=lambda share, **_: {share: (t := sp.Symbol("t", nonnegative=True)) / (1 + t)},
        not_simulated=Exempt(kind="deterministic", note="true for every data set"),
        tight=Tight(
            at={"low": 0, "gap": 2, "share": "1/2", "above": [1], "below": [1]},
            ratio="2",
        ),
        ours=True,
        entries=("new upper minus old lower centre", "old upper minus new lower centre"),
        unit="units of the samples",
        related=("generative:thm5",),
        remark="""The gap falls in every round, and no positive gap is a fixed point: the most extreme model is a continuous
            function of the centres and shares (at least 1/m each) that stays strictly inside. So on every data set the
            centres and with them all personalised models tend to one common point as T grows. The same argument holds
            for any k and d, direction by direction.""",
    )
)


# --- EM ----------------------------------------------------------------------------------------------------------------


def _em_derive(p: Any, mus: Any) -> Derivation:
    d = Derivation()
    total = sum(p)
    mass = [a / total for a in p]
    d.say("""EM replaces p_l by the clients' mean weight on l, and mu_l by their weighted mean. In the limit of many clients
        these are E[w_l(xbar)] and E[w_l(xbar) xbar]/E[w_l(xbar)] over the density f = sum_s p_s f_s.""")  # fmt: skip
    d.say("At the truth w_l = p_l f_l/f, so w_l f = p_l f_l and f drops out of both integrals:", tuple(mass))
    first = [a * b for a, b in zip(mass, mus, strict=True)]
    d.say("The integrals of xbar p_l f_l are", tuple(first))
    moved = [x / a for x, a in zip(first, mass, strict=True)]
    return d.conclude("New probabilities, then new values:", (*mass, *moved))


def _em_oracle(p: Any, mus: Any, sigma2_x: Any, n: Any) -> tuple[Any, ...]:
    """One EM step on the population by quadrature over the sample mean."""
    with mpmath.workdps(DIGITS + 10):
        priors, values = [number(a) / number(sum(p)) for a in p], [number(b) for b in mus]
        s = number(sigma2_x) / int(n)
        sd = mpmath.sqrt(s)
        step = mpmath.mpf(2) / 5 * sd
        x, high = min(values) - 14 * sd, max(values) + 14 * sd
        mass, moment = [mpmath.mpf(0)] * len(values), [mpmath.mpf(0)] * len(values)
        while x <= high:
            parts = [a * mpmath.exp(-((x - b) ** 2) / (2 * s)) for a, b in zip(priors, values, strict=True)]
            density = sum(parts)
            for i, part in enumerate(parts):
                weight = part / density
                mass[i] += weight * density
                moment[i] += weight * density * x
            x += step
        scale = step / mpmath.sqrt(2 * mpmath.pi * s)
        new = [m * scale for m in mass]
        return (*map(exported, new), *(exported(t * scale / m) for t, m in zip(moment, new, strict=True)))


def _em_simulate(p: list[float], mus: list[float], sigma2_x: float, n: int) -> simulation.Simulation:
    shares, values = np.array(p) / np.sum(p), np.array(mus)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        means = values[gen.choice(len(values), reps, p=shares)] + gen.normal(0, np.sqrt(sigma2_x), (n, reps)).mean(axis=0)
        weights = mixture.posterior_weights(means, p, mus, sigma2_x / n)
        return np.column_stack([weights, weights * means[:, None] / shares])

    scales = [*shares, *np.maximum(abs(values), np.sqrt(sigma2_x / n))]
    return simulation.sample_means(draw, scales=scales, draws=n + 1)


register(
    Claim(
        id="generative:alg1:em",
        title="EM for the prior keeps the truth as its fixed point",
        place="Section 2.3.2 (in place of Algorithm 1)",
        statement="With arbitrarily many clients, one EM step from the true prior gives the true prior back.",
        latex=r"""p_l\leftarrow\frac1m\sum_i\alpha_l^{(i)},\qquad\bm\mu_l\leftarrow\frac{\sum_i\alpha_l^{(i)}\overline X_i}%
            {\sum_i\alpha_l^{(i)}}""",
        kind="identity",
        variables=(P, MUS, NOISE, SAMPLES),
        examples=(
            {"p": ["1/2", "1/2"], "mus": [-1, 1], "sigma2_x": 1, "n": 1},
            {"p": ["1/4", "1/4", "1/2"], "mus": [-2, 1, 2], "sigma2_x": 1, "n": 2},
        ),
        printed=lambda p, mus: (*(a / sum(p) for a in p), *mus),
        derive=_em_derive,
        oracle=_em_oracle,
        simulate=_em_simulate,
        not_computed=Exempt(
            kind="elsewhere", function="estimators.closed_forms.mixture.DiscretePrior", note="steps on data"
        ),
        assumes={"law": "gaussian"},
        ours=True,
        unit="probabilities, then units of the samples",
        related=("generative:thm5",),
        remark="""estimators.closed_forms.mixture.DiscretePrior: maximum likelihood by EM with restarts, whose log likelihood
            never falls (each step maximises a lower bound that touches it), also for clients with different variances.""",
    )
)
