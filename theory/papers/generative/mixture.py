"""Section 2.3: clients whose parameters take k values. Theorem 5, its error, Algorithm 1 and EM in its place.

Belongs here: posterior weights, the exact error for k = 2, what clustering and EM do to an unknown prior. Does not belong
here: norms and clipping radii (norms.py), regression with such priors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import mixture
from estimators.numerics.limits import share
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.generative.model import SIGMA2_X, ZERO
from theory.papers.generative.normal import DIGITS, exported, number

P = Variable("p", "positive", "prior probabilities, up to a common factor", lengths=(2, 3), within=("1/100", 1))
MUS = Variable("mus", "real", "the values that a client's parameter can take", lengths=(2, 3), within=(-5, 5))
NOISE = Variable("sigma2_x", "positive", SIGMA2_X.meaning, within=("1/2", 100))
SAMPLES = Variable("n", "size", "samples per client", within=(1, 10))
SAMPLES2 = Variable("n", "size", "samples per client", low=2, within=(2, 10))


# --- Theorem 5 ---------------------------------------------------------------------------------------------------------

MEAN = Variable("xbar", "real", "mean of the client's samples", within=(-5, 5))
SQUARES = Variable("squares", "nonnegative", "sum of the squared deviations of the samples from their mean", within=(0, 4))
WIDTH = Variable(
    "sigma2_theta",
    "nonnegative",
    "variance of a client's parameter around its value: 0 in the model, sigma_theta^2 in the theorem's words",
    within=(0, 2),
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
    d.say("The estimate of least mean squared error is the posterior mean. Given component l the parameter is normal around "
          "mu_l with variance sigma2_theta, so the sample mean is normal with variance sigma2_theta + sigma2_x/n; the "
          "deviations from it do not depend on the parameter.")  # fmt: skip
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
        statement="With the prior known the weighted sum of the candidates, with these weights, has the least mean squared "
        "error. The theorem speaks of knowing N(mu_l, sigma_theta^2), the model above it and the proof of theta_i = mu_l.",
        latex=r"\hat{\bm{\theta}}_i=\sum_{l=1}^{k}a_l^{(i)}\bm{\mu}_l,\qquad\alpha_l^{(i)}=\frac{p_l\exp{\left(-\frac{"
        r"\sum_{j=1}^{n}\|X_{ij}-\bm{\mu}_l\|^2}{2\sigma_x^2}\right)}}{\sum_{s=1}^{k}p_s\exp{\left(-\frac{\sum_{j=1}^{n}\|"
        r"X_{ij}-\bm{\mu}_s\|^2}{2\sigma_x^2}\right)}}",
        kind="identity",
        variables=(P, MUS, MEAN, SQUARES, SAMPLES2, NOISE, WIDTH),
        examples=(
            {"p": ["1/3", "2/3"], "mus": [-1, 1], "xbar": "1/2", "squares": 1, "n": 2, "sigma2_x": 2},
            {"p": [1, 1], "mus": [0, 2], "xbar": "1/2", "squares": 1, "n": 3, "sigma2_x": 3, "sigma2_theta": 1},
        ),
        printed=_thm5_printed,
        derive=_thm5_derive,
        oracle=_thm5_oracle,
        computed=_thm5_computed,
        not_simulated="a conditional mean given one data set; the error it has is simulated in generative:thm5:mse",
        condition=lambda sigma2_theta: sp.Eq(sigma2_theta, 0),
        condition_text="sigma2_theta == 0 (the parameters are exactly the candidates)",
        counterexample={"p": [1, 1], "mus": [-1, 2], "xbar": 1, "squares": 0, "n": 2, "sigma2_x": 1, "sigma2_theta": 1},
        unit="units of the samples",
        remark="Right for the discrete prior of the model. (9) writes a_l for what is alpha_l, and alpha for the prior p; "
        "for a mixture of N(mu_l, sigma_theta^2), which the theorem names, the optimal estimate also moves towards xbar. "
        "Judged in one coordinate; in d coordinates squares and (xbar - mu)^2 are squared norms. The weights depend on the "
        "data through xbar only.",
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
    d.say("Given the sample mean the error of the posterior mean is the posterior variance, the squared distance times the "
          "product of the two posterior probabilities.")  # fmt: skip
    d.say("Averaged over the sample mean's density f = p f_1 + q f_2 that is the integral of p q f_1 f_2/f.")
    d.say("With the sample mean measured from the midpoint in standard deviations, z, the product f_1 f_2 is exp(-z^2 - "
          "w/4) and f is exp(-z^2/2 - w/8) (p exp(-sqrt(w) z/2) + q exp(sqrt(w) z/2)), each over its power of sqrt(2 "
          "pi).")  # fmt: skip
    d.say("So the error is the squared distance times sqrt(pq)/2 exp(-w/8) E[sech((sqrt(w) z - log(p/q))/2)] over a "
          "standard normal z, written TwoValueRisk(p, w).")  # fmt: skip
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
        return ((mixture.posterior_mean(means, p, mus, sigma2_x / n) - theta) ** 2)[:, None]

    return simulation.sample_means(draw, labels=["mean squared error"], draws=n + 1)


PAIR_P = Variable("p", "positive", P.meaning, lengths=(2,), within=("1/100", 1))
PAIR = Variable("mus", "real", MUS.meaning, lengths=(2,), within=(-5, 5))

register(
    Claim(
        id="generative:thm5:mse",
        title="Exact error of the posterior mean for two values",
        place="Section 2.3.1, text after Theorem 5",
        statement="The error is a function of the prior's probabilities and vectors and of the variance of a sample. The "
        "paper gives no formula.",
        latex=r"\text{MSE}=\mathbb{E}_{\{\bm{\theta}_i,X_i\}}\|\bm{\theta}_i-\hat{\bm{\theta}}_i\|^2",
        kind="identity",
        variables=(PAIR_P, PAIR, NOISE, SAMPLES),
        examples=(
            {"p": ["1/2", "1/2"], "mus": [-1, 1], "sigma2_x": 1, "n": 1},
            {"p": ["1/4", "3/4"], "mus": [0, 2], "sigma2_x": 4, "n": 2},
        ),
        derive=_mse_derive,
        oracle=_mse_oracle,
        computed=mixture.risk,
        simulate=_mse_simulate,
        unit="variance",
        related=("generative:thm5",),
        remark="One integral of a smooth function, here by the trapezoidal rule to as many digits as asked for. It depends "
        "on n too, through sigma2_x/n. In d dimensions put the Euclidean distance of the two vectors for |mu_1 - mu_2|. For "
        "far values it falls like exp(-w/8): the local estimate's error sigma2_x/n does not.",
    )
)


# --- Algorithm 1 -------------------------------------------------------------------------------------------------------

MU = Variable("mu", "positive", "the two values are mu and -mu, equally likely", within=("1/100", 10))
FREE_NOISE = Variable("sigma2_x", "positive", SIGMA2_X.meaning, within=("1/10", 10))


def _folded(mu: Any, sigma2_x: Any, n: Any) -> Any:
    s = sigma2_x / n
    return mu * sp.erf(mu / sp.sqrt(2 * s)) + sp.sqrt(2 * s / sp.pi) * sp.exp(-(mu**2) / (2 * s))


def _alg1_derive(mu: Any, sigma2_x: Any, n: Any) -> Derivation:
    d = Derivation()
    d.say("With more and more clients their means fill the mixture of N(mu, s) and N(-mu, s), s = sigma2_x/n.")
    d.say("By symmetry two clusters meet at 0, and their centres, the means of the two halves, are plus and minus E|xbar|.")
    d.say("|xbar| has the law of |N(mu, s)|. Its mean is the integral of the two tails,", _folded(mu, sigma2_x, n))
    return d.conclude("The centre of the upper cluster in the limit:", _folded(mu, sigma2_x, n))


def _alg1_oracle(mu: Any, sigma2_x: Any, n: Any) -> Any:
    """Mean of the upper half of the mixture by quadrature of its density."""
    with mpmath.workdps(DIGITS + 5):
        centre, s = number(mu), number(sigma2_x) / int(n)
        sd = mpmath.sqrt(s)

        def part(x: Any) -> Any:
            return x * (mpmath.exp(-((x - centre) ** 2) / (2 * s)) + mpmath.exp(-((x + centre) ** 2) / (2 * s)))

        ends = sorted({mpmath.mpf(0), max(mpmath.mpf(0), centre - 16 * sd), centre, centre + 4 * sd, centre + 16 * sd})
        return exported(mpmath.quad(part, ends) / mpmath.sqrt(2 * mpmath.pi * s))


def _alg1_computed(mu: float, sigma2_x: float, n: int) -> float:
    from scipy.special import erf

    s = sigma2_x / n
    return float(mu * erf(mu / np.sqrt(2 * s)) + np.sqrt(2 * s / np.pi) * np.exp(-(mu**2) / (2 * s)))


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
        statement="Clustering the clients' models estimates the priors: the cluster centres are the candidates. Judged for "
        "two equally likely values mu and -mu and arbitrarily many clients, where the upper centre should be mu.",
        latex=r"\mathbb{P}^{(t)},\bm{\mu}_1^{(t)},\ldots,\bm{\mu}_k^{(t)}\leftarrow\mathsf{Cluster}(\bm{\theta}_1^{(t)},"
        r"\ldots,\bm{\theta}_m^{(t)},k)",
        kind="algorithm line",
        variables=(MU, FREE_NOISE, SAMPLES),
        examples=({"mu": 1, "sigma2_x": 1, "n": 1}, {"mu": 2, "sigma2_x": 3, "n": 2}),
        printed=lambda mu: mu,
        derive=_alg1_derive,
        oracle=_alg1_oracle,
        computed=_alg1_computed,
        simulate=_alg1_simulate,
        corrected=_folded,
        corrected_text="mu erf(mu/sqrt(2s)) + sqrt(2s/pi) exp(-mu^2/(2s)), s = sigma2_x/n, which is above mu",
        counterexample={"mu": 1, "sigma2_x": 1, "n": 1},
        unit="units of the samples",
        remark="However many clients there are, the first centres are too far out (1.167 for mu = sigma2_x/n = 1), for each "
        "cluster loses its inner tail to the other. Further rounds do not mend this: they draw the centres together without "
        "end (generative:alg1:collapse). As printed the first round also uses P^(1) and mu^(1) before any are computed. EM "
        "keeps the truth as its fixed point (generative:alg1:em).",
    )
)

LOW = Variable("low", "real", "lower centre before the round")
GAP = Variable("gap", "positive", "upper centre minus lower centre before the round", within=("1/2", 4))
SHARE = Variable("share", "fraction", "share of the upper cluster before the round", extreme=False)
RATIO = {
    "lengths": (1, 2, 3),
    "within": ("1/20", 20),
}
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
        statement="For k = 2, any data and any clustering into non-empty clusters, each round moves both centres strictly "
        "into the interval between the previous ones. Judged: both distances are at most the old gap.",
        latex=r"\bm{\theta}_i^t\leftarrow\sum_{l=1}^{k}\alpha_l^{(i)}\bm{\mu}_l^{(t)},\qquad\mathsf{Cluster}"
        r"(\bm{\theta}_1^{(t)},\ldots,\bm{\theta}_m^{(t)},k)",
        kind="upper bound",
        variables=(LOW, GAP, SHARE, UPPER, LOWER),
        examples=({"low": -1, "gap": 2, "share": "1/2", "above": ["1/4", "1/3"], "below": [2, 4]},),
        printed=lambda gap: (gap, gap),
        relation="<=",
        derive=_collapse_derive,
        oracle=_collapse_oracle,
        computed=_collapse_computed,
        shifts=lambda share, **_: {share: (t := sp.Symbol("t", nonnegative=True)) / (1 + t)},
        not_simulated="true for every data set",
        ours=True,
        entries=("new upper minus old lower centre", "old upper minus new lower centre"),
        unit="units of the samples",
        related=("generative:thm5",),
        remark="The gap falls in every round, and no positive gap is a fixed point: the most extreme model is a continuous "
        "function of the centres and shares (at least 1/m each) that stays strictly inside. So on every data set the "
        "centres and with them all personalised models tend to one common point as T grows. The same argument holds for any "
        "k and d, direction by direction.",
    )
)


# --- EM ----------------------------------------------------------------------------------------------------------------


def _em_derive(p: Any, mus: Any) -> Derivation:
    d = Derivation()
    total = sum(p)
    mass = [a / total for a in p]
    d.say("EM replaces p_l by the clients' mean weight on l, and mu_l by their weighted mean. In the limit of many clients "
          "these are E[w_l(xbar)] and E[w_l(xbar) xbar]/E[w_l(xbar)] over the density f = sum_s p_s f_s.")  # fmt: skip
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
        latex=r"p_l\leftarrow\frac1m\sum_i\alpha_l^{(i)},\qquad\bm\mu_l\leftarrow\frac{\sum_i\alpha_l^{(i)}\overline X_i}"
        r"{\sum_i\alpha_l^{(i)}}",
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
        not_computed="the population's step is an integral; DiscretePrior takes the step on data",
        ours=True,
        unit="probabilities, then units of the samples",
        related=("generative:thm5",),
        remark="estimators.closed_forms.mixture.DiscretePrior: maximum likelihood by EM with restarts, whose log likelihood "
        "never falls (each step maximises a lower bound that touches it), also for clients with different variances.",
    )
)

__all__ = ["TwoValueRisk"]
