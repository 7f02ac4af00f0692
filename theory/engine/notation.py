"""How the letters of the code are typeset: `sigma2_dp` as sigma_dp squared, `lam` as lambda.

Belongs here: LaTeX of names and of values. Does not belong here: what is shown of a claim (describe.py), HTML.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import sympy as sp

GREEK = {
    name: rf"\{name}"
    for name in ("alpha", "beta", "gamma", "delta", "eta", "kappa", "mu", "psi", "rho", "sigma", "tau", "theta", "xi", "phi")
} | {"eps": r"\varepsilon", "lam": r"\lambda", "xbar": r"\bar{x}"}
VARIANCES = ("alpha", "gamma", "sigma", "tau")
HEAD = re.compile(r"([A-Za-z]+?)(\d*)(s?)$")


@cache
def letter(name: str) -> str:
    """LaTeX of a variable's name.

    >>> letter("sigma2_dp"), letter("gamma2s_1"), letter("N_np"), letter("x12")
    ('\\\\sigma_{\\\\mathrm{dp}}^{2}', '\\\\gamma_{1}^{2}', 'N_{\\\\mathrm{np}}', 'x_{12}')
    >>> letter("own_noise")
    '\\\\text{own\\\\_noise}'
    """
    head, *subscripts = name.split("_")
    match = HEAD.fullmatch(head)
    if not match:
        return _word(name)
    base, digits, _ = match.groups()
    if base not in GREEK and len(base) > 1:  # an English word stays as it is in the code
        return _word(name)
    symbol = GREEK.get(base, base)
    power = ""
    if digits and base in VARIANCES and digits.startswith("2"):
        power, digits = "^{2}", digits[1:]
    below = [digits] if digits else []
    below += [_subscript(part) for part in subscripts]
    return symbol + (f"_{{{','.join(below)}}}" if below else "") + power


def _word(name: str) -> str:
    return rf"\text{{{name}}}".replace("_", r"\_")


def _subscript(part: str) -> str:
    match = re.fullmatch(r"([a-z]+?)(s?)(\d*)", part)
    if match and match[1] in GREEK:
        return GREEK[match[1]] + (f"_{{{match[3]}}}" if match[3] else "")
    return part if len(part) == 1 or part.isdigit() else rf"\mathrm{{{part}}}"


def latex(value: Any) -> str:
    """LaTeX of what a derivation or formula shows: an expression, an equation, a list or tuple of them, or text."""
    if isinstance(value, str):
        return rf"\text{{{value}}}"
    if isinstance(value, list | tuple):
        return r"\left(" + r",\; ".join(map(latex, value)) + r"\right)"
    if isinstance(value, dict):
        return r",\; ".join(f"{latex(k)} = {latex(v)}" for k, v in value.items())
    expression = sp.sympify(value)
    names = {symbol: letter(symbol.name) for symbol in getattr(expression, "free_symbols", ())}
    return sp.latex(expression, symbol_names=names, ln_notation=False, mul_symbol=r"\,")


__all__ = ["latex", "letter"]
