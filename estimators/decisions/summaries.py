"""A fit on one page: a table of clients and the prior, as text and for notebooks.

Belongs here: the object that ``ClientModel.summary`` returns.  What `borrow fit` prints, in words of a table's columns, is
in ``figures.fit``.
"""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import numpy as np

from estimators.numerics.arrays import Floats

__all__ = ["Summary"]

SHOWN = 20  # rows printed
COLUMNS = ("mean", "sd", "low", "high")


class Summary(NamedTuple):
    """What a model found.  `mean`, `sd`, `low`, `high` are arrays like ``posterior_mean_``.

    model : its constructor as text.  prior : its ``prior_summary``.  prior_intervals : its ``prior_interval``.
    level : of intervals.  log_likelihood, converged : of the fit.  str() is a page of text; notebooks show a table.
    """

    model: str
    prior: dict[str, Any]
    prior_intervals: dict[str, Any]
    mean: Floats
    sd: Floats
    low: Floats
    high: Floats
    level: float
    log_likelihood: float
    converged: bool

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows that are shown, as texts: the client and its numbers, or dots for those left out."""
        values = np.stack([self.mean, self.sd, self.low, self.high], axis=-1)
        places = list(np.ndindex(values.shape[:-1]))
        names = [", ".join(map(str, place)) for place in places]
        found = [(name, *(f"{value:.4g}" for value in values[place])) for name, place in zip(names, places, strict=True)]
        half = SHOWN // 2
        return found if len(found) <= SHOWN else [*found[:half], ("...",) * 5, *found[-half:]]

    def lines(self) -> list[str]:
        """Return what is said beside the table."""
        kept = {
            name: value
            for name, value in self.prior.items()
            if isinstance(value, str | int | float) or (isinstance(value, list) and len(value) <= 6)
        }
        told = [f"{self.model}: {len(self.mean)} clients, log-likelihood {self.log_likelihood:.6g}"]
        told.append("prior: " + ", ".join(f"{name.replace('_', ' ')} {shown(value)}" for name, value in kept.items()))
        if self.prior_intervals:
            ends = ", ".join(f"{name} {shown(value)}" for name, value in self.prior_intervals.items())
            told.append(f"{100 * self.level:g}% intervals for it: {ends}")
        if not self.converged:
            told.append("the fit did NOT converge; do not use it")
        return told

    def __str__(self) -> str:
        """Return a page of text."""
        rows = [("client", *COLUMNS), *self.rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*self.lines(), *table])

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""

        def row(cells, kind):
            return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

        head = "".join(f"<p>{html.escape(line)}</p>" for line in self.lines())
        body = "".join(row(cells, "td") for cells in self.rows())
        return f"{head}<table><thead>{row(('client', *COLUMNS), 'th')}</thead><tbody>{body}</tbody></table>"


def shown(value: Any) -> str:
    """Return a number with four digits, pairs and lists in brackets.

    >>> shown((1.0, 2.34567)), shown("beta")
    ('[1, 2.346]', 'beta')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
