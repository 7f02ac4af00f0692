"""What the text says in words of how errors and strengths move: with privacy, with lam, with a silo's own variance.

Each statement is judged as a difference between two settings. Belongs here: monotonicity in words of Sections 5 and 6 and
Appendices E and H. Does not belong here: the formulas that move.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import mean_regularized
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Group, best_blend
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    ASSUMPTIONS,
    AVERAGED,
    LAM,
    LOCAL,
    LOCAL_EXAMPLES,
    ONE,
    RECORDS,
    SIGMA2,
    SIGMA2_DP,
    TAU2,
    UNEQUAL_ASSUMPTIONS,
    ZERO,
    K,
)

MORE = Variable("more", "nonnegative", "by how much the variance grows")
SPREAD = Variable("tau2", "positive", TAU2.meaning)


def _others_shift(K: Any) -> dict[Any, Any]:
    return {K: 2 + sp.Symbol("others", nonnegative=True)}


# --- lam* grows with privacy ------------------------------------------------------------------------------------


def _strength_derive(n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, more: Any) -> Derivation:
    d = Derivation()
    at = {"n": n, "sigma2": sigma2, "tau2": tau2}
    less = d.lemma("mrmtl:thm6.3", "lam* with the smaller privacy noise", sigma2_dp=sigma2_dp, **at)
    stronger = d.lemma("mrmtl:thm6.3", "and with the larger", sigma2_dp=sigma2_dp + more, **at)
    return d.conclude("It grows by, smoothly (linearly) in the noise's variance,", simplest(stronger - less))


def _strength_oracle(n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, more: Any) -> Any:
    def best(noise: Any) -> Any:
        return model.concrete_optimum(model.concrete_equal(3, tau2, sigma2 / n, noise / n**2))[0]

    return best(sigma2_dp + more) - best(sigma2_dp)


register(
    Claim(
        id="mrmtl:thm6.3:privacy",
        title="lambda* grows with stronger privacy",
        place="Abstract; Section 6, text after Theorem 6.3; Figure 5; Appendix H.2, 'lambda* decreases as eps grows'",
        statement="""Under stronger privacy, a larger sigma_DP^2, silos are encouraged to federate more: lambda* grows.
            Judged: lambda* with the variance sigma2_dp + more minus that with sigma2_dp is at least 0.""",
        latex=r"\lambda^{*}\text{ grows smoothly with stronger privacy }(\sigma_{\mathrm{DP}}^{2}\to\infty)",
        kind="order",
        variables=(RECORDS, SIGMA2, SIGMA2_DP, SPREAD, MORE),
        examples=({"n": 2, "sigma2": 1, "sigma2_dp": 2, "tau2": "1/2", "more": 4},),
        printed=lambda: ZERO,
        relation=">=",
        derive=_strength_derive,
        oracle=_strength_oracle,
        tight=Tight(at={"n": 2, "sigma2": 1, "sigma2_dp": 2, "tau2": "1/2", "more": 0}),
        not_computed=Exempt(kind="few"),
        not_simulated=Exempt(kind="part", of=("mrmtl:thm6.3",)),
        unit="dimensionless",
        assumes=AVERAGED,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:thm6.3",),
        remark="Exactly more/(n^2 tau2). For tau2 = 0 lambda* is inf at every noise.",
        model=("Value(Optimum, Optimum)",),
    )
)


# --- gaps to the two ends ---------------------------------------------------------------------------------------


def _moving_derive(K: Any, sigma2_loc: Any, tau2: Any, more: Any) -> Derivation:
    d = Derivation()
    changes = []
    for claim, sign, name in (("mrmtl:prop6.5", 1, "local training"), ("mrmtl:prop6.6", -1, "FedAvg")):
        before = d.lemma(claim, f"{name} loses", K=K, sigma2_loc=sigma2_loc, tau2=tau2)
        after = d.lemma(claim, "and with the larger variance", K=K, sigma2_loc=sigma2_loc + more, tau2=tau2)
        changes.append(sp.factor(sp.cancel(sign * (after - before))))
    return d.conclude("The gap to local training grows by, that to FedAvg falls by", tuple(changes))


def _ends(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Any, Any]:
    """Gaps of local training and of FedAvg to the best blend, on concrete silos."""
    clients = model.concrete_equal(K, tau2, sigma2_loc)
    best = model.concrete_optimum(clients)[1]
    return tuple(model.concrete_mse(clients, lam) - best for lam in (ZERO, sp.oo))


def _moving_oracle(K: Any, sigma2_loc: Any, tau2: Any, more: Any) -> tuple[Any, Any]:
    (local, fed), (local_more, fed_more) = _ends(K, sigma2_loc, tau2), _ends(K, sigma2_loc + more, tau2)
    return local_more - local, fed - fed_more


def _moving_simulate(K: int, sigma2_loc: float, tau2: float, more: float) -> simulation.Simulation:
    """Both settings at once: K silos with the noise of the first, and K carriers of the noise that comes on top."""
    fed = simulation.federation([K, K], [tau2, 0.0], 0.0, [sigma2_loc, more])
    nothing, mean, own = np.zeros(K), model.uniform(K), np.eye(K)[0]
    weights = [[*mean, *nothing], [*own, *nothing], [*nothing, *mean], [*nothing, *own]]

    def error(lam: float, noisier: bool) -> np.ndarray:
        u = 1.0 if np.isinf(lam) else lam / (1 + lam)
        extra = {"a2": u, "a3": 1 - u} if noisier else {}
        return simulation.vector(4, p=-1.0, a0=u, a1=1 - u, **extra)

    best, best_more = sigma2_loc / tau2, (sigma2_loc + more) / tau2
    local = [error(0.0, True), error(best_more, True), error(0.0, False), error(best, False)]
    fedavg = [error(np.inf, True), error(best_more, True), error(np.inf, False), error(best, False)]
    squares = simulation.mean_squares(fed, 0, weights, [*local, *fedavg])
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    return simulation.Simulation(
        squares.experiment,
        (
            simulation.Mean("growth of the gap to local training", np.concatenate([signs, np.zeros(4)]), 0),
            simulation.Mean("fall of the gap to FedAvg", np.concatenate([np.zeros(4), -signs]), 1),
        ),
    )


register(
    Claim(
        id="mrmtl:gaps:privacy",
        title="Privacy moves the two gaps in opposite directions",
        place="Section 6, text after Proposition 6.6; Appendix H.2, 'Utility advantage of MR-MTL'",
        statement="""Under stronger privacy the benefit of MR-MTL increases against local training and diminishes against
            FedAvg. Judged: by how much the first gap grows and the second falls when the local variance grows is at
            least 0.""",
        latex=r"\text{the benefit of MR-MTL increasing against local training and diminishing against FedAvg}",
        kind="order",
        variables=(*LOCAL, MORE),
        examples=({"K": 3, "sigma2_loc": 1, "tau2": 4, "more": 4}, {"K": 5, "sigma2_loc": "1/2", "tau2": 2, "more": 2}),
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_moving_derive,
        oracle=_moving_oracle,
        shifts=_others_shift,
        tight=Tight(at={"K": 3, "sigma2_loc": 1, "tau2": "1/2", "more": 0}),
        not_computed=Exempt(kind="difference", of=("mrmtl:prop6.5", "mrmtl:prop6.6")),
        simulate=_moving_simulate,
        entries=("growth of the gap to local training", "fall of the gap to FedAvg"),
        unit="variance",
        assumes=AVERAGED,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:prop6.5", "mrmtl:prop6.6", "mrmtl:best-advantage"),
        model=("Value(Own, Optimum, Own, Optimum)", "Value(Mixed, Optimum, Mixed, Optimum)"),
    )
)


def _sign_derive(K: Any, sigma2_loc: Any, tau2: Any) -> Derivation:
    d = Derivation()
    local = d.lemma("mrmtl:prop6.5", "local training loses", K=K, sigma2_loc=sigma2_loc, tau2=tau2)
    fed = d.lemma("mrmtl:prop6.6", "FedAvg loses", K=K, sigma2_loc=sigma2_loc, tau2=tau2)
    return d.conclude("Products of quantities that are not negative:", (local, fed))


def _sign_simulate(K: int, sigma2_loc: float, tau2: float) -> simulation.Simulation:
    silos, best = model.local_silos(tau2, [sigma2_loc] * K), model.error_at(sigma2_loc / tau2)
    squares = simulation.mean_squares(silos, 0, model.uniform(K), [model.error_at(0.0), model.error_at(np.inf), best])
    return simulation.Simulation(
        squares.experiment,
        (
            simulation.Mean("gap to local training", np.array([1.0, 0.0, -1.0]), 0),
            simulation.Mean("gap to FedAvg", np.array([0.0, 1.0, -1.0]), 1),
        ),
    )


register(
    Claim(
        id="mrmtl:gaps:sign",
        title="Neither end beats MR-MTL at lambda*",
        place="Appendix H.2, 'MR-MTL does not always outperform FedAvg'",
        statement="""The utility gap from MR-MTL to FedAvg is always nonnegative under federated mean estimation. Judged for
            both ends.""",
        latex=r"\text{the utility gap from MR-MTL to FedAvg is always nonnegative under federated mean estimation}",
        kind="order",
        variables=LOCAL,
        examples=LOCAL_EXAMPLES,
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_sign_derive,
        oracle=_ends,
        shifts=_others_shift,
        tight=Tight(at={"K": 3, "sigma2_loc": 1, "tau2": "inf"}),
        computed=lambda K, sigma2_loc, tau2: (
            mean_regularized.gap_to_local(sigma2_loc, tau2, K),
            mean_regularized.gap_to_fedavg(sigma2_loc, tau2, K),
        ),
        simulate=_sign_simulate,
        entries=("gap to local training", "gap to FedAvg"),
        unit="variance",
        assumes=AVERAGED,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:prop6.5", "mrmtl:prop6.6"),
        remark="The gap to FedAvg is 0 only for identical silos.",
        model=("Value(Own, Optimum)", "Value(Mixed, Optimum)"),
    )
)


# --- the cost of privacy falls with lam -------------------------------------------------------------------------

STEP = Variable("step", "nonnegative", "by how much lam grows")


def _falls_derive(lam: Any, step: Any, K: Any, n: Any, sigma2_dp: Any) -> Derivation:
    d = Derivation()
    here = d.lemma("mrmtl:thm6.8", "the cost at lam", lam=lam, K=K, n=n, sigma2_dp=sigma2_dp)
    there = d.lemma("mrmtl:thm6.8", "and at lam + step", lam=lam + step, K=K, n=n, sigma2_dp=sigma2_dp)
    return d.conclude("It falls by", sp.factor(sp.cancel(here - there)))


def _falls_oracle(lam: Any, step: Any, K: Any, n: Any, sigma2_dp: Any) -> Any:
    noise = model.concrete_equal(K, 0, 0, sigma2_dp / n**2)
    return model.concrete_mse(noise, lam) - model.concrete_mse(noise, lam + step)


def _falls_simulate(lam: float, step: float, K: int, n: int, sigma2_dp: float) -> simulation.Simulation:
    noise = model.raw_silos(0.0, [0.0] * K, [sigma2_dp / n**2] * K)
    errors = [model.error_at(lam), model.error_at(lam + step)]
    return model.gap(noise, 0, model.uniform(K), errors, "noise at lam minus noise at lam + step")


register(
    Claim(
        id="mrmtl:thm6.8:falls",
        title="The cost of privacy shrinks with lam",
        place="Abstract; Section 6, text before Lemma 6.7 and after Theorem 6.8; Section 5",
        statement="""The utility cost from privacy shrinks smoothly with larger lam. Judged: the cost at lam minus that at
            lam + step is at least 0.""",
        latex=r"\text{the utility cost from DP shrinks smoothly with larger }\lambda",
        kind="order",
        variables=(LAM, STEP, K, RECORDS, SIGMA2_DP),
        examples=({"lam": 1, "step": 2, "K": 3, "n": 2, "sigma2_dp": 8},),
        printed=lambda: ZERO,
        relation=">=",
        derive=_falls_derive,
        oracle=_falls_oracle,
        shifts=_others_shift,
        tight=Tight(at={"lam": 1, "step": 0, "K": 3, "n": 2, "sigma2_dp": 8}),
        not_computed=Exempt(kind="difference", of=("mrmtl:thm6.8",)),
        simulate=_falls_simulate,
        unit="variance",
        assumes=AVERAGED,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:thm6.8", "mrmtl:thm6.8:factor"),
        model=("Value(Personal, Personal, Personal, Personal)",),
    )
)


# --- outliers among the silos -----------------------------------------------------------------------------------

SIGMA2_OWN = Variable("sigma2_own", "positive", "the silo's own local variance")
SIGMA2_REST = Variable("sigma2_rest", "positive", "mean of the other silos' local variances")


def _outlier_derive(K: Any, tau2: Any, sigma2_own: Any, sigma2_rest: Any, more: Any) -> Derivation:
    d = Derivation()
    d.say("Only the mean of the others' variances matters; let them be equal, and K - 1 in number.")

    def inverse(own: Any, rest: Any) -> Any:
        silos = model.equal_silos(K, tau2, rest)
        lone = Group("own", ONE, tau2, own, ZERO)
        target, local = lone.parameters(), lone.messages()
        mean = (1 / K) * local + ((K - 1) / K) * silos.external
        u, _ = best_blend(target, local, mean)
        return d.say("1/lam* = 1/u - 1, u the weight of the mean in the best blend:", simplest(1 / u - 1))

    base = inverse(sigma2_own, sigma2_rest)
    own, rest = inverse(sigma2_own + more, sigma2_rest), inverse(sigma2_own, sigma2_rest + more)
    changes = tuple(sp.factor(sp.cancel(x)) for x in (base - own, rest - base))
    return d.conclude("With more own variance it falls by, with more of the others' it grows by", changes)


def _outlier_oracle(K: Any, tau2: Any, sigma2_own: Any, sigma2_rest: Any, more: Any) -> tuple[Any, Any]:
    def inverse(own: Any, rest: Any) -> Any:
        count = int(K) - 1
        spread = [rest * sp.Rational(2 * (j + 1), count + 1) for j in range(count)]  # unequal, with this mean
        lam, _ = model.concrete_optimum(model.concrete_unequal([own, *spread], tau2))
        return ZERO if lam is sp.oo else 1 / lam

    base = inverse(sigma2_own, sigma2_rest)
    return base - inverse(sigma2_own + more, sigma2_rest), inverse(sigma2_own, sigma2_rest + more) - base


register(
    Claim(
        id="mrmtl:thmE.5:outlier",
        title="How lambda_k* depends on how much of an outlier a silo is",
        place="Appendix E.5, text after Theorem E.5",
        statement="""A silo with a smaller local variance benefits from a smaller lambda_k*, as the others are noisy; one
            with a larger one from a larger. Judged as 1/lambda_k*, which falls with the own variance and grows with the
            others'.""",
        latex=r"""\text{if it has a smaller local variance, then it benefits from a smaller }\lambda^{*}_{k}%
            \text{ since other silos are noisy; if it has a larger local variance, then }\lambda^{*}_{k}%
            \text{ would be larger}""",
        kind="order",
        variables=(K, TAU2, SIGMA2_OWN, SIGMA2_REST, MORE),
        examples=({"K": 3, "tau2": 1, "sigma2_own": 1, "sigma2_rest": 2, "more": "1/2"},),
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_outlier_derive,
        oracle=_outlier_oracle,
        shifts=_others_shift,
        tight=Tight(at={"K": 3, "tau2": 1, "sigma2_own": 1, "sigma2_rest": 2, "more": 0}),
        not_computed=Exempt(kind="part", of=("mrmtl:thmE.5",)),
        not_simulated=Exempt(kind="part", of=("mrmtl:thmE.5",)),
        entries=("fall with the own variance", "growth with the others'"),
        unit="dimensionless",
        assumes={**AVERAGED, "pivot": "mean"},
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:thmE.5", "mrmtl:thmE.5:algA1"),
        remark="""As 1/lambda_k* it is right on either side of lambda_k* = inf. In Algorithm A1 only the first half is so:
            there the best strength does not depend on the other silos (mrmtl:thmE.5:algA1).""",
        model=("Value(Optimum, Optimum)",),
    )
)


# --- lam to infinity under gradient steps ---------------------------------------------------------------------------

RATE = Variable("rate", "positive", "step size of a gradient step, the learning rate eta", extreme=False)


def _large_derive(lam: Any, rate: Any) -> Derivation:
    d = Derivation()
    w, bar, own = sp.symbols("w w_bar w_hat", real=True)
    step = d.say("A silo's step on its quadratic loss with the regulariser:", w - rate * ((w - own) + lam * (w - bar)))
    d.say("""Averaged over the silos the regulariser cancels, and the distance of the mean model to the mean estimate shrinks
        by""",
          mean := simplest(sp.diff(step.subs(bar, w), w)))  # fmt: skip
    apart = d.say("The difference of two silos' models is multiplied by", simplest(sp.diff(step, w)))
    return d.conclude("Both factors:", (mean, apart))


def _large_oracle(lam: Any, rate: Any) -> tuple[Any, Any]:
    """Run two rounds of three silos and compare distances."""
    estimates, models = [sp.Integer(x) for x in (1, 4, 7)], [sp.Integer(x) for x in (0, 2, 13)]

    def after(models: list[Any]) -> list[Any]:
        bar = sum(models) / 3
        return [w - rate * ((w - e) + lam * (w - bar)) for w, e in zip(models, estimates, strict=True)]

    first = after(models)
    second = after(first)
    moves = [[b - a for a, b in zip(x, y, strict=True)] for x, y in ((models, first), (first, second))]
    return sum(moves[1]) / sum(moves[0]), (moves[1][0] - moves[1][1]) / (moves[0][0] - moves[0][1])


register(
    Claim(
        id="mrmtl:large-lam",
        title="A large lam under gradient steps",
        place="Section 5, 'The case for mean-regularization'; Appendix E.2; Appendix H.2",
        statement="""lam to infinity may not recover FedAvg, as the regularisation term may dominate the gradient step.
            Judged for mean estimation: by what a step multiplies the mean model's distance from its end, and that
            between two silos.""",
        latex=r"w_{k}^{(t+1)}=w_{k}^{(t)}-\eta\left(g_{t}+\lambda\left(w_{k}^{(t)}-\bar{w}^{(t)}\right)\right)",
        kind="algorithm line",
        variables=(LAM, RATE),
        examples=({"lam": 3, "rate": "1/10"}, {"lam": 30, "rate": "1/10"}),
        printed=lambda lam, rate: (1 - rate, 1 - rate * (1 + lam)),
        derive=_large_derive,
        oracle=_large_oracle,
        not_computed=Exempt(kind="line"),
        not_simulated=Exempt(kind="deterministic"),
        entries=("factor of the mean model", "factor of differences between silos"),
        assumes={"pivot": "model", "noise": "reused", "clipping": "none"},
        unit="dimensionless",
        ours=True,
        related=("mrmtl:lem6.1:algA1", "mrmtl:best-advantage"),
        remark="""So the mean model always goes where FedAvg's goes, and the silos' models to their ends only for lam < 2/eta
            - 1; beyond it they fly apart, the faster the larger lam. With the learning rate that suits lam = 0 a large
            lam does not recover FedAvg.""",
    )
)
