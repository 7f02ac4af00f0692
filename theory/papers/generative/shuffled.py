"""Our own, beside Section 5.2: private reports whose senders a shuffler hides.

Model: each of n clients sends an eps0-private report, and the server gets them without names, in random order.  With
probability e^-eps0 a client's report does not depend on its data but is drawn as the first client's may be: a fair coin
between its law under one value and under the other (Feldman, McMillan and Talwar 2021, "Hiding among the clones", theorem
3.2; their clones).  E0 = e^eps0 - 1, and eps lies between 0 and eps0, e^eps = 1 + t E0.

Belongs here: the divergence of the clones' pair, and the random bits of Theorem 4 below it.  Does not belong here: the
randomiser itself (bernoulli_private.py), Renyi divergences of the paper's own rounds (renyi.py).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from estimators.accounting.shuffling import clone_delta
from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

CLIENTS = Variable("n", "choice", "clients whose reports are shuffled", choices=(1, 2, 3, 5))
LEVEL = Variable(
    "E0", "choice", "e^eps0 - 1, eps0 that of each report", choices=(sp.Integer(2), sp.Integer(6), sp.Integer(20))
)
PLACE = Variable(
    "t",
    "choice",
    "(e^eps - 1)/(e^eps0 - 1), where eps is",
    choices=(sp.Rational(1, 20), sp.Rational(1, 8), sp.Rational(1, 4)),
)
OTHERS = Variable("others", "choice", "data of the other clients", choices=("zeros", "ones"), default="zeros")
EXAMPLES = ({"n": 3, "E0": 2, "t": "1/8"}, {"n": 5, "E0": 6, "t": "1/20"})
LATEX = r"""\delta(\epsilon)=\sum_{c=0}^{n-1}\binom{n-1}{c}\frac{(e^{\epsilon_0}-1)^{n-1-c}}{e^{\epsilon_0(n-1)}2^{c}}%
    \sum_{j=0}^{c+1}\left[\binom{c}{j-1}\frac{e^{\epsilon_0}-e^{\epsilon}}{1+e^{\epsilon_0}}%
    +\binom{c}{j}\frac{1-e^{\epsilon_0+\epsilon}}{1+e^{\epsilon_0}}\right]_+"""


def above(x: Any) -> Any:
    """A number where it is positive, else 0."""
    return (x + sp.Abs(x)) / 2


def clones_printed(n: int, E0: Any, t: Any) -> Any:
    """The divergence of the clones' pair, number of clones and of ones apart."""
    grown, g, total = 1 + E0, 1 + t * E0, sp.Integer(0)
    for c in range(n):
        weight = sp.binomial(n - 1, c) * E0 ** (n - 1 - c) / (grown ** (n - 1) * 2**c)
        for j in range(c + 2):
            more = sp.binomial(c, j - 1) * (grown - g) + sp.binomial(c, j) * (1 - grown * g)
            total += weight * above(more / (1 + grown))
    return total


def _clones_derive(n: int, E0: Any, t: Any) -> Derivation:
    d = Derivation()
    clone = d.say("A report is a clone with probability e^-eps0:", 1 / (1 + E0))
    honest = d.say("The first client's own bit is right with probability e^eps0/(1 + e^eps0):", (1 + E0) / (2 + E0))
    d.say("""Given c clones, fair coins, and the own bit, the number of ones has a likelihood ratio that rises, since the sum
        of fair coins is log-concave: the events that tell the two data sets apart best are half-lines.""")  # fmt: skip
    half, total = sp.Rational(1, 2), sp.Integer(0)
    for c in range(n):
        tails = [
            sum((sp.binomial(c, k) * half**c for k in range(max(h, 0), c + 1)), sp.Integer(0)) for h in range(-1, c + 3)
        ]
        gains = []
        for h in range(c + 3):  # tails[h] is P(coins >= h - 1), which the own one makes P(ones >= h)
            with_one, without = tails[h], tails[h + 1]
            one = honest * with_one + (1 - honest) * without
            other = (1 - honest) * with_one + honest * without
            gains.append(one - (1 + t * E0) * other)
        total += sp.binomial(n - 1, c) * clone**c * (1 - clone) ** (n - 1 - c) * sp.Max(*gains)
    return d.conclude("The mean over c of the best half-line's gain, P - e^eps Q:", total)


def _clones_oracle(n: int, E0: Any, t: Any) -> Any:
    """Every client one by one: no clone, a clone with 0, a clone with 1; then every outcome, whatever its order."""
    grown = fraction(1 + E0)
    g, clone, honest = 1 + fraction(t) * fraction(E0), 1 / grown, grown / (1 + grown)
    laws: tuple[dict[tuple[int, int], Fraction], ...] = ({}, {})
    for kinds in product((None, 0, 1), repeat=int(n) - 1):
        weight = Fraction(1)
        for kind in kinds:
            weight *= 1 - clone if kind is None else clone / 2
        for law, right in zip(laws, (honest, 1 - honest), strict=True):
            for own, chance in ((1, right), (0, 1 - right)):
                seen = kinds.count(1) + own, kinds.count(0) + 1 - own
                law[seen] = law.get(seen, Fraction(0)) + weight * chance
    return rational(sum((max(p - g * laws[1][seen], Fraction(0)) for seen, p in laws[0].items()), Fraction(0)))


def _clones_simulate(n: int, E0: float, t: float) -> simulation.Simulation:
    honest, g = (1 + E0) / (2 + E0), 1 + t * E0

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        gains = []
        for right in (honest, 1 - honest):
            clones = gen.binomial(n - 1, 1 / (1 + E0), reps)
            ones = gen.binomial(clones, 0.5) + (gen.random(reps) < right)
            zeros = clones + 1 - ones
            # The adversary's guess, by the odds: own one among `ones`, or own zero among `zeros`.
            gains.append(honest * ones + (1 - honest) * zeros > g * ((1 - honest) * ones + honest * zeros))
        return (1.0 * gains[0] - g * gains[1])[:, None]

    return simulation.sample_means(draw, labels=["what the best guess gains"], draws=2 * n)


register(
    Claim(
        id="generative:qpriv:clones",
        title="Divergence of the clones' pair",
        place="Section 5.2.3 (not in the paper): its reports behind a shuffler",
        statement="""Shuffled reports of n clients, each eps0-private, are (eps, delta(eps))-private with the divergence of
            the clones' pair: c clones among the n - 1 other reports, j ones among the c + 1 reports that count.""",
        latex=LATEX,
        kind="probability",
        variables=(CLIENTS, LEVEL, PLACE),
        examples=EXAMPLES,
        printed=clones_printed,
        derive=_clones_derive,
        oracle=_clones_oracle,
        computed=lambda n, E0, t: clone_delta(float(np.log1p(t * E0)), float(np.log1p(E0)), int(n)),
        simulate=_clones_simulate,
        ours=True,
        unit="delta",
        assumes={"adjacency": "replace"},
        related=("generative:qpriv:ldp", "generative:qpriv:shuffled"),
        remark="""That no eps0-private reports are easier to tell apart is theorem 3.2 of Feldman, McMillan and Talwar
            (2021), taken from there; for the random bits of Theorem 4 it is judged in generative:qpriv:shuffled.""",
    )
)


def bits_law(n: int, grown: Any, own: int, others: str) -> list[Any]:
    """Probabilities of 0..n ones among n random bits, by one client after the other."""
    right = grown / (1 + grown)
    law = [sp.Integer(1)]
    for bit in (own, *[int(others == "ones")] * (n - 1)):
        up = right if bit else 1 - right
        law = [
            (law[j] if j < len(law) else 0) * (1 - up) + (law[j - 1] if j else 0) * up for j in range(len(law) + 1)
        ]  # fmt: skip
    return law


def _bits_derive(n: int, E0: Any, t: Any, others: str) -> Derivation:
    d = Derivation()
    d.say("The server sees how many of the n random bits are ones, and nothing else.")
    one, other = (bits_law(n, 1 + E0, own, others) for own in (1, 0))
    d.say("Where the first client has a one, no bit is a one with probability", sp.factor(one[0]))
    gains = [sp.Max(p - (1 + t * E0) * q, 0) for p, q in zip(one, other, strict=True)]
    return d.conclude("What the law with a one exceeds e^eps times the law with a zero by:", sum(gains, sp.Integer(0)))


def _bits_oracle(n: int, E0: Any, t: Any, others: str) -> Any:
    """All 2^n answers with their probabilities."""
    grown = fraction(1 + E0)
    g, right, rest = 1 + fraction(t) * fraction(E0), grown / (1 + grown), int(others == "ones")
    gain = [Fraction(0)] * (int(n) + 1)
    for said in product((0, 1), repeat=int(n)):
        chance = Fraction(1)
        for bit in said[1:]:
            chance *= right if bit == rest else 1 - right
        own = right if said[0] else 1 - right
        gain[sum(said)] += chance * (own - g * (1 - own))
    return rational(sum((max(x, Fraction(0)) for x in gain), Fraction(0)))


def _bits_simulate(n: int, E0: float, t: float, others: str) -> simulation.Simulation:
    g, rest = 1 + t * E0, float(others == "ones")
    right = (1 + E0) / (2 + E0)
    up = right if rest else 1 - right
    among = np.array([0.0, *(comb(n - 1, k) * up**k * (1 - up) ** (n - 1 - k) for k in range(n)), 0.0])
    with_one, without = among[:-1], among[1:]  # the own bit one, or zero, at 0..n ones
    told = right * with_one + (1 - right) * without > g * ((1 - right) * with_one + right * without)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        gains = []
        for own in (1.0, 0.0):
            data = np.full((reps, n), rest)
            data[:, 0] = own
            ones = (bernoulli.randomize(data, eps=float(np.log1p(E0)), rng=gen) > 0.5).sum(axis=1)
            gains.append(told[ones])
        return (1.0 * gains[0] - g * gains[1])[:, None]

    return simulation.sample_means(draw, labels=["what the best guess gains"], draws=2 * n)


register(
    Claim(
        id="generative:qpriv:shuffled",
        title="Shuffled random bits are below the clones' pair",
        place="Section 5.2.3 (not in the paper): its reports behind a shuffler",
        statement="""The random bits of n clients, shuffled, are (eps, delta(eps))-private with the delta of the clones'
            pair, whether the other clients have ones or zeros. Judged as the delta that they need at eps.""",
        latex=LATEX,
        kind="upper bound",
        relation="<=",
        variables=(CLIENTS, LEVEL, PLACE, OTHERS),
        examples=EXAMPLES,
        printed=clones_printed,
        derive=_bits_derive,
        oracle=_bits_oracle,
        not_computed=Exempt(kind="divergence"),
        simulate=_bits_simulate,
        tight=Tight(at={"n": 1, "E0": 2, "t": "1/4"}),
        ours=True,
        unit="delta",
        assumes={"adjacency": "replace"},
        related=("generative:qpriv:clones", "generative:qpriv:ldp"),
    )
)
