"""Algorithm 1 of Robust-HDP, line by line.

Belongs here: what the printed lines compute when they are executed in order. Does not belong here: how good robust PCA's
split is (table.py), the privacy accountant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms.aggregation import precision_weights
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.robusthdp.small_error import least_noise_weights

# --- lines 7-11 ---------------------------------------------------------------------------------------------------------

SIGMA2S = Variable("sigma2s", "positive", "noise variance of each client's update, per element", lengths=(2, 3))
P = Variable("p", "size", "elements of an update (model parameters)")


def _line_10(sigma2s: Sequence[Any], p: Any) -> tuple[Any, ...]:
    """1/||S_i||^2 over the sum of the same, with ||S_i||^2 = p sigma_hat_i^2."""
    inverse = [1 / (p * x) for x in sigma2s]
    return tuple(x / sum(inverse) for x in inverse)


def _lines_printed(sigma2s: Sequence[Any], p: Any) -> tuple[Any, ...]:
    w = _line_10(sigma2s, p)
    return (*w, sum(w), sum(x**2 * v for x, v in zip(w, sigma2s, strict=True)))


def _lines_derive(sigma2s: Sequence[Any], p: Any) -> Derivation:
    d = Derivation()
    n = len(sigma2s)
    w, level = sp.symbols(f"w_1:{n + 1}", real=True), sp.Symbol("mu", real=True)
    d.say("A column of M is one client's update, so the aggregate M w has the noise variance per element")
    noise = d.say("when the columns' noise is independent:", sum(x**2 * v for x, v in zip(w, sigma2s, strict=True)))
    d.say("It is convex in w, so on the weights that add to one it is least where its slopes in all w_i are one number mu:")
    found = [sp.solve(sp.diff(noise, x) - level, x)[0] for x in w]
    d.say("w_i =", tuple(found))
    mu = d.say("and mu follows from their sum:", sp.solve(sum(found) - 1, level)[0])
    best = tuple(simplest(x.subs(level, mu)) for x in found)
    d.say("A common factor of all sigma_i^2, such as p or r^2, cancels.")
    return d.conclude(
        "Weights, their sum, and the noise of the aggregate:",
        (*best, sp.simplify(sum(best)), simplest(noise.subs(dict(zip(w, best, strict=True))))),
    )


def _lines_oracle(sigma2s: Sequence[Any], p: Any) -> tuple[Any, ...]:
    w = least_noise_weights(sigma2s)
    return (*w, sp.Integer(1), 1 / sum(1 / x for x in sigma2s))


def _lines_computed(sigma2s: Sequence[float], p: int) -> tuple[float, ...]:
    w = precision_weights(np.asarray(sigma2s) * p)
    return (*w, 1.0, float(w[0] * sigma2s[0]))


def _lines_simulate(sigma2s: Sequence[float], p: int) -> simulation.Simulation:
    n, precisions = len(sigma2s), 1 / np.asarray(sigma2s, float)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = np.sqrt(sigma2s) * gen.standard_normal((reps, p, n))
        return np.mean((noise @ precisions / precisions.sum()) ** 2, axis=1)[:, None]

    return simulation.sample_means(draw, labels=["noise of the aggregate"], of=[n + 1])


register(
    Claim(
        id="robusthdp:alg1",
        title="Algorithm 1, the server's lines",
        place="Section 3.3, Algorithm 1, lines 7-11",
        statement="""Columns of M are clients; the weights of line 10, from ||S_i||^2 without the 1/p of the text, add to one
            and, where ||S_i||^2 = p sigma_i^2, are the optimal weights of (8); line 11 then adds an update with the
            least noise.""",
        latex=r"""w_i^e \leftarrow \frac{1/\|\mathbf{S}_{:,i}\|_2^2}{\sum_{j \in \mathcal{S}^e} 1/\|\mathbf{S}_{:,j}\|_2^2}%
            ;\ \theta^{e+1} \leftarrow \theta^e + \sum_{i \in \mathcal{S}^e} w_i^e \Delta \tilde{\theta}_i^e""",
        kind="algorithm line",
        variables=(SIGMA2S, P),
        examples=({"sigma2s": [1, 4], "p": 5}, {"sigma2s": [1, 2, 5], "p": 3}),
        printed=_lines_printed,
        derive=_lines_derive,
        oracle=_lines_oracle,
        computed=_lines_computed,
        simulate=_lines_simulate,
        model=("BestWeights", "Value(Server)"),
        entries=("w_1, ..., w_n, their sum, noise variance of the aggregate per element",),
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless; variance",
        remark="""As printed the lines fail where a column of S is zero (then that client should get all the weight:
            estimators.server.robust_pca.aggregation_weights). Of the input, theta^0 is overwritten by line 1, and the
            step size eta_l, the deltas and the number of sampled clients are missing. The weights are functions of what
            clients send, so lines 7-11 spend no privacy.""",
    )
)

PARTICIPANTS = Variable(
    "participants", "choice", "numbers of the clients that take part in the round", choices=("1 2", "1 3", "2 3")
)


def _members(participants: str) -> list[int]:
    return [int(x) for x in participants.split()]


def _columns_derive(participants: str) -> Derivation:
    d = Derivation()
    members = _members(participants)
    d.say("Line 7 puts the updates of the clients of S^e side by side, so M and S have |S^e| columns:", len(members))
    order = d.say("in rising order of the clients' numbers:", tuple(sorted(members)))
    return d.conclude(
        "Client i's column is its place in that order:", tuple(sp.Integer(order.index(i) + 1) for i in members)
    )


def _columns_oracle(participants: str) -> tuple[Any, ...]:
    """Put labelled columns side by side and look for the label."""
    members = _members(participants)
    matrix = np.column_stack([np.full(2, i) for i in range(1, 4) if i in members])
    return tuple(sp.Integer(int(np.flatnonzero(matrix[0] == i)[0]) + 1) for i in members)


register(
    Claim(
        id="robusthdp:alg1:columns",
        title="Which column of S belongs to client i",
        place="Section 3.3, Algorithm 1, lines 7-10",
        statement="""For i in S^e line 10 reads column i of S. Judged for two of three clients: the columns read for the
            first and the second participant.""",
        latex=r"""\mathbf{M} = [\Delta \tilde{\theta}_1^e | \dots | \Delta
            \tilde{\theta}_{|\mathcal{S}^e|}^e];\ \mathbf{for}\ i\in\mathcal{S}^e\ \mathbf{do}\ w_i^e \leftarrow
            \frac{1/\|\mathbf{S}_{:,i}\|_2^2}{\ldots}""",
        kind="algorithm line",
        variables=(PARTICIPANTS,),
        examples=({"participants": "1 2"},),
        printed=lambda participants: tuple(sp.Integer(i) for i in _members(participants)),
        derive=_columns_derive,
        oracle=_columns_oracle,
        condition=lambda participants: sp.true if participants == "1 2" else sp.false,
        condition_text="participants == '1 2' (the participants are numbered 1 to |S^e|, as with full participation)",
        counterexample={"participants": "2 3"},
        not_computed=Exempt(kind="line"),
        not_simulated=Exempt(kind="deterministic"),
        entries=("column of the first participant", "column of the second participant"),
        unit="index",
        remark="""M's columns are renumbered 1 to |S^e| while lines 4-6 and 9-11 number clients 1 to n: with partial
            participation, S_{:,i} is another client's column or none. Meant is the column of client i. The output asks
            for eps_i^E of all n clients, which line 6 only computes for those that take part in the last round.""",
    )
)

ROUNDS = Variable("E", "size", "communication rounds")


def _rounds_derive(E: Any) -> Derivation:
    d = Derivation()
    d.say("Line 1 (and the input) sets theta^0, so round 1 must read theta^0 and write theta^1.")
    last = d.say("E rounds later the last model written is theta with index", E)
    return d.conclude("Index read first, index written last, and rounds in the last call of the accountant:",
                      (sp.Integer(0), last, E))  # fmt: skip


def _rounds_oracle(E: Any) -> tuple[Any, Any, Any]:
    """Run a loop of E rounds from index 0 and count."""
    index, done, first = 0, 0, None
    while done < E:
        first = index if first is None else first
        index, done = index + 1, done + 1
    return sp.Integer(first), sp.Integer(index), sp.Integer(done)


register(
    Claim(
        id="robusthdp:alg1:rounds",
        title="Rounds and indices of the models",
        place="Section 3.3, Algorithm 1, lines 1, 2, 5, 6 and 11, and its output",
        statement="""For e in [E] = {1, ..., E}: round e reads theta^e, accounts for e rounds, and writes theta^{e+1};
            initialised is theta_0 and returned is theta^E. Judged: first index read, last index written, rounds in the
            last accounting.""",
        latex=r"""\mathbf{for}\ e \in [E]\ \mathbf{do}\ \ldots\ \Delta \tilde{\theta}_i^e \leftarrow \text{DPSGD}(\theta^e,
            b_i, N_i, K_i, z_i, c);\ \epsilon_i^e \leftarrow \text{PA}(\frac{b_i}{N_i}, z_i, K_i, e);\ \theta^{e+1}
            \leftarrow \theta^e + \ldots""",
        kind="algorithm line",
        variables=(ROUNDS,),
        examples=({"E": 200},),
        printed=lambda E: (sp.Integer(1), E + 1, E),
        derive=_rounds_derive,
        oracle=_rounds_oracle,
        corrected=lambda E: (sp.Integer(0), E, E),
        corrected_text="theta^{e-1} in line 5 and theta^e <- theta^{e-1} + ... in line 11",
        slip="""theta^e and theta^{e+1} for theta^{e-1} and theta^e: as printed round 1 reads theta^1, which nothing has set,
            and theta^E is returned although the last round writes theta^{E+1}""",
        counterexample={"E": 1},
        not_computed=Exempt(kind="line"),
        not_simulated=Exempt(kind="deterministic"),
        entries=("first index read", "last index written", "rounds in the last accounting"),
        finding="As printed the first round reads a model that nothing has set, and what is returned lacks the last round.",
        unit="index",
        remark="""Theorem 2 counts e from 0 to E - 1. Reading line 2 so repairs the models but not the accountant: PA(..., e)
            would then report the loss of E - 1 rounds for a model that E rounds have trained, which understates it.""",
    )
)

__all__: list[str] = []
