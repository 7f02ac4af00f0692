"""Plots of results: a measure over the rounds, or over a value of the grid, with bands of one standard error.

Belongs here: panels of one experiment, drawn from result rows.  Does not belong here: numbers (``results``), the look of
figures (``figures.style``).
"""

from itertools import cycle, islice

import numpy as np
from matplotlib.ticker import FixedLocator, FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

from estimators.federated.experiments.plan import Plot, label
from estimators.federated.experiments.results import key, rows, selected, shown
from figures import style
from figures.learn.tables import where

__all__ = ["COLOURS", "draw"]

COLOURS = (style.BLUE, style.VERMILLION, style.GREEN, style.ORANGE, style.PURPLE, style.SKY, style.INK)
DASHES = ("-", "--", ":", "-.")
MOST = 3
"""Panels in a row."""
ACCURACIES = 10, 50, 80, 90, 95, 98, 99, 99.5, 99.8, 99.9, 100
LEAST_ERROR = 0.05
"""In per cent, that 100 % is drawn at where the errors have a logarithmic axis."""
LEVEL, TURN = "_level", 6
"""Label of lines without x, and how many of their widths one of them is seen where several are at one place."""


def draw(experiment, results):
    """Figure of an experiment's panels; None if there is nothing to draw."""
    found = rows(experiment, results)
    panels = [(plot, lines_of(experiment, plot, found)) for plot in experiment.plots or default(experiment, found)]
    panels = [(plot, lines) for plot, lines in panels if lines]
    if not panels:
        return None
    names = list(dict.fromkeys(name for _, lines in panels for name, *_ in lines))
    looks = dict(zip(names, islice(looks_in_order(), len(names)), strict=True))
    return figure_of(experiment, panels, looks, any(result["embedded"] for result in results))


@style.styled
def figure_of(experiment, panels, looks, embedded):
    """Figure with one axes per panel and a legend above all."""
    columns = 2 if len(panels) == 4 else min(len(panels), MOST)
    depth = -(-len(panels) // columns)
    width = style.COLUMN * 1.25 if columns == 1 else style.PAGE
    key_columns = max(1, min(len(looks) + 1, int(width / (0.35 + 0.058 * max(map(len, looks))))))
    height = 0.14 * -(-len(looks) // key_columns) + depth * (2.5 if columns < 3 else 2.1)
    figure = style.new_figure(width, height)[0]
    figure.clear()
    all_axes = figure.subplots(depth, columns, squeeze=False).ravel()
    for axes in all_axes[len(panels) :]:
        axes.remove()
    drawn = False
    for i, (axes, (plot, lines)) in enumerate(zip(all_axes, panels, strict=False)):
        for name, x, mean, error in lines:
            line_of(axes, plot, x, mean, error, looks[name])
        limits(axes, plot, lines)
        take_turns(axes)
        drawn |= not embedded and printed_of(axes, plot, experiment, lines, looks)
        axes.set_xlabel("rounds" if plot.x == "round" else plot.x.rsplit(".", 1)[-1])
        what, place = named(plot.measure)
        if len(panels) == 1:
            axes.set_ylabel("\n".join(filter(None, [what, ", ".join(filter(None, [place, where(plot.at)]))])))
        else:
            axes.set_ylabel(what)
            between = ", " if columns < MOST else "\n"
            style.panel_caption(axes, "abcdefghijkl"[i], between.join(filter(None, [*place.split(", "), where(plot.at)])))
    handles = [figure.axes[0].plot([], [], color=colour, linestyle=dash)[0] for colour, dash in looks.values()]
    names = list(looks)
    if drawn:
        handles.append(figure.axes[0].plot([], [], "D", color=style.GREY, markersize=4, markerfacecolor="white")[0])
        names.append("printed")
    style.legend(figure, handles, names, key_columns)
    return figure


def looks_in_order():
    """Pairs of a colour and a dash, all colours before a second dash."""
    return cycle((colour, dash) for dash in DASHES for colour in COLOURS)


def default(experiment, found):
    """A panel over the rounds for each measure that the paper prints, at most three; else for the first measure."""
    measures = list(dict.fromkeys(printed.measure for printed in experiment.printed))
    if not measures and found and found[0].whole:
        names = [name for name in found[0].whole[0]["final"] if shown(name) and ".clients." in name]
        measures = [name.split(".", 1)[1] for name in names[:1]]
    return [Plot("round", measure) for measure in measures[:MOST]]


def lines_of(experiment, plot, found):
    """Lines of a panel: name, x, means and standard errors."""
    chosen = [row for row in found if plot.methods is None or row.method in plot.methods]
    chosen = [row for row in chosen if all(label(row.point.get(k, v)) == label(v) for k, v in plot.at.items())]
    lines = []
    if plot.x == "round":
        for row in selected(experiment, chosen):
            t, mean, error = row.history(plot.measure)
            rest = {k: v for k, v in row.point.items() if k not in plot.at}
            if len(t) > 1 and np.isfinite(mean).any():  # one evaluation is no course over the rounds
                lines.append((name_of(row, rest), t, mean, error))
        return lines
    over = {method.name: method.over for method in experiment.methods}
    families = {}
    for row in selected(experiment, chosen, keep=(plot.x,)):
        rest = {k: v for k, v in row.point.items() if k != plot.x and k not in plot.at and k not in over[row.method]}
        families.setdefault((row.method, key(rest)), (rest, []))[1].append(row)
    for rest, members in families.values():
        points = [(row.point.get(plot.x), row.value(plot.measure)) for row in members]
        points = [(x, value) for x, value in points if value is not None]
        if points:
            x = None if points[0][0] is None else [p[0] for p in points]
            mean, error = (np.array([p[1][i] for p in points]) for i in (0, 1))
            lines.append((name_of(members[0], rest), x, mean, np.nan_to_num(error)))
    return lines


def name_of(row, rest):
    """Name of a line."""
    return f"{row.method}, {where(rest)}" if rest else row.method


def scaled(plot, values):
    """Values as shown: accuracies in per cent."""
    return 100 * np.asarray(values) if plot.measure.endswith("accuracy") else np.asarray(values)


def named(measure):
    """What a measure measures, and where."""
    parts = measure.split(".")
    kind = {"accuracy": "accuracy (%)", "mse": "mean squared error"}.get(parts[-1], parts[-1])
    places = {"clients": "mean over clients", "server": "server's test rows", "rows": "all test rows"}
    middle = [places.get(part) or part.replace("_", " ") for part in parts[:-1] if part not in ("shared", "personal")]
    model = [f"{part} model" for part in parts[:1] if part in ("shared", "personal")]
    return kind, ", ".join([*middle, *model])


def positions(plot, x):
    """Where grid values lie on the axis: themselves if they are finite numbers, else 0, 1, ..."""
    if plot.x == "round" or all(isinstance(v, (int, float)) and np.isfinite(v) for v in x):
        return np.asarray(x, dtype=float), None
    return np.arange(len(x), dtype=float), [r"$\infty$" if label(v) == "inf" else label(v) for v in x]


def line_of(axes, plot, x, mean, error, look):
    """A line with its band; without x a level."""
    colour, dash = look
    mean, error = scaled(plot, mean), scaled(plot, error)
    if x is None:
        axes.axhline(mean[0], color=colour, linestyle=dash, linewidth=1.0, label=LEVEL)
        axes.axhspan(mean[0] - error[0], mean[0] + error[0], color=colour, alpha=0.15, linewidth=0)
        return
    at, ticks = positions(plot, x)
    marker = "" if plot.x == "round" else "o"
    axes.plot(at, mean, color=colour, linestyle=dash, marker=marker, markersize=3)
    axes.fill_between(at, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
    if ticks:
        axes.set_xticks(at, ticks)


def limits(axes, plot, lines):
    """Logarithmic axes where a grid spans more than a factor of 20, and where errors span more than one of 4.

    So have the errors of accuracies over a grid where they span more than a factor of 6: one value of it may be no better
    than guessing, beside which the others would all look alike.
    """
    means = np.concatenate([mean for _, _, mean, _ in lines])
    if plot.measure.endswith("accuracy") and plot.x != "round":
        wrong = np.maximum(100 - scaled(plot, means), LEAST_ERROR)
        if wrong.max() > 6 * wrong.min():
            axes.set_yscale("function", functions=(
                lambda v: -np.log10(np.maximum(100 - np.asarray(v, float), LEAST_ERROR)),
                lambda v: 100 - 10.0 ** -np.asarray(v, float),
            ))  # fmt: skip
            axes.yaxis.set_major_locator(FixedLocator(ACCURACIES))
            axes.yaxis.set_minor_locator(FixedLocator([]))
            axes.yaxis.set_major_formatter(lambda v, _: f"{v:g}" if v < 100 else f"≥ {v - LEAST_ERROR:g}")
    if plot.measure.endswith("mse") and means.min() > 0 and means.max() > 4 * means.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    if plot.x == "round":
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        return
    grids = [positions(plot, x) for _, x, *_ in lines if x is not None]
    values = np.concatenate([at for at, ticks in grids if ticks is None] or [np.empty(0)])
    if len(values) and values.min() > 0 and values.max() > 20 * values.min():
        axes.set_xscale("log")
    elif len(values) and values.min() == 0 and values.max() > 20 * (smallest := values[values > 0].min()):
        axes.set_xscale("symlog", linthresh=smallest)


def take_turns(axes):
    """Dash solid levels that would hide each other, each in the gaps of the others."""
    axes.autoscale_view()  # from here on a level's place on the axis is known
    together = []
    for line in axes.lines:
        if line.get_label() != LEVEL or line.get_linestyle() != "-":
            continue
        place = axes.transData.transform((0, line.get_ydata()[0]))[1]
        near = [group for group, at in together if abs(place - at) * 72 < line.get_linewidth() * axes.figure.dpi]
        if near:
            near[0].append(line)
        else:
            together.append(([line], place))
    for group, _ in together:
        for turn, line in enumerate(group):
            if len(group) > 1:
                line.set_linestyle((turn * TURN, (TURN, (len(group) - 1) * TURN)))


def same_measure(shown, printed):
    """Whether a plot's measure is a printed one; without a kind of model before it, that of either kind."""
    return printed in (shown, f"personal.{shown}", f"shared.{shown}")


def printed_of(axes, plot, experiment, lines, looks):
    """Mark the paper's numbers of this measure; return whether there are any."""
    there = {name: x for name, x, *_ in lines}
    drawn = False
    for printed in experiment.printed:
        if not same_measure(plot.measure, printed.measure) or printed.method not in there:
            continue
        if any(label(printed.at.get(k, v)) != label(v) for k, v in plot.at.items()):
            continue
        x = there[printed.method]
        if plot.x == "round":
            place = x[-1]
        elif x is None:
            place = None
        elif plot.x in printed.at:
            labels = [label(v) for v in x]
            if label(printed.at[plot.x]) not in labels:  # not run
                continue
            place = positions(plot, x)[0][labels.index(label(printed.at[plot.x]))]
        else:
            continue
        colour = looks[printed.method][0]
        options = {"color": colour, "markersize": 4, "markerfacecolor": "white", "zorder": 4, "clip_on": False}
        if place is None:
            axes.plot([1], scaled(plot, [printed.value]), "D", transform=axes.get_yaxis_transform(), **options)
        else:
            axes.plot([place], scaled(plot, [printed.value]), "D", **options)
        drawn = True
    return drawn
