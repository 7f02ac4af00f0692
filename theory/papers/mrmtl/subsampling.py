"""Appendix A, privacy budgeting: batches and what sampling them amplifies.

Belongs here: claims on random batches. Does not belong here: how guarantees are measured and added up (accounting.py).
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.accounting import mechanisms
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl.accounting import mp, to_float

# --- subsampling ---------------------------------------------------------------------------------------------------

RATE = Variable("q", "fraction", "sampling ratio: share of the records in a batch")
SIZE = Variable("n", "size", "records of the dataset")


def _batch_derive(q: Any, n: Any) -> Derivation:
    d = Derivation()
    chance = d.say("The batch is a random sample in which every record is with probability", q)
    return d.conclude("The n indicators have that mean each; their sum is the batch size, of mean", n * chance)


def _batch_oracle(q: Any, n: Any) -> Any:
    """All subsets of the records with their probabilities."""
    return sum((q ** sum(s) * (1 - q) ** (int(n) - sum(s)) * sum(s) for s in product((0, 1), repeat=int(n))), sp.Integer(0))


def _batch_simulate(q: float, n: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        return (gen.random((reps, n)) < q).sum(axis=1)[:, None].astype(float)

    return simulation.sample_means(draw, labels=["batch size"], draws=n)


register(
    Claim(
        id="mrmtl:appA:batch",
        title="Batch size and sampling ratio",
        place="Appendix A, Privacy Budgeting",
        statement="A minibatch has the size b = q/n, where q is the sampling ratio and n the size of the dataset.",
        latex=r"b=q/n",
        kind="identity",
        variables=(RATE, SIZE),
        examples=({"q": "1/2", "n": 4}, {"q": "1/3", "n": 6}),
        printed=lambda q, n: q / n,
        derive=_batch_derive,
        oracle=_batch_oracle,
        simulate=_batch_simulate,
        counterexample={"q": "1/2", "n": 2},
        corrected=lambda q, n: q * n,
        corrected_text="b = q n",
        slip="a division sign for a product; the sampling ratio is q = b/n",
        not_computed=Exempt(kind="refuted"),
        assumes={"sampling": "poisson"},
        finding="The batch size is the sampling ratio times the number of records, and not the ratio divided by it.",
        unit="records",
        remark="The mean size under Poisson sampling, the size itself for samples of fixed size.",
    )
)

BUDGET = Variable("eps", "positive", "eps of the step without sampling", within=(sp.Rational(1, 4), 10), why="certified")
LOSS = Variable(
    "delta",
    "fraction",
    "delta of the step without sampling",
    within=(sp.Rational(1, 10**8), sp.Rational(1, 2)),
    why="certified",
)
RATIO = Variable("q", "fraction", "sampling ratio", within=(sp.Rational(1, 100), sp.Rational(9, 10)), why="certified")
SAMPLING = Variable(
    "sampling",
    "choice",
    """fixed: batches of one size without replacement, neighbours by replacement (Definition 2.1); poisson: every record by
    its own coin, neighbours by adding or removing a record""",
    choices=("fixed", "poisson"),
    default="fixed",
)
CONSTANT = Variable(
    "constant",
    "choice",
    "what O(q eps) hides: (e^eps - 1)/eps, which depends on eps, or 2, one number for every eps",
    choices=("of eps", "one for all"),
    default="of eps",
)


def worst_pair(grown: Any, delta: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Laws of four outputs, exactly (eps, delta)-close with e^eps = grown, to which every such pair can be mapped."""
    high, low = (1 - delta) * grown / (1 + grown), (1 - delta) / (1 + grown)
    return (delta, high, low, sp.Integer(0)), (sp.Integer(0), low, high, delta)


def _sampled_derive(eps: Any, delta: Any, q: Any, sampling: str) -> Derivation:
    d = Derivation()
    if sampling == "fixed":
        d.say("""A batch holds the differing record with probability q. Batches without it can be paired with batches that
            hold it in the place of another record, a replacement; so all three laws, with x, with x' and
            without, are (eps, delta)-close to each other.""")  # fmt: skip
    else:
        d.say("""A batch holds the record that only one neighbour has with probability q; without it both neighbours' batches
            are alike, and with it they are neighbours by adding that record.""")  # fmt: skip
    d.say("""So the outputs are (1-q) R + q P and (1-q) R + q P' with R as close to P as P' is; by joint convexity R = P' is
        the worst.""")  # fmt: skip
    ratio = d.say("At e^eps' = 1 + q (e^eps - 1), (1-q) P' + q P - e^eps' P' = q (P - e^eps P'):", 1 + q * (sp.exp(eps) - 1))
    return d.conclude("so the hockey-stick divergence at eps' is q times that at eps: eps' and delta' are",
                      (sp.log(ratio), q * delta))  # fmt: skip


@cache
def _sampled_oracle(eps: Any, delta: Any, q: Any, sampling: str) -> tuple[Any, Any]:
    """The worst pair, sampled, both orders and both laws of a batch without the record, output by output."""
    with mpmath.workdps(60):
        grown, share = mpmath.exp(mp(eps)), mp(q)
        left, right = worst_pair(grown, mp(delta))
        without = (left, right) if sampling == "fixed" else (right,)
        pairs = []
        for rest in without:
            first = [(1 - share) * r + share * x for r, x in zip(rest, left, strict=True)]
            second = [(1 - share) * r + share * x for r, x in zip(rest, right, strict=True)]
            pairs += [(first, second), (second, first)]
        # eps' is where all of the outputs that both laws have are within it
        ratio = max(a / b for pair in pairs for a, b in list(zip(*pair, strict=True))[1:3])
        lost = max(mpmath.fsum(max(a - ratio * b, 0) for a, b in zip(*pair, strict=True)) for pair in pairs)
        return to_float(mpmath.log(ratio)), to_float(lost)


def _sampled_simulate(eps: float, delta: float, q: float, sampling: str) -> simulation.Simulation:
    kept = (1 - delta) / (1 + np.exp(eps))  # four outputs: telling on one side, likely, unlikely, telling on the other
    left = np.array([delta, kept * np.exp(eps), kept, 0.0])
    right = left[::-1]

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        sampled = gen.random(reps) < q
        u = gen.random(reps)
        output = np.where(sampled, np.searchsorted(np.cumsum(left), u), np.searchsorted(np.cumsum(right), u))
        return np.stack([output == 1, output == 0], axis=1).astype(float)

    # The likely output is e^eps' times as likely as on the neighbour, the telling one has probability delta'.
    return simulation.sample_means(
        draw,
        labels=["output of ratio e^eps'", "telling output"],
        draws=2,
        of=[lambda v: np.exp(v[0]) * right[1], 1],
        back=[lambda mean: np.log(mean / right[1]), None],
    )


_SAMPLED = {
    "place": "Appendix A, Privacy Budgeting",
    "latex": r"\text{amplified to }(O(q\varepsilon),\delta)\text{-DP}",
    "relation": "<=",
    "derive": _sampled_derive,
    "oracle": _sampled_oracle,
    "computed": lambda eps, delta, q, sampling: mechanisms.amplified_budget(eps=eps, delta=delta, sampling_rate=q),
    "simulate": _sampled_simulate,
    "entries": ("eps", "delta"),
    "unit": "nats; probability",
}

register(
    Claim(
        id="mrmtl:appA:amplification",
        title="Privacy amplification by subsampling",
        statement="""A step that is (eps, delta)-DP on its batch is (O(q eps), delta)-DP on the dataset, for random batches
            of sampling ratio q. Judged with the constant that O(.) hides.""",
        kind="upper bound",
        variables=(BUDGET, LOSS, RATIO, SAMPLING, CONSTANT),
        examples=({"eps": 1, "delta": "1/5", "q": "1/2"}, {"eps": "1/2", "delta": "1/4", "q": "1/2", "sampling": "poisson"}),
        printed=lambda eps, delta, q, constant: (
            q * eps * ((sp.exp(eps) - 1) / eps if constant == "of eps" else 2),
            delta,
        ),
        condition=lambda constant: sp.true if constant == "of eps" else sp.false,
        condition_text='constant == "of eps" (the hidden constant may depend on eps: it is (e^eps - 1)/eps)',
        counterexample={"eps": 10, "delta": "1/100000", "q": "1/100", "constant": "one for all"},
        tight=Tight(at={"eps": 1, "delta": "1/5", "q": "1/2"}, ratio="1.38545527412944"),
        edits=(
            Edit(
                printed=r"O(q",
                read=r"C(q",
                reason="the hidden constant is made a choice: one that depends on eps, or one for all",
            ),
        ),
        remark="""Exactly eps' = ln(1 + q (e^eps - 1)) and delta' = q delta, for fixed batch sizes under replacement and for
            Poisson sampling under add-or-remove (Balle, Barthe and Gaboardi 2018); delta improves too. Poisson sampling
            under replacement has no such guarantee. For eps <= 1 the constant is at most e - 1 = 1.72, so that 2 q eps
            is enough (mrmtl:appA:amplification:small-eps); for large eps it grows like e^eps/eps and the gain vanishes:
            eps' = eps - ln(1/q) about. 'Assumed to be a random sample' matters: epochs over shuffled data are not one.""",
        **_SAMPLED,
    )
)
register(
    Claim(
        id="mrmtl:appA:amplification:small-eps",
        title="Amplification for eps up to 1",
        statement="For eps <= 1 the sampled step is (2 q eps, q delta)-DP, with one constant for all eps and q.",
        kind="upper bound",
        variables=(
            Variable(
                "eps", "positive", "eps of the step without sampling", within=(sp.Rational(1, 100), 1), why="certified"
            ),
            LOSS,
            RATIO,
            SAMPLING,
        ),
        examples=({"eps": 1, "delta": "1/5", "q": "1/2"},),
        printed=lambda eps, delta, q: (2 * q * eps, q * delta),
        ours=True,
        tight=Tight(at={"eps": 1, "delta": "1/5", "q": "1/2"}, ratio="1.61260539590518"),
        related=("mrmtl:appA:amplification",),
        **_SAMPLED,
    )
)
