"""Sections 5 and 6 and Assumption E.2: the noise of private gradient steps and of the private mean, clipping.

Belongs here: how much noise one Gaussian release needs, under which adjacency and for which eps; what noise
accumulates; whether clipping can be avoided. Does not belong here: accounting of Appendix A (accounting.py), the
exponential mechanism (selection.py), what the noise does to estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, arb, ctx

from estimators.accounting import mechanisms
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.intervals import number
from theory.engine.registry import register
from theory.engine.tight import Tight

EPS = Variable("eps", "positive", "privacy budget eps")
DELTA = Variable("delta", "fraction", "privacy budget delta")
CLIP = Variable("c", "positive", "clipping bound on the norm of one record")
ADJACENCY = Variable(
    "adjacency",
    "choice",
    "neighbours: one record replaced (Definition 2.1), or one record added or removed",
    choices=("replace", "add-remove"),
    default="replace",
)


# --- (2) --------------------------------------------------------------------------------------------------------

STEP = Variable("eta", "positive", "step size")
STEPS = Variable("T", "size", "gradient steps")
RECORDS = Variable("n", "size", "records of the silo")
LOG = Variable("log_inverse_delta", "positive", "ln(1/delta)")
HIDDEN = Variable("constant", "positive", "the constant that O(.) hides in sigma^2 = O(c^2 T ln(1/delta)/eps^2)")
_PER_STEP_LATEX = r"\sigma^{2}=O\left(c^{2}T\ln(1/\delta_{k})/\varepsilon_{k}^{2}\right)"


def _walk_derive(eta: Any, c: Any, T: Any, n: Any, eps: Any, log_inverse_delta: Any, constant: Any) -> Derivation:
    d = Derivation()
    per_step = d.say(
        "Noise of one step on the sum of gradients: sigma^2 =", constant * c**2 * T * log_inverse_delta / eps**2
    )
    one = d.say("A step adds -(eta/n) z to the model; each coordinate of it has variance", (eta / n) ** 2 * per_step)
    return d.conclude("The z of different steps are independent, so the variances of T steps add up to", T * one)


def _walk_oracle(eta: Any, c: Any, T: Any, n: Any, eps: Any, log_inverse_delta: Any, constant: Any) -> Any:
    """Run the update rule on the coefficients of every z^(t), with gradients that are not there."""
    model: dict[int, Any] = {}
    for t in range(int(T)):
        for s in range(t + 1):
            model[s] = model.get(s, 0) - (eta / n if s == t else 0)
    return sum(x**2 for x in model.values()) * constant * c**2 * T * log_inverse_delta / eps**2


def _walk_simulate(
    eta: float, c: float, T: int, n: int, eps: float, log_inverse_delta: float, constant: float
) -> simulation.Simulation:
    deviation = np.sqrt(constant * c**2 * T * log_inverse_delta) / eps

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = np.zeros(reps)
        for _ in range(T):
            noise -= eta / n * deviation * gen.standard_normal(reps)
        return noise[:, None] ** 2

    return simulation.sample_means(draw, labels=["variance of the cumulative noise"], draws=T)


register(
    Claim(
        id="mrmtl:eq2",
        title="Variance of the accumulated noise of private gradient descent",
        place="Section 5, (2)",
        statement="""With per-step noise of variance C c^2 T ln(1/delta)/eps^2 on the sum of gradients, the cumulative noise
            -(eta/n) sum_t z^(t) of T steps has this variance, with the same C in place of O(.).""",
        latex=r"""Z^{(T)}\triangleq-\frac{\eta}{n_{k}}\sum_{t}z^{(t)}\sim\mathcal{N}\left(0,\enspace
            O\left(\frac{\eta^{2}c^{2}T^{2}\ln(1/\delta_{k})}{n_{k}^{2}\varepsilon_{k}^{2}}\right)\cdot\mathbf{I}\right)""",
        kind="identity",
        variables=(STEP, CLIP, STEPS, RECORDS, EPS, LOG, HIDDEN),
        examples=({"eta": "1/2", "c": 1, "T": 3, "n": 10, "eps": 1, "log_inverse_delta": 5, "constant": 2},),
        printed=lambda eta, c, T, n, eps, log_inverse_delta, constant: (
            constant * eta**2 * c**2 * T**2 * log_inverse_delta / (n**2 * eps**2)
        ),
        derive=_walk_derive,
        oracle=_walk_oracle,
        simulate=_walk_simulate,
        not_computed=Exempt(
            kind="elsewhere",
            function="estimators.federated.algorithms.basic.RowTraining",
            note="which takes the steps one by one",
        ),
        assumes={"noise": "fresh"},
        model=("Value(Server)",),
        unit="variance per coordinate",
        remark="""One factor T comes from T independent steps, the other from the noise that T steps need each. The model
            itself moves by more than Z: the gradients of later steps see the noise of earlier ones, and contract it
            where the objective is curved. Whether such noise is private for a constant C is mrmtl:eq2:noise.""",
    )
)

RATE = Variable("s", "positive", "square root of the zCDP rate that all steps together may spend")
ROOT = Variable("l", "positive", "square root of ln(1/delta)")


def _noise_derive(c: Any, T: Any, s: Any, l: Any) -> Derivation:  # noqa: E741
    d = Derivation()
    d.say("Replacing one record changes the sum of gradients, each of norm at most c, by at most", 2 * c)
    sigma2 = sp.Symbol("sigma2", positive=True)
    rate = d.say("A step with noise sigma2 is zCDP of rate (2c)^2/(2 sigma2); T steps add up to rho =",
                 T * (2 * c) ** 2 / (2 * sigma2))  # fmt: skip
    d.say("rho-zCDP gives eps = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016). With rho = s^2, ln(1/delta) = l^2:",
          s**2 + 2 * s * l)  # fmt: skip
    (needed,) = sp.solve(sp.Eq(rate, s**2), sigma2)
    return d.conclude("so the noise needed for this eps and delta is sigma2 =", needed)


def _noise_oracle(c: Any, T: Any, s: Any, l: Any) -> Any:  # noqa: E741
    """The rate from eps by the quadratic formula, and the noise from the rate by adding up the steps."""
    eps = s**2 + 2 * s * l
    half = eps + 2 * l**2  # (eps - rho)^2 = 4 rho l^2
    rho = half - sp.sqrt(half**2 - eps**2)
    per_step = rho / T
    return (2 * c) ** 2 / (2 * per_step)


register(
    Claim(
        id="mrmtl:eq2:noise",
        title="Noise per step that T private gradient steps need",
        place="Section 5, before (2)",
        statement="""Noise of variance O(c^2 T ln(1/delta)/eps^2) per step gives (eps, delta) over T steps. Judged with the
            constant 25/2 and one record replaced: the noise that zCDP asks for is no more.""",
        latex=_PER_STEP_LATEX,
        kind="upper bound",
        variables=(CLIP, STEPS, RATE, ROOT),
        examples=({"c": 1, "T": 10, "s": "1/4", "l": 3}, {"c": 2, "T": 3, "s": 1, "l": 2}),
        printed=lambda c, T, s, l: sp.Rational(25, 2) * c**2 * T * l**2 / (s**2 + 2 * s * l) ** 2,  # noqa: E741
        relation="<=",
        derive=_noise_derive,
        oracle=_noise_oracle,
        condition=lambda s, l: sp.Le(2 * s, l),  # noqa: E741
        condition_text="2 s <= l (eps = s^2 + 2 s l is at most 5/4 ln(1/delta))",
        counterexample={"c": 1, "T": 1, "s": 1, "l": 1},
        shifts=lambda s, l, **_: {l: 2 * s + sp.Symbol("more", nonnegative=True)},  # noqa: E741
        not_computed=Exempt(
            kind="elsewhere", function="estimators.accounting.privacy.epsilon_from_zcdp", note="which converts more sharply"
        ),
        not_simulated=Exempt(kind="divergence"),
        assumes={"noise": "fresh"},
        tight=Tight(at={"c": 2, "T": 3, "s": 1, "l": 2}),
        unit="variance per coordinate",
        related=("mrmtl:appA:zcdp",),
        assumptions=("full batches; neighbours differ in one replaced record (Definition 2.1)",),
        remark="""eps = s^2 + 2 s l and ln(1/delta) = l^2, so that everything is rational. For eps far above ln(1/delta) no
            constant is enough: the noise must then exceed T (2c)^2/(2 eps) about, which falls like 1/eps only. Abadi et
            al. (2016) state it with the sampling rate and for small eps too.""",
    )
)

# --- the noise of one release ----------------------------------------------------------------------------------


def _sensitivity_derive(c: Any, adjacency: str) -> Derivation:
    d = Derivation()
    d.say("The released sum adds clipped records, each of which lies anywhere in the ball of radius c.")
    if adjacency == "replace":
        d.say("Neighbours share all records but one, x against x'. The sums differ by x - x'.")
        ends = d.say("These are furthest apart at opposite ends of the ball:", (c, -c))
        return d.conclude("Their distance:", ends[0] - ends[1])
    d.say("Neighbours share all records but one, which only one of them has. The sums differ by that record.")
    ends = d.say("With it at the end of the ball, and without it:", (c, sp.Integer(0)))
    return d.conclude("Their distance:", ends[0] - ends[1])


def _sensitivity_oracle(c: Any, adjacency: str) -> Any:
    """All datasets of two records on a grid that holds the ends of [-c, c], and all their neighbours."""
    grid = [c * sp.Rational(i, 2) for i in range(-2, 3)]
    largest = sp.Integer(0)
    for x in product(grid, repeat=2):
        others = [(x[0], y) for y in grid] if adjacency == "replace" else [x[:1], x[1:]]
        largest = max(largest, *(abs(sum(x) - sum(y)) for y in others))
    return largest


register(
    Claim(
        id="mrmtl:sigma-dp:sensitivity",
        title="Sensitivity of the sum of clipped records",
        place="Section 6, Setup, with Definition 2.1 and the Gaussian mechanism of Section 2",
        statement="The noise sigma_DP is calibrated to a change of the sum by c when one record changes.",
        latex=r"\sigma_{\mathrm{DP}}=c\sqrt{2\ln(1.25/\delta)}/\varepsilon",
        kind="identity",
        variables=(CLIP, ADJACENCY),
        examples=({"c": 1, "adjacency": "replace"}, {"c": "3/2", "adjacency": "add-remove"}),
        printed=lambda c: c,
        derive=_sensitivity_derive,
        oracle=_sensitivity_oracle,
        computed=lambda c, adjacency: mechanisms.clipped_sum_sensitivity(c=c, adjacency=adjacency),
        condition=lambda adjacency: sp.true if adjacency == "add-remove" else sp.false,
        condition_text='adjacency == "add-remove" (one record is added or removed, not replaced)',
        counterexample={"c": 1, "adjacency": "replace"},
        corrected_text="2 c under Definition 2.1",
        not_simulated=Exempt(kind="deterministic"),
        assumes={"clipping": "any"},
        unit="units of the records",
        remark="Definition 2.1 replaces a record: c in its place by -c moves the sum by 2c.",
    )
)


class SmallestSigma(sp.Function):
    """Least deviation of Gaussian noise on a release of sensitivity 1 that is (eps, delta)-private."""

    nargs = 2
    is_real = True
    is_positive = True

    def _eval_evalf(self, prec: int) -> Any:
        if not all(a.is_Rational for a in self.args):
            return None
        return sp.Float(_smallest_sigma(*self.args), precision=prec)


@contextmanager
def bits(count: int) -> Iterator[None]:
    """Precision of ball arithmetic within the block, in bits."""
    before, ctx.prec = ctx.prec, count
    try:
        yield
    finally:
        ctx.prec = before


def decimal(value: arb) -> str:
    """Return the middle of a ball with more digits than claims are compared at."""
    return value.mid().str(70, radius=False)


@cache
def _smallest_sigma(eps: Any, delta: Any) -> str:
    """Newton's method on log delta as a function of log mu, mu = 1/sigma, from a point known to lie below the root.

    log delta is concave and increasing in log mu, so that the iterates rise to the root.
    """
    if delta >= 1:
        return "0"
    with bits(400):
        eps, delta = number(eps), number(delta)
        half, root = arb(1) / 2, arb(2).sqrt()
        # delta(mu) <= P(X > t) <= exp(-t^2/2) with t = eps/mu - mu/2
        t = (-2 * delta.log()).sqrt()
        mu = 2 * eps / (t + (t * t + 2 * eps).sqrt())
        for _ in range(500):
            a = eps / mu - mu / 2
            b2 = (a + mu) ** 2 / 2
            # e^eps P(X > b) = exp(-a^2/2) U(1/2, 1/2, b^2/2) / (2 sqrt(pi)): no overflow, whatever eps
            curve = (a / root).erfc() / 2 - (-a * a / 2).exp() * b2.hypgeom_u(half, half) / (2 * arb.pi().sqrt())
            density = (-a * a / 2).exp() / (2 * arb.pi()).sqrt()
            step = ((delta / curve).log() * curve / (mu * density)).mid()
            mu = (mu * (step if step < 1 else arb(1)).exp()).mid()
            if abs(step) < arb("1e-75"):
                return (1 / mu).mid().str(70, radius=False)
    raise ArithmeticError(f"no convergence at eps = {eps}, delta = {delta}")


def _sigma_derive(eps: Any, delta: Any, c: Any, adjacency: str) -> Derivation:
    d = Derivation()
    sensitivity = d.say("Largest change of the sum between neighbours:", (2 if adjacency == "replace" else 1) * c)
    d.say("""With mu = sensitivity/sigma the log likelihood ratio of the two outputs is N(mu^2/2, mu^2) under the one and
        N(-mu^2/2, mu^2) under the other, so the smallest delta at eps is Phi(mu/2 - eps/mu) - e^eps
        Phi(-mu/2 - eps/mu) (mrmtl:sigma-dp:exact).""")  # fmt: skip
    d.say("""Its derivative by mu is the normal density at mu/2 - eps/mu > 0: less noise, larger delta. So the smallest sigma
        is the root of delta(mu) = delta, sensitivity times that of a release of sensitivity 1.""")  # fmt: skip
    return d.conclude("The least noise:", sensitivity * SmallestSigma(eps, delta))


def hockey_stick(eps: arb, step: arb) -> arb:
    """Integral of (p - e^eps q)_+ for the densities p, q of N(step, 1) and N(0, 1), by verified quadrature."""
    start = eps / step + step / 2  # where p = e^eps q
    end = (start if start > step else step) + 24  # beyond, exp(-24^2/2) = 1e-125 of the mass

    def integrand(x: acb, _: bool) -> acb:
        return (-(x - step) * (x - step) / 2).exp() * (1 - (eps - step * x + step * step / 2).exp())

    return acb.integral(integrand, acb(start), acb(end)).real / (2 * arb.pi()).sqrt()


@cache
def _sigma_by_quadrature(eps: Any, delta: Any) -> str:
    """Bisection on the hockey-stick integral, then secant steps with more digits."""

    def excess(log_sigma: arb) -> arb:
        return (hockey_stick(number(eps), (-log_sigma).exp()) - number(delta)).mid()

    with bits(80):
        low, high = arb(-1), arb(1)
        while excess(low) < 0:
            low -= 2
        while excess(high) > 0:
            high += 2
        for _ in range(24):
            middle = ((low + high) / 2).mid()
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    with bits(300):
        x0, x1 = low, high
        f0, f1 = excess(x0), excess(x1)
        for _ in range(4):
            x0, x1, f0 = x1, (x1 - f1 * (x1 - x0) / (f1 - f0)).mid(), f1
            f1 = excess(x1)
        return decimal(x1.exp())


def _sigma_oracle(eps: Any, delta: Any, c: Any, adjacency: str) -> Any:
    apart = c + c if adjacency == "replace" else c  # from c to -c, or from c to nothing
    return apart * sp.Float(_sigma_by_quadrature(eps, delta), 60)


register(
    Claim(
        id="mrmtl:sigma-dp",
        title="Noise of the private mean",
        place="Section 6, Setup",
        statement="""Gaussian noise of this deviation on the sum of a silo's clipped records gives (eps, delta) sample-level
            DP. Judged: the smallest deviation that does is no more, under Definition 2.1 (one record replaced) and, for
            comparison, with one record added or removed.""",
        latex=r"\sigma_{\mathrm{DP}}=c\sqrt{2\ln(1.25/\delta)}/\varepsilon",
        kind="upper bound",
        variables=(EPS, DELTA, CLIP, ADJACENCY),
        examples=(
            {"eps": 1, "delta": "1/100000", "c": 1},
            {"eps": 10, "delta": "1/100000", "c": 1, "adjacency": "add-remove"},
        ),
        printed=lambda eps, delta, c: c * sp.sqrt(2 * sp.log(sp.Rational(5, 4) / delta)) / eps,
        relation="<=",
        derive=_sigma_derive,
        oracle=_sigma_oracle,
        computed=lambda eps, delta, c, adjacency: mechanisms.gaussian_sigma(
            eps=eps, delta=delta, sensitivity=mechanisms.clipped_sum_sensitivity(c=c, adjacency=adjacency)
        ),
        counterexample={"eps": 1, "delta": "1/100000", "c": 1, "adjacency": "replace"},
        corrected=lambda eps, delta, c, adjacency: (2 * c if adjacency == "replace" else c) * SmallestSigma(eps, delta),
        corrected_text="2 c SmallestSigma(eps, delta); for eps <= 7/2 twice the printed noise is enough",
        not_simulated=Exempt(kind="divergence"),
        assumes={"law": "gaussian"},
        finding="""The noise is half of what replacing a record needs, and for large eps it is too little even for adding or
            removing one.""",
        unit="units of the records",
        shares={
            "theory.papers.mrmtl.privacy.SmallestSigma": "the name of a root that has no closed form",
            "theory.papers.mrmtl.privacy._smallest_sigma": "the value of that root; the oracle finds it by quadrature",
        },
        related=(
            "mrmtl:sigma-dp:sensitivity",
            "mrmtl:sigma-dp:exact",
            "mrmtl:sigma-dp:classical",
            "mrmtl:sigma-dp:large-eps",
        ),
        remark="""Two reasons. Replacing a record moves the sum by 2c, not c, so the noise is too small by a factor of 2 (at
            eps = 1, delta = 1e-5 it gives delta = 0.0017). And the formula is not valid for every eps even with the
            right sensitivity: it is for all delta up to eps = 7/2 (mrmtl:sigma-dp:classical; the textbook asks eps < 1)
            and fails for large eps (at delta = 1e-5 from 8.43 on).""",
    )
)
