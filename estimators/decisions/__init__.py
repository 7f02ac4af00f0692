"""What to do with a fit: who is first, who differs for sure, whether the prior holds.

Belongs here: decisions from posteriors of any fitted model, through the little of them that ``posterior`` lists: ``ranking``
(ranks with intervals, pairs, the first k), ``extremes`` (r-values), ``discovery`` (false discovery and false sign rates,
selection), ``checking`` (does the prior fit), ``summaries`` (a page of text).  Does not belong here: the models, which
offer the first and the last as methods (``model``); words for a table's columns (``figures.fit``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import checking, discovery, extremes, posterior, ranking, summaries
    from .checking import PriorCheck, prior_check
    from .discovery import Discoveries, discoveries, exceedance, tail_averages
    from .extremes import normal_r_values, r_values
    from .ranking import Ranks, pairwise, simultaneous_ranks
    from .summaries import Summary

__all__ = [
    "Discoveries",
    "PriorCheck",
    "Ranks",
    "Summary",
    "checking",
    "discoveries",
    "discovery",
    "exceedance",
    "extremes",
    "normal_r_values",
    "pairwise",
    "posterior",
    "prior_check",
    "r_values",
    "ranking",
    "simultaneous_ranks",
    "summaries",
    "tail_averages",
]
__getattr__, __dir__ = attach(
    __name__,
    {
        "checking": "PriorCheck prior_check",
        "discovery": "Discoveries discoveries exceedance tail_averages",
        "extremes": "normal_r_values r_values",
        "ranking": "Ranks pairwise simultaneous_ranks",
        "summaries": "Summary",
    },
    modules=("checking", "discovery", "extremes", "posterior", "ranking", "summaries"),
)
