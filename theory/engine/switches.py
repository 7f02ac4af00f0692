"""Assumptions as switches: questions about a model with a short list of answers, each named once.

Belongs here: the questions, their answers in words.  Does not belong here: what a claim inherits (assumption.py), hidden
conditions under which a printed formula holds (``Claim.condition``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Switch:
    """A question and its answers, each a short word with its sentence."""

    question: str
    answers: Mapping[str, str]


SWITCHES: dict[str, Switch] = {
    "own_noise": Switch(
        "Is a client's own message noise in the model that it gets back?",
        {"in": "a client's own noise comes back to it", "out": "a client's own noise is taken out of what it gets back"},
    ),
    "noise": Switch(
        "Is noise drawn anew for each use of the data?",
        {
            "fresh": "noise is drawn anew at each use",
            "reused": "one noisy message is used again",
            "none": "no noise is added",
        },
    ),
    "prior": Switch(
        "What is known of the centre beforehand?",
        {
            "flat": "nothing is known of the centre beforehand (flat prior)",
            "proper": "the centre has a proper prior",
            "known": "the centre and the variances are known",
        },
    ),
    "pivot": Switch(
        "What is an estimate drawn towards?",
        {
            "mean": "estimates are drawn towards the mean of all, own one included",
            "rest": "estimates are drawn towards the mean of the others",
            "model": "estimates are drawn towards the server's model",
            "truth": "estimates are drawn towards the true centre",
        },
    ),
    "divisor": Switch(
        "By what is a sum over sampled or clipped records divided?",
        {"fixed": "sums are divided by a fixed number", "realised": "sums are divided by the number that was drawn"},
    ),
    "sampling": Switch(
        "How is a batch drawn?",
        {
            "none": "all records are used",
            "poisson": "each record is drawn independently (Poisson sampling)",
            "fixed": "batches of a fixed size are drawn without replacement",
            "replacement": "batches of a fixed size are drawn with replacement",
        },
    ),
    "adjacency": Switch(
        "Which data sets are neighbours?",
        {
            "replace": "neighbours differ in one record, which is replaced",
            "add-remove": "neighbours differ by one record, added or removed",
            "zero-out": "neighbours differ in one record, which counts as zero in one of them",
        },
    ),
    "given": Switch(
        "What is held fixed when means are taken?",
        {
            "nothing": "means are over all that is random",
            "data": "means are over the noise, for given data",
            "parameters": "means are over data and noise, for given parameters of the clients",
            "messages": "means are over the parameters, given the messages",
            "design": "means are for given designs",
        },
    ),
    "clipping": Switch(
        "Are values clipped?",
        {
            "none": "nothing is clipped: all values lie within the bound",
            "all": "every value is clipped to the bound",
            "any": "values are clipped where they exceed the bound",
        },
    ),
    "independence": Switch(
        "How do the clients depend on each other?",
        {
            "all": "all noises are independent",
            "given the centre": "clients are independent given the centre",
            "uncorrelated": "noises are uncorrelated",
        },
    ),
    "law": Switch(
        "Which law do noises and parameters have?",
        {
            "gaussian": "noises and parameters are Gaussian",
            "moments": "only first and second moments are used",
            "bernoulli": "records are Bernoulli",
            "bounded": "values are bounded",
            "laplace": "the noise is Laplace",
        },
    ),
}


def unknown(assumes: Mapping[str, str]) -> list[str]:
    """What is wrong with the answers of a claim, in words."""
    wrong = [f"no switch is called {name!r}; known are {', '.join(SWITCHES)}" for name in assumes if name not in SWITCHES]
    return wrong + [
        f"{answer!r} is no answer to {name}; take one of {', '.join(SWITCHES[name].answers)}"
        for name, answer in assumes.items()
        if name in SWITCHES and answer not in SWITCHES[name].answers
    ]


__all__ = ["SWITCHES", "Switch", "unknown"]
