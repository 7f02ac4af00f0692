"""The joint objective (18) with silo-specific strengths: its minimiser, and what that loses against Algorithm A1.

Belongs here: Appendix E.2 with lam_k. Does not belong here: equal strengths (setup.py), the algorithm (silo_algorithm.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import sympy as sp

from estimators.closed_forms import mean_regularized
from theory.engine import simulation
from theory.engine.algebra import cancelled, simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Form, mse, posterior
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    AVERAGED,
    ONE,
    SIGMA2_LOC_K,
    SILO,
    TAU2,
    UNEQUAL_ASSUMPTIONS,
    ZERO,
    as_fraction,
    concrete_unequal,
)
from theory.papers.mrmtl.silo_algorithm import LAM_K, all_alike, alpha, groups_of, impulses, plain

# --- (18) with silo-specific strengths --------------------------------------------------------------------------


def _joint_derive(lam_k: list[Any], k: int) -> Derivation:
    d = Derivation()
    count = len(lam_k)
    estimates = sp.symbols([f"w_hat_{j}" for j in range(count)], real=True)
    models = sp.symbols([f"w_{j}" for j in range(count)], real=True)
    mean = sum(models) / count
    total = sum((w - e) ** 2 / 2 + lam / 2 * (w - mean) ** 2 for w, e, lam in zip(models, estimates, lam_k, strict=True))
    slopes = tuple(sp.diff(total, w) for w in models)
    d.say("The sum of the h_j, each with its own strength, has the derivatives", slopes)
    d.say("They add up to sum w_j - sum w_hat_j: the penalties cancel, so w_bar is the uniform mean of the estimates.",
          simplest(sum(slopes)))  # fmt: skip
    pull, bar = sp.symbols("g w_bar", real=True)
    d.say(
        "With g = (1/K) sum_j lam_j (w_j - w_bar) the derivative by w_j is zero at (w_hat_j + lam_j w_bar + g)/(1 + lam_j)."
    )
    ends = [(e + lam * bar + pull) / (1 + lam) for e, lam in zip(estimates, lam_k, strict=True)]
    (force,) = sp.solve(sp.Eq(sum(ends) / count, bar), pull)
    d.say("Their mean is w_bar for g =", simplest(force))
    end = ends[k].subs(pull, force).subs(bar, sum(estimates) / count)
    return d.conclude("Weights of all estimates in w_k:", tuple(simplest(sp.diff(end, e)) for e in estimates))


def _joint_rows(lam_k: Sequence[Any]) -> list[list[Fraction]]:
    strengths, count = [as_fraction(x) for x in lam_k], len(lam_k)

    def minimiser(estimates: list[Fraction]) -> list[Fraction]:
        def total(w: list[Fraction]) -> Fraction:
            mean = sum(w) / count
            terms = ((x - e) ** 2 + lam * (x - mean) ** 2 for x, e, lam in zip(w, estimates, strengths, strict=True))
            return sum(terms, Fraction(0))

        return model.minimise(total, count)

    ends = [minimiser(e) for e in impulses(count)]
    return [[end[k] for end in ends] for k in range(count)]


def _joint_oracle(lam_k: list[Any], k: int) -> tuple[Any, ...]:
    return tuple(map(rational, _joint_rows(lam_k)[k]))


_EQ18 = r"""\underset{w_{k},k\in[K]}{\min}\frac{1}{K}\sum_{k=1}^{K}h_{k}(w_{k})\quad\text{with}\quad h_{k}(w)\triangleq
    F_{k}(w)+\frac{\lambda}{2}\|w-\bar{w}\|_{2}^{2},\ \bar{w}\triangleq\frac{1}{K}\sum_{k=1}^{K}w_{k}"""

register(
    Claim(
        id="mrmtl:eq18:silos",
        title="The joint minimiser of (18) with silo-specific strengths",
        place="Appendix E.2, (18), with Appendix E.4, Lemma 6.1, and Appendix E.5, (48)",
        statement="""Lemma 6.1 is stated for (18) too, and (48) takes it at lam_k. Judged: the weights of all estimates in
            silo k's model where all models minimise (18) together, each silo with its own lam_k.""",
        latex=_EQ18,
        kind="optimum",
        variables=(LAM_K, SILO),
        examples=({"lam_k": [1, 1, 1], "k": 0}, {"lam_k": [2, 2], "k": 1}, {"lam_k": [0, 1, 3], "k": 1}),
        printed=lambda lam_k, k: alpha(lam_k[k], len(lam_k), k),
        derive=_joint_derive,
        oracle=_joint_oracle,
        computed=lambda lam_k, k: tuple(mean_regularized.joint_weights(lam_k)[k]),
        condition=lambda lam_k: all_alike(lam_k),
        condition_text="all silos have the same strength",
        counterexample={"lam_k": [0, 1], "k": 0},
        corrected=lambda lam_k, k: tuple(
            sp.Rational(1, len(lam_k))
            + ((1 if j == k else 0) - 1 / (1 + x) / sum(1 / (1 + y) for y in lam_k)) / (1 + lam_k[k])
            for j, x in enumerate(lam_k)
        ),
        corrected_text="""w_bar + (w_hat_k - m)/(1 + lam_k), w_bar the uniform mean of the estimates, m their average with
            weights proportional to 1/(1 + lam_j)""",
        not_simulated=Exempt(kind="deterministic"),
        assumes={"pivot": "model", "noise": "reused", "clipping": "none"},
        edits=(
            Edit(
                printed=r"\frac{\lambda}{2}",
                read=r"\frac{\lambda_{k}}{2}",
                reason="Theorem E.5 lets each silo have its own strength",
            ),
        ),
        unit="dimensionless",
        related=("mrmtl:lem6.1:joint", "mrmtl:algA1:silos", "mrmtl:eq18:loss"),
        remark="""With unequal strengths the mean model is pulled too, so that Algorithm A1, which holds it fixed in each
            round, does not solve (18): it ends at m + (w_hat_k - m)/(1 + lam_k). Even a silo with lam_k = 0 is moved.
            Verified for 2 and 3 silos.""",
    )
)


def _loss_printed(sigma2_loc_k: list[Any], tau2: Any) -> Any:
    spread = [tau2 + s for s in sigma2_loc_k]
    return sum(spread) / sp.Integer(len(spread)) ** 2 - 1 / sum(1 / v for v in spread)


def _loss_derive(sigma2_loc_k: list[Any], tau2: Any) -> Derivation:
    d = Derivation()
    groups = groups_of(sigma2_loc_k, tau2)
    seen = [g.messages() for g in groups]
    bayes = [posterior(g.parameters(), seen).mean for g in groups]
    count = ONE / len(groups)
    d.say("""A silo's excess error is the mean square of its model minus its best estimate, with which the best estimate's
        own error is uncorrelated. Whatever the strengths, the minimiser of (18) has the uniform mean of the
        estimates as mean model (mrmtl:eq18:silos). So the mean over the silos of these differences is
        always""")  # fmt: skip
    middle = sum((count * b for b in bayes), Form(ZERO))
    uniform = sum((count * m for m in seen), Form(ZERO))
    least = d.say("the uniform mean minus the mean of the best estimates, with mean square", mse(uniform - middle))
    d.say("which the mean over the silos of the squares cannot fall below.")
    gaps, strengths = [], [s / tau2 for s in sigma2_loc_k]
    for k in range(len(groups)):
        weights = d.lemma("mrmtl:eq18:silos", f"at lam_j = sigma2_loc_j/tau2, silo {k}", lam_k=strengths, k=k)
        end = sum((w * m for w, m in zip(weights, seen, strict=True)), Form(ZERO))
        gaps.append(mse(end - bayes[k]))
    attained = d.say("the mean excess is", cancelled(count * sum(gaps)))
    d.say("It exceeds that bound by", cancelled(attained - least))
    return d.conclude("Least mean excess:", attained)


def _mean_excess(rows: Sequence[Sequence[Fraction]], sigma2_loc_k: Sequence[Any], tau2: Any) -> Fraction:
    """Mean over the silos of the errors of models with these weights, above the Bayes errors."""
    clients, total = concrete_unequal(sigma2_loc_k, tau2), Fraction(0)
    for row, target in zip(rows, clients.parameter, strict=True):
        end = clients.weighted(row, clients.message)
        total += clients.mse(end, target) - clients.posterior(target, clients.message)[1]
    return total / len(rows)


def _loss_oracle(sigma2_loc_k: list[Any], tau2: Any) -> Any:
    """The mean excess at these strengths, which is less than at strengths beside them."""
    if tau2 == 0:  # all models are the uniform mean
        count = len(sigma2_loc_k)
        return rational(_mean_excess([plain(count)] * count, sigma2_loc_k, tau2))
    strengths = [s / tau2 for s in sigma2_loc_k]
    least = _mean_excess(_joint_rows(strengths), sigma2_loc_k, tau2)
    for k in range(len(strengths)):
        for factor in (sp.Rational(2, 3), sp.Rational(3, 2)):
            beside = [x * factor if j == k else x for j, x in enumerate(strengths)]
            if not _mean_excess(_joint_rows(beside), sigma2_loc_k, tau2) > least:
                raise ArithmeticError("other strengths do as well")
    return rational(least)


def _loss_simulate(sigma2_loc_k: list[float], tau2: float) -> simulation.Simulation:
    # the same excess in every silo: the mean square of the uniform minus the weighted mean, whose centre cancels
    joint = mean_regularized.joint_weights([s / tau2 for s in sigma2_loc_k])[0]
    bayes = mean_regularized.silo_mmse_weights(0, sigma2_loc_k, tau2)
    return model.gap_of_rows(model.local_silos(tau2, sigma2_loc_k), 0, [joint, bayes], "joint minimiser minus Bayes error")


register(
    Claim(
        id="mrmtl:eq18:loss",
        title="What the joint minimiser of (18) loses at its best",
        place="Appendix E.2, (18), and Appendix E.5, completed; not in the paper",
        statement="""Whatever the strengths, the models that minimise (18) together have at least this error above the Bayes
            error, on average over the silos; lam_k = sigma2_loc_k/tau2 attains it, in every silo.""",
        latex=r"""\min_{\lambda_1,\ldots,\lambda_K}\frac1K\sum_k\left(\mathcal E_k-\mathcal E_k^{\mathrm{Bayes}}\right)=%
            \frac1{K^2}\sum_k(\tau^2+\tilde\sigma_k^2)-\Big(\sum_k\frac1{\tau^2+\tilde\sigma_k^2}\Big)^{-1}""",
        kind="optimum",
        variables=(SIGMA2_LOC_K, TAU2),
        examples=({"sigma2_loc_k": [2, "1/4", 12], "tau2": "1/4"}, {"sigma2_loc_k": [1, 5], "tau2": "1/2"}),
        printed=_loss_printed,
        derive=_loss_derive,
        oracle=_loss_oracle,
        not_computed=Exempt(kind="difference", of=("mrmtl:eq18:silos", "mrmtl:thmE.5:bayes")),
        simulate=_loss_simulate,
        ours=True,
        assumes={**AVERAGED, "pivot": "model"},
        unit="variance",
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:eq18:silos", "mrmtl:algA1:bayes", "mrmtl:mmse:loss"),
        remark="""Arithmetic minus harmonic mean of the silos' variances around theta, over K: zero only for equal silos. The
            same strengths make Algorithm A1 optimal (mrmtl:thmE.5:algA1); so for unequal silos the algorithm's end is
            better in every silo than the minimiser of the objective that it comes from. Verified for 2 and 3 silos.""",
    )
)
