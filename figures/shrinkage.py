"""The pictures of `borrow fit`: where each client's estimate went, and how sure one can be of it.

Belongs here: drawing the fit of one table of clients.  Does not belong here: fitting, or text output.

Up to `NAMED` clients get a row each; more become two distributions and a map from own estimates to new ones; regressions
get a panel per coefficient.
"""

import numpy as np

from estimators.tables.columns import shortened
from figures import style

__all__ = ["NAMED", "PANELS", "draw", "draw_coefficients", "draw_many", "picture"]

NAMED = 60
"""Most clients whose names fit on the axis."""

PANELS = 6
"""Most coefficients drawn."""

SOLID, DASHED = {"linewidth": 1.2}, {"linewidth": 0.8, "linestyle": (0, (3, 2))}


def picture(outcome, truth=None):
    """Return the figure of an ``Outcome`` of `borrow fit`; `truth` is as in `draw`."""
    if outcome.coefficients:
        shape = (len(outcome.clients), len(outcome.coefficients))
        own, mean, low, high = (array.reshape(shape) for array in (outcome.own, outcome.mean, outcome.low, outcome.high))
        return draw_coefficients(outcome.clients, outcome.coefficients, own, mean, low, high, outcome.level)
    own_name = "client's report" if outcome.privacy else "own estimate"
    centre = outcome.centre if outcome.predicted is None else outcome.predicted
    if len(outcome.clients) > NAMED:
        return draw_many(outcome.own, outcome.mean, centre, own_name)
    values = outcome.own, outcome.mean, outcome.low, outcome.high
    return draw(outcome.clients, *values, centre, outcome.level, own_name, truth)


def name_of(centre):
    """Return what the legend calls `centre`, a number or what covariates predict of each client."""
    return "predicted by covariates" if np.ndim(centre) else f"centre {centre:.3g}"


def draw_rows(axes, estimates, shrunken, low, high, centre):
    """Draw a row per client, from the bottom up, and return what the legend shows; `centre` is one, or one for each."""
    rows = np.arange(len(estimates))
    few = len(rows) <= NAMED
    # Many symbols are thinner, and an image inside the vector formats, which would otherwise be megabytes.
    options = {"rasterized": not few}
    marks = {"linestyle": "none", "markersize": 3.6 if few else 1.0, **options}
    raw = {"marker": "o", "markerfacecolor": "white", "markeredgewidth": 0.9} if few else {"marker": "."}
    axes.hlines(rows, low, high, color=style.LIGHT_BLUE, linewidth=1.8 if few else 0.4, zorder=1, **options)
    if np.ndim(centre):
        (middle,) = axes.plot(centre, rows, color=style.GREY, marker="D", zorder=2, **{**marks, "markersize": 2.6})
    else:
        (middle,) = axes.plot([], [], color=style.GREY, **DASHED)
        if np.isfinite(centre):
            axes.axvline(centre, color=style.GREY, zorder=2, **DASHED)
    way = (style.VERMILLION, 0.8) if few else (style.LIGHT_VERMILLION, 0.4)
    axes.hlines(rows, estimates, shrunken, color=way[0], linewidth=way[1], zorder=3, **options)
    (before,) = axes.plot(estimates, rows, color=style.VERMILLION, zorder=4, **marks, **raw)
    (after,) = axes.plot(shrunken, rows, color=style.BLUE, marker="o", zorder=5, **marks)
    axes.set(ylim=(-0.7, len(rows) - 0.3))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    (interval,) = axes.plot([], [], color=style.LIGHT_BLUE, linewidth=1.8)
    return [before, after, interval, middle]


def name_rows(axes, clients):
    """Write the names of the clients at their rows.  They are the user's: a dollar sign in one is no formula."""
    axes.set_yticks(np.arange(len(clients)), [shortened(name) for name in clients], parse_math=False)
    axes.tick_params(axis="y", length=0)


def legend(figure, marks, labels, columns=2, scale=1.0):
    """Put a legend above the panels."""
    figure.legend(
        marks,
        labels,
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        fontsize=7,
        columnspacing=1.2,
        handlelength=1.6,
        markerscale=scale,
    )


@style.styled
def draw(clients, estimates, shrunken, low, high, centre, level=0.95, own_name="own estimate", truth=None):
    """Return the figure of a few clients: a row each, sorted by estimate.

    Parameters
    ----------
    clients : names.
    estimates, shrunken : each client's own estimate (NaN if it has none), and that after borrowing.
    low, high : ends of the interval for the client's true value, which holds it with probability `level`.
    centre : what estimates are pulled to, a number or one for each client.
    own_name : what the legend calls `estimates`.
    truth : where it has come out since, a pair of its name in the legend and the clients' values.
    """
    figure, axes = style.new_figure(style.COLUMN, min(1.1 + 0.145 * len(clients), 9.8))
    order = np.argsort(np.where(np.isfinite(estimates), estimates, shrunken), kind="stable")
    middle = centre[order] if np.ndim(centre) else centre
    marks = draw_rows(axes, estimates[order], shrunken[order], low[order], high[order], middle)
    name_rows(axes, [clients[i] for i in order])
    axes.set_xlabel("estimate (units of the data)")
    names = [own_name, "after borrowing", f"{100 * level:g}% interval", name_of(centre)]
    if truth is not None:
        marks += axes.plot(
            truth[1][order], np.arange(len(clients)), "|", color=style.INK, markersize=7, markeredgewidth=1.6, zorder=6
        )
        names.append(truth[0])
    legend(figure, marks, names, 3 if truth is not None else 2)
    return figure


def reach_of(values):
    """Return the ends of an axis for `values`, of which the outermost thousandths may lie far out."""
    outer = np.quantile(values, [0.001, 0.999])
    ends = outer + np.array([-0.1, 0.1]) * np.ptp(outer)
    low, high = max(values.min(), ends[0]), min(values.max(), ends[1])
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def draw_shares(axes, own, shrunken, centre):
    """Draw how estimates are distributed, before and after, and what they are pulled to; return these three."""
    pulled = [(centre, style.GREY, DASHED)] if np.ndim(centre) else []
    shown = []
    for values, colour, line in ((own, style.VERMILLION, SOLID), (shrunken, style.BLUE, SOLID), *pulled):
        # Shares rather than densities: estimates such as k of n take few values, which bins would turn into combs.
        ranks = np.unique(np.linspace(0, values.size - 1, 2000).astype(int))
        shown += axes.step(np.sort(values)[ranks], (ranks + 1) / values.size, where="post", color=colour, **line)
    if not pulled:
        shown.append(axes.axvline(centre, color=style.GREY, **DASHED))
    low, high = reach_of(own)
    axes.set(xlabel="estimate (units of the data)", ylabel="share of clients up to it")
    axes.set(xlim=(low - 0.02 * (high - low), high + 0.02 * (high - low)), ylim=(-0.02, 1.02))
    return shown


def draw_ways(axes, own, after, centre):
    """Draw which estimate went where, beside the centre and those that stay; return how many lie beyond the axes."""
    low, high = reach_of(own)
    width = high - low
    inside = (own >= low) & (own <= high)
    places = np.column_stack([own[inside], after[inside]])
    if own.size > 5000 and np.unique(own).size <= 5000:
        places = np.unique(places, axis=0)
    if len(places) > 5000:
        span = (low, high, min(after[inside].min(), centre), max(after[inside].max(), centre))
        span = span if span[3] > span[2] else (low, high, centre - 0.01 * width, centre + 0.01 * width)
        axes.hexbin(
            own[inside], after[inside], gridsize=70, bins="log", mincnt=1, extent=span, cmap=style.blues(), linewidths=0.1,
            rasterized=True,
        )  # fmt: skip
    else:
        axes.plot(*places.T, ".", color=style.BLUE, markersize=2.0, rasterized=True)
    axes.plot([low, high], [low, high], color=style.VERMILLION, linewidth=0.9)
    axes.axhline(centre, color=style.GREY, **DASHED)
    reach = max(after[inside].max() - after[inside].min(), 0.2 * width)
    middle = (after[inside].max() + after[inside].min()) / 2
    axes.set(xlim=(low - 0.02 * width, high + 0.02 * width), ylim=(middle - 0.6 * reach, middle + 0.6 * reach))
    return own.size - int(inside.sum())


@style.styled
def draw_many(estimates, shrunken, centre, own_name="own estimate"):
    """Return the figure of many clients: how estimates are distributed before and after, and which go where.

    Where `centre` is one for each, the second panel takes it off both.

    Parameters
    ----------
    estimates, shrunken, centre, own_name : as in `draw`.
    """
    figure, (left, right) = style.new_figure(style.PAGE, 3.0, 2)
    known = np.isfinite(estimates)
    marks = draw_shares(left, estimates[known], shrunken, centre)
    style.panel_caption(left, "a", f"{estimates.size:,} clients")
    # Where each is pulled to a place of its own, what goes where is seen from there.
    start, line, since = (centre[known], 0.0, ", less predicted") if np.ndim(centre) else (0.0, centre, "")
    beyond = draw_ways(right, estimates[known] - start, shrunken[known] - start, line)
    right.set(xlabel=own_name + since, ylabel="after borrowing" + since)
    style.panel_caption(right, "b", "who went where" + (f" ({beyond:,} beyond the axes)" if beyond else ""))
    legend(figure, marks, [f"{own_name} (a); unmoved (b)", "after borrowing", name_of(centre)], 3)
    return figure


@style.styled
def draw_coefficients(clients, coefficients, estimates, shrunken, low, high, level=0.95):
    """Return the figure of regressions: a panel per coefficient, the same row of each for a client.

    Parameters
    ----------
    clients, coefficients : names; of the latter the first `PANELS` are drawn.
    estimates, shrunken, low, high : arrays (clients, coefficients), as in `draw`.
    """
    panels = min(len(coefficients), PANELS)
    few = len(clients) <= NAMED
    width = min(1.1 * few + 1.7 * panels, 2 * style.PAGE)
    figure, axes = style.new_figure(
        max(width, style.COLUMN), min(1.1 + 0.145 * len(clients), 9.8) if few else 5.0, panels, squeeze=False
    )
    order = np.argsort(shrunken[:, min(1, panels - 1)], kind="stable")
    marks = []
    for k, panel in enumerate(axes[0]):
        ends = [np.where(np.isfinite(values[order, k]), values[order, k], np.nan) for values in (low, high)]
        marks = draw_rows(panel, estimates[order, k], shrunken[order, k], ends[0], ends[1], float(np.mean(shrunken[:, k])))
        panel.set_xlabel(coefficients[k], parse_math=False)
        # Estimates of clients with few rows may lie far out; what matters is near the intervals.
        inner = [np.nanmin(ends[0], initial=np.inf), np.nanmax(ends[1], initial=-np.inf)]
        if inner[0] < inner[1]:
            gap = 0.5 * (inner[1] - inner[0])
            seen = estimates[:, k][np.isfinite(estimates[:, k])]
            low_end = min(inner[0], max(seen.min(initial=inner[0]), inner[0] - gap))
            high_end = max(inner[1], min(seen.max(initial=inner[1]), inner[1] + gap))
            panel.set_xlim(low_end - 0.1 * gap, high_end + 0.1 * gap)
    if few:
        name_rows(axes[0, 0], [clients[i] for i in order])
    else:
        axes[0, 0].set_ylabel(f"{len(clients):,} clients, sorted by {coefficients[min(1, panels - 1)]}", parse_math=False)
    names = ["own estimate", "after borrowing", f"{100 * level:g}% interval", "mean of clients"]
    legend(figure, marks, names, 4 if panels > 2 else 2, 1.0 if few else 3.0)
    return figure
