"""What Robust-HDP's text says about the bound of Theorem 2: its step sizes, its terms, its limits, (12).

Belongs here: claims about the printed bound as a formula. Does not belong here: whether it is a bound (convergence.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq

from estimators.closed_forms import convergence
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.robusthdp.bound import added_up, factor, psi_p, psi_sigma
from theory.papers.robusthdp.model import ONE, ZERO

# --- the step-size conditions and the terms of (11) ---------------------------------------------------------------------

STEPS = Variable("steps", "size", "local gradient steps E_i of each client", lengths=(1, 2, 3))


def _step_derive(steps: Sequence[Any]) -> Derivation:
    d = Derivation()
    first = d.say("1/(beta eta)^2 at the first limit, for client 1:", (6 * steps[0]) ** 2)
    second = d.say("and at the second:", 144 * (1 + sum(steps)) * sum(k**4 for k in steps))
    return d.conclude("Ratio of the squared step sizes, first limit over second:", second / first)


def _step_oracle(steps: Sequence[Any]) -> Any:
    """Square the two limits themselves, with beta = 1."""
    first = 1 / (6 * steps[0])
    second = 1 / (12 * sp.sqrt((1 + sum(steps)) * sum(k**4 for k in steps)))
    return sp.nsimplify(first**2 / second**2)


register(
    Claim(
        id="robusthdp:thm2:step",
        title="The first step-size condition is implied by the second",
        place="Section 3.7, Theorem 2; what its two conditions amount to",
        statement="""Theorem 2 asks for eta <= 1/(6 beta E_i) for every i and eta <= 1/(12 beta sqrt((1 + sum E_i)(sum
            E_i^4))). The first limit is never below sqrt(8) times the second: judged, the squared ratio is at least 8.""",
        latex=r"""\eta_l \leq \frac{1}{6\beta E_i}\text{ and }\eta_l \leq
            \frac{1}{12\beta\sqrt{(1+\sum_{i=1}^n E_i)(\sum_{i=1}^n E_i^4)}}""",
        kind="lower bound",
        variables=(STEPS,),
        examples=({"steps": [1]}, {"steps": [2, 1]}, {"steps": [38, 75, 150]}),
        printed=lambda: sp.Integer(8),
        relation=">=",
        derive=_step_derive,
        oracle=_step_oracle,
        shifts=lambda steps: {k: 1 + sp.Symbol(f"e_{i}", nonnegative=True) for i, k in enumerate(steps)},
        computed=lambda steps: (1 / (6 * steps[0] * convergence.printed_step_limit(steps))) ** 2,
        not_simulated=Exempt(kind="deterministic"),
        ours=True,
        tight=Tight(at={"steps": [1]}, ratio="1"),
        unit="dimensionless",
        remark="""Equality with one client and one step. The second limit shrinks as 1/(n E_i^2.5): with 20 clients of 75
            steps each (2400 records in batches of 32) eta must be below 9e-8/beta; Figure 1 has eta_l = 0.01.""",
    )
)

M = Variable("m", "size", "clients that take part in a round")
LEFT = Variable("idle", "size", "clients beyond m + 1")
LIPSCHITZ = Variable("L0", "positive", "Lipschitz constant of the losses", extreme=False)
LOCAL = Variable("steps", "size", "local gradient steps, the same for every client")


QUIET = Variable(
    "quiet",
    "choice",
    """0: all clients are alike, participants weigh 1/m; 1: client 1 makes twice the steps and has hardly any noise, so that
    noise-aware weights go to it alone whenever it takes part""",
    choices=(0, 1),
    default=0,
)


def _participation_derive(m: Any, idle: Any, steps: Any, L0: Any, quiet: int) -> Derivation:
    d = Derivation()
    n = m + idle + 1
    k = sp.Symbol("m", positive=True)
    d.say("lambda_i = 1/n. A client is drawn with probability m/n.")
    if quiet:
        first = (k / n) * (1 - 1 / n) ** 2 + (1 - k / n) / n**2
        d.say("Client 1 weighs 1 when it is drawn, else 0: E[(w_1 - 1/n)^2] =", first)
        square, mean = (1 - k / n) / (k * (n - 1)), (1 - k / n) / (n - 1)
        other = d.say("Another one weighs 1/m when it is drawn and client 1 is not: E[(w_j - 1/n)^2] =",
                      square - 2 * mean / n + 1 / n**2)  # fmt: skip
        apart = n * (4 * steps**2 * first + (n - 1) * steps**2 * other)
        spread = d.say("mu is 2E with client 1 and E without it, so |lambda|^2 sum E[(E_i - mu)^2] =",
                       steps**2 * ((n - 1) * k / n + 1 - k / n) / n)  # fmt: skip
    else:
        d.say("""All make the same number of steps, so mu = E_i and the second sum of Psi_p is 0. A drawn client weighs 1/m:
            E[w_i] = 1/n and E[w_i^2] = 1/(m n).""")  # fmt: skip
        apart = n * steps**2 * n * d.say("E[(w_i - 1/n)^2] =", 1 / (k * n) - 1 / n**2)
        spread = ZERO
    value = d.say("Both, times 8 L_0^2/3:", sp.Rational(8, 3) * L0**2 * (apart + spread))
    return d.conclude("Psi_p at m, and its fall when one more client takes part in every round:",
                      (simplest(value.subs(k, m)), simplest(value.subs(k, m) - value.subs(k, m + 1))))  # fmt: skip


def _participation_oracle(m: Any, idle: Any, steps: Any, L0: Any, quiet: int) -> tuple[Any, Any]:
    """All subsets of clients enumerated, in the printed formula."""
    n = int(m + idle + 1)
    local = [2 * steps, *[steps] * (n - 1)] if quiet else [steps] * n

    def value(size: int) -> Any:
        subsets = list(itertools.combinations(range(n), size))
        chance = sp.Rational(1, len(subsets))
        used = [(0,) if quiet and 0 in s else s for s in subsets]
        weights = [(chance, [sp.Rational(i in s, len(s)) for i in range(n)]) for s in used]
        return psi_p(L0, local, [sp.Rational(1, n)] * n, weights)

    here, more = value(int(m)), value(int(m) + 1)
    return here, here - more


def _participation_simulate(m: int, idle: int, steps: int, L0: float, quiet: int) -> simulation.Simulation:
    n = m + idle + 1
    local = np.full(n, float(steps))
    if quiet:
        local[0] *= 2

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        w = (np.argsort(gen.random((reps, n)), axis=1) < m) / m
        if quiet:
            w[w[:, 0] > 0] = np.eye(n)[0]
        # the clients but the first are alike: one of them stands for all
        off = (local * (w - 1 / n)) ** 2
        apart = n * (off[:, 0] + (n - 1) * off[:, 1])
        spread = ((local - (w @ local)[:, None]) ** 2).sum(axis=1) / n
        return 8 / 3 * L0**2 * (apart + spread)[:, None]

    return simulation.sample_means(draw)


register(
    Claim(
        id="robusthdp:thm2:participation",
        title="Psi_p falls when more clients take part",
        place="Section 3.7, discussion of Theorem 2",
        statement="""Psi_p decreases when clients participate more often. Judged for m of n clients drawn uniformly per
            round, alike or with one that noise-aware weights prefer: Psi_p, and its fall from m to m + 1, are >= 0.""",
        latex=r"""\Psi_p\text{ decreases when clients participate more often and have similar number of data samples and use
            similar batch sizes}""",
        kind="order",
        variables=(M, LEFT, LOCAL, LIPSCHITZ, QUIET),
        examples=({"m": 2, "idle": 1, "steps": 2, "L0": 1}, {"m": 1, "idle": 3, "steps": 1, "L0": 2, "quiet": 1}),
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_participation_derive,
        oracle=_participation_oracle,
        not_computed=Exempt(kind="part", of=("robusthdp:thm2:weights",)),
        simulate=_participation_simulate,
        condition=lambda quiet: sp.true if quiet == 0 else sp.false,
        condition_text="quiet == 0 (the clients are alike, and participants weigh the same)",
        counterexample={"m": 1, "idle": 1, "steps": 1, "L0": 1, "quiet": 1},
        entries=("Psi_p", "its fall from m to m + 1"),
        tight=Tight(at={"m": 2, "idle": 1, "steps": 2, "L0": 1}, ratio="0"),
        unit="squared gradient norm",
        related=("robusthdp:thm2", "robusthdp:thm2:weights"),
        remark="""Psi_p = (8 L_0^2/3) n E_i^2 (1/m - 1/n) for equal clients. With Robust-HDP's own weights it can grow with
            m: the more often a quiet client takes part, the further the weights are from lambda. The term does not fall
            with the step size: with partial participation the bound keeps a floor of this size times 12/(11 E_min - 7)
            however long one trains, and so it does with weights 1/sigma_i^2 in place of lambda_i.""",
    )
)


FIRST = Variable("b", "positive", "batch size of client 1")
RECORDS = Variable("N", "positive", "records of client 1")
TIMES = Variable("t", "positive", "batch size of client 2 over that of client 1", extreme=False)
UNLIKE = Variable("s", "positive", "records of client 2 over those of client 1, minus 1, where they are more similar",
                  extreme=False)  # fmt: skip


def _unlike(b: Any, N: Any, t: Any, ratio: Any, L0: Any) -> Any:
    """Psi_p of two clients with full participation, K = 1, and the weights of (8) with sigma_i^2 as N_i/b_i^3."""
    steps = [N / b, ratio * N / (t * b)]
    quiet = [b**3 / N, (t * b) ** 3 / (ratio * N)]
    weights = [x / sum(quiet) for x in quiet]
    return psi_p(L0, steps, [1 / (1 + ratio), ratio / (1 + ratio)], [(ONE, weights)])


def _similar_derive(b: Any, N: Any, t: Any, s: Any, L0: Any) -> Derivation:
    d = Derivation()
    d.say("Client i makes N_i/b_i steps; its noise (7) with (3) is as N_i/b_i^3, so (8) weighs it by b_i^3/N_i.")
    near = d.say("Psi_p where client 2 has 1 + s times the records:", simplest(_unlike(b, N, t, 1 + s, L0)))
    far = d.say("and where it has 1 + 2s times as many:", simplest(_unlike(b, N, t, 1 + 2 * s, L0)))
    return d.conclude("By so much more:", simplest(far - near))


def _similar_oracle(b: Any, N: Any, t: Any, s: Any, L0: Any) -> Any:
    """Term by term, client by client, from the definitions in (11)."""
    values = []
    for ratio in (1 + s, 1 + 2 * s):
        data, batch = (N, ratio * N), (b, t * b)
        steps = [n / m for n, m in zip(data, batch, strict=True)]
        noise = [k / m**2 for k, m in zip(steps, batch, strict=True)]
        weight = [noise[1] / (noise[0] + noise[1]), noise[0] / (noise[0] + noise[1])]
        share = [n / (data[0] + data[1]) for n in data]
        centre = weight[0] * steps[0] + weight[1] * steps[1]
        total = sp.Integer(0)
        for i in (0, 1):
            total += 2 * (steps[i] * (weight[i] - share[i])) ** 2
            total += (share[0] ** 2 + share[1] ** 2) * (steps[i] - centre) ** 2
        values.append(8 * L0**2 * total / 3)
    return values[1] - values[0]


register(
    Claim(
        id="robusthdp:thm2:similar",
        title="Psi_p falls when clients have similar numbers of records",
        place="Section 3.7, discussion of Theorem 2",
        statement="""Psi_p decreases when clients have similar numbers of data samples. Judged for two clients with
            Robust-HDP's weights, effective clipping and one noise scale: Psi_p with 1 + 2s times the records minus that
            with 1 + s times is at least 0.""",
        latex=r"""\Psi_p\text{ decreases when clients participate more often and have similar number of data samples and use
            similar batch sizes}""",
        kind="order",
        variables=(FIRST, RECORDS, TIMES, UNLIKE, LIPSCHITZ),
        examples=({"b": 1, "N": 4, "t": 1, "s": "1/2", "L0": 1}, {"b": 16, "N": 160, "t": 1, "s": 2, "L0": 1}),
        printed=lambda: ZERO,
        relation=">=",
        derive=_similar_derive,
        oracle=_similar_oracle,
        condition=lambda t: Eq(t, 1),
        condition_text="t == 1 (both clients use one batch size)",
        counterexample={"b": 1, "N": 4, "t": 2, "s": "1/2", "L0": 1},
        not_computed=Exempt(kind="difference", of=("robusthdp:thm2:weights",)),
        not_simulated=Exempt(kind="deterministic"),
        assumes={"clipping": "all"},
        tight=Tight(at={"b": 1, "N": 4, "t": 1, "s": "1/2", "L0": 1}, ratio="0"),
        unit="squared gradient norm",
        related=("robusthdp:thm2", "robusthdp:thm2:participation", "robusthdp:thm2:weights"),
        remark="""Similar records and similar batch sizes together make it 0. With batches of 1 and 2, the client with the
            larger batch needs twice the records for as many steps, and sqrt(8) times for its weight to be lambda_i:
            there Psi_p is least, and it grows when the numbers of records become more similar.""",
    )
)


def _monotone_derive(beta: Any, eta: Any, sigma2: Any, steps: Sequence[Any], noise: Sequence[Any]) -> Derivation:
    d = Derivation()
    k, v = sp.symbols("E_1 v_1", positive=True)
    value = d.say("Psi_sigma as a function of the first client's steps and noise:",
                  psi_sigma(beta, eta, [k, *steps[1:]], sigma2, [v, *noise[1:]]))  # fmt: skip
    at = {k: steps[0], v: noise[0]}
    slopes = (sp.diff(value, k).subs(at), sp.diff(value, v).subs(at))
    return d.conclude("Its slopes in E_1 and in sigma_1^2:", tuple(simplest(sp.expand(x)) for x in slopes))


def _monotone_oracle(beta: Any, eta: Any, sigma2: Any, steps: Sequence[Any], noise: Sequence[Any]) -> tuple[Any, Any]:
    """Slopes of a quintic in E_1 and of an affine function of sigma_1^2, by exact divided differences."""

    def at(k: Any, v: Any) -> Any:
        size, clients = sp.Integer(1), list(zip([k, *steps[1:]], [v, *noise[1:]], strict=True))
        for count, _ in clients:
            size += count
        first = sum(beta * eta * count**2 * loud for count, loud in clients)
        return first + sum(
            (12 * sigma2 * count**4 + 2 * loud * count**3) * size * (beta * eta) ** 2 for count, loud in clients
        )

    # central differences of orders 1, 2, 3 are exact for polynomials of degree 5 (weights 45, -9, 1 over 60)
    rise = [at(steps[0] + h, noise[0]) - at(steps[0] - h, noise[0]) for h in (1, 2, 3)]
    slope = (45 * rise[0] - 9 * rise[1] + rise[2]) / 60
    return slope, at(steps[0], noise[0] + 1) - at(steps[0], noise[0])


register(
    Claim(
        id="robusthdp:thm2:psi-sigma",
        title="Psi_sigma falls with the local steps and the gradient noise",
        place="Section 3.7, discussion of Theorem 2",
        statement="""The term Psi_sigma decreases when E_i and the variances of the mini-batches decrease. Judged: its slopes
            in E_1 and in sigma_1^2 are at least 0.""",
        latex=r"""\text{The term }\Psi_\sigma\text{ decreases when }E_i\text{ and variance of mini-batches }%
            \{\sigma_{i,\bar{g}}^2\}\text{ decrease}""",
        kind="order",
        variables=(
            Variable("beta", "positive", "smoothness of the losses"),
            Variable("eta", "positive", "local step size"),
            Variable("sigma2", "nonnegative", "bound on the clients' heterogeneity"),
            Variable("steps", "size", STEPS.meaning, lengths=(1, 2)),
            Variable("noise", "nonnegative", "variance of each client's noisy batch gradient", lengths=(1, 2)),
        ),
        examples=(
            {"beta": 1, "eta": "1/100", "sigma2": 1, "steps": [2, 3], "noise": [1, 4]},
            {"beta": 2, "eta": "1/100", "sigma2": 0, "steps": [1], "noise": [1]},
        ),
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_monotone_derive,
        oracle=_monotone_oracle,
        not_computed=Exempt(kind="part", of=("robusthdp:thm2",)),
        not_simulated=Exempt(kind="deterministic"),
        entries=("slope in E_1", "slope in sigma_1^2"),
        tight=Tight(at={"beta": 1, "eta": "1/100", "sigma2": 1, "steps": [2, 3], "noise": [1, 4]}, ratio="0"),
        edits=(
            Edit(
                printed=r"\sigma_{i,\bar{g}}^2",
                read=r"\sigma_{i,\tilde{g}}^2",
                reason="defined nowhere; the noisy gradient's variance of (3) and (5) is meant",
            ),
        ),
        unit="mixed",
        related=("robusthdp:thm2",),
    )
)

LAM_1 = Variable("lam_1", "fraction", "client 1's share of the records, lambda_1")
NOISE_1 = Variable("v_1", "positive", "noise variance of client 1's update")
NOISE_2 = Variable("v_2", "positive", "noise variance of client 2's update")


def _advantage_derive(steps: Any, lam_1: Any, v_1: Any, v_2: Any, L0: Any) -> Derivation:
    d = Derivation()
    shares = (lam_1, 1 - lam_1)
    w = d.say("Robust-HDP's weights:", (v_2 / (v_1 + v_2), v_1 / (v_1 + v_2)))
    d.say("The first term of (10) and Psi_sigma do not hold the weights. Psi_p at weights lambda, and at these:")
    values = [d.say("Psi_p =", simplest(psi_p(L0, [steps] * 2, shares, [(ONE, x)]))) for x in (shares, w)]
    return d.conclude("Times 12/(11 E_min - 7), the bound at lambda minus the bound at Robust-HDP's weights:",
                      simplest(factor(steps) * (values[0] - values[1])))  # fmt: skip


def _advantage_oracle(steps: Any, lam_1: Any, v_1: Any, v_2: Any, L0: Any) -> Any:
    """Both bounds term by term with numbers for what they share."""
    w_1 = (1 / v_1) / (1 / v_1 + 1 / v_2)
    bounds = [
        added_up(1, ONE / 100, [steps, steps], 1, [v_1, v_2], L0, [lam_1, 1 - lam_1], [(1, [x, 1 - x])])
        for x in (lam_1, w_1)
    ]
    return bounds[0] - bounds[1]


def _advantage_computed(steps: int, lam_1: float, v_1: float, v_2: float, L0: float) -> float:
    weights = [v_2 / (v_1 + v_2), v_1 / (v_1 + v_2)]
    return -12 / (11 * steps - 7) * convergence.weights_term([steps, steps], [lam_1, 1 - lam_1], weights, L0)


register(
    Claim(
        id="robusthdp:thm2:weights",
        title="Whether the bound shows an advantage of noise-aware weights",
        place="Section 5 (Conclusion), and the abstract, on Theorem 2",
        statement="""The theoretical results confirm that Robust-HDP converges faster. Judged: the bound (10) with FedAvg's
            weights lambda_i, minus the bound with weights 1/sigma_i^2, is at least 0 (two clients, equal local steps).""",
        latex=r"""\text{Our theoretical and experimental results confirm that our algorithm results in better utility and
            faster convergence}""",
        kind="lower bound",
        variables=(LOCAL, LAM_1, NOISE_1, NOISE_2, LIPSCHITZ),
        examples=(
            {"steps": 1, "lam_1": "1/2", "v_1": 1, "v_2": 1, "L0": 1},
            {"steps": 2, "lam_1": "1/2", "v_1": 1, "v_2": 9, "L0": 1},
        ),
        printed=lambda: ZERO,
        relation=">=",
        derive=_advantage_derive,
        oracle=_advantage_oracle,
        condition=lambda lam_1, v_1, v_2: Eq(lam_1, v_2 / (v_1 + v_2)),
        condition_text="lam_1 == v_2/(v_1 + v_2) (the weights 1/sigma_i^2 are FedAvg's lambda_i)",
        counterexample={"steps": 1, "lam_1": "1/2", "v_1": 1, "v_2": 9, "L0": 1},
        computed=_advantage_computed,
        not_simulated=Exempt(kind="deterministic"),
        tight=Tight(at={"steps": 1, "lam_1": "1/2", "v_1": 1, "v_2": 1, "L0": 1}, ratio="1"),
        unit="squared gradient norm",
        related=("robusthdp:thm2",),
        remark="""Psi_sigma holds sum E_i^2 sigma_i^2 without weights, so that the bound cannot reward noise-aware weights,
            and Psi_p punishes any weights but lambda_i: of all aggregation rules FedAvg has the least bound. That
            Robust-HDP lowers the noise is (8); that it converges faster does not follow from Theorem 2.""",
    )
)

__all__ = ["LAM_1", "LIPSCHITZ", "LOCAL"]
