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
from theory.engine.registry import register
from theory.papers.generative.dual import Dual, gradient
from theory.papers.generative.steps import letter, register_variance_step

LINE = "lines of an algorithm that estimators does not offer"
DETERMINISTIC = "deterministic, given the sampled clients"

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
        statement="g, h and k are the slopes of (23) in theta_i, mu_i and psi_i. Judged for the binary logistic model with "
        "one sample, at any state: E = exp(x theta), U = exp(x mu).",
        latex=r"\bm{g}_{i}^{t}:=\nabla_{\bm{\theta}_{i}^{t}}f_{i}(\bm{\theta}_{i}^{t})+\frac{\nabla_{\bm{\theta}_{i}^{t}}f^{"
        r"\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t},\bm{\mu}_{i}^{t})}{2\psi_{i}^{t}};\ \bm{h}_{i}^{t}:=\frac{\nabla_{\bm{"
        r"\mu}_{i}^{t}}f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t+1},\bm{\mu}_{i}^{t})}{2\psi_{i}^{t}};\ k_{i}^{t}:=\frac{1}{2"
        r"\psi_{i}^{t}}-\frac{f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t+1},\bm{\mu}_{i}^{t+1})}{2(\psi_{i}^{t})^{2}}",
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
        remark="They descend the stand-in log(2 psi)/2, not the prior's normaliser (generative:kd:regulariser). Line 4 "
        "samples K^t from [n] where [m] is meant. psi can turn negative (generative:alg5:positive), and what the server "
        "averages is one step old (generative:alg5:server).",
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
        statement="Line 10 is the slope of (23) in theta_i at the mu and psi received last; lines 13, 15 and 17 are the "
        "slopes of (23) at the current copies. Judged as Algorithm 5, with U0 = exp(x mu0).",
        latex=r"\bm{g}_{i}^{t}:=\nabla_{\bm{\theta}_{i}^{t}}f_{i}(\bm{\theta}_{i}^{t})+\frac{\nabla_{\bm{\theta}_{i}^{t}}f^{"
        r"\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t},\bm{\mu}_{i}^{t^{\prime}_{i}})}{2\psi_{i}^{t^{\prime}_{i}}}\text{ where }t^{"
        r"\prime}_{i}\text{ is the last time index where client }i\text{ received global parameters from the server}",
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
        remark="A client that was never sampled has received nothing; its initial copies must serve. The server's lines "
        "20-22 are those of Algorithm 5 (generative:alg6:server).",
    )
)

# --- the server ------------------------------------------------------------------------------------------------------

BEFORE = Variable(
    "mu_t", "real", "the K = 2 clients' copies of mu before their last update, mu_i^t", lengths=(2,), extreme=False
)
AFTER = Variable("mu_t1", "real", "the same after it, mu_i^(t+1)", lengths=(2,), extreme=False)
PSI_BEFORE = Variable("psi_t", "positive", "copies of psi before their last update", lengths=(2,), extreme=False)
PSI_AFTER = Variable("psi_t1", "positive", "copies of psi after it", lengths=(2,), extreme=False)


def _server_derive(mu_t1: list[Any], psi_t1: list[Any]) -> Derivation:
    d, m = Derivation(), sp.Symbol("mu", real=True)
    d.say("When tau divides t + 1, the update of round t has just produced mu_i^(t+1) and psi_i^(t+1). The server's copies "
          "should be those closest to what the clients now hold, in mean square:")  # fmt: skip
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


for _id, _title, _place, _uses in (
    ("generative:alg5:server", "AdaPeD: what the server averages", "Section 3.4, Algorithm 5, lines 16-19",
     "generative:alg5"),
    ("generative:alg6:server", "AdaPeD with fine-tuning: what the server averages", "Section 6.2.2, Algorithm 6, lines "
    "19-22",
     "generative:alg6"),
):  # fmt: skip
    register(
        Claim(
            id=_id,
            title=_title,
            place=_place,
            statement="When tau divides t + 1, the clients send mu_i^t and psi_i^t and the server averages them: the "
            "round's learned copies. Judged for K = 2 sampled clients.",
            latex=r"\text{Clients send }\bm{\mu}_{i}^{t}\text{ and }\psi_{i}^{t}\text{ to Server};\ \bm{\mu}^{t+1}="
            r"\frac{1}{K}\sum_{i"
            r"\in\mathcal{K}^{t}}\bm{\mu}_{i}^{t}\text{ and }\psi^{t+1}=\frac{1}{K}\sum_{i\in\mathcal{K}^{t}}\psi_{i}^{t}",
            kind="algorithm line",
            variables=(BEFORE, AFTER, PSI_BEFORE, PSI_AFTER),
            examples=({"mu_t": [0, 0], "mu_t1": [1, 2], "psi_t": [1, 1], "psi_t1": [1, 2]},),
            printed=lambda mu_t, psi_t: (sum(mu_t) / sp.Integer(2), sum(psi_t) / sp.Integer(2)),
            derive=_server_derive,
            oracle=_server_oracle,
            corrected=lambda mu_t1, psi_t1: (sum(mu_t1) / sp.Integer(2), sum(psi_t1) / sp.Integer(2)),
            corrected_text="mu_i^(t+1) and psi_i^(t+1) in both lines",
            slip="t for t + 1: the copies of index t are those from before the update that has just been made",
            counterexample={"mu_t": [0, 0], "mu_t1": [1, 2], "psi_t": [1, 1], "psi_t1": [1, 2]},
            not_computed=LINE,
            not_simulated=DETERMINISTIC,
            entries=("mu", "psi"),
            unit="units of mu; variance",
            related=(_uses,),
            remark="Taken literally the last update of every round is lost. With tau = 1 it is the only one, so the server "
            "gets back what it sent (line 7 sets mu_i^t = mu^t) and the global model never changes.",
        )
    )

register_variance_step(
    claim_id="generative:alg5:positive",
    title="AdaPeD: psi stays positive",
    place="Section 3.4, Algorithm 5, lines 14-15; Algorithm 6, lines 17-18",
    statement="The box applies the step for any rate eta_3, so the new psi must be a variance: not negative. Judged with "
    "psi as sigma2_theta, f^KD as Q and d = 1.",
    latex=r"k_{i}^{t}:=\frac{1}{2\psi_{i}^{t}}-\frac{f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t+1},\bm{\mu}_{i}^{t+1})}{2("
    r"\psi_{i}^{t})^{2}};\ \psi_{i}^{t+1}=\psi_{i}^{t}-\eta_{3}k_{i}^{t}\ge0",
    related=("generative:alg5",),
    remark="While the models agree psi falls by eta_3/(2 psi) per step, faster and faster, and passes zero; then the "
    "distillation term changes its sign and drives the models apart. A penalty b/psi (generative:eq23:penalised) or the "
    "closed form generative:eq23:psi avoids it.",
)
