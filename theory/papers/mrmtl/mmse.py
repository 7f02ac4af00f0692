"""The MMSE estimate among unequal silos: a centre that weighs silos by precision, and what the plain average loses.

Belongs here: this toolkit's own replacement for the plain average w_bar, verified as the paper's claims are. Does not
belong here: what Appendix E prints (silos.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import mean_regularized
from estimators.closed_forms.aggregation import precision_weights
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, Combination, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Form, Group, best_blend, covariance, mse, posterior, strength
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import AVERAGED, ONE, UNEQUAL, UNEQUAL_ASSUMPTIONS, UNEQUAL_EXAMPLES, ZERO


def _groups(sigma2_loc_k: Sequence[Any], tau2: Any) -> list[Group]:
    return [Group(f"silo {j}", ONE, tau2, s, ZERO) for j, s in enumerate(sigma2_loc_k)]


def _say_centre(d: Derivation, groups: Sequence[Group], sigma2_loc_k: Sequence[Any], tau2: Any) -> Form:
    """The average of all estimates, weighed by their precision around theta."""
    spread = d.say("w_hat_j scatters around theta with variance", tuple(tau2 + s for s in sigma2_loc_k))
    total = sum(1 / x for x in spread)
    d.say("Let the server return the average c of all w_hat_j with the weights", tuple(1 / (x * total) for x in spread))
    return sum(((1 / (x * total)) * g.messages() for x, g in zip(spread, groups, strict=True)), Form(ZERO))


def _strength_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    groups = _groups(sigma2_loc_k, tau2)
    centre = _say_centre(d, groups, sigma2_loc_k, tau2)
    target, local = groups[k].parameters(), groups[k].messages()
    d.say("""The silo minimises its loss plus lam/2 (w - c)^2, so it returns (1-u) w_hat_k + u c, u = lam/(1+lam). Covariance
        of its error with c - w_hat_k:""", simplest(covariance(local - target, centre - local)))  # fmt: skip
    u, _ = best_blend(target, local, centre)
    d.say("The risk is a convex quadratic in u with its vertex at", simplest(u))
    return d.conclude("With lam = u/(1-u):", simplest(strength(u)))


def _concrete_centre(sigma2_loc_k: Sequence[Any], tau2: Any) -> tuple[Clients, Combination]:
    clients = model.concrete(tau2, sigma2_loc_k, [0] * len(sigma2_loc_k))
    weights, _ = clients.posterior(clients.centre, clients.message)
    return clients, clients.weighted(weights, clients.message)


def _strength_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    clients, centre = _concrete_centre(sigma2_loc_k, tau2)
    u, _ = clients.best_blend(clients.parameter[k], clients.message[k], centre)
    return sp.oo if u == 1 else rational(u / (1 - u))


def _centre_weights(sigma2_loc_k: Sequence[float], tau2: float) -> np.ndarray:
    return precision_weights(tau2 + np.asarray(sigma2_loc_k, float))


_OURS: dict[str, Any] = {
    "place": "Appendix E.5, completed; not in the paper",
    "variables": UNEQUAL,
    "examples": UNEQUAL_EXAMPLES,
    "assumptions": UNEQUAL_ASSUMPTIONS,
    "ours": True,
}

register(
    Claim(
        id="mrmtl:mmse:strength",
        title="Strength towards a precision-weighted centre",
        statement="""If the server averages the estimates with weights proportional to 1/(tau2 + sigma2_loc_j) in place of
            1/K, the best strength for silo k is sigma2_loc_k[k]/tau2, as for equal silos: never negative, and it needs
            nothing of the other silos.""",
        latex=r"""\lambda_k^*=\tilde\sigma_k^2/\tau^2\quad\text{towards}\quad
            c=\frac{\sum_j\hat w_j/(\tau^2+\tilde\sigma_j^2)}{\sum_j1/(\tau^2+\tilde\sigma_j^2)}""",
        kind="optimum",
        printed=lambda sigma2_loc_k, tau2, k: sigma2_loc_k[k] / tau2,
        derive=_strength_derive,
        oracle=_strength_oracle,
        computed=lambda sigma2_loc_k, tau2, k: mean_regularized.strength(sigma2_loc_k[k], tau2),
        simulate=lambda sigma2_loc_k, tau2, k: simulation.stationary_between(
            model.local_silos(tau2, sigma2_loc_k),
            k,
            _centre_weights(sigma2_loc_k, tau2),
            simulation.vector(1, p=1.0, e=1.0, l=1.0),
            simulation.vector(1, a0=1.0),
            simulation.vector(1, p=1.0),
        ),
        model=("BestStrength",),
        assumes=AVERAGED,
        unit="dimensionless",
        related=("mrmtl:thmE.5", "mrmtl:lemE.3"),
        remark="""With the plain average the best strength depends on all silos and turns negative for a very noisy one
            (mrmtl:thmE.5, mrmtl:negative); Algorithm A1 makes such a centre by itself (mrmtl:thmE.5:algA1). Verified for
            2 and 3 silos.""",
        **_OURS,
    )
)


def _attained_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    groups = _groups(sigma2_loc_k, tau2)
    centre = _say_centre(d, groups, sigma2_loc_k, tau2)
    own = sigma2_loc_k[k]
    u = d.say("Strength sigma2_loc_k/tau2, that is u =", own / (own + tau2))
    blend = (1 - u) * groups[k].messages() + u * centre
    error = d.say("Error of (1-u) w_hat_k + u c:", mse(blend - groups[k].parameters()))
    best = posterior(groups[k].parameters(), [g.messages() for g in groups])
    d.say("Least error of any estimate from all w_hat_j:", best.variance)
    return d.conclude("Difference:", sp.cancel(sp.together(error - best.variance)))


def _attained_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    clients, centre = _concrete_centre(sigma2_loc_k, tau2)
    _, risk = clients.best_blend(clients.parameter[k], clients.message[k], centre)
    return rational(risk - clients.posterior(clients.parameter[k], clients.message)[1])


def _centre_row(sigma2_loc_k: Sequence[float], tau2: float, k: int) -> np.ndarray:
    u = sigma2_loc_k[k] / (sigma2_loc_k[k] + tau2)
    return (1 - u) * np.eye(len(sigma2_loc_k))[k] + u * _centre_weights(sigma2_loc_k, tau2)


register(
    Claim(
        id="mrmtl:mmse",
        title="Mean regularisation towards a precision-weighted centre is the MMSE estimate of every silo",
        statement="""With that centre and strength every silo gets the posterior mean of its w_k given all the estimates: its
            error exceeds the Bayes error by 0, however unequal the silos.""",
        latex=r"\frac{\hat w_k+\lambda_k^*c}{1+\lambda_k^*}=\mathbb E[w_k\mid\hat w_1,\ldots,\hat w_K]",
        kind="identity",
        printed=lambda: ZERO,
        derive=_attained_derive,
        oracle=_attained_oracle,
        not_computed=Exempt(kind="difference", of=("mrmtl:thmE.5:bayes",)),
        simulate=lambda sigma2_loc_k, tau2, k: simulation.mean_squares(
            model.local_silos(tau2, sigma2_loc_k), k, _centre_row(sigma2_loc_k, tau2, k),
            [simulation.vector(1, p=-1.0, a0=1.0)], ["error, against the Bayes error"],
            of=[lambda excess: mean_regularized.silo_mmse(k, sigma2_loc_k, tau2) + excess],
            scales=[mean_regularized.silo_mmse(k, sigma2_loc_k, tau2)],
        ),
        model=("AttainsMixed",),
        assumes=AVERAGED,
        unit="variance",
        related=("mrmtl:mmse:strength", "mrmtl:thmE.5:bayes", "mrmtl:algA1:bayes"),
        remark="""The server needs tau2 and every silo's local variance for its weights, each silo only its own variance and
            tau2. Algorithm A1 gets there without such a server (mrmtl:algA1:bayes). As one step, with weights on all
            estimates: mean_regularized.silo_mmse_weights. Verified for 2 and 3 silos.""",
        **_OURS,
    )
)  # fmt: skip


def _loss_printed(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    others = [tau2 + s for j, s in enumerate(sigma2_loc_k) if j != k]
    own = sigma2_loc_k[k] + tau2
    plain, weighted = sum(others) / sp.Integer(len(others)) ** 2, 1 / sum(1 / x for x in others)
    return sigma2_loc_k[k] ** 2 * (plain - weighted) / ((own + plain) * (own + weighted))


def _loss_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    groups = _groups(sigma2_loc_k, tau2)
    rest = [g for j, g in enumerate(groups) if j != k]
    average = (ONE / len(rest)) * sum((g.messages() for g in rest), Form(ZERO))
    pair = posterior(groups[k].parameters(), [groups[k].messages(), average])
    d.say("MR-MTL at its best strength is the best combination of w_hat_k and the others' plain average; its error:",
          pair.variance)  # fmt: skip
    best = posterior(groups[k].parameters(), [g.messages() for g in groups])
    d.say("Bayes error given every estimate:", best.variance)
    return d.conclude("What the plain average loses:", simplest(pair.variance - best.variance))


def _loss_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    clients = model.concrete(tau2, sigma2_loc_k, [0] * len(sigma2_loc_k))
    pair = [clients.message[k], model.plain_mean(clients, k)]
    target = clients.parameter[k]
    return rational(clients.posterior(target, pair)[1] - clients.posterior(target, clients.message)[1])


def _loss_simulate(sigma2_loc_k: list[float], tau2: float, k: int) -> simulation.Simulation | None:
    own = mean_regularized.silo_posterior_variance(k, sigma2_loc_k, tau2) / sigma2_loc_k[k]
    plain = own * np.eye(len(sigma2_loc_k))[k] + (1 - own) * model.uniform(len(sigma2_loc_k), k)
    rows = [plain, _centre_row(sigma2_loc_k, tau2, k)]
    return model.gap_of_rows(model.local_silos(tau2, sigma2_loc_k), k, rows, "plain minus precision-weighted")


def _loss_float(sigma2_loc_k: list[float], tau2: float, k: int) -> Any:
    return mean_regularized.averaging_loss(k, sigma2_loc_k, tau2)


register(
    Claim(
        id="mrmtl:mmse:loss",
        title="What uniform averaging loses among unequal silos",
        statement="""The error of MR-MTL at its best strength towards the plain average exceeds the Bayes error by this,
            where A and H are the variances around theta of the others' plain and precision-weighted averages.""",
        latex=r"""\frac{\tilde\sigma_k^4(A-H)}{(\tilde\sigma_k^2+\tau^2+A)(\tilde\sigma_k^2+\tau^2+H)},\quad
            A=\frac{\sum_{j\neq k}(\tau^2+\tilde\sigma_j^2)}{(K-1)^2},\quad
            H=\Big(\sum_{j\neq k}\frac1{\tau^2+\tilde\sigma_j^2}\Big)^{-1}""",
        kind="identity",
        printed=_loss_printed,
        derive=_loss_derive,
        oracle=_loss_oracle,
        computed=_loss_float,
        simulate=_loss_simulate,
        assumes=AVERAGED,
        unit="variance",
        related=("mrmtl:thmE.5:mmse", "mrmtl:mmse"),
        remark="""Zero exactly where the other silos are equally noisy (arithmetic against harmonic mean), and without bound
            relative to the Bayes error when one silo is far noisier than the rest. Verified for 2 and 3 silos.""",
        **{**_OURS, "examples": ({"sigma2_loc_k": [2, "1/4", 12], "tau2": "1/4", "k": 0},
                                 {"sigma2_loc_k": [1, 2], "tau2": "1/2", "k": 1})},
        model=("Value(Optimum, Optimum)",),
    )
)  # fmt: skip

__all__: list[str] = []
