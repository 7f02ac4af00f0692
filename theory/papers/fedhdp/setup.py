"""FedHDP, Appendix A.1, (6)-(21): the linear regression behind a client's estimate, and what clients send.

Belongs here: claims on a single client's estimate, loss and message. Does not belong here: what is made of the messages
(server.py, estimates.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import simplest, stationary_point
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Form, Group, mse
from theory.engine.registry import register
from theory.papers.fedhdp.federation import LAM, ONE_LEVEL_EXAMPLES
from theory.papers.shared import ALPHA2, GAMMA2, MODEL, N_P, ONE, TAU2, concrete

N_S = Variable("n_s", "positive", "F^T F = n_s I")
M_S = Variable("m_s", "positive", "samples of a client")


# --- (9): the local estimate -----------------------------------------------------------------------------------------

BETA2 = Variable("beta2", "positive", "variance of the noise of an observation")
ROWS = Variable("f", "positive", "the feature of each observation, one coefficient", lengths=(1, 2, 3))


def _eq9_derive(f: list[Any], beta2: Any) -> Derivation:
    d = Derivation()
    observations = [Group(f"observation {i}", ONE, sp.Integer(0), beta2, sp.Integer(0)) for i in range(len(f))]
    d.say("""Observation i is f_i phi_j + v_i, with v_i of variance beta2. The least-squares estimate is the sum of f_i x_i
        over the sum of f_i^2; its error is the same sum of the v_i.""")  # fmt: skip
    error = Form(sp.Integer(0))
    for x, one in zip(f, observations, strict=True):
        error = error + (x / sum(y**2 for y in f)) * one.noise("e")
    return d.conclude("Its variance:", mse(error))


def _eq9_oracle(f: list[Any], beta2: Any) -> Any:
    """Gauss-Markov, from the least of all unbiased combinations: one equation per weight with a multiplier."""
    n = len(f)
    rows = [[beta2 if i == k else 0 for k in range(n)] + [f[i]] for i in range(n)] + [[*f, 0]]
    solution = sp.Matrix(rows).LUsolve(sp.Matrix([0] * n + [1]))
    return sum(beta2 * w**2 for w in solution[:n])


def _eq9_computed(f: list[float], beta2: float) -> float:
    """An observation over its feature is an estimate of variance beta2/f^2; precisions add up."""
    return float(aggregation.least_variance([beta2 / x**2 for x in f]))


def _eq9_simulate(f: list[float], beta2: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = np.asarray(f)
        responses = np.sqrt(beta2) * gen.standard_normal((reps, len(f)))  # around f_i phi_j, with phi_j = 0
        return ((responses @ x / (x @ x)) ** 2)[:, None]

    return simulation.sample_means(draw, ["squared error of the estimate"])


register(
    Claim(
        id="fedhdp:eq9",
        title="The local estimate's variance",
        place="Appendix A.1, (6), (8), (9)",
        statement="""The least-squares estimate of a client's coefficients scatters around them with the covariance beta^2
            (F^T F)^-1. Judged for one coefficient.""",
        latex=r"\widehat{\phi}_j=(F_j^TF_j)^{-1}F_j^Tx_j,\qquad\widehat\phi_j\sim\mathcal N(\phi_j,\beta^2(F_j^TF_j)^{-1})",
        kind="identity",
        variables=(ROWS, BETA2),
        examples=({"f": [1, 2], "beta2": 3}, {"f": [1, 1, 2], "beta2": "1/2"}),
        printed=lambda f, beta2: beta2 / sum(x * x for x in f),
        derive=_eq9_derive,
        oracle=_eq9_oracle,
        computed=_eq9_computed,
        simulate=_eq9_simulate,
        assumes={"given": "parameters", "clipping": "none"},
        unit="variance",
        model=("LeastCentre",),
    )
)


# --- (10): the loss and what it does to lambda ---------------------------------------------------------------------

N_S = Variable("n_s", "positive", "F^T F = n_s I")
M_S = Variable("m_s", "positive", "samples of a client")


def _eq10_derive(n_s: Any, m_s: Any, lam: Any) -> Derivation:
    d = Derivation()
    t, y, theta, c = sp.symbols("t y theta c", real=True)
    loss = d.say(
        """With F^T F = n_s I, |F t - x|^2 = n_s (t - y)^2 + c where y is the least-squares estimate and c does not depend on
        t. So (8) is""",
        (n_s * (t - y) ** 2 + c) / m_s,
    )
    objective = d.say("and a client's objective with the penalty of (Local FedHDP obj.) is",
                      loss + lam * (t - theta) ** 2 / 2)  # fmt: skip
    best = d.say("Its minimiser is", stationary_point(objective, t))
    return d.conclude("The weight on the server's estimate theta is", simplest(sp.diff(best, theta)))


def _eq10_oracle(n_s: Any, m_s: Any, lam: Any) -> Any:
    """Explicit data: one feature f with m_s f^2 = n_s, responses all x; the objective's vertex from three values."""
    f2, x_over_f = n_s / m_s, sp.Rational(7, 3)

    def vertex(theta: Any) -> Any:
        # (1/m_s) sum (f t - x)^2 = f^2 (t - x/f)^2 for equal responses.
        value = [f2 * (t - x_over_f) ** 2 + lam * (t - theta) ** 2 / 2 for t in (-1, 0, 1)]
        return (value[0] - value[2]) / (2 * (value[0] + value[2] - 2 * value[1]))

    return vertex(sp.Integer(1)) - vertex(sp.Integer(0))


register(
    Claim(
        id="fedhdp:eq10",
        title="The loss as a squared distance to the local estimate",
        place="Appendix A.1, (8) to (10)",
        statement="""With F^T F = n_s I the loss (8) translates to half the squared distance to the local estimate. Judged by
            what it does: the weight lam/(1+lam) of the server's estimate in a client's solution.""",
        latex=r"""f_j(\phi)=\frac{1}{m_s}\|F_j\phi-x_j\|_2^2\ \to\ f_j(\phi)=\frac12\Big\|\phi-\frac1{n_s}\sum_{i=1}^{n_s}%
            x_{j,i}\Big\|_2^2""",
        kind="identity",
        variables=(N_S, M_S, LAM),
        examples=({"n_s": 1, "m_s": 1, "lam": 1}, {"n_s": 10, "m_s": 4, "lam": "1/2"}),
        printed=lambda lam: lam / (1 + lam),
        derive=_eq10_derive,
        oracle=_eq10_oracle,
        not_computed=Exempt(kind="refuted"),
        not_simulated=Exempt(kind="deterministic"),
        counterexample={"n_s": 1, "m_s": 1, "lam": 1},
        finding="""The squared loss becomes half the squared distance to the local estimate only if the divisor of the loss
            is twice the squared norm of the features; otherwise every pull strength of the paper is off by that factor.""",
        corrected=lambda n_s, m_s, lam: lam / (lam + 2 * n_s / m_s),
        corrected_text="""f_j = (n_s/m_s) |phi - phi_hat_j|^2 + const: with the loss (8) every lambda of the paper must be
            multiplied by 2 n_s/m_s.""",
        unit="dimensionless",
        remark="Also, the average of the n_s responses is the least-squares estimate only when F is a column of ones.",
    )
)


# --- (11)-(21): the message ------------------------------------------------------------------------------------------


def _eq11_derive(N_p: Any, gamma2: Any) -> Derivation:
    d = Derivation()
    group = Group("clients of the set", N_p, sp.Integer(0), sp.Integer(0), N_p * gamma2)
    d.say("Every client of a set of N adds its own noise, of variance N gamma2:", N_p * gamma2)
    return d.conclude("The average of the set's messages then carries noise of variance", mse((1 / N_p) * group.noise("l")))


def _eq11_oracle(N_p: Any, gamma2: Any) -> Any:
    """Concrete clients without spread: all that moves the average is their noise."""
    clients, levels = concrete([N_p], [gamma2], 0, 0)
    average = clients.weighted([sp.Rational(1, len(levels))] * len(levels), clients.message)
    return rational(clients.mse(average, clients.centre))


def _eq11_computed(N_p: float, gamma2: float) -> float:
    """The average of one set without spread; alpha2 = 0 is the limit of no scatter."""
    return float(aggregation.server_mse([N_p], [gamma2], 0.0, 0.0))


def _eq11_simulate(N_p: int, gamma2: float) -> simulation.Simulation:
    fed = simulation.federation([N_p], 0.0, 0.0, N_p * gamma2)
    average = [simulation.vector(1, a0=1.0)]
    return simulation.mean_squares(fed, 0, np.full(int(N_p), 1 / N_p), average, ["noise of the average"])


register(
    Claim(
        id="fedhdp:eq11",
        title="Noise added by clients, as the server sees it",
        place="Section 2; Appendix A.1, (11); Algorithms 1 and 3, psi line",
        statement="""When every client of a set of N_i adds noise of variance N_i gamma_i^2, the average of the set's
            messages has the privacy noise gamma_i^2 that the server wants.""",
        latex=r"\psi_j=\widehat\phi_j+l_j,\quad l_j\sim\mathcal N(0,N_i\gamma_i^2I_d)\ \Rightarrow\ \gamma_i^2",
        kind="identity",
        variables=(N_P, GAMMA2),
        examples=ONE_LEVEL_EXAMPLES,
        printed=lambda gamma2: gamma2,
        derive=_eq11_derive,
        oracle=_eq11_oracle,
        computed=_eq11_computed,
        simulate=_eq11_simulate,
        assumes={"clipping": "none"},
        unit="variance",
        related=("feo2:gamma-prop",),
        model=("Value(Server)",),
    )
)


def _eq21_derive(N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Derivation:
    d = Derivation()
    own = Group("own", ONE, tau2, alpha2, N_p * gamma2)
    d.say("A message is phi + p_j + e_j + l_j with independent terms of variance tau2, alpha2 and N_i gamma2_i.")
    return d.conclude("Its variance given phi:", mse(own.messages() - CENTRE))


def _eq21_oracle(N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Any:
    clients, _ = concrete([N_p], [gamma2], alpha2, tau2)
    return rational(clients.mse(clients.message[0], clients.centre))


def _eq21_simulate(N_p: int, alpha2: float, tau2: float, gamma2: float) -> simulation.Simulation:
    fed = simulation.federation([N_p], tau2, alpha2, N_p * gamma2)
    message = [simulation.vector(1, p=1.0, e=1.0, l=1.0)]
    return simulation.mean_squares(fed, 0, np.zeros(int(N_p)), message, ["scatter of a message"])


register(
    Claim(
        id="fedhdp:eq21",
        title="Variance of a client's message",
        place="Appendix A.1, (15), (18), (21); Appendix A.6, (59)",
        statement="Given phi, the message of a client in level i has the variance alpha^2 + tau^2 + N_i gamma_i^2.",
        latex=r"\Sigma_j=(\alpha^2+\tau^2+N_i\gamma_i^2)I_d=\sigma_{p_i}^2I_d",
        kind="identity",
        variables=(N_P, ALPHA2, TAU2, GAMMA2),
        examples=({"N_p": 3, "alpha2": 1, "tau2": "1/2", "gamma2": 2}, {"N_p": 2, "alpha2": 2, "tau2": 0, "gamma2": 1}),
        printed=lambda N_p, alpha2, tau2, gamma2: alpha2 + tau2 + N_p * gamma2,
        derive=_eq21_derive,
        oracle=_eq21_oracle,
        computed=lambda N_p, alpha2, tau2, gamma2: aggregation.message_variances([N_p], [gamma2], alpha2, tau2)[0],
        simulate=_eq21_simulate,
        assumes=MODEL,
        unit="variance",
        related=("fedhdp:eq9", "fedhdp:eq11"),
        model=("Value(Message)",),
    )
)
