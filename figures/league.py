"""The picture of `borrow fit --rank`: a league table that shows how little, or how much, of it is sure.

Belongs here: drawing ranks.  The ranks are in ``estimators.decisions.ranking``.
"""

import numpy as np

from estimators.tables.columns import shortened
from figures import style

__all__ = ["draw", "picture"]

NAMED = 60
"""Most clients whose names fit on the axis."""


def picture(outcome):
    """Return the figure of the ranks of an ``Outcome`` with one number per client."""
    what = "largest" if outcome.largest_first else "smallest"
    return draw(outcome.clients, outcome.ranks.expected, outcome.ranks.low, outcome.ranks.high, outcome.level, what)


@style.styled
def draw(clients, expected, low, high, level=0.95, what="largest"):
    """Return the figure: a row per client in the order of expected ranks, the first at the top.

    Parameters
    ----------
    clients : names.  expected, low, high : their expected ranks and the ends of the intervals.
    level : of the intervals.  what : which true value has rank 1.
    """
    m = len(clients)
    few = m <= NAMED
    figure, axes = style.new_figure(style.COLUMN, min(1.1 + 0.145 * m, 9.8) if few else 4.0)
    order = np.argsort(expected, kind="stable")
    rows = np.arange(m)
    options = {"rasterized": not few}
    axes.hlines(rows, low[order], high[order], color=style.LIGHT_BLUE, linewidth=1.8 if few else 0.4, **options)
    axes.plot(
        expected[order], rows, color=style.BLUE, marker="o", linestyle="none", markersize=3.6 if few else 1.0, **options
    )
    axes.set(ylim=(m - 0.3, -0.7), xlim=(1 - 0.02 * m, m + 0.02 * m))
    axes.set_xticks(np.unique(np.linspace(1, m, min(m, 6)).round()))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if few:
        names = [shortened(name) for name in clients]
        axes.set_yticks(rows, [names[i] for i in order], parse_math=False)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{m:,} clients, by expected rank")
    axes.set_xlabel(f"rank of the true value, 1 = {what}")
    handles = axes.get_lines()[0], axes.collections[0]
    figure.legend(
        handles,
        ["expected rank", f"{100 * level:g}% interval"],
        loc="outside upper center",
        ncols=2,
        frameon=False,
        fontsize=7,
    )
    return figure
