"""Point estimation with private and non-private clients, as FeO2 prints it.

Belongs here: the claims of that paper, all of them. Does not belong here: derivations (shared with theory.papers.fedhdp,
whose functions are used).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.accounting import privacy
from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Form, Group, mse, posterior
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.fedhdp import ratio
from theory.papers.fedhdp.algorithms import GROUPS
from theory.papers.fedhdp.federation import OPT_OUT, OPT_OUT_EXAMPLES, OWN_NOISE_TEXT, own_noise_condition
from theory.papers.fedhdp.strength import excess_oracle, excess_simulation
from theory.papers.shared import GAMMA2, LEVEL, MODEL, N_NP, N_P, OWN_NOISE, SIGMA2_C, concrete

ZERO = sp.Integer(0)


def _average_derive(n: Any, sigma2_c: Any, nu2: Any) -> Derivation:
    d = Derivation()
    group = Group("group", n, sigma2_c, ZERO, nu2)
    d.say("A message of the group is phi plus independent noise of variance", sigma2_c + nu2)
    error = Form(ZERO) + (1 / n) * group.messages() - CENTRE
    return d.conclude("The average of the group's messages is unbiased, with variance", mse(error))


def _average_oracle(n: Any, sigma2_c: Any, gamma2: Any) -> Any:
    """On concrete clients; the group's average adds noise of variance gamma2."""
    clients, _ = concrete([n], [gamma2], sigma2_c / 2, sigma2_c / 2)
    average = clients.weighted([sp.Integer(1) / n] * len(clients), clients.message)
    return rational(clients.mse(average, clients.centre))


def _average_simulate(n: int, sigma2_c: float, nu2: float) -> simulation.Simulation:
    fed = simulation.federation([n], sigma2_c / 2, sigma2_c / 2, nu2)
    weights = np.full(int(n), 1 / n)
    return simulation.mean_squares(fed, 0, weights, [simulation.vector(1, a0=1.0)], ["variance of the average"])


register(
    Claim(
        id="feo2:theta-np",
        title="Law of the non-private group's average",
        place="Section 4.2",
        statement="The average of the non-private messages is Gaussian around phi with this variance.",
        latex=r"\theta_{np}\sim\mathcal N\Big(\phi,\frac{1}{N_{np}}\sigma_c^2\Big)",
        kind="identity",
        variables=(N_NP, SIGMA2_C),
        examples=({"N_np": 3, "sigma2_c": 2},),
        printed=lambda N_np, sigma2_c: sigma2_c / N_np,
        derive=lambda N_np, sigma2_c: _average_derive(N_np, sigma2_c, ZERO),
        oracle=lambda N_np, sigma2_c: _average_oracle(N_np, sigma2_c, 0),
        computed=lambda N_np, sigma2_c: aggregation.server_mse([N_np], [0.0], sigma2_c, 0.0),
        simulate=lambda N_np, sigma2_c: _average_simulate(N_np, sigma2_c, 0.0),
        model=("Value(Server)",),
        unit="variance",
        assumes=MODEL,
    )
)
register(
    Claim(
        id="feo2:theta-p",
        title="Law of the private group's average",
        place="Section 4.2",
        statement="The average of the private messages is Gaussian around phi with this variance.",
        latex=r"\theta_p\sim\mathcal N\Big(\phi,\frac{1}{N_p}\sigma_c^2+\gamma^2\Big)",
        kind="identity",
        variables=(N_P, SIGMA2_C, GAMMA2),
        examples=({"N_p": 3, "sigma2_c": 2, "gamma2": 1},),
        printed=lambda N_p, sigma2_c, gamma2: sigma2_c / N_p + gamma2,
        derive=lambda N_p, sigma2_c, gamma2: _average_derive(N_p, sigma2_c, N_p * gamma2),
        oracle=lambda N_p, sigma2_c, gamma2: _average_oracle(N_p, sigma2_c, gamma2),
        computed=lambda N_p, sigma2_c, gamma2: aggregation.server_mse([N_p], [gamma2], sigma2_c, 0.0),
        simulate=lambda N_p, sigma2_c, gamma2: _average_simulate(N_p, sigma2_c, N_p * gamma2),
        model=("Value(Server)",),
        unit="variance",
        assumes=MODEL,
    )
)

OPT_OUT_LEMMA: dict[str, Any] = {
    "place": "Section 4.2, Lemma 1",
    "examples": ratio.OPT_OUT_EXAMPLES,
    "assumes": MODEL,
}
register(
    Claim(
        id="feo2:lemma1:rstar",
        title="Optimal ratio with opt-out of privacy",
        statement="With non-private and private clients the server is Bayes optimal at this ratio.",
        latex=r"r^*=\frac{\sigma_c^2}{\sigma_c^2+N_{\mathrm p}\gamma^2}",
        kind="optimum",
        variables=ratio.RATIO_VARIABLES,
        printed=ratio.opt_out_ratio,
        derive=ratio.opt_out_ratio_derive,
        oracle=ratio.opt_out_ratio_oracle,
        computed=ratio.opt_out_ratio_computed,
        simulate=ratio.opt_out_ratio_simulate,
        model=("BestWeights",),
        objective=ratio.opt_out_risk,
        unit="dimensionless",
        **OPT_OUT_LEMMA,
    )
)
register(
    Claim(
        id="feo2:lemma1:var",
        title="Server error variance with opt-out of privacy",
        statement="Error variance of the server's estimate at r*.",
        latex=r"""\sigma_{s,\mathrm{opt}}^2=\frac1N\left[\frac{\sigma_c^2(\sigma_c^2+N_p\gamma^2)}%
            {\sigma_c^2+\rho_{np}N_p\gamma^2}\right]""",
        kind="identity",
        variables=ratio.OPT_OUT,
        printed=ratio.opt_out_variance,
        derive=ratio.opt_out_variance_derive,
        oracle=ratio.opt_out_variance_oracle,
        computed=ratio.opt_out_variance_computed,
        simulate=ratio.opt_out_variance_simulate,
        model=("Value(Server)", "LeastCentre"),
        unit="variance",
        remark="The text conversion shows rho_m; the paper's symbol is rho_np (FedHDP prints the same formula as (78)).",
        **OPT_OUT_LEMMA,
    )
)


def _lemma2_derive(N_np: Any, N_p: Any, gamma2: Any, **v: Any) -> Derivation:
    d = Derivation()
    levels = {"N1": N_np, "N2": N_p, "gamma2_1": ZERO, "gamma2_2": gamma2}
    return d.conclude("So the excess is", d.lemma("fedhdp:lemma3:bayes", "with level 1 non-private", **levels, **v))


register(
    Claim(
        id="feo2:lemma2",
        title="Strengths exist that make FeO2 Bayes optimal for every client",
        place="Section 4.3, Lemma 2",
        statement="""With the server at r*, some strength makes each client's estimate Bayes optimal: the excess risk at the
            best strength is zero.""",
        latex=r"\exists\,\lambda_{np}^*,\lambda_p^*:\ \theta_j\to\theta_j^*",
        kind="identity",
        variables=(*OPT_OUT, LEVEL, OWN_NOISE),
        examples=({**OPT_OUT_EXAMPLES[0], "level": 2}, {**OPT_OUT_EXAMPLES[1], "level": 2}),
        printed=lambda: ZERO,
        derive=_lemma2_derive,
        oracle=excess_oracle,
        not_computed=Exempt(kind="difference", of=("fedhdp:lemma3:lambda", "fedhdp:eq41")),
        assumes=MODEL | {"pivot": "model", "noise": "reused"},
        simulate=excess_simulation,
        model=("Attains",),
        condition=own_noise_condition,
        condition_text=OWN_NOISE_TEXT,
        counterexample={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 1, "level": 2, "own_noise": 1},
        unit="variance",
        related=("fedhdp:thm8:p", "fedhdp:eq41", "fedhdp:lemma3:lambda"),
        remark="""In Algorithm 1 the model that a private client receives holds its own noise; then no strength is Bayes
            optimal for it. The estimates converge where every round adds the same noise (fedhdp:lemma4).""",
    )
)

# --- Section 3: what r depends on ----------------------------------------------------------------------------------------

MORE = Variable("more", "nonnegative", "what the non-private clients' parameters scatter more around the centre")


def _ratio_of(d: Derivation, N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any, more: Any) -> Any:
    """The optimal ratio where the non-private clients scatter by tau2 + more."""
    groups = [Group("non-private", N_np, tau2 + more, alpha2, ZERO), Group("private", N_p, tau2, alpha2, N_p * gamma2)]
    best = posterior(CENTRE, [g.messages() for g in groups])
    return d.say("Weight of a private over that of a non-private message:", simplest(best.weights[1] / best.weights[0]))


def _heterogeneity_derive(more: Any, **v: Any) -> Derivation:
    d = Derivation()
    d.say("Without and with more scatter of the non-private clients:")
    before, after = (_ratio_of(d, **v, more=x) for x in (ZERO, more))
    return d.conclude("The optimal ratio changes by", simplest(after - before))


def _heterogeneity_oracle(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any, more: Any) -> Any:
    ratios = []
    for extra in (0, more):
        spread = [tau2 + extra] * int(N_np) + [tau2] * int(N_p)
        clients = Clients(spread, [alpha2] * len(spread), [0] * int(N_np) + [N_p * gamma2] * int(N_p))
        weights = clients.posterior(clients.centre, clients.message)[0]
        ratios.append(rational(weights[-1] / weights[0]))
    return ratios[1] - ratios[0]


def _heterogeneity_simulate(N_np: int, N_p: int, alpha2: float, tau2: float, gamma2: float,
                            more: float) -> simulation.Simulation | None:  # fmt: skip
    """The ratio at which the risk is stationary with more scatter, read as what it gained over that without."""
    if not more:
        return None
    fed = simulation.federation([N_np, N_p], [tau2 + more, tau2], alpha2, [0.0, N_p * gamma2])
    rows = np.repeat(np.eye(2) / [N_np, N_p], [N_np, N_p], axis=1)
    first, second = simulation.vector(2, a0=1.0), simulation.vector(2, a1=1.0)
    experiment = simulation.mean_products(fed, 0, rows, [(first, second - first), (second, second - first)]).experiment
    before = float(aggregation.optimal_ratio(N_np, N_p, alpha2, tau2, 0.0, gamma2))
    noisy = alpha2 + tau2 + N_p * gamma2
    reading = simulation.Ratio("best ratio with more scatter", [-N_np, 0.0], [0.0, N_p], noisy,
                               lambda x: before + x, lambda r: r - before)  # fmt: skip
    return simulation.Simulation(experiment, (reading,))


register(
    Claim(
        id="feo2:heterogeneity",
        title="The ratio grows with the non-private clients' heterogeneity",
        place="Section 3",
        statement="""More heterogeneity of the non-private clients leads to higher values of r. Judged in point estimation:
            where they scatter more around the centre, the optimal ratio does not fall.""",
        latex=r"\text{``more heterogeneity leads to higher values of }r\text{ and vice versa''}",
        kind="order",
        variables=(*OPT_OUT, MORE),
        examples=(
            {"N_np": 2, "N_p": 2, "alpha2": 1, "tau2": "1/2", "gamma2": 1, "more": 2},
            {"N_np": 1, "N_p": 2, "alpha2": 1, "tau2": 0, "gamma2": "1/2", "more": 1},
        ),
        printed=lambda: ZERO,
        relation=">=",
        derive=_heterogeneity_derive,
        oracle=_heterogeneity_oracle,
        not_computed=Exempt(kind="difference", of=("feo2:lemma1:rstar",)),
        simulate=_heterogeneity_simulate,
        tight=Tight(at={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 1, "more": 0}),
        assumes=MODEL,
        unit="dimensionless",
        related=("feo2:lemma1:rstar", "fedhdp:r-falls"),
        model=("Value(Optimum, Optimum)",),
    )
)


Z = Variable("z", "positive", "noise multiplier")
S = Variable("S", "positive", "clipping norm")


def _gamma_derive(z: Any, S: Any, N_p: Any) -> Derivation:
    d = Derivation()
    d.say("""One client's clipped update changes the sum over the private group by at most S (removal), so noise of standard
        deviation z S on the sum gives the mechanism its multiplier z.""")  # fmt: skip
    noise = Group("sum", sp.Integer(1), ZERO, ZERO, (z * S) ** 2).noise("l")
    return d.conclude("The average divides by N_p; its noise variance is", mse((1 / N_p) * noise))


register(
    Claim(
        id="feo2:gamma-prop",
        title="Privacy noise at the server falls with the square of the group",
        place="Section 4.1",
        statement="gamma2 is proportional to 1/N_p^2: the variance that privacy adds to the private group's average.",
        latex=r"\gamma^2\propto\frac{1}{N_p^2}",
        kind="identity",
        variables=(Z, S, N_P),
        examples=({"z": 1, "S": 2, "N_p": 4},),
        printed=lambda z, S, N_p: z**2 * S**2 / N_p**2,
        derive=_gamma_derive,
        oracle=lambda z, S, N_p: sum(((z * S) ** 2 / N_p) * (sp.Integer(1) / N_p) ** 2 for _ in range(int(N_p))),
        computed=lambda z, S, N_p: privacy.server_noise_variance(z=z, S=S, q=1.0, N=N_p),
        simulate=lambda z, S, N_p: simulation.mean_squares(
            simulation.federation([N_p], 0.0, 0.0, (z * S) ** 2 / N_p), 0, np.full(int(N_p), 1 / N_p),
            [simulation.vector(1, a0=1.0)], ["noise variance of the average"],
        ),
        assumes={"adjacency": "add-remove", "divisor": "fixed", "sampling": "none"},
        unit="variance",
        remark="""For the same z and S. Per client it is N_p gamma2 = (z S)^2/N_p: each of fewer private clients must add
            more noise. Arguments that keep gamma2 fixed while N_p varies (fedhdp:lemma7:limits) contradict this.""",
        model=("Value(Server)",),
    )
)  # fmt: skip

register(
    Claim(
        id="feo2:alg1",
        title="Algorithm 1: the lines of FeO2",
        place="Section 3, Algorithm 1",
        latex=r"""z^t\leftarrow z\frac{S^t}{N_p^t};\ \triangle\theta_p^{t+1}\leftarrow\frac1{N_p^t}\sum_{i\in\mathcal C_p^t}%
            \triangle\theta_i^t+\mathcal N(0,(z^t)^2I);\ \theta^{t+1}\leftarrow\theta^t+\frac{1}{N_{np}^t+rN_p^t}%
            [N_{np}^t\triangle\theta_{np}^{t+1}+rN_p^t\triangle\theta_p^{t+1}]""",
        remark="The personal line uses theta^0 and is right. Removed clients count as zero with a fixed divisor.",
        **GROUPS,
    )
)
