"""Appendix E: silos with unequal records, variances and privacy noise - Lemmas E.3 and E.4, (39).

Belongs here: what unequal estimates say about a centre. Does not belong here: strengths (silo_strengths.py), equal silos.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation, mean_regularized
from estimators.numerics import limits
from theory.engine import simulation
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import CENTRE, Group, Posterior, mse, posterior
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    ESTIMATES,
    ONE,
    UNEQUAL,
    UNEQUAL_ASSUMPTIONS,
    UNEQUAL_EXAMPLES,
    ZERO,
    concrete_unequal,
    others,
    unequal_silos,
)

# --- Lemma E.3 ----------------------------------------------------------------------------------------------

SIGMA2_K = Variable("sigma2_k", "positive", "variance of each observation", lengths=(2, 3))


def _lemmaE3_printed(sigma2_k: list[Any]) -> tuple[Any, ...]:
    variance = 1 / sum(1 / s for s in sigma2_k)
    return variance, *(variance / s for s in sigma2_k)


def _lemmaE3_derive(sigma2_k: list[Any]) -> Derivation:
    d = Derivation()
    d.say("phi_k = theta + z_k with independent noise of variance sigma2_k; theta has a flat prior.")
    best = posterior(CENTRE, [Group(f"phi_{i}", ONE, ZERO, s, ZERO).messages() for i, s in enumerate(sigma2_k)])
    d.say("""The posterior mean is the combination with weights adding to one and the least error variance; the normal
        equations with that constraint give the weights""", best.weights)  # fmt: skip
    return d.conclude("The error variance, then the weights:", (best.variance, *best.weights))


def _lemmaE3_oracle(sigma2_k: list[Any]) -> tuple[Any, ...]:
    clients = Clients([0] * len(sigma2_k), sigma2_k, [0] * len(sigma2_k))
    weights, variance = clients.posterior(clients.centre, clients.message)
    return tuple(map(rational, (variance, *weights)))


def _lemmaE3_computed(sigma2_k: list[float]) -> tuple[float, ...]:
    weights = aggregation.precision_weights(sigma2_k)
    return weights[0] * sigma2_k[0], *weights


def _lemmaE3_simulate(sigma2_k: list[float]) -> simulation.Simulation:
    return simulation.best_combination(model.local_silos(0.0, sigma2_k), "posterior variance")


register(
    Claim(
        id="mrmtl:lemE.3",
        title="Posterior of a constant from independent observations",
        place="Appendix E.4, Lemma E.3 (Lemma 11 of [68]), (19)",
        statement="""Given independent Gaussian observations of theta and a flat prior, theta is Gaussian around the
            precision-weighted mean, with variance one over the total precision.""",
        latex=r"""\sigma_{\theta}^{2}\triangleq(\sum_{k\in[K]}1/\sigma_{k}^{2})^{-1},\quad\theta=\sigma_{\theta}^{2}%
            \sum_{k\in[K]}\frac{\phi_{k}}{\sigma_{k}^{2}}+z,\text{ where }z\sim\mathcal{N}(0,\sigma_{\theta}^{2})""",
        kind="identity",
        variables=(SIGMA2_K,),
        examples=({"sigma2_k": [1, 2, 4]}, {"sigma2_k": ["1/2", 3]}),
        printed=_lemmaE3_printed,
        derive=_lemmaE3_derive,
        oracle=_lemmaE3_oracle,
        computed=_lemmaE3_computed,
        simulate=_lemmaE3_simulate,
        model=("LeastCentre", "BestWeights"),
        assumes={"prior": "flat", "given": "messages", "law": "gaussian", "independence": "given the centre"},
        unit="variance, then weights",
        assumptions=("observations independent given theta", "flat prior on theta"),
        remark="Verified for 2 and 3 observations.",
    )
)


# --- (39) ---------------------------------------------------------------------------------------------------

COMMON = Variable("n", "size", "the common number of records of the main text, by which (39) divides")
RECORDS_K = Variable("n_k", "size", "records of each silo", lengths=(2, 3))
RECORD_VARIANCES = Variable("sigma2_k", "positive", "variance of a record in each silo", lengths=(2, 3))
SIGMA2_DP_K = Variable("sigma2_dp_k", "nonnegative", "variance of the privacy noise in each silo's sum", lengths=(2, 3))


def _eq39_right(n_k: list[Any], sigma2_k: list[Any], sigma2_dp_k: list[Any]) -> tuple[Any, ...]:
    return tuple(s / n + v / n**2 for n, s, v in zip(n_k, sigma2_k, sigma2_dp_k, strict=True))


def _eq39_derive(n_k: list[Any], sigma2_k: list[Any], sigma2_dp_k: list[Any]) -> Derivation:
    d = Derivation()
    d.say("Silo k averages its own n_k records: w_hat_k = (xi_k + sum_i x_ki)/n_k, i = 1..n_k.")
    values = []
    for i, (n, s, v) in enumerate(zip(n_k, sigma2_k, sigma2_dp_k, strict=True)):
        values.append(d.lemma("mrmtl:eq5", f"in silo {i}", n=n, sigma2=s, sigma2_dp=v))
    return d.conclude("Local variance of every silo:", tuple(values))


def _eq39_oracle(n_k: list[Any], sigma2_k: list[Any], sigma2_dp_k: list[Any]) -> tuple[Any, ...]:
    def one(n: Any, s: Any, v: Any) -> Any:
        records = Clients([0] * int(n), [s] * int(n), [v] + [0] * (int(n) - 1))
        return rational(records.mse(model.plain_mean(records), records.centre))

    return tuple(one(*x) for x in zip(n_k, sigma2_k, sigma2_dp_k, strict=True))


def _eq39_simulate(n_k: list[int], sigma2_k: list[float],
                   sigma2_dp_k: list[float]) -> simulation.Simulation:  # fmt: skip
    # one "silo" per record; the first record of every silo carries its privacy noise
    privacy = np.concatenate([[v, *[0.0] * (n - 1)] for n, v in zip(n_k, sigma2_dp_k, strict=True)])
    fed = model.raw_silos(0.0, np.repeat(sigma2_k, n_k), privacy)
    silo = np.repeat(np.arange(len(n_k)), n_k)
    weights = np.array([(silo == j) / n for j, n in enumerate(n_k)], float)
    errors = [simulation.vector(len(n_k), **{f"a{j}": 1.0}) for j in range(len(n_k))]
    labels = [f"variance of silo {j}'s estimate" for j in range(len(n_k))]
    return simulation.mean_squares(fed, 0, weights, errors, labels)


register(
    Claim(
        id="mrmtl:eq39",
        title="Silo-specific local variance",
        place="Appendix E.5, (39)",
        statement="""Local variance of every silo, where silo k has n_k records, record variance sigma2_k and privacy noise
            sigma2_dp_k.""",
        latex=r"\tilde{\sigma}_{k}^{2}\triangleq\frac{\sigma_{k}^{2}}{n}+\frac{\sigma_{k,\mathrm{DP}}^{2}}{n^{2}}",
        kind="identity",
        variables=(COMMON, RECORDS_K, RECORD_VARIANCES, SIGMA2_DP_K),
        examples=(
            {"n": 4, "n_k": [2, 5, 4], "sigma2_k": [1, 2, 1], "sigma2_dp_k": [2, 10, 4]},
            {"n": 3, "n_k": [2, 4], "sigma2_k": [1, 1], "sigma2_dp_k": [1, 8]},
        ),
        printed=lambda n, sigma2_k, sigma2_dp_k: tuple(s / n + v / n**2 for s, v in zip(sigma2_k, sigma2_dp_k, strict=True)),
        derive=_eq39_derive,
        oracle=_eq39_oracle,
        computed=lambda n_k, sigma2_k, sigma2_dp_k: tuple(mean_regularized.local_variance(sigma2_k, n_k, sigma2_dp_k)),
        simulate=_eq39_simulate,
        counterexample={"n": 1, "n_k": [1, 2], "sigma2_k": [1, 1], "sigma2_dp_k": [0, 0]},
        corrected=_eq39_right,
        corrected_text="sigma2_k/n_k + sigma2_dp_k/n_k^2",
        slip="n is printed for n_k, twice; the sentence before introduces n_k",
        assumes={"noise": "reused", "clipping": "none", "given": "nothing", "law": "moments"},
        finding="""The local variance divides every silo's noise by one common number of records, though the silos' sizes
            differ.""",
        unit="variance",
        assumptions=UNEQUAL_ASSUMPTIONS[:1],
        model=("Value(Server)",),
    )
)


# --- Lemma E.4 ----------------------------------------------------------------------------------------------


def _say_pair(d: Derivation, sigma2_loc_k: list[Any], tau2: Any, k: int) -> Posterior:
    silos = unequal_silos(sigma2_loc_k, tau2, k)
    d.say("w_hat_k is off w_k by its local noise, of variance", sigma2_loc_k[k])
    error = silos.external - silos.target
    d.say("w_hat_rest is off w_k by independent noise; theta cancels, and the variance is", mse(error))
    best = posterior(silos.target, [silos.local, silos.external])
    d.say("The best combination with weights adding to one has the weights", best.weights)
    d.say("and the error variance", best.variance)
    return best


def _lemmaE4_variance_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    best = _say_pair(d, sigma2_loc_k, tau2, k)
    return d.conclude("Hence the variance claimed:", best.variance)


def _lemmaE4_weights_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    best = _say_pair(d, sigma2_loc_k, tau2, k)
    return d.conclude("Hence the weights claimed:", best.weights)


def _lemmaE4_variance(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    count, total = len(sigma2_loc_k), sum(others(sigma2_loc_k, k))
    return 1 / (1 / sigma2_loc_k[k] + sp.Integer(count - 1) ** 2 / ((count - 1) * count * tau2 + total))


def _lemmaE4_weights(sigma2_loc_k: list[Any], tau2: Any, k: int) -> tuple[Any, Any]:
    count, total = len(sigma2_loc_k), sum(others(sigma2_loc_k, k))
    variance = _lemmaE4_variance(sigma2_loc_k, tau2, k)
    rest = (count - 1) ** 2 * variance / ((count - 1) * count * tau2 + total)
    return variance / sigma2_loc_k[k], rest


def pair_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> tuple[Any, Any, Any]:
    """Variance of w_k given w_hat_k and w_hat_rest, and their weights, by a Schur complement."""
    clients = concrete_unequal(sigma2_loc_k, tau2)
    seen = [clients.message[k], model.plain_mean(clients, k)]
    weights, variance = clients.posterior(clients.parameter[k], seen)
    return tuple(map(rational, (variance, *weights)))


def _pair_weight(sigma2_loc_k: list[float], tau2: float, k: int) -> float:
    """Weight on w_hat_k of the best combination with w_hat_rest."""
    return mean_regularized.silo_posterior_variance(k, sigma2_loc_k, tau2) / sigma2_loc_k[k]


def _pair_weights_computed(sigma2_loc_k: list[float], tau2: float, k: int) -> tuple[float, float]:
    rest = others(sigma2_loc_k, k)
    around = len(sigma2_loc_k) / len(rest) * tau2 + sum(rest) / len(rest) ** 2
    return _pair_weight(sigma2_loc_k, tau2, k), limits.share(sigma2_loc_k[k], around)


def pair_row(sigma2_loc_k: list[float], tau2: float, k: int) -> np.ndarray:
    """Weights of the best combination of w_hat_k and w_hat_rest on all estimates."""
    variances = np.asarray(sigma2_loc_k, float)
    rest = model.uniform(len(variances), k)
    around = tau2 + np.sum(rest**2 * (tau2 + variances))  # of w_hat_rest around w_k
    own = around / (around + variances[k])
    return own * np.eye(len(variances))[k] + (1 - own) * rest


def _lemmaE4_simulate(sigma2_loc_k: list[float], tau2: float, k: int) -> simulation.Simulation:
    return simulation.mean_squares(
        model.local_silos(tau2, sigma2_loc_k), k, pair_row(sigma2_loc_k, tau2, k),
        [simulation.vector(1, p=-1.0, a0=1.0)], ["MSE of mu_k"],
    )  # fmt: skip


_UNEQUAL: dict[str, Any] = {
    "variables": UNEQUAL,
    "examples": UNEQUAL_EXAMPLES,
    "assumptions": UNEQUAL_ASSUMPTIONS,
}

register(
    Claim(
        id="mrmtl:lemE.4:var",
        title="Variance of a centre given w_hat_k and w_hat_rest, unequal silos",
        place="Appendix E.5, Lemma E.4, (45)",
        statement="Given w_hat_k and w_hat_rest, w_k has this variance.",
        latex=r"""\bar{\sigma}_{k}^{2}\triangleq\left(\frac{1}{\tilde{\sigma}_{k}^{2}}+\frac{(K-1)^{2}}%
            {(K-1)K\tau^{2}+\sum_{j\neq k}\tilde{\sigma}_{j}^{2}}\right)^{-1}""",
        kind="identity",
        printed=_lemmaE4_variance,
        derive=_lemmaE4_variance_derive,
        oracle=lambda **v: pair_oracle(**v)[0],
        computed=lambda sigma2_loc_k, tau2, k: mean_regularized.silo_posterior_variance(k, sigma2_loc_k, tau2),
        simulate=_lemmaE4_simulate,
        model=("LeastMixture",),
        assumes={**ESTIMATES, "given": "messages"},
        unit="variance",
        related=("mrmtl:lemE.3", "mrmtl:eq39"),
        remark="""Verified for 2 and 3 silos. Judged given the estimates, as the lemma says; the text before it also takes
            over the conditioning on the datasets, on which see mrmtl:lem6.2:var.""",
        **_UNEQUAL,
    )
)
register(
    Claim(
        id="mrmtl:lemE.4:mu",
        title="Mean of a centre given w_hat_k and w_hat_rest, unequal silos",
        place="Appendix E.5, Lemma E.4, (46)",
        statement="Weights of w_hat_k and w_hat_rest in the mean of w_k given both.",
        latex=r"""\bar{\mu}_{k}\triangleq\frac{\bar{\sigma}_{k}^{2}}{\tilde{\sigma}_{k}^{2}}\cdot\hat{w}_{k}+%
            \frac{(K-1)^{2}\bar{\sigma}_{k}^{2}}{(K-1)K\tau^{2}+\sum_{j\neq k}\tilde{\sigma}_{j}^{2}}\cdot%
            \hat{w}_{\setminus k}""",
        kind="identity",
        printed=_lemmaE4_weights,
        derive=_lemmaE4_weights_derive,
        oracle=lambda **v: pair_oracle(**v)[1:],
        computed=_pair_weights_computed,
        simulate=lambda sigma2_loc_k, tau2, k: model.combination(model.local_silos(tau2, sigma2_loc_k), k),
        model=("BestMixture",),
        entries=("weight of w_hat_k", "weight of w_hat_rest"),
        assumes={**ESTIMATES, "given": "messages"},
        unit="dimensionless",
        related=("mrmtl:lemE.4:var",),
        remark="Verified for 2 and 3 silos.",
        **_UNEQUAL,
    )
)
