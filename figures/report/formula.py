"""LaTeX to MathML, which browsers typeset themselves and screen readers read.

Belongs here: the conversion and the few commands that it lacks.  Does not belong here: formulas.
"""

from functools import lru_cache

from markupsafe import Markup, escape

__all__ = ["math"]

# latex2mathml leaves these as text.
REPLACED = {r"\nicefrac": r"\frac", r"\dots": r"\ldots"}
LONGEST = 12000
"""Longer formulas help nobody; they are shown as text, cut."""


@lru_cache(maxsize=4096)
def math(latex, display="inline"):
    """Return `latex` as a MathML element (or as text where it is too long), safe to put on a page.

    >>> "<mfrac>" in math(r"\\frac{1}{2}")
    True
    """
    import latex2mathml.converter

    if not latex:
        return Markup("")
    if len(latex) > LONGEST:
        return Markup(f"<code>{escape(latex[:LONGEST])} …</code>")
    source = latex
    for command, known in REPLACED.items():
        source = source.replace(command, known)
    element = latex2mathml.converter.convert(source, display=display).replace(r"\_", "_")
    return Markup(element.replace("<math ", f'<math alttext="{escape(latex)}" ', 1))
