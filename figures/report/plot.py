"""A claim's curve as a small SVG that takes its colours from the page, so that it works in dark mode.

Belongs here: scales, ticks and paths of one line chart.  Does not belong here: numbers (``theory.describe``).
"""

import math

from markupsafe import Markup, escape

from estimators.tables.columns import shortened

__all__ = ["chart"]

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 40


class Axis:
    """A linear or logarithmic scale from data to pixels, with its ticks."""

    def __init__(self, values, start, end, logarithmic):
        from matplotlib.ticker import LogLocator, MaxNLocator

        low, high = min(values), max(values)
        if low == high:
            low, high = low - (abs(low) or 1) * 0.5, high + (abs(high) or 1) * 0.5
        self.logarithmic = logarithmic
        locator = LogLocator(numticks=6) if logarithmic else MaxNLocator(5)
        self.low, self.high = low, high
        self.start, self.end = start, end
        if not logarithmic:
            margin = 0.04 * (high - low)
            self.low, self.high = low - margin, high + margin
        self.ticks = [t for t in locator.tick_values(self.low, self.high) if self.low <= t <= self.high]

    def __call__(self, value):
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 1)


def chart(curve):
    """Return the SVG of a curve of `theory.describe`."""
    lines = [line for line in (curve["right"], curve["printed"]) if line]
    ys = [y for line in lines for y in line if y is not None]
    positive = min(ys) > 0 and max(ys) > 50 * min(ys)
    x = Axis(curve["x"], LEFT, WIDTH - RIGHT, curve["logarithmic"])
    y = Axis(ys, HEIGHT - BOTTOM, TOP, positive)
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(summary(curve))}">']
    for t in y.ticks:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(t)}" y2="{y(t)}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(t) + 4}" text-anchor="end">{number(t)}</text>')
    for t in x.ticks:
        parts.append(f'<line class="tick" x1="{x(t)}" x2="{x(t)}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 5}"/>')
        parts.append(f'<text x="{x(t)}" y="{HEIGHT - BOTTOM + 19}" text-anchor="middle">{number(t)}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>')
    if curve["printed"]:
        parts.append(f'<path class="printed" d="{path(curve["x"], curve["printed"], x, y)}"/>')
    parts.append(f'<path class="right" d="{path(curve["x"], curve["right"], x, y)}"/>')
    if curve["x"][0] <= curve["example"] <= curve["x"][-1]:
        at = x(curve["example"])
        parts.append(f'<line class="example" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    label = shortened(f"{curve['name']}: {curve['meaning']}", 70)
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">{escape(label)}</text>')
    return Markup("".join(parts) + "</svg>")


def path(xs, ys, x, y):
    """Return the path through the points that exist."""
    commands, pen = [], "M"
    for a, b in zip(xs, ys, strict=True):
        if b is None:
            pen = "M"
            continue
        commands.append(f"{pen}{x(a)} {y(b)}")
        pen = "L"
    return "".join(commands)


def number(value):
    """Return a tick label.

    >>> number(0.5), number(1e-6), number(20000.0), number(0.30000000000000004)
    ('0.5', '1e-6', '20000', '0.3')
    """
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e5:
        sign = "−" if value < 0 else ""
        mantissa, exponent = f"{abs(value):.0e}".split("e")
        return f"{sign}{mantissa}e{int(exponent)}"
    return f"{value:.6g}".replace("-", "−")


def summary(curve):
    """Return what the chart shows, for those who cannot see it."""
    ends = f"from {curve['x'][0]:.3g} to {curve['x'][-1]:.3g}"
    values = [v for v in curve["right"] if v is not None]
    text = f"The right value along {curve['name']} {ends}: it goes from {values[0]:.4g} to {values[-1]:.4g}."
    if not curve["printed"]:
        return text
    return text + (" The printed formula differs." if curve["differs"] else " The printed formula gives the same line.")
