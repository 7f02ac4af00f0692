"""How every figure looks, and how it becomes the same bytes each time.

Belongs here: sizes, colours, the matplotlib parameters, small drawing helpers, rendering to bytes.  Does not
belong here: data, files (``saving``).

Figures are made without pyplot and under `styled`, so neither the user's matplotlibrc nor a display changes
them.  Text in SVG is drawn as paths of the font that matplotlib ships: it looks the same everywhere.  The
background is opaque and light, so dark pages show a light card and nothing gets lost.
"""

import functools
import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image
from PIL.PngImagePlugin import PngInfo

__all__ = [
    "BLUE",
    "COLUMN",
    "DPI",
    "FORMATS",
    "GREEN",
    "GREY",
    "INK",
    "LIGHT_BLUE",
    "LIGHT_VERMILLION",
    "ORANGE",
    "PAGE",
    "PURPLE",
    "SKY",
    "VERMILLION",
    "blues",
    "curve",
    "footed",
    "legend",
    "new_figure",
    "note",
    "optimum",
    "panel_caption",
    "points",
    "points_note",
    "render",
    "styled",
]

COLUMN, PAGE = 3.4, 7.0
"""Widths in inches of one column and of the page."""

DPI = 300
"""Dots per inch."""

# Okabe and Ito's palette: told apart by readers with any common colour vision.
BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
SKY, ORANGE, PURPLE = "#56B4E9", "#E69F00", "#B0588A"
LIGHT_BLUE, LIGHT_VERMILLION = "#A6CEE8", "#F2BF99"
INK, GREY = "#222222", "#6B6B6B"

RC: dict[Any, Any] = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 6,
    "axes.titlesize": 8,
    "figure.constrained_layout.use": True,
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "lines.linewidth": 1.4,
    "lines.solid_capstyle": "round",
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,
    "savefig.dpi": DPI,
    "svg.fonttype": "path",
    "svg.hashsalt": "borrowed-strength",
    "text.color": INK,
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 7,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 7,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4,
}

# Without dates and versions, so that the bytes depend on the picture only.
METADATA = {
    "svg": {"Date": None, "Creator": "borrowed-strength"},
    "png": {"Software": "borrowed-strength"},
    "pdf": {"CreationDate": None, "Creator": "borrowed-strength", "Producer": None},
}
FORMATS = tuple(METADATA)


def styled(function):
    """Make `function` run under the style, whatever the settings outside."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(RC)
            return function(*args, **kwargs)

    return wrapper


@styled
def render(figure, form, title, dpi=DPI):
    """Return the figure as bytes in the format `form`, one of FORMATS, with `title` in its metadata.

    `dpi` is the resolution of PNG, which has 256 colours, and a third of the bytes, below that of the style (for screens).
    Images inside the vector formats always have the resolution of the style.
    """
    stream = io.BytesIO()
    options = {"dpi": dpi} if form == "png" else {}
    figure.savefig(stream, format=form, metadata={**METADATA[form], "Title": title}, **options)
    return in_few_colours(stream) if form == "png" and dpi < DPI else stream.getvalue()


@styled
def footed(figure, text):
    """Return the figure with a line of text below everything, if there is any."""
    if text:
        figure.supxlabel(text, fontsize=7, color=INK, parse_math=False)
    return figure


def in_few_colours(stream):
    """Return the PNG in `stream` with 256 colours, as bytes."""
    picture, smaller, info = Image.open(stream), io.BytesIO(), PngInfo()
    for key in ("Software", "Title"):
        info.add_text(key, picture.info[key])
    picture.convert("RGB").quantize(256).save(smaller, "png", optimize=True, pnginfo=info)
    return smaller.getvalue()


def new_figure(width: float, height: float, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of `width` by `height` inches and its axes, an array if there are several columns."""
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(1, columns, **options)


def blues():
    """Return the colour map from light to full blue, for counts."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("blues", [LIGHT_BLUE, BLUE, INK])


def panel_caption(axes, letter, text):
    """Write the small caption of a panel above its left edge."""
    axes.set_title(rf"$\bf{{{letter}}}$  {text}", x=0.0)


def note(axes, x, y, text, offset=(0, 0), **options):
    """Write `text` at a data point, moved by `offset` typographic points."""
    halo = [withStroke(linewidth=1.5, foreground="white")]
    options = {"fontsize": 7, "ha": "left", "va": "center", "path_effects": halo, **options}
    return axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", **options)


def points(axes, data, colour, marker):
    """Draw simulated points with one standard error."""
    axes.errorbar(
        data["x"],
        data["y"],
        yerr=data["se"],
        fmt=marker,
        color=colour,
        markersize=3.6,
        markerfacecolor="white",
        markeredgewidth=0.9,
        elinewidth=0.8,
        zorder=3,
    )


def curve(axes, data, colour, marker):
    """Draw the line of a curve and its simulated points."""
    axes.plot(data["x"], data["y"], color=colour, zorder=2)
    points(axes, data["points"], colour, marker)


def optimum(axes, data, colour, text, offset, **options):
    """Mark the optimum of a curve and write `text` at it, moved by `offset` typographic points."""
    at = data["optimum"]
    axes.plot(at["x"], at["y"], "D", color=colour, markersize=4.4, markeredgecolor="white", zorder=4)
    note(axes, at["x"], at["y"], text, offset, color=colour, **{"ha": "center", **options})


def points_note(axes, x, y, align="left"):
    """Say what the points are, at axes fractions x and y."""
    text = "points: simulation, standard\nerrors smaller than the markers"
    options = {"fontsize": 6, "color": GREY, "ha": align, "va": "bottom", "linespacing": 1.3}
    axes.text(x, y, text, transform=axes.transAxes, **options)


def legend(figure, handles, labels, columns):
    """Write a legend above all panels, where labels at the lines would crowd the plots."""
    options = {"loc": "outside upper center", "frameon": False, "fontsize": 7}
    figure.legend(handles, labels, ncols=columns, columnspacing=1.2, handlelength=1.6, **options)
