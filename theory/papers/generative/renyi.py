"""Renyi differential privacy, its conversion and composition, neighbours of users: Appendix A.

Belongs here: Definition 3, Lemmas 2 and 3, Section A.3. Does not belong here: DP-AdaPeD (privacy.py), local privacy of
means and bits.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.accounting import privacy
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.federation import ANY_ORDER, DIGITS, mpf

# --- Definition 3 ----------------------------------------------------------------------------------------------------

P_YES = Variable("p", "fraction", "probability of one answer on D", extreme=False)
Q_YES = Variable("q", "fraction", "probability of that answer on D'", extreme=False)
WHOLE = Variable("order", "choice", "Renyi order, a whole number", choices=(2, 3, 4, 5, 8, 16))


def _def3_printed(p: Any, q: Any, order: int) -> Any:
    return q * (p / q) ** order + (1 - q) * ((1 - p) / (1 - q)) ** order


def _def3_derive(p: Any, q: Any, order: int) -> Derivation:
    d = Derivation()
    d.say("Renyi's divergence of P = M(D) from Q = M(D') is log(sum P^order Q^(1-order))/(order-1).")
    terms = d.say("For a mechanism with two answers the sum has two terms:",
                  tuple(a**order * b ** (1 - order) for a, b in ((p, q), (1 - p, 1 - q))))  # fmt: skip
    return d.conclude("exp((order-1) D) =", sum(terms))


def _def3_oracle(p: Any, q: Any, order: int) -> Any:
    """The moment generating function of the privacy loss log(P/Q) under P, at order - 1."""
    return p * (p / q) ** (order - 1) + (1 - p) * ((1 - p) / (1 - q)) ** (order - 1)


def _def3_computed(p: float, q: float, order: int) -> float:
    divergence = privacy.renyi_divergence([p, 1 - p], [q, 1 - q], order=order)
    return float(np.exp((order - 1) * divergence))


def _def3_simulate(p: float, q: float, order: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        yes = gen.random((reps, 1)) < q  # the mechanism on D'
        return np.where(yes, p / q, (1 - p) / (1 - q)) ** order

    return simulation.sample_means(draw, labels=("density ratio to the power",))


register(
    Claim(
        id="generative:def3",
        title="Renyi differential privacy",
        place="Appendix A.1, Definition 3",
        statement="""The expectation under M(D') of the density ratio to the power lambda is exp((lambda-1) D_lambda). Judged
            on mechanisms with two answers: exp((order-1) D).""",
        latex=r"""D_{\lambda}(\mathcal{M}(\mathcal{D})||\mathcal{M}(\mathcal{D}'))=\frac{1}{\lambda-1}\log\left(%
            \mathbb{E}_{\theta\sim\mathcal{M}(\mathcal{D}')}\left[\left(\frac{\mathcal{M}(\mathcal{D})(\theta)}%
            {\mathcal{M}(\mathcal{D}')(\theta)}\right)^{\lambda}\right]\right)""",
        kind="identity",
        variables=(P_YES, Q_YES, WHOLE),
        examples=({"p": "1/2", "q": "1/4", "order": 2}, {"p": "2/3", "q": "1/3", "order": 4}),
        printed=_def3_printed,
        derive=_def3_derive,
        oracle=_def3_oracle,
        computed=_def3_computed,
        simulate=_def3_simulate,
        assumes={"adjacency": "replace"},
        unit="dimensionless",
        remark="""Neighbours of Definition 3 are those of Section A.1, one record replaced; with Section A.3 one user's
            records. Both orders of a pair are neighbours, so both divergences must be bounded. (Definition 2 beside it
            prints e^eps0 where its own letter is eps.)""",
    )
)

# --- Lemma 2 ---------------------------------------------------------------------------------------------------------

RDP = Variable("rdp", "nonnegative", "Renyi divergence eps(lambda) at the order, in nats", within=(0, 10), why="floats")
EPS = Variable("eps", "positive", "the target epsilon", within=("1/100", 20), why="floats")
DELTA = Variable("delta", "fraction", "the target delta", extreme=False)
SMALL_ORDER = Variable("order", "positive", "Renyi order", within=("11/10", 20), why="floats")
FREE_RDP = Variable("rdp", "nonnegative", RDP.meaning, extreme=False)


def _worst_share(d: Derivation, order: Any, eps: Any) -> Any:
    """e^eps/x at the likelihood ratio x for which (1 - e^eps/x) x^(1-order) is largest."""
    x, share = sp.symbols("x share", positive=True)
    d.say("""With x the ratio of the densities of P and Q, the smallest delta is E_P[max(0, 1 - e^eps/x)], and the Renyi
        divergence is log(E_P[x^(order-1)])/(order-1). So delta <= c exp((order-1) eps(order)) with c the largest of""",
          (1 - sp.exp(eps) / x) * x ** (1 - order))  # fmt: skip
    slope = d.say("With share = e^eps/x, x times the slope of its logarithm in x:", share / (1 - share) - (order - 1))
    return d.say("which vanishes at the share", sp.expand(sp.solve(slope, share)[0]))


def _worst_log_loss(order: Any, eps: Any) -> Any:
    """log of the largest (1 - e^(eps-y)) e^(-(order-1) y) over y = log of the likelihood ratio, by Newton's method.

    The slope 1/(e^t - 1) - (order - 1), t = y - eps, is convex and falls, so that the steps from the left cannot overshoot.
    """
    t = mpmath.mpf(10) ** -3
    for _ in range(60):
        grown = mpmath.expm1(t)
        move = (1 / grown - (order - 1)) * grown**2 / (1 + grown)
        t += move
        if move < mpmath.mpf(10) ** -60:
            break
    return mpmath.log(-mpmath.expm1(-t)) - (order - 1) * (eps + t)


def _delta_printed(rdp: Any, order: Any, eps: Any) -> Any:
    return sp.exp((order - 1) * (rdp - eps)) / (order - 1) * (1 - 1 / order) ** order


def _delta_derive(rdp: Any, order: Any, eps: Any) -> Derivation:
    d = Derivation()
    share = _worst_share(d, order, eps)
    rest = d.say("There 1 - share is this times the share:", sp.cancel((1 - share) / share))
    log_rest = d.say("c is rest share^order e^(-(order-1) eps). Of delta remains the logarithm of",
                     (order - 1) * (rdp - eps))  # fmt: skip
    return d.conclude("delta =", sp.exp(log_rest) * rest * share**order)


def _delta_oracle(rdp: Any, order: Any, eps: Any) -> Any:
    with mpmath.workdps(DIGITS):
        r, a, e = (mpf(x) for x in (rdp, order, eps))
        return sp.Float(str(mpmath.exp(_worst_log_loss(a, e) + (a - 1) * r)), DIGITS - 10)


def _delta_computed(rdp: float, order: float, eps: float) -> float:
    return privacy.delta_at_order(order=order, rdp=rdp, eps=eps)


register(
    Claim(
        id="generative:lemma2:delta",
        title="delta from a Renyi divergence, for a given eps",
        place="Appendix A.2, Lemma 2",
        statement="""(lambda, eps(lambda))-RDP gives (eps, delta)-DP with this delta, for every order. Judged: the smallest
            delta that follows from the divergence at this order by bounding the privacy loss pointwise.""",
        latex=r"""\delta=\min_{\lambda}\frac{\exp\left((\lambda-1)(\epsilon(\lambda)-\epsilon)\right)}{\lambda-1}\left(1-%
            \frac{1}{\lambda}\right)^{\lambda}""",
        kind="upper bound",
        variables=(RDP, SMALL_ORDER, EPS),
        examples=({"rdp": "1/2", "order": 4, "eps": 2}, {"rdp": 1, "order": 10, "eps": 3}),
        printed=_delta_printed,
        derive=_delta_derive,
        oracle=_delta_oracle,
        computed=_delta_computed,
        not_simulated=Exempt(kind="divergence"),
        unit="probability",
        assumptions=("adjacency is that of the Renyi guarantee", "the minimum is over the orders at which it is known"),
        remark="""Canonne, Kamath and Steinke (2020), proposition 12. estimators.accounting.privacy.delta_from_rdp also takes
            the smaller of it and sqrt(1 - exp(-eps(lambda))).""",
    )
)


def _eps_printed(rdp: Any, order: Any, delta: Any) -> Any:
    return rdp + (sp.log(1 / delta) + (order - 1) * sp.log(1 - 1 / order) - sp.log(order)) / (order - 1)


def _eps_derive(rdp: Any, order: Any, delta: Any) -> Derivation:
    d, eps = Derivation(), sp.Symbol("eps", real=True)
    share = _worst_share(d, order, eps)
    log_c = d.say("There log c = log(1 - share) - (order-1)(eps - log(share)) =",
                  sp.log(1 - share) - (order - 1) * (eps - sp.log(share)))  # fmt: skip
    log_delta = d.say("So log delta, linear in eps, is", (order - 1) * rdp + log_c)
    return d.conclude("Solved for eps:", sp.solve(sp.log(delta) - log_delta, eps)[0])


def _eps_oracle(rdp: Any, order: Any, delta: Any) -> Any:
    """The eps at which the largest loss equals delta; log c is linear in eps, so one secant step is exact."""
    with mpmath.workdps(DIGITS):
        r, a, target = mpf(rdp), mpf(order), mpmath.log(mpf(delta))
        at = [(a - 1) * r + _worst_log_loss(a, mpmath.mpf(e)) for e in (1, 2)]
        return sp.Float(str(1 + (target - at[0]) / (at[1] - at[0])), DIGITS - 10)


def _eps_computed(rdp: float, order: float, delta: float) -> float:
    return privacy.epsilon_at_order(order=order, rdp=rdp, delta=delta)


register(
    Claim(
        id="generative:lemma2:eps",
        title="eps from a Renyi divergence, for a given delta",
        place="Appendix A.2, Lemma 2",
        statement="""(lambda, eps(lambda))-RDP gives (eps, delta)-DP with this eps, for every order. Judged: the smallest eps
            that follows from the divergence at this order by bounding the privacy loss pointwise.""",
        latex=r"""\epsilon=\min_{\lambda}\epsilon(\lambda)+\frac{\log(1/\delta)+(\lambda-1)\log(1-1/\lambda)-\log(\lambda)}%
            {\lambda-1}""",
        kind="upper bound",
        variables=(FREE_RDP, ANY_ORDER, DELTA),
        examples=({"rdp": "1/2", "order": 4, "delta": "1e-5"}, {"rdp": 1, "order": 10, "delta": "1/1000"}),
        printed=_eps_printed,
        derive=_eps_derive,
        oracle=_eps_oracle,
        computed=_eps_computed,
        not_simulated=Exempt(kind="divergence"),
        unit="nats",
        assumptions=("adjacency is that of the Renyi guarantee", "the minimum is over the orders at which it is known"),
        remark="""Balle et al. (2020), theorem 21. It can come out below 0 for a large delta and is then still valid, as the
            argument holds for every real eps; estimators.accounting.privacy.epsilon_from_rdp reports 0 there. The
            minimum is over all orders > 1 and need not be attained.""",
    )
)

# The best conversion at order 2. With E = e^eps - 1 and chi = e^rdp - 1, write sqrt(E^2 + chi) as E + t: t is rational
# where all else is, and t <= 1 means chi <= 1 + 2E (beyond it the best pair has a certain answer).
E_EPS = Variable("E", "positive", "e^eps - 1", extreme=False)
REACH = Variable("t", "fraction", "sqrt((e^eps - 1)^2 + e^rdp - 1) - (e^eps - 1), a measure of rdp", extreme=False)


def _best_printed(E: Any, t: Any) -> Any:
    """Lemma 2's delta at lambda = 2, with e^eps = 1 + E and e^rdp = 1 + 2 E t + t^2."""
    order = sp.Integer(2)
    return (1 + 2 * E * t + t**2) / (1 + E) / (order - 1) * (1 - 1 / order) ** order


def _best_derive(E: Any, t: Any) -> Derivation:
    d, u = Derivation(), sp.Symbol("u", positive=True)
    chi = d.say("chi = e^rdp - 1 =", sp.expand((E + t) ** 2 - E**2))
    d.say(
        """Whether the output lies in a set is an answer with probabilities p on D and q on D', and no farther apart than the
        outputs are. At order 2 that says (p - q)^2 <= chi q (1 - q); delta is the largest p - e^eps q. For u = 1 - 2q"""
    )
    gap = d.say("that is", sp.sqrt(chi) * sp.sqrt(1 - u**2) / 2 - E * (1 - u) / 2)
    d.say("Its slope in u vanishes where", sp.Eq(E**2 * (1 - u**2), chi * u**2))
    top = d.say("so at u =", sp.solve(sp.factor(E**2 * (1 - u**2) - chi * u**2), u)[0])
    height = sp.sqrt(sp.factor(chi * (1 - top**2))) / 2
    d.say("p is at most 1 there, as t < 1. The first term is", height)
    return d.conclude("and delta is", sp.factor(gap.subs(u, top) - sp.sqrt(chi) * sp.sqrt(1 - top**2) / 2 + height))


def _best_oracle(E: Any, t: Any) -> Any:
    """The best pair in fractions: delta for q in a bracket shrunk by thirds around the top of a concave function, in floats.

    The width after 400 thirds is below 1e-70; a concave top is flat, so delta is right to twice as many digits.
    """
    with mpmath.workdps(2 * DIGITS):
        e, chi = mpf(E), mpf(2 * E * t + t * t)

        def delta(q: Any) -> Any:
            return q + mpmath.sqrt(chi * q * (1 - q)) - (1 + e) * q

        low, high = mpmath.mpf(0), mpmath.mpf(1) / 2
        for _ in range(400):
            left, right = (2 * low + high) / 3, (low + 2 * high) / 3
            low, high = (left, high) if delta(left) < delta(right) else (low, right)
        return sp.Float(str(delta((low + high) / 2)), DIGITS - 10)


register(
    Claim(
        id="generative:lemma2:best",
        title="Lemma 2 is the best conversion",
        place="Appendix A.2, text before Lemma 2",
        statement="""To the authors' knowledge Lemma 2 gives the best conversion. Judged at order 2: its delta is the least
            that holds for every pair of outputs with this divergence (where the best pair is uncertain on both sides, t
            < 1).""",
        latex=r"\text{To the best of our knowledge, the following gives the best conversion.}",
        kind="upper bound",
        variables=(E_EPS, REACH),
        examples=({"E": 1, "t": "1/2"},),
        printed=_best_printed,
        derive=_best_derive,
        oracle=_best_oracle,
        corrected=lambda t: t / 2,
        corrected_text="(sqrt((e^eps - 1)^2 + e^rdp - 1) - (e^eps - 1))/2",
        counterexample={"E": 1, "t": "1/2"},
        finding="The conversion called the best is not: at order 2 a smaller delta holds.",
        not_computed=Exempt(kind="few"),
        not_simulated=Exempt(kind="divergence"),
        unit="probability",
        related=("generative:lemma2:delta",),
        remark="""Lemma 2 is above it by (1 - t)^2/(4 e^eps). It bounds the loss pointwise, and no pair of outputs has the
            worst loss everywhere unless t = 1. Asoodeh, Liao, Calmon, Kosut and Sankar (2020) give the best conversion
            at every order. As both orders of two neighbours must be bounded, the truth is smaller still.""",
    )
)

# --- Lemma 3 ---------------------------------------------------------------------------------------------------------

E1 = Variable("E1", "positive", "e^eps - 1 of the first mechanism, a randomised response", extreme=False)
MOMENT = Variable("moment", "positive", "exp((order-1) D) of the second mechanism after the answer 0, less 1", extreme=False)
MORE = Variable("more", "nonnegative", "what it is larger by after the answer 1", extreme=False)


def _lemma3_printed(E1: Any, moment: Any, more: Any, order: int) -> Any:
    """The product of both mechanisms' exp((order-1) D), the second's at its worst first answer."""
    odds = 1 + E1
    return (odds**order + odds ** (1 - order)) / (1 + odds) * (1 + moment + more)


def _lemma3_derive(E1: Any, moment: Any, more: Any, order: int) -> Derivation:
    d, truth = Derivation(), (1 + E1) / (2 + E1)
    first = ((1 - truth, truth), (truth, 1 - truth))
    d.say("Randomised response tells the truth with probability", truth)
    d.say("The joint density of both answers factorises into the first law and the second's, given the first answer.")
    weights = d.say("First factor p^order q^(1-order) for the answers 0 and 1:",
                    tuple(p**order * q ** (1 - order) for p, q in first))  # fmt: skip
    second = d.say("Given the answer, the second mechanism contributes exp((order-1) D):", (1 + moment, 1 + moment + more))
    total = sum(w * s for w, s in zip(weights, second, strict=True))
    return d.conclude("exp((order-1) D) of both answers together:", sp.factor(total))


def _lemma3_oracle(E1: Any, moment: Any, more: Any, order: int) -> Any:
    """Enumerate both answers. The second mechanism says 0 on D, and on D' 0 with a probability set by the first answer."""
    with mpmath.workdps(DIGITS):
        lie = 1 / (2 + mpf(E1))
        total = mpmath.mpf(0)
        for p1, value in ((lie, mpf(moment)), (1 - lie, mpf(moment) + mpf(more))):
            b = (1 + value) ** (mpmath.mpf(-1) / (order - 1))
            for p2, q2 in ((mpmath.mpf(1), b), (mpmath.mpf(0), 1 - b)):
                total += (p1 * p2) ** order * ((1 - p1) * q2) ** (1 - order) if p2 else 0
        return sp.Float(str(total), DIGITS - 10)


def _lemma3_computed(E1: float, moment: float, more: float, order: int) -> float:
    """Both answers as one distribution of four cells; a cell that is impossible on D stays out of both."""
    lie = 1 / (2 + E1)
    silent = [(1 + value) ** (-1 / (order - 1)) for value in (moment, moment + more)]
    on_d = [lie, 0.0, 1 - lie, 0.0]
    on_other = [(1 - lie) * silent[0], (1 - lie) * (1 - silent[0]), lie * silent[1], lie * (1 - silent[1])]
    return float(np.exp((order - 1) * privacy.renyi_divergence(on_d, on_other, order=order)))


def _lemma3_simulate(E1: float, moment: float, more: float, order: int) -> simulation.Simulation:
    """Run both mechanisms on D' and weigh their answers: the second says what is impossible on D, or the other thing."""

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        truth = (1 + E1) / (2 + E1)
        zero = gen.random((reps, 1)) < truth  # of a randomised response whose true answer on D' is 0, on D 1
        possible = np.where(zero, 1 + moment, 1 + moment + more) ** (-1 / (order - 1))
        ratio = np.where(zero, (1 - truth) / truth, truth / (1 - truth)) / possible
        return np.where(gen.random((reps, 1)) < possible, ratio**order, 0.0)

    return simulation.sample_means(draw, labels=("density ratio to the power",))


register(
    Claim(
        id="generative:lemma3",
        title="Adaptive composition of Renyi divergences",
        place="Appendix A.2, Lemma 3",
        statement="""The divergences of two mechanisms, the second of which may depend on the first answer, add up at most.
            Judged as exp((order-1) D): randomised response first, then any mechanism whose divergence depends on the
            answer.""",
        latex=r"""(\mathcal{M}_{1},\mathcal{M}_{2})\ \text{satisfies}\ (\lambda,\epsilon_{1}(\lambda)+\epsilon_{2}(\lambda))%
            \text{-RDP}""",
        kind="upper bound",
        variables=(E1, MOMENT, MORE, WHOLE),
        examples=({"E1": 1, "moment": "1/2", "more": "1/2", "order": 2}, {"E1": 1, "moment": "1/2", "more": 0, "order": 3}),
        printed=_lemma3_printed,
        relation="<=",
        tight=Tight(at={"E1": 1, "moment": 1, "more": 0, "order": 2}),
        derive=_lemma3_derive,
        oracle=_lemma3_oracle,
        computed=_lemma3_computed,
        simulate=_lemma3_simulate,
        unit="dimensionless",
        related=("generative:def3",),
        remark="""An equality when the second divergence does not depend on the first answer. The bound needs the second
            mechanism to be private for every first answer, as (lambda, eps_2)-RDP on Y_1 x X says.""",
    )
)

# --- Section A.3 -----------------------------------------------------------------------------------------------------

USERS = Variable("users", "size", "users whose data differ", extreme=False)


def _neighbours_derive(users: Any) -> Derivation:
    d = Derivation()
    items = d.say("Records of a user that differ, if its data do, are at least 1 and at most n =", sp.Integer(1))
    return d.conclude("Item-level distance:", items * users)


def _neighbours_oracle(users: Any) -> Any:
    """Write two data sets down, one record for each user and one user more than differ, and count records that differ."""
    before, after = [0] * (int(users) + 1), [1] * int(users) + [0]
    return sp.Integer(sum(x != y for x, y in zip(before, after, strict=True)))


register(
    Claim(
        id="generative:neighbours",
        title="Item-level and user-level neighbours",
        place="Appendix A.3, Item-level DP/RDP vs. User-level DP/RDP",
        statement="""When each user has a single item, item-level and user-level privacy are the same. Judged: the item-level
            distance of two data sets is their user-level distance, the number of users whose data differ.""",
        latex=r"""\text{when each user has a single item (}n=1\text{), then both item-level and user-level privacy are
            equivalent}""",
        kind="identity",
        variables=(USERS,),
        examples=({"users": 1},),
        printed=lambda users: users,
        derive=_neighbours_derive,
        oracle=_neighbours_oracle,
        not_computed=Exempt(kind="few"),
        not_simulated=Exempt(kind="deterministic"),
        unit="dimensionless",
        remark="With more records a user-level neighbour is up to n item-level steps away.",
    )
)
