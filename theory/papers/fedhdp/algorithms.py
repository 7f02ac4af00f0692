"""FedHDP, the algorithms line by line: Algorithms 1-3 and Lemma 4.

Belongs here: what printed lines compute when they are executed in order. Does not belong here: optimal parameters.
`GROUPS` also judges FeO2's Algorithm 1, which is Algorithm 2 with two groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq, Or

from theory.engine import simulation
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Form, Group, covariance
from theory.engine.registry import register
from theory.papers.shared import (
    GAMMA2_1,
    GAMMA2_2,
    MODEL,
    N1,
    N2,
    N_NP,
    N_P,
    ONE,
    SIGMA2_C,
    precision_weights,
    scatter,
)

ZERO = sp.Integer(0)
LAM = Variable("lam", "nonnegative", "strength of the pull towards the server's estimate", extreme=False)
START = Variable("theta_j", "real", "the client's personal model before the step", extreme=False)
GLOBAL = Variable("theta_0", "real", "the global model received by the client", extreme=False)
XBAR = Variable("x_bar", "real", "average of the client's observations, its local estimate", extreme=False)
R = Variable("r", "nonnegative", "weight of a private message over that of a non-private one", extreme=False)


# --- Algorithms 1 and 3 ----------------------------------------------------------------------------------------------


def _lines_printed(theta_j: Any, theta_0: Any, x_bar: Any, lam: Any) -> Any:
    """theta <- theta^0, theta <- theta - eta (theta - x_bar) with eta = 1, then the personal line with eta_j = 1/(1+lam)."""
    theta = theta_0
    theta = theta - (theta - x_bar)
    return theta_j - ((theta_j - x_bar) + lam * (theta_j - theta)) / (1 + lam)


def _lines_corrected(theta_j: Any, theta_0: Any, x_bar: Any, lam: Any) -> Any:
    return theta_j - (lam * (theta_j - theta_0) + (theta_j - x_bar)) / (1 + lam)


def _personal_derive(theta_j: Any, theta_0: Any, x_bar: Any, lam: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", real=True)
    objective = d.say("The client's objective (Local FedHDP obj.) pulls towards the received global model:",
                      (t - x_bar) ** 2 / 2 + lam * (t - theta_0) ** 2 / 2)  # fmt: skip
    d.say("Its curvature is 1 + lam, so a gradient step of 1/(1 + lam) from anywhere lands on the minimiser:")
    step = theta_j - sp.diff(objective, t).subs(t, theta_j) / (1 + lam)
    return d.conclude("which is", sp.simplify(step))


def _personal_oracle(theta_j: Any, theta_0: Any, x_bar: Any, lam: Any) -> Any:
    """The vertex of the objective from three of its values."""
    left, middle, right = ((t - x_bar) ** 2 + lam * (t - theta_0) ** 2 for t in (-1, 0, 1))
    return sp.nsimplify((left - right) / (2 * (left + right - 2 * middle)))


CLIENT_LINES: dict[str, Any] = {
    "statement": """Executed in the printed order with eta = 1 and eta_j = 1/(1+lam), the client's lines return the
        personalised estimate (x_bar + lam theta_0)/(1 + lam) for the received global model theta_0.""",
    "latex": r"""\theta\leftarrow\theta^0;\ \theta\leftarrow\theta-\eta\Big(\theta-\frac1{n_s}\sum_ix_{j,i}\Big)%
        ;\ \theta_j^*\leftarrow\theta_j-\eta_j\Big(\Big(\theta_j-\frac1{n_s}\sum_ix_{j,i}\Big)+\lambda_j(\theta_j-%
        \theta)\Big)""",
    "kind": "algorithm line",
    "variables": (START, GLOBAL, XBAR, LAM),
    "examples": ({"theta_j": 0, "theta_0": 1, "x_bar": 0, "lam": 1},),
    "printed": _lines_printed,
    "derive": _personal_derive,
    "oracle": _personal_oracle,
    "corrected": _lines_corrected,
    "corrected_text": "lambda_j (theta_j - theta^0) in the last line, as in Algorithm 2",
    "slip": """theta for theta^0: by then theta has been overwritten with the local estimate, so that lambda_j has no effect
        and every client ends with purely local learning""",
    "counterexample": {"theta_j": 0, "theta_0": 1, "x_bar": 0, "lam": 1},
    "not_computed": Exempt(kind="line"),
    "not_simulated": Exempt(kind="deterministic"),
    "assumes": {"clipping": "none"},
    "finding": """The last line pulls towards the client's own local estimate instead of the received global model, so that
        the pull has no effect.""",
    "unit": "as the estimate",
    "related": ("fedhdp:lemma4",),
    "remark": """The server's lines and the noise N(0, (1 - rho_np) N gamma2) of private clients are right (see
        fedhdp:lemma6:var). One round alone cannot personalise: the global model is formed after the clients' step, so
        the lines must be run again, or personalisation must follow the aggregation.""",
}
register(
    Claim(
        id="fedhdp:alg1",
        title="Algorithm 1, linear regression: the client's lines as printed",
        place="Section 3.1, Algorithm 1",
        **CLIENT_LINES,
    )
)
register(
    Claim(
        id="fedhdp:alg3",
        title="Algorithm 3, point estimation: the client's lines as printed",
        place="Appendix B, Algorithm 3",
        **CLIENT_LINES,
    )
)


# --- Algorithm 2 (and FeO2's Algorithm 1) ------------------------------------------------------------------------------

Z = Variable("z", "positive", "noise multiplier of the private group")
S = Variable("S", "positive", "clipping norm")
SHORT = Variable("norm", "fraction", "the update's norm as a share of S, or S as a share of the norm", extreme=False)
INSIDE = Variable("inside", "choice", "1: the update's norm is `norm` times S; 0: it is S over `norm`", choices=(1, 0))
B = Variable("b", "fraction", "fraction of clients whose update is within S", closed=True)
KAPPA = Variable("kappa", "fraction", "target quantile", closed=True)
ETA_B = Variable("eta_b", "positive", "rate of the adaptive clipping")


def _groups_printed(N_np: Any, N_p: Any, r: Any, z: Any, S: Any, norm: Any, inside: int, b: Any, kappa: Any, eta_b: Any):
    w_np, w_p = N_np / (N_np + r * N_p), r * N_p / (N_np + r * N_p)
    length = norm * S if inside else S / norm
    clipped = length * S / (S if inside else length)  # S/max(norm, S)
    return w_np / N_np, w_p / N_p, w_p**2 * (z * S / N_p) ** 2, clipped, -eta_b * (b - kappa)


def _groups_derive(N_np: Any, N_p: Any, r: Any, z: Any, S: Any, norm: Any, inside: int, b: Any, kappa: Any, eta_b: Any):
    d = Derivation()
    total = d.say("""A private message has r times the weight of a non-private one, and all weights add to one; so with
        total""", N_np + r * N_p)  # fmt: skip
    weights = (1 / total, r / total)
    group = Group("noise", ONE, ZERO, ZERO, (z * S / N_p) ** 2)
    d.say("""Removing a client from the private group's average of N_p updates (its update counted as zero) moves it by at
        most S/N_p; multiplier z means noise of standard deviation z S/N_p:""", group.nu2)  # fmt: skip
    noise = covariance(form := (N_p * weights[1]) * group.noise("l"), form)
    d.say("Projection on the ball of radius S leaves a shorter update as it is and brings a longer one to the norm S.")
    clipped = S * (norm if inside else 1)
    d.say("The geometric update of Andrew et al. moves log S against the excess of clients within S over kappa.")
    return d.conclude(
        "Weight of a non-private and of a private message, noise variance in the update, norm after Clip, step of log S:",
        (*weights, noise, clipped, eta_b * (kappa - b)),
    )


def _groups_oracle(N_np: Any, N_p: Any, r: Any, z: Any, S: Any, norm: Any, inside: int, b: Any, kappa: Any, eta_b: Any):
    """Concrete clients: weights by normalising, noise spread as independent noise of variance (zS)^2/N_p per client."""
    raw = [1] * int(N_np) + [r] * int(N_p)
    total = sum(raw)
    each = (z * S) ** 2 / N_p
    clients = Clients([0] * len(raw), [0] * len(raw), [0] * int(N_np) + [each] * int(N_p))
    average = clients.weighted([x / total for x in raw], clients.message)
    noise = rational(clients.mse(average, clients.centre))
    length = S * norm ** (1 if inside else -1)
    return raw[0] / total, raw[-1] / total, noise, min(length, S), -eta_b * b + eta_b * kappa


def _groups_simulate(N_np: int, N_p: int, r: float, z: float, S: float, b: float, kappa: float,
                     eta_b: float) -> simulation.Simulation | None:  # fmt: skip
    """Updates with own spread 1 show the weights, noise of private ones the noise, clipped ones the mean step of log S."""
    if r == 0 or not 0 < b < 1:
        return None
    raw = np.repeat([1.0, r], [N_np, N_p])
    w = raw / raw.sum()

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        updates = gen.standard_normal((reps, N_np + N_p))
        noise = z * S / np.sqrt(N_p) * gen.standard_normal((reps, N_p))
        moved = np.concatenate([np.zeros((reps, N_np)), noise], axis=1) @ w
        total = updates @ w + moved
        inside = gen.random(reps) < b
        return np.column_stack([updates[:, 0] * total, updates[:, -1] * total, moved**2, eta_b * (kappa - inside)])

    names = ("weight, non-private", "weight, private", "noise in the update", "step of log S")
    return simulation.sample_means(draw, names, of=(0, 1, 2, 4))


GROUPS: dict[str, Any] = {
    "statement": """Per group: average, noise of standard deviation z S/N_p; the groups' averages weighed by N_np/(N_np + r
        N_p) and r N_p/(N_np + r N_p); Clip; the update of S. Judged on weights per message, noise variance, norm after
        Clip and expected step of log S.""",
    "kind": "algorithm line",
    "variables": (N_NP, N_P, R, Z, S, SHORT, INSIDE, B, KAPPA, ETA_B),
    "examples": (
        {
            "N_np": 2,
            "N_p": 3,
            "r": "1/2",
            "z": 1,
            "S": 2,
            "norm": "1/2",
            "b": "3/4",
            "kappa": "1/2",
            "eta_b": 1,
            "inside": 1,
        },
        {"N_np": 1, "N_p": 3, "r": 1, "z": 2, "S": 1, "norm": "1/3", "b": "1/4", "kappa": "1/2", "eta_b": 1, "inside": 0},
    ),
    "printed": _groups_printed,
    "derive": _groups_derive,
    "oracle": _groups_oracle,
    "not_computed": Exempt(kind="line"),
    "assumes": {"adjacency": "zero-out", "divisor": "fixed", "clipping": "any", "noise": "fresh"},
    "simulate": _groups_simulate,
    "entries": ("weight, non-private", "weight, private", "noise variance", "norm after Clip", "step of log S"),
    "unit": "mixed",
    "related": ("fedhdp:dp-noise",),
}
"""What FedHDP's Algorithm 2 with two groups and FeO2's Algorithm 1 have in common: everything but the place."""
register(
    Claim(
        id="fedhdp:alg2",
        title="Algorithm 2: the lines of the general algorithm",
        place="Section 4, Algorithm 2",
        latex=r"""z_j^t\leftarrow z_j\frac{S^t}{N_j^t};\ \triangle\tilde\theta_j^t\leftarrow\frac1{N_j^t}%
            \sum_{c_i\in\mathcal C_j^t}\triangle\theta_i^t+\mathcal N(0,(z_j^t)^2I);\ S^{t+1}\leftarrow
            S^te^{-\eta_b((\frac1{N^t}\sum b_i^t+\mathcal N(0,z_b^2\frac1{N^t}^2))-\kappa)};\ \mathrm{Clip}(\theta,S)=%
            \theta\frac{S}{\max(\|\theta\|_2,S)}""",
        remark="""Judged for two groups, the first without noise. The personal line uses theta^0 and is right (Algorithms 1
            and 3 are not). Two things the box leaves open: S/N_j is the sensitivity when a removed client counts as zero
            with the divisor fixed (replacing one needs 2S), and the noisy count of clipped clients spends budget too.""",
        **GROUPS,
    )
)


# --- Lemma 4 -----------------------------------------------------------------------------------------------------------

FRESH = Variable(
    "fresh_noise",
    "choice",
    """0: every client adds the same noise value in every round, as the proof assumes; 1: new noise each round, as the
    algorithm is written""",
    choices=(0, 1),
    default=0,
)


def _lemma4_printed(theta_0: Any, x_bar: Any, lam: Any) -> tuple[Any, Any, Any]:
    return x_bar, (x_bar + lam * theta_0) / (1 + lam), ZERO


def _lemma4_derive(theta_j: Any, theta_0: Any, x_bar: Any, lam: Any, N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any,
                   gamma2_2: Any, fresh_noise: int) -> Derivation:  # fmt: skip
    d = Derivation()
    local = d.say("The global line with eta = 1:", sp.expand(theta_0 - 1 * (theta_0 - x_bar)))
    personal = d.say("The personal line (54) with eta_p = 1/(1 + lam) and the received model theta_0:",
                     sp.simplify(theta_j - ((theta_j - x_bar) + lam * (theta_j - theta_0)) / (1 + lam)))  # fmt: skip
    d.say("""Neither depends on where it started, so one step suffices. The global estimate of the next round is the same
        average of x_bar_i plus noise; it is unchanged only if the noise is.""" if not fresh_noise else
          "Neither depends on where it started. But the global estimate of the next round carries new noise:")  # fmt: skip
    s = scatter([N1, N2], [gamma2_1, gamma2_2], sigma2_c)
    w = precision_weights([N1, N2], s)
    change = Form(ZERO)
    for i, (n, g, weight) in enumerate(zip((N1, N2), (gamma2_1, gamma2_2), w, strict=True), 1):
        for name, sign in (("old", -1), ("new", 1)):
            change = change + sign * weight * Group(f"{name} noise {i}", n, ZERO, ZERO, n * g).noise("l")
    moved = fresh_noise * covariance(change, change)
    return d.conclude("Local line, personal line, variance of the global estimate's change between rounds:",
                      (local, personal, moved))  # fmt: skip


def _lemma4_oracle(theta_j: Any, theta_0: Any, x_bar: Any, lam: Any, N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any,
                   gamma2_2: Any, fresh_noise: int) -> tuple[Any, Any, Any]:  # fmt: skip
    """Run the lines on numbers; the change of the average from 2N concrete noise terms."""
    theta = theta_0
    theta = theta - (theta - x_bar)
    for _ in range(2):
        theta_j = theta_j - ((theta_j - x_bar) + lam * (theta_j - theta_0)) / (1 + lam)
    if not fresh_noise:
        return theta, theta_j, ZERO
    noise = [N1 * gamma2_1] * int(N1) + [N2 * gamma2_2] * int(N2)
    half = [sigma2_c] * len(noise)
    w = Clients(half, [0] * len(noise), noise)
    weights = w.posterior(w.centre, w.message)[0]
    rounds = Clients([0] * (2 * len(noise)), [0] * (2 * len(noise)), noise + noise)
    before = rounds.weighted(weights, rounds.message[: len(noise)])
    after = rounds.weighted(weights, rounds.message[len(noise) :])
    return theta, theta_j, rational(rounds.mse(after, before))


def _lemma4_simulate(N1: int, N2: int, sigma2_c: float, gamma2_1: float, gamma2_2: float,
                     fresh_noise: int) -> simulation.Simulation | None:  # fmt: skip
    if not fresh_noise:
        return None
    noise = [N1 * gamma2_1, N2 * gamma2_2]
    s = np.array([sigma2_c + x for x in noise])
    w = 1 / s / (np.array([N1, N2]) / s).sum()
    fed = simulation.federation([N1, N2, N1, N2], 0.0, 0.0, [*noise, *noise])
    row = np.repeat([-w[0], -w[1], w[0], w[1]], [N1, N2, N1, N2])
    return simulation.mean_squares(fed, 0, row, [simulation.vector(1, a0=1.0)], ["change between rounds"], of=[2])


register(
    Claim(
        id="fedhdp:lemma4",
        title="Convergence with eta = 1 and eta_p = 1/(1+lambda)",
        place="Appendix A.4, Lemma 4, (53)-(54)",
        statement="""One step reaches the global and the local objective's solution, and later rounds leave the global
            estimate unchanged.""",
        latex=r"""\theta\leftarrow\theta-\eta(\theta-\hat\phi_j),\quad\theta_j\leftarrow\theta_j-\eta_p\big((\theta_j-\hat%
            \phi_j)+\lambda_j(\theta_j-\theta)\big)""",
        kind="algorithm line",
        variables=(START, GLOBAL, XBAR, LAM, N1, N2, SIGMA2_C, GAMMA2_1, GAMMA2_2, FRESH),
        examples=(
            {"theta_j": 3, "theta_0": 1, "x_bar": 2, "lam": 1, "N1": 2, "N2": 2, "sigma2_c": 2, "gamma2_1": "1/2",
             "gamma2_2": 1, "fresh_noise": 1},
            {"theta_j": 0, "theta_0": 1, "x_bar": -1, "lam": "1/2", "N1": 1, "N2": 2, "sigma2_c": 1, "gamma2_1": 0,
             "gamma2_2": 1},
        ),
        printed=_lemma4_printed,
        derive=_lemma4_derive,
        oracle=_lemma4_oracle,
        condition=lambda fresh_noise, gamma2_1, gamma2_2: Or(
            Eq(fresh_noise, 0), sp.And(Eq(gamma2_1, 0), Eq(gamma2_2, 0))
        ),
        condition_text="fresh_noise == 0 (the privacy noise is drawn once and reused in every round) or there is no noise",
        entries=("local line", "personal line", "variance of the change of the global estimate"),
        not_computed=Exempt(kind="line"),
        assumes=MODEL,
        simulate=_lemma4_simulate,
        unit="as the estimate; variance",
        remark="""'Adding the noise results in the same psi_j' is true only if the noise is the same. With fresh noise the
            global estimate keeps moving; averaging rounds would then reduce the noise, at a privacy cost per round.""",
    )
)  # fmt: skip
