"""AdaPeD's lines as printed: Algorithm 5 and Algorithm 6 (with local fine-tuning).

The model is binary logistic with one feature: f_i is the logistic loss of one sample, f^KD the divergence of the global
from the client's label probabilities on it. Exponentials are letters: E = exp(x theta), U = exp(x mu).

Belongs here: lines of the two boxes. Does not belong here: the objective (23) and the prior behind it
(distillation.py), privacy.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp

from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.dual import Dual, gradient
from theory.papers.generative.steps import (
    DETERMINISTIC,
    VARIANCE_STEP,
    letter,
    small_enough,
    variance_step_computed,
    variance_step_covered,
    variance_step_derive,
    variance_step_oracle,
)

LINE = Exempt(kind="line")

X = letter("x", "feature of the client's sample")
Y = letter("y", "its label", "choice", choices=(1, 0))
THETA = letter("theta", "the client's personal parameter")
MU = letter("mu", "its copy of the global parameter")
PSI = letter("psi", "its copy of the variance", "positive")
E = letter("E", "exp(x theta)", "positive")
U = letter("U", "exp(x mu)", "positive")
KD = letter("kd", "f^KD at the current models", "nonnegative")


def _loss(x: Any, y: int, theta: Any) -> Any:
    """Logistic loss of a sample."""
    return sp.log(1 + sp.exp((1 - 2 * y) * x * theta))


def _divergence(x: Any, theta: Any, mu: Any) -> Any:
    """KL(p_mu || p_theta) of the label of a sample."""
    p, q = (1 / (1 + sp.exp(-x * t)) for t in (mu, theta))
    return p * sp.log(p / q) + (1 - p) * sp.log((1 - p) / (1 - q))


def _log_ratio(expression: Any, x: Any, theta: Any, mu: Any, E: Any, U: Any) -> Any:
    """Letters for exponentials; log p/q - log (1-p)/(1-q) as x (mu - theta)."""
    letters = {sp.exp(x * theta): E, sp.exp(-x * theta): 1 / E, sp.exp(x * mu): U, sp.exp(-x * mu): 1 / U}
    replaced = expression.subs(letters)
    logs = sorted(replaced.atoms(sp.log), key=str)
    base = sp.Dummy("log_rest")  # log (1-p)/(1-q) = log (1+E)/(1+U)
    rules = {}
    for log in logs:
        argument = sp.cancel(sp.together(log.args[0]))
        is_rest = sp.cancel(argument - (1 + E) / (1 + U)) == 0
        rules[log] = base if is_rest else base + x * (mu - theta)
    return sp.cancel(sp.together(replaced.xreplace(rules)))


# --- gradients -------------------------------------------------------------------------------------------------------


def _alg5_printed(x: Any, y: int, theta: Any, mu: Any, psi: Any, E: Any, U: Any, kd: Any) -> tuple[Any, Any, Any]:
    """Lines 10, 12 and 14 with the gradients of the logistic model."""
    own, shared = E / (1 + E), U / (1 + U)
    grad_f, kd_theta = x * (own - y), x * (own - shared)
    kd_mu = x * shared * (1 - shared) * x * (mu - theta)
    return grad_f + kd_theta / (2 * psi), kd_mu / (2 * psi), 1 / (2 * psi) - kd / (2 * psi**2)


def _alg5_derive(x: Any, y: int, theta: Any, mu: Any, psi: Any, E: Any, U: Any, kd: Any) -> Derivation:
    d = Derivation()
    divergence = d.say("f^KD = KL(p_mu || p_theta) of the label:", _divergence(x, theta, mu))
    by_theta = sp.diff(_loss(x, y, theta), theta) + sp.diff(divergence, theta) / (2 * psi)
    by_mu = sp.diff(divergence, mu) / (2 * psi)
    value = sp.Symbol("value")
    by_psi = sp.diff(sp.log(2 * psi) / 2 + value / (2 * psi), psi).subs(value, kd)
    d.say("Slopes of (23) in theta and mu; the logarithms of both odds differ by x (mu - theta):")
    slopes = tuple(_log_ratio(s, x, theta, mu, E, U) for s in (by_theta, by_mu))
    return d.conclude("g, h and k:", (*slopes, by_psi))


def _terms(x: Any, y: int, E: Any, U: Any):
    """Loss and divergence as functions of dual numbers, without a product of two logarithms."""

    def loss(theta: Dual) -> Dual:
        return (1 + (theta * x).exp(E)).log() - theta * (fraction(x) * y)

    def divergence(theta: Dual, mu: Dual) -> Dual:
        # negative entropy of the global label minus its mean log-probability under the client's model
        own, shared = (theta * x).exp(E), (mu * x).exp(U)
        p = shared / (1 + shared)
        return p * (mu - theta) * x + (1 + own).log() - (1 + shared).log()

    return loss, divergence


def _alg5_oracle(x: Any, y: int, theta: Any, mu: Any, psi: Any, E: Any, U: Any, kd: Any) -> tuple[Any, Any, Any]:
    loss, divergence = _terms(x, y, E, U)

    def objective(t: Dual, m: Dual) -> Dual:
        return loss(t) + divergence(t, m) * (1 / (2 * fraction(psi)))

    def in_psi(v: Dual) -> Dual:
        return (v * 2).log() * Fraction(1, 2) + fraction(kd) / (v * 2)

    return (*gradient(objective, [theta, mu]), *gradient(in_psi, [psi]))


STATE = (X, Y, THETA, MU, PSI, E, U, KD)
EXAMPLE = {"x": 1, "y": 1, "theta": 0, "mu": 1, "psi": 1, "E": 1, "U": 3, "kd": "1/10"}

register(
    Claim(
        id="generative:alg5",
        title="AdaPeD: the clients' gradients",
        place="Section 3.4, Algorithm 5, lines 10, 12, 14",
        statement="""g, h and k are the slopes of (23) in theta_i, mu_i and psi_i. Judged for the binary logistic model with
            one sample, at any state: E = exp(x theta), U = exp(x mu).""",
        latex=r"""\bm{g}_{i}^{t}:=\nabla_{\bm{\theta}_{i}^{t}}f_{i}(\bm{\theta}_{i}^{t})+%
            \frac{\nabla_{\bm{\theta}_{i}^{t}}f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t},\bm{\mu}_{i}^{t})}{2\psi_{i}^{t}}%
            ;\ \bm{h}_{i}^{t}:=\frac{\nabla_{\bm{\mu}_{i}^{t}}f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t+1},\bm{\mu}_{i}^{t}%
            )}{2\psi_{i}^{t}};\ k_{i}^{t}:=\frac{1}{2\psi_{i}^{t}}-%
            \frac{f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t+1},\bm{\mu}_{i}^{t+1})}{2(\psi_{i}^{t})^{2}}""",
        kind="algorithm line",
        variables=STATE,
        examples=(EXAMPLE,),
        printed=_alg5_printed,
        derive=_alg5_derive,
        oracle=_alg5_oracle,
        not_computed=LINE,
        not_simulated=DETERMINISTIC,
        entries=("g", "h", "k"),
        unit="slopes of the objective",
        related=("generative:eq23",),
        remark="""They descend the stand-in log(2 psi)/2, not the prior's normaliser (generative:kd:regulariser). Line 4
            samples K^t from [n] where [m] is meant. psi can turn negative (generative:alg5:positive), and what the
            server averages is one step old (generative:alg5:server).""",
    )
)

MU0 = letter("mu0", "the global parameter received last, at time t'")
PSI0 = letter("psi0", "the variance received last, at time t'", "positive")


def _alg6_printed(
    x: Any, y: int, theta: Any, mu: Any, psi: Any, E: Any, U: Any, kd: Any, U0: Any, psi0: Any
) -> tuple[Any, ...]:
    stale = x * (E / (1 + E) - y) + x * (E / (1 + E) - U0 / (1 + U0)) / (2 * psi0)
    return (stale, *_alg5_printed(x, y, theta, mu, psi, E, U, kd))


def _alg6_derive(
    x: Any, y: int, theta: Any, mu: Any, psi: Any, E: Any, U: Any, kd: Any, mu0: Any, U0: Any, psi0: Any
) -> Derivation:
    d = Derivation()
    objective = _loss(x, y, theta) + _divergence(x, theta, mu0) / (2 * psi0)
    d.say("An unsampled client holds mu and psi at what it received last and descends (23) in theta alone:", objective)
    stale = d.say("Slope:", _log_ratio(sp.diff(objective, theta), x, theta, mu0, E, U0))
    d.say("A sampled client's lines are those of Algorithm 5.")
    return d.conclude("g of line 10, then g, h, k of lines 13, 15, 17:",
                      (stale, *_alg5_derive(x, y, theta, mu, psi, E, U, kd).result))  # fmt: skip


def _alg6_oracle(
    x: Any, y: int, theta: Any, mu: Any, psi: Any, E: Any, U: Any, kd: Any, mu0: Any, U0: Any, psi0: Any
) -> tuple[Any, ...]:
    loss, divergence = _terms(x, y, E, U0)
    held = fraction(mu0)
    (stale,) = gradient(lambda t: loss(t) + divergence(t, Dual(held, Fraction(0))) * (1 / (2 * fraction(psi0))), [theta])
    return (stale, *_alg5_oracle(x, y, theta, mu, psi, E, U, kd))


register(
    Claim(
        id="generative:alg6",
        title="AdaPeD with fine-tuning: the clients' gradients",
        place="Section 6.2.2, Algorithm 6, lines 10, 13, 15, 17",
        statement="""Line 10 is the slope of (23) in theta_i at the mu and psi received last; lines 13, 15 and 17 are the
            slopes of (23) at the current copies. Judged as Algorithm 5, with U0 = exp(x mu0).""",
        latex=r"""\bm{g}_{i}^{t}:=\nabla_{\bm{\theta}_{i}^{t}}f_{i}(\bm{\theta}_{i}^{t})+%
            \frac{\nabla_{\bm{\theta}_{i}^{t}}f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t},\bm{\mu}_{i}^{t^{\prime}_{i}})}%
            {2\psi_{i}^{t^{\prime}_{i}}}\text{ where }t^{\prime}_{i}\text{ is the last time index where client }i%
            \text{ received global parameters from the server}""",
        kind="algorithm line",
        variables=(*STATE, MU0, letter("U0", "exp(x mu0)", "positive"), PSI0),
        examples=({**EXAMPLE, "mu0": -1, "U0": "1/3", "psi0": 2},),
        printed=_alg6_printed,
        derive=_alg6_derive,
        oracle=_alg6_oracle,
        not_computed=LINE,
        not_simulated=DETERMINISTIC,
        entries=("g, not sampled", "g, sampled", "h", "k"),
        unit="slopes of the objective",
        related=("generative:alg5",),
        remark="""A client that was never sampled has received nothing; its initial copies must serve. The server's lines
            20-22 are those of Algorithm 5 (generative:alg6:server).""",
    )
)

# --- the server ------------------------------------------------------------------------------------------------------

BEFORE = Variable(
    "mu_t", "real", "the K clients' copies of mu before their last update, mu_i^t", lengths=(1, 2), extreme=False
)
AFTER = Variable("mu_t1", "real", "the same after it, mu_i^(t+1)", lengths=(1, 2), extreme=False)
PSI_BEFORE = Variable("psi_t", "positive", "copies of psi before their last update", lengths=(1, 2), extreme=False)
PSI_AFTER = Variable("psi_t1", "positive", "copies of psi after it", lengths=(1, 2), extreme=False)


def _server_derive(mu_t1: list[Any], psi_t1: list[Any]) -> Derivation:
    d, m = Derivation(), sp.Symbol("mu", real=True)
    d.say("""When tau divides t + 1, the update of round t has just produced mu_i^(t+1) and psi_i^(t+1). The server's copies
        should be those closest to what the clients now hold, in mean square:""")  # fmt: skip
    results = []
    for values in (mu_t1, psi_t1):
        distance = sum((m - v) ** 2 for v in values)
        results.append(sp.solve(sp.diff(distance, m), m)[0])
    return d.conclude("their averages:", tuple(results))


def _server_oracle(mu_t: list[Any], mu_t1: list[Any], psi_t: list[Any], psi_t1: list[Any]) -> tuple[Any, Any]:
    """Carry out the last iteration: every client overwrites its copies, then the server takes a running mean."""
    found = []
    for before, after in ((mu_t, mu_t1), (psi_t, psi_t1)):
        copies = [fraction(v) for v in before]
        for i, v in enumerate(after):
            copies[i] += fraction(v) - copies[i]  # the step -eta h_i or -eta k_i
        mean = Fraction(0)
        for i, c in enumerate(copies, 1):
            mean += (c - mean) / i
        found.append(rational(mean))
    return found[0], found[1]


def _server_printed(mu_t: list[Any], psi_t: list[Any]) -> tuple[Any, Any]:
    return sum(mu_t) / sp.Integer(len(mu_t)), sum(psi_t) / sp.Integer(len(psi_t))


def _server_corrected(mu_t1: list[Any], psi_t1: list[Any]) -> tuple[Any, Any]:
    return sum(mu_t1) / sp.Integer(len(mu_t1)), sum(psi_t1) / sp.Integer(len(psi_t1))


LAST_STEP = "The server averages the copies from before each round's last update, so that this update is lost."

register(
    Claim(
        id="generative:alg5:server",
        title="AdaPeD: what the server averages",
        place="Section 3.4, Algorithm 5, lines 16-19",
        statement="""When tau divides t + 1, the clients send mu_i^t and psi_i^t and the server averages them: the round's
            learned copies. Judged for one and two sampled clients.""",
        latex=r"""\text{Clients send }\bm{\mu}_{i}^{t}\text{ and }\psi_{i}^{t}\text{ to Server};\ \bm{\mu}^{t+1}=\frac{1}{K}%
            \sum_{i\in\mathcal{K}^{t}}\bm{\mu}_{i}^{t}\text{ and }\psi^{t+1}=\frac{1}{K}\sum_{i\in\mathcal{K}^{t}}%
            \psi_{i}^{t}""",
        kind="algorithm line",
        variables=(BEFORE, AFTER, PSI_BEFORE, PSI_AFTER),
        examples=({"mu_t": [0, 0], "mu_t1": [1, 2], "psi_t": [1, 1], "psi_t1": [1, 2]},),
        printed=_server_printed,
        derive=_server_derive,
        oracle=_server_oracle,
        corrected=_server_corrected,
        corrected_text="mu_i^(t+1) and psi_i^(t+1) in both lines",
        slip="t for t + 1: the copies of index t are those from before the update that has just been made",
        counterexample={"mu_t": [0, 0], "mu_t1": [1, 2], "psi_t": [1, 1], "psi_t1": [1, 2]},
        not_computed=LINE,
        not_simulated=DETERMINISTIC,
        finding=LAST_STEP,
        entries=("mu", "psi"),
        unit="units of mu; variance",
        related=("generative:alg5",),
        remark="""With tau = 1 it is the only one, so the server gets back what it sent (line 7 sets mu_i^t = mu^t) and the
            global model never changes.""",
    )
)

register(
    Claim(
        id="generative:alg6:server",
        title="AdaPeD with fine-tuning: what the server averages",
        place="Section 6.2.2, Algorithm 6, lines 19-22",
        statement="Lines 19-22 send and average the copies of index t, as lines 16-19 of Algorithm 5 do. Judged as there.",
        latex=r"""\text{Clients send }\bm{\mu}_{i}^{t}\text{ and }\psi_{i}^{t}\text{ to Server};\ \bm{\mu}^{t+1}=\frac{1}{K}%
            \sum_{i\in\mathcal{K}^{t}}\bm{\mu}_{i}^{t}\text{ and }\psi^{t+1}=\frac{1}{K}\sum_{i\in\mathcal{K}^{t}}%
            \psi_{i}^{t}""",
        kind="algorithm line",
        variables=(BEFORE, AFTER, PSI_BEFORE, PSI_AFTER),
        examples=({"mu_t": [0, 0], "mu_t1": [1, 2], "psi_t": [1, 1], "psi_t1": [1, 2]},),
        printed=_server_printed,
        derive=_server_derive,
        oracle=_server_oracle,
        corrected=_server_corrected,
        corrected_text="mu_i^(t+1) and psi_i^(t+1) in both lines",
        slip="t for t + 1, as in Algorithm 5",
        counterexample={"mu_t": [0, 0], "mu_t1": [1, 2], "psi_t": [1, 1], "psi_t1": [1, 2]},
        not_computed=LINE,
        not_simulated=DETERMINISTIC,
        finding=LAST_STEP,
        entries=("mu", "psi"),
        unit="units of mu; variance",
        related=("generative:alg5:server", "generative:alg6"),
    )
)

# --- what the text says of the lines ---------------------------------------------------------------------------------

TAU = Variable("tau", "size", "synchronisation gap", extreme=False)


def _updates_derive(tau: Any) -> Derivation:
    d = Derivation()
    rounds = d.say("Lines 10-15 stand under no condition but i in K^t: every iteration updates. In two rounds:",
                   2 * tau)  # fmt: skip
    exchanges = d.say("Clients send where tau divides t + 1, which happens this often for t = 0, ..., T-1:", sp.Integer(2))
    return d.conclude("Updates between two exchanges:", rounds / exchanges)


def _updates_oracle(tau: Any) -> Any:
    """Run the box's control flow over three rounds and read off the updates in the middle one."""
    updates, found = 0, []
    for t in range(3 * int(tau)):
        updates += 1
        if (t + 1) % int(tau) == 0:
            found.append(updates)
            updates = 0
    return sp.Integer(found[1])


register(
    Claim(
        id="generative:alg5:updates",
        title="AdaPeD: updates per round",
        place="Section 3.4, Description of AdaPeD; Algorithm 5, lines 9-15",
        statement="""A sampled client updates when t + 1 is not divisible by tau, and uploads when it is: tau - 1 updates in
            a round. Judged by what Algorithm 5 does.""",
        latex=r"""\text{When }t+1\text{ is not divisible by }\tau\text{, if }i\in\mathcal{K}_{t}\text{, client }i%
            \text{ updates }\bm{\theta}_{i}^{t},\bm{\mu}_{i}^{t},\psi_{i}^{t}""",
        kind="algorithm line",
        variables=(TAU,),
        examples=({"tau": 10},),
        printed=lambda tau: tau - 1,
        derive=_updates_derive,
        oracle=_updates_oracle,
        corrected=lambda tau: tau,
        corrected_text="in every iteration: tau updates, the last before the upload",
        slip="the last iteration of a round is excepted in the text, though the box updates in it before the upload",
        counterexample={"tau": 1},
        not_computed=LINE,
        not_simulated=DETERMINISTIC,
        finding="The description and the box differ: the box makes one update more in each round.",
        unit="updates",
        related=("generative:alg5:server",),
        remark="""With the text's reading the upload of mu_i^t would be right, but with tau = 1 nothing were ever learned;
            Section 6.3 counts tau updates too.""",
    )
)

register(
    Claim(
        id="generative:alg5:positive",
        title="AdaPeD: psi stays positive",
        place="Section 3.4, Algorithm 5, lines 14-15; Algorithm 6, lines 17-18",
        statement="""The box applies the step for any rate eta_3, so the new psi must be a variance: not negative. Judged
            with psi as sigma2_theta, f^KD as Q and d = 1.""",
        latex=r"""k_{i}^{t}:=\frac{1}{2\psi_{i}^{t}}-\frac{f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t+1},\bm{\mu}_{i}^{t+1})}%
            {2(\psi_{i}^{t})^{2}};\ \psi_{i}^{t+1}=\psi_{i}^{t}-\eta_{3}k_{i}^{t}\ge0""",
        kind="lower bound",
        variables=VARIANCE_STEP,
        examples=({"d": 1, "sigma2_theta": 1, "Q": 1, "share": "1/2", "excess": 1, "small_rate": 1},),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=variance_step_derive,
        oracle=variance_step_oracle,
        computed=variance_step_computed,
        shifts=variance_step_covered,
        tight=Tight(at={"d": 1, "sigma2_theta": 1, "Q": 0, "share": 1, "excess": 1, "small_rate": 1}),
        condition=small_enough,
        condition_text="small_rate == 1 (eta_3 <= 2 psi^2 at every step)",
        counterexample={"d": 1, "sigma2_theta": 1, "Q": 0, "share": 0, "excess": 1, "small_rate": 0},
        not_simulated=DETERMINISTIC,
        finding="AdaPeD allows any rate for psi, but a step that is too long makes psi negative.",
        unit="variance",
        related=("generative:alg5",),
        remark="""While the models agree psi falls by eta_3/(2 psi) per step, faster and faster, and passes zero; then the
            distillation term changes its sign and drives the models apart. A penalty b/psi (generative:eq23:penalised)
            or the closed form generative:eq23:psi avoids it; the paper's experiments stop psi at 1/2
            (generative:exp:psi-floor).""",
    )
)
