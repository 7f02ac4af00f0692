"""The picture of `borrow fit`: where each client's estimate went, and how sure one can be of it.

Belongs here: drawing the fit of one table of clients.  Does not belong here: fitting, or text output.
"""

import numpy as np

from figures import style

__all__ = ["NAMED", "draw"]

NAMED = 60
"""Most clients whose names fit on the axis."""


@style.styled
def draw(clients, estimates, shrunken, low, high, centre):
    """Return the figure: a row per client, sorted by estimate.

    Parameters
    ----------
    clients : names.
    estimates, shrunken : each client's own estimate, and that after borrowing.
    low, high : ends of the interval for the client's true value.
    centre : what estimates are pulled to.
    """
    count = len(clients)
    named = count <= NAMED
    figure, axes = style.new_figure(style.COLUMN, min(1.1 + 0.145 * count, 5.5) if named else 5.5)
    order = np.argsort(estimates, kind="stable")
    estimates, shrunken, low, high = (values[order] for values in (estimates, shrunken, low, high))
    rows = np.arange(count)
    # Many symbols are thinner, and an image inside the vector formats, which would otherwise be megabytes.
    options = {"rasterized": not named}
    marks = {"linestyle": "none", "markersize": 3.6 if named else 1.0, **options}
    raw = {"marker": "o", "markerfacecolor": "white", "markeredgewidth": 0.9} if named else {"marker": "."}
    width, way = (1.8, style.VERMILLION) if named else (0.4, style.LIGHT_VERMILLION)
    axes.hlines(rows, low, high, color=style.LIGHT_BLUE, linewidth=width, zorder=1, **options)
    axes.axvline(centre, color=style.GREY, linewidth=0.8, linestyle=(0, (3, 2)), zorder=2)
    axes.hlines(rows, estimates, shrunken, color=way, linewidth=0.8 if named else 0.4, zorder=3, **options)
    (before,) = axes.plot(estimates, rows, color=style.VERMILLION, zorder=4, **marks, **raw)
    (after,) = axes.plot(shrunken, rows, color=style.BLUE, marker="o", zorder=5, **marks)
    axes.set(ylim=(-0.7, count - 0.3), xlabel="estimate (units of the data)")
    if named:
        # Names are the user's: a dollar sign in one is no formula.
        labels = [clients[i] if len(clients[i]) <= 18 else f"{clients[i][:17]}…" for i in order]
        axes.set_yticks(rows, labels, parse_math=False)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_ylabel(f"{count} clients, sorted by own estimate")
        axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    (interval,) = axes.plot([], [], color=style.LIGHT_BLUE, linewidth=1.8)
    (middle,) = axes.plot([], [], color=style.GREY, linewidth=0.8, linestyle=(0, (3, 2)))
    figure.legend(
        [before, after, interval, middle],
        ["own estimate", "after borrowing", "95% interval", f"centre {centre:.3g}"],
        loc="outside upper center",
        ncols=2,
        frameon=False,
        fontsize=7,
        columnspacing=1.2,
        handlelength=1.6,
        markerscale=1 if named else 3,
    )
    return figure
