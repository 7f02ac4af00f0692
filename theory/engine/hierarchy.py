"""The derivation engine: hierarchical Gaussian clients in groups of symbolic size.

Model.  A centre phi has a flat prior (or variance v0).  Client i has the parameter phi_i = phi + p_i, the local
estimate y_i = phi_i + e_i and sends the message psi_i = y_i + l_i, with independent p_i ~ N(0, tau2),
e_i ~ N(0, alpha2), l_i ~ N(0, nu2) whose variances are those of the client's group.

Clients of one group are exchangeable, so a best linear estimate gives them equal weights; it is enough to follow
*forms*: a coefficient on the centre and, per group, one coefficient on every member's p, e and l.  Sums over a
group of n members then cost a factor n, which may be a symbol.

Belongs here: forms, covariances, best linear estimates, quadratic risks, all exact. Does not belong here: any
paper's formula, numbers, the exact-rational oracle (bruteforce.py, which shares no code with this module).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from theory.engine.algebra import simplest


@dataclass(frozen=True)
class Group:
    """`size` exchangeable clients; `tau2`, `alpha2`, `nu2` are the variances of p, e and l."""

    name: str
    size: Any
    tau2: Any
    alpha2: Any
    nu2: Any

    def variance(self, kind: str) -> Any:
        """Variance of one noise term: kind is "p", "e" or "l"."""
        return {"p": self.tau2, "e": self.alpha2, "l": self.nu2}[kind]

    def _sum(self, kinds: str) -> Form:
        return Form(self.size, {(self, kind): sp.Integer(1) for kind in kinds})

    def parameters(self) -> Form:
        """Sum of the members' parameters phi_i (the parameter itself for a group of one)."""
        return self._sum("p")

    def estimates(self) -> Form:
        """Sum of the members' local estimates y_i."""
        return self._sum("pe")

    def messages(self) -> Form:
        """Sum of the members' messages psi_i."""
        return self._sum("pel")

    def noise(self, kind: str) -> Form:
        """Sum of one kind of noise over the members."""
        return Form(sp.Integer(0), {(self, kind): sp.Integer(1)})


@dataclass(frozen=True)
class Form:
    """A linear form: `centre` times phi plus, per (group, kind), a coefficient on every member's noise."""

    centre: Any
    noise: Mapping[tuple[Group, str], Any] = field(default_factory=dict)

    def __add__(self, other: Form) -> Form:
        keys = list(dict.fromkeys([*self.noise, *other.noise]))
        noise = {k: self.noise.get(k, 0) + other.noise.get(k, 0) for k in keys}
        return Form(self.centre + other.centre, noise)

    def __rmul__(self, factor: Any) -> Form:
        return Form(factor * self.centre, {k: factor * c for k, c in self.noise.items()})

    def __mul__(self, factor: Any) -> Form:
        return factor * self

    def __truediv__(self, divisor: Any) -> Form:
        return (sp.Integer(1) / divisor) * self

    def __sub__(self, other: Form) -> Form:
        return self + (-1) * other


CENTRE = Form(sp.Integer(1))


def covariance(first: Form, second: Form, v0: Any = None) -> Any:
    """Covariance of two forms; with a flat centre (v0 None) that of their noise parts."""
    keys = [k for k in first.noise if k in second.noise]
    total = sum((k[0].size * first.noise[k] * second.noise[k] * k[0].variance(k[1]) for k in keys), sp.Integer(0))
    return total if v0 is None else total + first.centre * second.centre * v0


def mse(error: Form, v0: Any = None) -> Any:
    """Mean squared value of a form. With a flat centre the form must not depend on it (be unbiased)."""
    if v0 is None and sp.simplify(error.centre) != 0:
        raise ValueError(f"the form depends on the centre ({error.centre}); its risk is infinite")
    return simplest(covariance(error, error, v0))


@dataclass(frozen=True)
class Posterior:
    """Best linear (for Gaussians: posterior) estimate: weights on the observations, mean form, variance."""

    weights: tuple[Any, ...]
    mean: Form
    variance: Any


def posterior(target: Form, observations: Sequence[Form], v0: Any = None) -> Posterior:
    """Posterior of a form given other forms.

    With a flat centre: the weights minimise the error variance among those whose combination has the
    target's coefficient on the centre (which is the limit v0 -> oo); with variance v0: the normal equations.
    """
    n = len(observations)
    gram = sp.Matrix(n, n, lambda i, j: covariance(observations[i], observations[j], v0))
    cross = sp.Matrix([covariance(o, target, v0) for o in observations])
    if v0 is None:
        centres = sp.Matrix([o.centre for o in observations])
        system = gram.row_join(centres).col_join(centres.T.row_join(sp.zeros(1, 1)))
        solution = system.LUsolve(cross.col_join(sp.Matrix([target.centre])))[:n]
    else:
        solution = list(gram.LUsolve(cross))
    weights = tuple(simplest(w) for w in solution)
    mean = Form(sp.Integer(0))
    for w, o in zip(weights, observations, strict=True):
        mean = mean + w * o
    error = mean - target
    return Posterior(weights, mean, simplest(covariance(error, error, v0)))


def best_blend(target: Form, local: Form, shared: Form, v0: Any = None) -> tuple[Any, Any]:
    """Weight u on `shared` in (1-u) local + u shared with the least mean squared error, and that error.

    Both must carry the target's coefficient on the centre. The risk is quadratic in u, so the minimiser is the
    covariance of the local error with the difference over the variance of the difference.
    """
    error, difference = local - target, shared - local
    top = covariance(error, difference, v0)
    bottom = covariance(difference, difference, v0)
    u = simplest(-top / bottom)
    return u, simplest(covariance(error, error, v0) - top**2 / bottom)


def strength(u: Any) -> Any:
    """The penalty lam for which (local + lam shared)/(1 + lam) puts weight u on the shared estimate."""
    return sp.oo if u == 1 else simplest(u / (1 - u))
