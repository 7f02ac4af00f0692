"""What the papers on hierarchical Gaussian clients have in common: variables, groups, and the federation's proofs.

Belongs here: variables used by more than one claim module, the derivation and the oracle for "clients in privacy
levels, a server that weighs messages, a client that blends". Does not belong here: any printed formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sympy as sp
from sympy.polys.matrices import DomainMatrix

from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, rational
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import CENTRE, Form, Group, best_blend, covariance, mse, posterior, strength

ONE = sp.Integer(1)

ALPHA2 = Variable("alpha2", "positive", "variance of a client's estimate around its parameter")
TAU2 = Variable("tau2", "nonnegative", "variance of the clients' parameters around the centre")
SIGMA2_C = Variable("sigma2_c", "positive", "variance of a client's estimate around the centre, alpha2 + tau2")
GAMMA2 = Variable("gamma2", "nonnegative", "privacy noise variance of the private group's average")
GAMMA2_1 = Variable("gamma2_1", "nonnegative", "privacy noise variance of level 1's average")
GAMMA2_2 = Variable("gamma2_2", "nonnegative", "privacy noise variance of level 2's average")
N1 = Variable("N1", "size", "clients in level 1")
N2 = Variable("N2", "size", "clients in level 2")
N_NP = Variable("N_np", "size", "clients without privacy")
N_P = Variable("N_p", "size", "private clients")
LEVEL = Variable("level", "choice", "the client's level, from 1", choices=(1, 2), every=True)
SIZES = Variable("sizes", "size", "clients per level", lengths=(2, 3))
GAMMA2S = Variable("gamma2s", "nonnegative", "privacy noise variance of each level's average", lengths=(2, 3))
ANY_LEVEL = Variable("level", "choice", "the client's level, from 1", choices=tuple(range(1, 17)))
OWN_NOISE = Variable(
    "own_noise",
    "choice",
    """1: the client's own message noise stays in the model it gets back, as the algorithms run; 0: it is taken out, as the
    proofs assume""",
    choices=(0, 1),
    default=0,
)


MODEL = {"prior": "flat", "clipping": "none", "independence": "given the centre"}
"""What the papers on hierarchical Gaussian clients assume throughout."""


def message_variances(sizes: Sequence[Any], gamma2s: Sequence[Any], sigma2_c: Any) -> list[Any]:
    """The papers' sigma_{p_i}^2 = sigma_c^2 + N_i gamma_i^2, for printed formulas; derivations take `scatter`."""
    return [sigma2_c + n * g for n, g in zip(sizes, gamma2s, strict=True)]


def scatter(sizes: Sequence[Any], gamma2s: Sequence[Any], sigma2_c: Any) -> list[Any]:
    """Variance of a message of each level around the centre, from the noise terms of the model."""
    messages = [Group("one", ONE, sigma2_c, sp.Integer(0), n * g).messages() for n, g in zip(sizes, gamma2s, strict=True)]
    return [covariance(m - CENTRE, m - CENTRE) for m in messages]


def precision_weights(sizes: Sequence[Any], variances: Sequence[Any]) -> list[Any]:
    """Weight of one message of each level, inverse to its variance; all messages' weights sum to one."""
    total = sum(n / s for n, s in zip(sizes, variances, strict=True))
    return [1 / (s * total) for s in variances]


def groups(level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any) -> tuple[Group, list[Group]]:
    """The distinguished client of a level, and the others of every level, as groups."""
    noise = [n * g for n, g in zip(sizes, gamma2s, strict=True)]
    own = Group("own", ONE, tau2, alpha2, noise[level - 1])
    others = [
        Group(f"others in level {i}", n - (1 if i == level else 0), tau2, alpha2, v)
        for i, (n, v) in enumerate(zip(sizes, noise, strict=True), 1)
    ]
    return own, others


def server_form(own: Group, others: Sequence[Group], level: int, weights: Sequence[Any], own_noise: int) -> Form:
    """The server's estimate as a client of `level` gets it, with or without its own noise."""
    form = weights[level - 1] * (own.messages() if own_noise else own.estimates())
    for group, w in zip(others, weights, strict=True):
        form = form + w * group.messages()
    return form


def _blend(d: Derivation, level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any,
           own_noise: int) -> tuple[Any, dict[Any, Any]]:  # fmt: skip
    """Best u in terms of the total precision W, for any number of levels; and what W and g stand for."""
    s = scatter(sizes, gamma2s, alpha2 + tau2)
    d.say("A message of level i scatters around the centre phi with variance s_i = alpha2 + tau2 + N_i gamma2_i:",
          tuple(s))  # fmt: skip
    W, g = sp.symbols("W g", positive=True)
    own_variance = alpha2 + tau2 + g
    values = {W: sum(n / v for n, v in zip(sizes, s, strict=True)), g: sizes[level - 1] * gamma2s[level - 1]}
    d.say("The server weighs messages by precision; W is the total precision:", sp.Eq(W, values[W]))
    w = d.say("so this client's message, of noise variance g = N_j gamma2_j, has the weight", 1 / (own_variance * W))
    rest = Group("rest", ONE, sp.Integer(0), (W - 1 / own_variance) / W**2, sp.Integer(0))
    d.say("and the others contribute (1 - w) phi plus noise of variance sum w_i^2 s_i = (W - 1/s_j)/W^2,",
          rest.alpha2)  # fmt: skip
    own = Group("own", ONE, tau2, alpha2, g)
    shared = w * (own.messages() if own_noise else own.estimates()) + (1 - w) * Form(ONE) + rest.noise("e")
    target, local = own.parameters(), own.estimates()
    d.say(
        "The client minimises |t - y|^2/2 + lam |t - theta|^2/2, so it returns (1-u) y + u theta with u = lam/(1+lam). "
        + ("Its own message noise l stays in theta." if own_noise else "Its own message noise l is taken out of theta.")
    )
    d.say("The error is e + u (theta - y). Cov(e, theta - y), where the centre cancels, is",
          sp.factor(covariance(local - target, shared - local)))  # fmt: skip
    d.say("and Var(theta - y) is", sp.factor(covariance(shared - local, shared - local)))
    u, _ = best_blend(target, local, shared)
    d.say("The risk is a convex quadratic in u with its vertex at", u)
    return u, values


def derive_strength(
    level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any, own_noise: int
) -> Derivation:
    """Optimal penalty of a client that blends its estimate with the server's precision-weighted one."""
    d = Derivation()
    u, values = _blend(d, level, sizes, gamma2s, alpha2, tau2, own_noise)
    w = sp.Symbol("w", positive=True)
    W, g = values
    lam = d.say("With lam = u/(1-u), in terms of the own weight w = 1/(s_j W):",
                simplest(strength(u).subs(W, 1 / (w * (alpha2 + tau2 + g)))))  # fmt: skip
    own = 1 / ((alpha2 + tau2 + values[g]) * values[W])
    return d.conclude("Putting w and g back in:", lam.subs({w: own, g: values[g]}, simultaneous=True))


@cache
def risk_given_others(own_noise: int) -> tuple[Any, Any, tuple[Any, ...]]:
    """Risk of the best blend and Bayes risk as functions of (P, g, alpha2, tau2), and these symbols.

    P is the total precision of the others' messages, g the client's own message noise: all that matters of the others.
    """
    P, g, alpha2, tau2 = sp.symbols("P g alpha2 tau2", positive=True)
    s = alpha2 + tau2 + g
    W = P + 1 / s
    own = Group("own", ONE, tau2, alpha2, g)
    rest = Group("rest", ONE, sp.Integer(0), P / W**2, sp.Integer(0))
    w = 1 / (s * W)
    shared = w * (own.messages() if own_noise else own.estimates()) + (1 - w) * Form(ONE) + rest.noise("e")
    blend = best_blend(own.parameters(), own.estimates(), shared)[1]
    others = Group("others", ONE, 1 / P, sp.Integer(0), sp.Integer(0))
    bayes = posterior(own.parameters(), [own.estimates(), others.messages()]).variance
    return blend, bayes, (P, g, alpha2, tau2)


def at_others(
    expression: Any, names: tuple[Any, ...], level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any,
    tau2: Any,
) -> Any:  # fmt: skip
    """Put a federation's values into a function of (P, g, alpha2, tau2)."""
    s = scatter(sizes, gamma2s, alpha2 + tau2)
    precision = 1 / others_variance(level, sizes, s)
    values = (precision, sizes[level - 1] * gamma2s[level - 1], alpha2, tau2)
    return sp.sympify(expression).subs(dict(zip(names, values, strict=True)), simultaneous=True)


def derive_excess(
    level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any, own_noise: int
) -> Derivation:
    """What the best blend with the server's estimate loses against the Bayes estimate."""
    d = Derivation()
    blend, bayes, names = risk_given_others(own_noise)
    d.say("""Of the others only their total precision P matters: theta = w psi_j + (1-w) phi + noise of variance P/W^2, with
        W = P + 1/s_j and w = 1/(s_j W); s_j = alpha2 + tau2 + g.""")  # fmt: skip
    d.say("Least risk of a blend of y_j and theta" + (":" if own_noise else ", own noise taken out:"), blend)
    d.say("Bayes risk from y_j and the others' messages (phi is known with variance 1/P):", bayes)
    excess = d.say("The difference:", simplest(blend - bayes))
    return d.conclude("Putting P and g in:", at_others(excess, names, level, sizes, gamma2s, alpha2, tau2))


def blend_risk(
    level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any, own_noise: int,
    weights: Sequence[Any],
) -> Any:  # fmt: skip
    """Risk of the best blend of own estimate and a server's estimate with any weights."""
    own, others = groups(level, sizes, gamma2s, alpha2, tau2)
    theta = server_form(own, others, level, weights, own_noise)
    return best_blend(own.parameters(), own.estimates(), theta)[1]


def blend_objective(
    x: Any, level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any, own_noise: int
) -> Any:
    """Risk of a client at strength x with the server's precision-weighted estimate.

    Besides its own share w_j psi_j the client sees (1 - w_j) phi and the others' noise, sum of w_i^2 s_i.
    """
    variances = scatter(sizes, gamma2s, alpha2 + tau2)
    weights = precision_weights(sizes, variances)
    others = [n - (1 if i == level else 0) for i, n in enumerate(sizes, 1)]
    noise = sum(n * w**2 * s for n, w, s in zip(others, weights, variances, strict=True))
    own = Group("own", ONE, tau2, alpha2, sizes[level - 1] * gamma2s[level - 1])
    rest = Group("rest", ONE, sp.Integer(0), noise, sp.Integer(0))
    w = weights[level - 1]
    theta = w * (own.messages() if own_noise else own.estimates()) + (1 - w) * Form(ONE) + rest.noise("e")
    error = (1 / (1 + x)) * own.estimates() + (x / (1 + x)) * theta - own.parameters()
    return covariance(error, error)


def others_variance(level: int, sizes: Sequence[Any], variances: Sequence[Any]) -> Any:
    """Variance of the centre given all messages but one of `level`: precisions add up."""
    precision = sum((n - (1 if i == level else 0)) / s for i, (n, s) in enumerate(zip(sizes, variances, strict=True), 1))
    return 1 / precision


def server_mse(sizes: Sequence[Any], variances: Sequence[Any], weights: Sequence[Any]) -> Any:
    """Mean squared error of a weighted average of messages of groups, derived from their noise forms."""
    total = Form(sp.Integer(0))
    for i, (n, s, w) in enumerate(zip(sizes, variances, weights, strict=True)):
        total = total + w * Group(f"level {i + 1}", n, s, sp.Integer(0), sp.Integer(0)).messages()
    return mse(total - Form(ONE))


def ratio_objective(x: Any, sizes: Sequence[Any], variances: Sequence[Any]) -> Any:
    """Risk of the server when a message of the second level weighs x times one of the first."""
    total = sizes[0] + sizes[1] * x
    return server_mse(sizes, variances, (1 / total, x / total))


def weights_objective(x: Sequence[Any], sizes: Sequence[Any], variances: Sequence[Any]) -> Any:
    """Risk of the server with weights x per level; what all weights lack to one is spread evenly over the messages."""
    missing = (1 - sum(n * w for n, w in zip(sizes, x, strict=True))) / sum(sizes)
    return server_mse(sizes, variances, [w + missing for w in x])


# --- the oracle's side: concrete clients ---------------------------------------------------------------------------


def concrete(sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any) -> tuple[Clients, list[int]]:
    """One object per client, and the level (from 1) of each."""
    levels = [i for i, n in enumerate(sizes, 1) for _ in range(int(n))]
    count = len(levels)
    noise = [sizes[i - 1] * gamma2s[i - 1] for i in levels]
    return Clients([tau2] * count, [alpha2] * count, noise), levels


def concrete_server(clients: Clients) -> list[Any]:
    """Weights of all messages in the posterior mean of the centre."""
    return clients.posterior(clients.centre, clients.message)[0]


def concrete_blend(
    level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any, own_noise: int,
    weights: Sequence[Any] | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The best u and its risk for a client of `level`, by exact search on concrete clients."""
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    w = concrete_server(clients) if weights is None else [weights[i - 1] for i in levels]
    messages = list(clients.message)
    if not own_noise:
        messages[j] = clients.estimate[j]
    theta = clients.weighted(w, messages)
    u, risk = clients.best_blend(clients.parameter[j], clients.estimate[j], theta)
    return rational(u), rational(risk)


def concrete_strength(
    level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any, own_noise: int
) -> Any:
    """Optimal penalty by exact search on concrete clients."""
    u, _ = concrete_blend(level, sizes, gamma2s, alpha2, tau2, own_noise)
    return sp.oo if u == 1 else u / (1 - u)


def concrete_bayes(level: int, sizes: Sequence[Any], gamma2s: Sequence[Any], alpha2: Any, tau2: Any) -> Any:
    """Posterior variance of a client's parameter given its own estimate and all other messages."""
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    observed = [clients.estimate[j], *(m for i, m in enumerate(clients.message) if i != j)]
    return rational(clients.posterior(clients.parameter[j], observed)[1])


def rational_limit(function: Any, degree: int = 4) -> Any:
    """Limit at infinity of a rational function of bounded degree, from exact values only (a linear system)."""
    xs = [sp.Integer(k) for k in range(2, 2 * degree + 4)]
    ys = [function(x) for x in xs]
    # p(x) - y q(x) = 0 at every x; the null space holds (p, q) up to a common factor.
    rows = [[x**k for k in range(degree + 1)] + [-y * x**k for k in range(degree + 1)] for x, y in zip(xs, ys, strict=True)]
    null = list(DomainMatrix.from_Matrix(sp.Matrix(rows)).to_field().nullspace().to_Matrix()[0, :])
    p, q = null[: degree + 1], null[degree + 1 :]
    top_p = max((k for k, c in enumerate(p) if c != 0), default=-1)
    top_q = max(k for k, c in enumerate(q) if c != 0)
    if top_p < top_q:
        return sp.Integer(0)
    return p[top_p] / q[top_q] if top_p == top_q else sp.oo
