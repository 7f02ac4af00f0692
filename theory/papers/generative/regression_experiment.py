"""Section 4: the linear-regression experiment, and whether its quoted numbers fit each other.

Belongs here: gains over local regression and FedAvg, the cost of not knowing the prior. Does not belong here: Theorem 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import regression
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import posterior_variance

# --- the gain over FedAvg --------------------------------------------------------------------------------------------

DIMENSION = Variable("d", "choice", "coefficients", choices=(50, 100))
EXCESS = Variable(
    "excess", "nonnegative", "error of FedAvg's model in mu, over sigma_theta^2 per coefficient; 0 when it has converged"
)
ROWS, DESIGN2 = sp.Integer(10), sp.Rational(1, 20)
PRIOR2, ERROR2, CENTRE2 = sp.Rational(1, 100), sp.Rational(1, 20), sp.Rational(1, 100)


def _say_regression(d: Derivation, dimension: int, prior2: Any, name: str) -> Any:
    """Least possible error of a regression with n < d rows and a N(., prior2 I) prior, averaged over the design."""
    d.say(f"""Given the design the Bayes error under {name} is prior2 (d - n + sum_i 1/(1 + prior2 lam_i/sigma2_x)), lam_i
        the n squared singular values of X.""")  # fmt: skip
    d.say("""This is convex in the lam_i, whose mean is d times the variance of a design entry, so by Jensen's inequality the
        average error is at least that of equal lam_i.""")  # fmt: skip
    informed = ROWS / (1 + prior2 * DESIGN2 * dimension / ERROR2)
    return d.say("Lower bound on the error:", prior2 * (dimension - ROWS + informed))


def _linreg_derive(d: int, excess: Any) -> Derivation:
    proof = Derivation()
    least = _say_regression(proof, d, PRIOR2, "the true prior")
    fed = proof.say("""A global model that is off mu by excess sigma2_theta per coefficient has the error d sigma2_theta (1 +
        excess) =""", d * PRIOR2 * (1 + excess))  # fmt: skip
    return proof.conclude("So the gain over the global model is at most", 1 - least / fed)


def _equal_rows(dimension: Any, prior2: Any) -> Any:
    """Bayes error of d orthogonal coefficients of which ROWS are observed, one by one."""
    noise = ERROR2 / (DESIGN2 * dimension)
    return sum(posterior_variance(prior2, [noise] if i < ROWS else []) for i in range(int(dimension)))


# Quoted gains over local regression and over FedAvg with what is behind their +-, and the cost of not knowing the prior.
LOCAL = {50: (sp.Rational(80, 1000), sp.Rational(8, 1000)), 100: (sp.Rational(92, 1000), sp.Rational(11, 1000))}
FEDAVG = {50: (sp.Rational(148, 1000), sp.Rational(12, 1000)), 100: (sp.Rational(123, 1000), sp.Rational(20, 1000))}
COST = {50: sp.Rational(1, 100), 100: sp.Rational(47, 1000)}


def _least_excess(d: int) -> Any:
    """Error of FedAvg's model in mu from which on the quoted gain over it is possible."""
    return _equal_rows(sp.Integer(d), PRIOR2) / (d * PRIOR2 * (1 - FEDAVG[int(d)][0])) - 1


def _design(d: int) -> np.ndarray:
    return np.sqrt(0.05 * d) * np.eye(10, d)


def _linreg_oracle(d: int, excess: Any) -> Any:
    return 1 - _equal_rows(sp.Integer(d), PRIOR2) / (d * PRIOR2 * (1 + excess))


def _linreg_computed(d: int, excess: float) -> float:
    return 1 - regression.posterior_mse(_design(int(d)), 0.01, 0.05) / (int(d) * 0.01 * (1 + excess))


register(
    Claim(
        id="generative:exp:linreg",
        title="Quoted gain of personalised regression over FedAvg",
        place="Section 4, Linear regression; Section 4.1",
        statement="""With m = 10000, n = 10, sigma_theta^2 = 0.01, sigma_x^2 = 0.05 and design entries of variance 0.05 the
            mean squared error falls by 14.8 +- 1.2 % (d = 50) and 12.3 +- 2.0 % (d = 100) against FedAvg. Judged, for
            the error of the coefficients (Theorem 6): the largest gain possible is at least that.""",
        latex=r"d=50:\ 14.8\pm1.2\%,\qquad d=100:\ 12.3\pm2.0\%",
        kind="number",
        variables=(DIMENSION, EXCESS),
        examples=({"d": 50, "excess": 0}, {"d": 50, "excess": "1/10"}, {"d": 100, "excess": "1/12"}),
        printed=lambda d: FEDAVG[int(d)][0],
        relation=">=",
        derive=_linreg_derive,
        oracle=_linreg_oracle,
        computed=_linreg_computed,
        not_simulated=Exempt(kind="arithmetic", note="drawn designs give gains of 6.4 % and 4.9 % for excess = 0, below it"),
        tight=Tight(at={"d": 50, "excess": "61/639"}),
        finding="A gain of that size over FedAvg is impossible once FedAvg has converged.",
        condition=lambda d, excess: excess >= _least_excess(d),
        condition_text="""excess >= 61/639 for d = 50 and >= 73/877 for d = 100 (FedAvg's own model is off mu by that share
            of sigma_theta^2 per coefficient: it has not converged)""",
        shifts=lambda d, excess: {excess: _least_excess(d) + sp.Symbol("more", nonnegative=True)},
        counterexample={"d": 50, "excess": 0},
        unit="share of FedAvg's error",
        related=("generative:thm6",),
        remark="""At most 6.67 % (d = 50) and 5 % (d = 100) against a global model that knows mu. With mn = 100000 rows a
            FedAvg that has converged is off by at most 0.2 %, so the quoted gains need one that has not, or another
            error: that of predictions on new rows falls by less still (2.1 % and 2.4 %). The text does not say which
            error is measured. The quoted cost of not knowing the prior (generative:exp:linreg:local) leaves an excess of
            at most 0.2.""",
    )
)


# --- the quoted numbers together -------------------------------------------------------------------------------------

MEASURE = Variable(
    "error",
    "choice",
    "what is measured: the squared error of coefficients, or of predictions of new responses",
    choices=("coefficients", "predictions"),
)


def _measured(coefficients: Any, error: str) -> Any:
    """Error of predictions on new rows from that of the coefficients."""
    return coefficients if error == "coefficients" else coefficients * DESIGN2 + ERROR2


def _say_together(proof: Derivation, d: int, error: str) -> tuple[Any, Any]:
    """At most the personalised error, at least that of any local estimate."""
    known = proof.say("With the prior known, the error is no more than that of taking mu for the coefficients:",
                      _measured(d * PRIOR2, error))  # fmt: skip
    most = proof.say("The alternating algorithm's is larger by the quoted cost at most:", known * (1 + COST[int(d)]))
    proof.say("""A local estimate does not know mu, whose coordinates are drawn from N(0, 0.01): a client's coefficients are
        then N(0, 0.01 + sigma2_theta) to it.""")  # fmt: skip
    least = _say_regression(proof, d, PRIOR2 + CENTRE2, "that prior")
    return most, proof.say("as the error that is measured:", _measured(least, error))


def _local_derive(d: int, error: str) -> Derivation:
    proof = Derivation()
    most, least = _say_together(proof, d, error)
    return proof.conclude("So the gain over local regression is at least", 1 - most / least)


def _order_derive(d: int, error: str) -> Derivation:
    proof = Derivation()
    most, least = _say_together(proof, d, error)
    fed = proof.say("FedAvg's error follows from the gain over it, at its upper end:", most / (1 - sum(FEDAVG[int(d)])))
    return proof.conclude("Over that of local regression it is at most", fed / least)


def _bounds(d: int, error: str) -> tuple[Any, Any]:
    """Both errors of orthogonal coefficients, one by one: none observed with mu known, ten observed without."""
    size = sp.Integer(d)
    known, local = sum(posterior_variance(PRIOR2, []) for _ in range(int(d))), _equal_rows(size, PRIOR2 + CENTRE2)
    if error == "predictions":
        known, local = known / 20 + sp.Rational(1, 20), local / 20 + sp.Rational(1, 20)
    return known + known * COST[int(d)], local


def _local_oracle(d: int, error: str) -> Any:
    most, least = _bounds(d, error)
    return (least - most) / least


def _order_oracle(d: int, error: str) -> Any:
    most, least = _bounds(d, error)
    gain, more = FEDAVG[int(d)]
    return most / least / (1 - gain - more)


def _bounds_computed(d: int, error: str) -> tuple[float, float]:
    most = regression.posterior_mse(np.zeros((1, int(d))), 0.01, 0.05)
    least = regression.posterior_mse(_design(int(d)), 0.02, 0.05)
    if error == "predictions":
        most, least = 0.05 * most + 0.05, 0.05 * least + 0.05
    return most * (1 + {50: 0.01, 100: 0.047}[int(d)]), least


def _local_computed(d: int, error: str) -> float:
    most, least = _bounds_computed(d, error)
    return 1 - most / least


def _order_computed(d: int, error: str) -> float:
    most, least = _bounds_computed(d, error)
    return most / least / (1 - {50: 0.160, 100: 0.143}[int(d)])


def _local_printed(d: int) -> Any:
    gain, more = LOCAL[int(d)]
    return gain + more


def _order_printed(d: int) -> Any:
    """With the ends of the quoted ranges that make it smallest."""
    (local, more), (fed, less) = LOCAL[int(d)], FEDAVG[int(d)]
    return (1 - local - more) / (1 - fed + less)


def _local_corrected(d: int, error: str) -> Any:
    least = (PRIOR2 + CENTRE2) * (d - ROWS + ROWS / (1 + (PRIOR2 + CENTRE2) * d))
    most = d * PRIOR2
    if error == "predictions":
        most, least = (most + 1) / 20, (least + 1) / 20
    return 1 - (1 + COST[int(d)]) * most / least


def _order_corrected(d: int, error: str) -> Any:
    return (1 - _local_corrected(d, error)) / (1 - sum(FEDAVG[int(d)]))


TOGETHER = ("means over the choice of mu, of clients and of designs",)

register(
    Claim(
        id="generative:exp:linreg:local",
        title="Quoted gain over local regression, with the quoted cost of not knowing the prior",
        place="Section 4, Linear regression; Section 4.1",
        statement="""The gain over local regression is 8.0 +- 0.8 % (d = 50) and 9.2 +- 1.1 % (d = 100), while not knowing
            the prior costs 1 % and 4.7 %. Judged: the least gain that this cost leaves is at most the quoted one.""",
        latex=r"d=50:\ 8.0\pm0.8\%,\ 1\%;\quad d=100:\ 9.2\pm1.1\%,\ 4.7\%",
        kind="number",
        variables=(DIMENSION, MEASURE),
        examples=({"d": 50, "error": "coefficients"},),
        printed=_local_printed,
        relation="<=",
        derive=_local_derive,
        oracle=_local_oracle,
        computed=_local_computed,
        corrected=_local_corrected,
        corrected_text="at least 44 % of the coefficients' error, or 20 % (d = 50) and 27 % (d = 100) of predictions'",
        counterexample={"d": 50, "error": "coefficients"},
        not_simulated=Exempt(kind="arithmetic"),
        finding="The quoted gain and the quoted cost contradict each other: the gain would have to be several times larger.",
        assumptions=TOGETHER,
        unit="share of local regression's error",
        related=("generative:thm6",),
        remark="With n = 10 rows for d coefficients a client sees nothing of d - n directions, and does not know mu there.",
    )
)

register(
    Claim(
        id="generative:exp:linreg:order",
        title="Quoted order of local regression and FedAvg",
        place="Section 4, Linear regression; Section 4.1",
        statement="""Gains of 8.0 % over local regression and 14.8 % over FedAvg (d = 50; 9.2 % and 12.3 % for d = 100) mean
            that FedAvg has at least 1.06 (1.00) times the error of local regression. Judged: the largest ratio that the
            quoted cost of not knowing the prior leaves is at least that.""",
        latex=r"8.0\pm0.8\%,\ 14.8\pm1.2\%\ (d=50);\quad 9.2\pm1.1\%,\ 12.3\pm2.0\%\ (d=100)",
        kind="number",
        variables=(DIMENSION, MEASURE),
        examples=({"d": 50, "error": "coefficients"},),
        printed=_order_printed,
        relation=">=",
        derive=_order_derive,
        oracle=_order_oracle,
        computed=_order_computed,
        corrected=_order_corrected,
        corrected_text="at most 0.67 (d = 50), 0.65 (d = 100) for the coefficients' error, 0.95, 0.85 for predictions'",
        counterexample={"d": 50, "error": "coefficients"},
        not_simulated=Exempt(kind="arithmetic"),
        finding="With ten rows for fifty coefficients local regression cannot beat FedAvg, as the quoted gains imply.",
        assumptions=TOGETHER,
        unit="ratio of mean squared errors",
        related=("generative:thm6", "generative:exp:linreg:local"),
        remark="A FedAvg that has converged has 5/9 (d = 50) and 15/28 (d = 100) of the error of any local estimate.",
    )
)
