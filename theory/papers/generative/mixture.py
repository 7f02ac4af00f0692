"""Section 2.3.1: clients whose parameters take k known values. Theorem 5, its weights, its error and the local one.

Belongs here: posterior weights, errors with a known prior. Does not belong here: estimating the prior (clustering.py), norms
and clipping radii (norms.py), regression with such priors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian, mixture
from estimators.numerics.limits import share
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Group, mse
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import SIGMA2_X, ZERO, D, N
from theory.papers.generative.normal import DIGITS, exported, number

P = Variable("p", "positive", "prior probabilities, up to a common factor", lengths=(2, 3), extreme=False)
MUS = Variable("mus", "real", "the values that a client's parameter can take", lengths=(2, 3), extreme=False)
NOISE = Variable("sigma2_x", "positive", SIGMA2_X.meaning, extreme=False)
SAMPLES2 = Variable("n", "size", "samples per client", low=2, extreme=False)


# --- Theorem 5 ---------------------------------------------------------------------------------------------------------

MEAN = Variable("xbar", "real", "mean of the client's samples", extreme=False)
SQUARES = Variable("squares", "nonnegative", "sum of the squared deviations of the samples from their mean", extreme=False)
WIDTH = Variable(
    "sigma2_theta",
    "nonnegative",
    "variance of a client's parameter around its value: 0 in the model, sigma_theta^2 in the theorem's words",
    extreme=False,
    default=ZERO,
)


def _thm5_printed(p: Any, mus: Any, xbar: Any, squares: Any, n: Any, sigma2_x: Any) -> Any:
    # sum_j (X_j - mu)^2 = squares + n (xbar - mu)^2
    weights = [
        a * sp.exp(-squares / (2 * sigma2_x) - n * (xbar - b) ** 2 / (2 * sigma2_x)) for a, b in zip(p, mus, strict=True)
    ]
    return sum(w * b for w, b in zip(weights, mus, strict=True)) / sum(weights)


def _thm5_derive(p: Any, mus: Any, xbar: Any, squares: Any, n: Any, sigma2_x: Any, sigma2_theta: Any) -> Derivation:
    d = Derivation()
    d.say("""The estimate of least mean squared error is the posterior mean. Given component l the parameter is normal around
        mu_l with variance sigma2_theta, so the sample mean is normal with variance sigma2_theta +
        sigma2_x/n; the deviations from it do not depend on the parameter.""")  # fmt: skip
    pull = d.say("Given l and the data the parameter's mean is mu_l plus this share of xbar - mu_l:",
                 n * sigma2_theta / (n * sigma2_theta + sigma2_x))  # fmt: skip
    weights = [
        a * sp.exp(-squares / (2 * sigma2_x) - n * (xbar - b) ** 2 / (2 * (n * sigma2_theta + sigma2_x)))
        for a, b in zip(p, mus, strict=True)
    ]
    d.say("The posterior probabilities of the components are proportional to", tuple(weights))
    value = sum(w * (b + pull * (xbar - b)) for w, b in zip(weights, mus, strict=True)) / sum(weights)
    return d.conclude("Averaging over components:", value)


def _thm5_oracle(p: Any, mus: Any, xbar: Any, squares: Any, n: Any, sigma2_x: Any, sigma2_theta: Any) -> Any:
    """Raw samples with that mean and those deviations; the posterior density of theta on a fine grid."""
    with mpmath.workdps(DIGITS + 10):
        off = mpmath.sqrt(number(squares) / 2)
        centre, noise, width = number(xbar), number(sigma2_x), number(sigma2_theta)
        data = [centre - off, centre + off] + [centre] * (int(n) - 2)
        top = bottom = mpmath.mpf(0)
        for weight, value in zip(map(number, p), map(number, mus), strict=True):
            if width == 0:
                grid = [(value, mpmath.mpf(1))]
            else:  # a trapezoidal rule around the product's mode, whose error for normal factors is below 1e-50
                precision = 1 / width + len(data) / noise
                mode, step = (value / width + sum(data) / noise) / precision, mpmath.mpf(2) / 5 / mpmath.sqrt(precision)
                nodes = [mode + k * step for k in range(-38, 39)]
                grid = [(t, step * mpmath.exp(-((t - value) ** 2) / (2 * width)) / mpmath.sqrt(width)) for t in nodes]
                grid = [(t, w / mpmath.sqrt(2 * mpmath.pi)) for t, w in grid]
            for theta, mass in grid:
                likelihood = weight * mass * mpmath.exp(-sum((x - theta) ** 2 for x in data) / (2 * noise))
                top, bottom = top + likelihood * theta, bottom + likelihood
        return exported(top / bottom)


def _thm5_computed(p: Any, mus: Any, xbar: float, n: int, sigma2_x: float, sigma2_theta: float) -> float:
    weights = mixture.posterior_weights([xbar], p, mus, sigma2_theta + sigma2_x / n)[0]
    towards, pull = np.asarray(mus), float(share(sigma2_theta, sigma2_x / n))
    return float(weights @ (towards + pull * (xbar - towards)))


register(
    Claim(
        id="generative:thm5",
        title="Posterior mean under a known discrete prior",
        place="Section 2.3.1, Theorem 5, (9); proof in Section 5.3.1, (53)-(57)",
        statement="""With the prior known the weighted sum of the candidates, with these weights, has the least mean squared
            error. The theorem speaks of knowing N(mu_l, sigma_theta^2), the model above it and the proof of theta_i =
            mu_l.""",
        latex=r"""\hat{\bm{\theta}}_i=\sum_{l=1}^{k}a_l^{(i)}\bm{\mu}_l,\qquad\alpha_l^{(i)}=%
            \frac{p_l\exp{\left(-\frac{\sum_{j=1}^{n}\|X_{ij}-\bm{\mu}_l\|^2}{2\sigma_x^2}\right)}}%
            {\sum_{s=1}^{k}p_s\exp{\left(-\frac{\sum_{j=1}^{n}\|X_{ij}-\bm{\mu}_s\|^2}{2\sigma_x^2}\right)}}""",
        kind="identity",
        variables=(P, MUS, MEAN, SQUARES, SAMPLES2, NOISE, WIDTH),
        examples=(
            {"p": ["1/3", "2/3"], "mus": [-1, 1], "xbar": "1/2", "squares": 1, "n": 2, "sigma2_x": 2},
            {"p": [1, 1], "mus": [0, 2], "xbar": "1/2", "squares": 1, "n": 3, "sigma2_x": 3, "sigma2_theta": 1},
        ),
        edits=(
            Edit(
                printed="a_l^{(i)}",
                read=r"\alpha_l^{(i)}",
                reason="(9) writes a_l for the weights that are defined as alpha_l",
            ),
        ),
        printed=_thm5_printed,
        derive=_thm5_derive,
        oracle=_thm5_oracle,
        computed=_thm5_computed,
        not_simulated=Exempt(kind="part", of=("generative:thm5:mse",), note="a conditional mean given one data set"),
        assumes={"prior": "known", "law": "gaussian", "given": "data"},
        condition=lambda sigma2_theta: sp.Eq(sigma2_theta, 0),
        condition_text="sigma2_theta == 0 (the parameters are exactly the candidates)",
        counterexample={"p": [1, 1], "mus": [-1, 2], "xbar": 1, "squares": 0, "n": 2, "sigma2_x": 1, "sigma2_theta": 1},
        unit="units of the samples",
        remark="""Right for the discrete prior of the model. (9) writes a_l for what is alpha_l, and alpha for the prior p;
            for a mixture of N(mu_l, sigma_theta^2), which the theorem names, the optimal estimate also moves towards
            xbar. Judged in one coordinate; in d coordinates squares and (xbar - mu)^2 are squared norms. The weights
            depend on the data through xbar only.""",
    )
)


# --- what the text says of its weights -----------------------------------------------------------------------------------

FITS = Variable("fits", "positive", "likelihoods of the candidates, exp(-sum ||X_j - mu_l||^2/(2 sigma2_x))", lengths=(2, 3))
PRIORS = Variable("p", "positive", "prior probabilities, up to a common factor", lengths=(2, 3))
LIKELIER = Variable("likelier", "positive", "what is added to the first candidate's prior probability (up to that factor)")
CLOSER = Variable("closer", "positive", "by how much of itself the first candidate's likelihood grows")
OTHERS = Variable(
    "others", "positive", "factor of the other candidates' likelihoods: below 1 where the samples go away from them"
)


def _weights_derive(p: list[Any], fits: list[Any], likelier: Any, closer: Any, others: Any) -> Derivation:
    d = Derivation()
    first = sp.Symbol("first", positive=True)
    rest = d.say("Prior times likelihood of the other candidates:", sum(a * b for a, b in zip(p[1:], fits[1:], strict=True)))
    weight = d.say("The first candidate's weight, with its own prior times likelihood as a letter:", first / (first + rest))
    now = weight.subs(first, p[0] * fits[0])
    prior = d.say("Rise with its prior probability:", simplest(weight.subs(first, (p[0] + likelier) * fits[0]) - now))
    moved = weight.subs(first, p[0] * fits[0] * (1 + closer) / others)  # only the ratio to the others matters
    return d.conclude("and as the samples come closer to it:", (prior, simplest(moved - now)))


def _weights_oracle(p: list[Any], fits: list[Any], likelier: Any, closer: Any, others: Any) -> tuple[Any, Any]:
    """Bayes' rule on the lists themselves."""

    def share(priors: list[Any], likelihoods: list[Any]) -> Any:
        joint = [a * b for a, b in zip(priors, likelihoods, strict=True)]
        return joint[0] / sum(joint)

    before = share(p, fits)
    moved = [fits[0] * (1 + closer), *(f * others for f in fits[1:])]
    return share([p[0] + likelier, *p[1:]], fits) - before, share(p, moved) - before


def _weights_shifts(p: list[Any], fits: list[Any], closer: Any, others: Any, **_: Any) -> list[dict[Any, Any]]:
    """The other likelihoods fall; or grow, but less than the first."""
    t, more = sp.symbols("t more", nonnegative=True)
    return [{others: t / (1 + t)}, {others: 1 + t, closer: t + more}]


register(
    Claim(
        id="generative:thm5:weights",
        title="How the weights of the candidates change",
        place="Section 2.3.1, text after Theorem 5",
        statement="""The weight alpha_l increases if the prior p_l increases, or if the local samples are close to mu_l.
            Judged as the changes of the first weight, when its prior grows, and when the samples move closer to mu_1.""",
        latex=r"""\text{where the weight }\alpha_{l}^{(i)}\text{ increases if the prior }p_{l}%
            \text{ increases and/or the local samples }\{X_{ij}\}\text{ are close to the model }\bm{\mu}_{l}""",
        kind="order",
        relation=">=",
        variables=(PRIORS, FITS, LIKELIER, CLOSER, OTHERS),
        examples=(
            {"p": [1, 2], "fits": ["1/2", "1/4"], "likelier": 1, "closer": "1/2", "others": "1/2"},
            {"p": [1, 1, 1], "fits": ["1/2", "1/3", "1/4"], "likelier": 1, "closer": 1, "others": 1},
        ),
        printed=lambda: (ZERO, ZERO),
        derive=_weights_derive,
        oracle=_weights_oracle,
        condition=lambda closer, others: others <= 1 + closer,
        condition_text="""others <= 1 + closer (the samples do not come nearer to the other candidates faster than to this
            one)""",
        counterexample={"p": [1, 1], "fits": ["1/4", "1/16"], "likelier": 1, "closer": "1/2", "others": 3},
        shifts=_weights_shifts,
        not_computed=Exempt(
            kind="elsewhere", function="estimators.closed_forms.mixture.posterior_weights", note="the weights"
        ),
        not_simulated=Exempt(kind="deterministic", note="a function of the data"),
        tight=Tight(at={"p": [1, 2], "fits": ["1/2", "1/4"], "likelier": 1, "closer": "1/2", "others": "1/2"}, ratio="0"),
        entries=("with the prior", "with the samples"),
        unit="probability",
        related=("generative:thm5",),
        remark="""In one dimension with mu_1 = 0 and mu_2 = 10, samples that move from -5 to 4.9 come closer to mu_1, and
            still its weight falls. Prior probabilities are up to a common factor: the others shrink as one grows.""",
    )
)

# --- the local estimate --------------------------------------------------------------------------------------------------


def _local_derive(n: Any, d: Any, sigma2_x: Any) -> Derivation:
    proof = Derivation()
    sample = Group("samples", n, ZERO, sigma2_x, ZERO)
    error = (1 / n) * sample.noise("e")
    one = proof.say("The error of a coordinate is the mean of n sampling errors, whatever the candidate:", mse(error))
    return proof.conclude("The squared norm has d of them:", d * one)


def _local_oracle(n: Any, d: Any, sigma2_x: Any) -> Any:
    """n samples of one parameter, their errors one by one."""
    samples = Clients([0] * int(n), [sigma2_x] * int(n), [0] * int(n))
    mean = samples.weighted([fraction(1 / n)] * int(n), samples.estimate)
    return d * rational(samples.mse(mean, samples.parameter[0]))


def _local_simulate(n: int, d: int, sigma2_x: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = np.where(gen.random((reps, 1)) < 0.5, 1.0, -1.0)  # two candidates on the diagonal
        means = (theta + gen.normal(0, np.sqrt(sigma2_x), (n, reps, d))).mean(axis=0)
        return ((means - theta) ** 2).sum(axis=1, keepdims=True)

    return simulation.sample_means(draw, draws=n * d + 1)


register(
    Claim(
        id="generative:thm5:local",
        title="Error of the local estimate",
        place="Section 2.3.1, text after Theorem 5",
        statement="""The local estimator has the mean squared error d sigma_x^2/n, which increases linearly with the
            dimension d, whatever the prior.""",
        latex=r"\frac{d\sigma_{x}^{2}}{n}",
        kind="identity",
        variables=(N, D, SIGMA2_X),
        examples=({"n": 2, "d": 3, "sigma2_x": 1}, {"n": 3, "sigma2_x": 2}),
        printed=lambda n, d, sigma2_x: d * sigma2_x / n,
        derive=_local_derive,
        oracle=_local_oracle,
        computed=lambda n, d, sigma2_x: gaussian.local_risk(sigma2_x, n, d),
        simulate=_local_simulate,
        assumes={"law": "moments"},
        unit="variance, summed over coordinates",
        related=("generative:thm5:mse",),
        remark="""The optimal error of generative:thm5:mse does not grow with d by itself: it depends on the distances of the
            candidates.""",
        model=("Value(Own)",),
    )
)


# --- its error for two values ------------------------------------------------------------------------------------------


@cache
def _two_value_risk(prior: Any, w: Any, digits: int) -> Any:
    """Two-value risk in units of the squared distance: sqrt(pq)/2 exp(-w/8) E[sech((sqrt(w) z - log(p/q))/2)], z normal."""
    with mpmath.workdps(digits + 10):
        p, w = mpmath.mpf(prior), mpmath.mpf(w)
        q = 1 - p
        if w == 0:
            return p * q
        root, shift = mpmath.sqrt(w), mpmath.log(p / q)
        decades = (digits + 5) * mpmath.log(10)
        step = min(mpmath.pi * mpmath.sqrt(2 / decades), 2 * mpmath.pi**2 / (decades * root))
        reach = mpmath.sqrt(2 * decades)
        if abs(shift) <= w / 4:  # the sech falls off exponentially on both sides of its centre
            reach = min(reach, 4 * decades / root)
        centre = mpmath.sign(shift) * min(abs(shift) / root, root / 2)
        total = mpmath.mpf(0)
        for k in range(-int(reach / step) - 1, int(reach / step) + 2):
            z = centre + k * step
            e = mpmath.exp(-abs(root * z - shift) / 2)
            total += mpmath.exp(-z * z / 2) * e / (1 + e * e)
        return mpmath.sqrt(p * q) * mpmath.exp(-w / 8) * total * step / mpmath.sqrt(2 * mpmath.pi)


class TwoValueRisk(sp.Function):
    """Risk of the posterior mean for two values, in units of their squared distance.

    First argument: probability of one of them; second: squared distance over the variance of a sample mean.
    """

    nargs = 2

    def _eval_evalf(self, prec: int) -> Any:
        prior, w = (a.evalf(int(prec / 3.3) + 10) for a in self.args)
        if not (prior.is_Float or prior.is_Rational) or not (w.is_Float or w.is_Rational):
            return None
        if not 0 < prior < 1 or w < 0:
            return sp.nan
        digits = max(15, int(prec / 3.33))
        with mpmath.workdps(digits + 10):
            value = _two_value_risk(mpmath.mpf(prior), mpmath.mpf(w), digits)
            return sp.Float(mpmath.nstr(value, digits + 5), digits)


def _mse_derive(p: Any, mus: Any, sigma2_x: Any, n: Any) -> Derivation:
    d = Derivation()
    first, second = p
    prior = first / (first + second)
    squared = (mus[1] - mus[0]) ** 2
    w = d.say("Squared distance of the two values over the variance of a sample mean, w:", squared * n / sigma2_x)
    d.say("""Given the sample mean the error of the posterior mean is the posterior variance, the squared distance times the
        product of the two posterior probabilities.""")  # fmt: skip
    d.say("Averaged over the sample mean's density f = p f_1 + q f_2 that is the integral of p q f_1 f_2/f.")
    d.say("""With the sample mean measured from the midpoint in standard deviations, z, the product f_1 f_2 is exp(-z^2 -
        w/4) and f is exp(-z^2/2 - w/8) (p exp(-sqrt(w) z/2) + q exp(sqrt(w) z/2)), each over its power of
        sqrt(2 pi).""")  # fmt: skip
    d.say("""So the error is the squared distance times sqrt(pq)/2 exp(-w/8) E[sech((sqrt(w) z - log(p/q))/2)] over a
        standard normal z, written TwoValueRisk(p, w).""")  # fmt: skip
    return d.conclude("Mean squared error:", squared * TwoValueRisk(prior, w))


def _mse_oracle(p: Any, mus: Any, sigma2_x: Any, n: Any) -> Any:
    """E[theta^2] minus E[posterior mean^2], over the sample mean's own axis, from densities and Bayes' rule."""
    with mpmath.workdps(DIGITS + 10):
        total = sum(map(number, p))
        priors, values = [number(a) / total for a in p], [number(b) for b in mus]
        s = number(sigma2_x) / int(n)
        sd, width = mpmath.sqrt(s), abs(values[0] - values[1])
        # A trapezoidal rule: the error is exp(-2 pi strip/step), the strip being free of poles of the posterior mean.
        strip = min(mpmath.pi * s / width if width else 9 * sd, 9 * sd)
        step = min(2 * mpmath.pi * strip / 100, mpmath.mpf(2) / 5 * sd)
        low, high = min(values) - 14 * sd, max(values) + 14 * sd
        second_moment, x = mpmath.mpf(0), low
        while x <= high:
            parts = [a * mpmath.exp(-((x - b) ** 2) / (2 * s)) for a, b in zip(priors, values, strict=True)]
            density = sum(parts)
            second_moment += sum(w * b for w, b in zip(parts, values, strict=True)) ** 2 / density
            x += step
        second_moment *= step / mpmath.sqrt(2 * mpmath.pi * s)
        return exported(sum(a * b**2 for a, b in zip(priors, values, strict=True)) - second_moment)


def _mse_simulate(p: list[float], mus: list[float], sigma2_x: float, n: int) -> simulation.Simulation:
    weights, values = np.array(p) / np.sum(p), np.array(mus)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = values[gen.choice(len(values), reps, p=weights)]
        means = theta + gen.normal(0, np.sqrt(sigma2_x), (n, reps)).mean(axis=0)
        joint = weights * np.exp(-n * (means[:, None] - values) ** 2 / (2 * sigma2_x))
        return (((joint @ values) / joint.sum(axis=1) - theta) ** 2)[:, None]

    return simulation.sample_means(draw, labels=["mean squared error"], draws=n + 1)


PAIR_P = Variable("p", "positive", P.meaning, lengths=(2,), within=("1/100", 1), why="digits")
PAIR = Variable("mus", "real", MUS.meaning, lengths=(2,), within=(-5, 5), why="digits")
PAIR_NOISE = Variable("sigma2_x", "positive", SIGMA2_X.meaning, within=("1/2", 100), why="digits")
SAMPLES = Variable("n", "size", "samples per client", within=(1, 10), why="digits")

register(
    Claim(
        id="generative:thm5:mse",
        title="Exact error of the posterior mean for two values",
        place="Section 2.3.1, text after Theorem 5",
        statement="""The error is a function of the prior's probabilities and vectors and of the variance of a sample. The
            paper gives no formula.""",
        latex=r"\text{MSE}=\mathbb{E}_{\{\bm{\theta}_i,X_i\}}\|\bm{\theta}_i-\hat{\bm{\theta}}_i\|^2",
        kind="identity",
        variables=(PAIR_P, PAIR, PAIR_NOISE, SAMPLES),
        examples=(
            {"p": ["1/2", "1/2"], "mus": [-1, 1], "sigma2_x": 1, "n": 1},
            {"p": ["1/4", "3/4"], "mus": [0, 2], "sigma2_x": 4, "n": 2},
        ),
        derive=_mse_derive,
        oracle=_mse_oracle,
        computed=mixture.risk,
        simulate=_mse_simulate,
        assumes={"prior": "known", "law": "gaussian"},
        unit="variance",
        related=("generative:thm5",),
        remark="""One integral of a smooth function, here by the trapezoidal rule to as many digits as asked for. It depends
            on n too, through sigma2_x/n. In d dimensions put the Euclidean distance of the two vectors for |mu_1 -
            mu_2|. For far values it falls like exp(-w/8): the local estimate's error sigma2_x/n does not.""",
    )
)


__all__ = ["TwoValueRisk"]
