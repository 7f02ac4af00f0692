"""Theorem 7 against what DP-AdaPeD really spends (generative framework, Theorem 7).

One explicit federation, whose clipped gradients are constant, gives a lower limit of what any valid bound may say: left its
budget against the local steps per round at a fixed number of steps in all, right one round's delta against eps, where it has
a closed form and is simulated.  The printed bound lies below.  The numerical budgets of dp-accounting are
shown too.  The parameters are ours; the paper has no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import numpy as np

from estimators.accounting import adaped, privacy
from estimators.montecarlo import SampledExperiment
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "generative:lemma2:eps",
    "generative:lemma2:delta",
    "generative:lemma3",
    "generative:thm7:sensitivity",
    "generative:thm7:rdp",
    "generative:thm7:valid",
)
K, M, C1, SIGMA2, T, DELTA = 20, 60, 1.0, 40.0, 120, 1e-5
STEPS = [tau for tau in range(1, T + 1) if T % tau == 0]
ORDERS = np.array([*range(2, 65), 80, 96, 128, 192, 256])
ONE_ROUND = 20
PLACES = [0.02, 0.1, 0.2, 0.3, 0.4]


def shift(tau):
    """Return the distance of the average between neighbours (replacement) over the deviation of its noise."""
    return adaped.SHIFTS["replace"] * C1 * np.sqrt(tau / (K * SIGMA2))


def printed_rdp(tau, total):
    """Return Theorem 7's divergences as printed, with psi kept fixed."""
    return (K / M) ** 2 * 6 * (total / tau) * ORDERS * C1**2 / (K * SIGMA2)


def federation_rdp(tau, total):
    """Return the divergences of the explicit federation, exact at whole orders."""
    one = privacy.rdp_sampled_gaussian(noise_multiplier=1 / shift(tau), sampling_rate=K / M, order=ORDERS)
    return privacy.compose(one, total // tau)


def valid_rdp(tau, total):
    """Return the divergences of a bound that holds for a trusted server, which shows averages only."""
    return adaped.adaped_rdp(order=ORDERS, tau=tau, T=total, K=K, m=M, C1=C1, sigma2_q1=SIGMA2, average=True)


RDPS = {"printed": printed_rdp, "federation": federation_rdp, "valid": valid_rdp}


def exact_delta(eps):
    """Return the smallest delta of one round of the federation at `eps`: that of Gaussian noise, amplified by sampling."""
    q = K / M
    inner = np.log1p(np.expm1(eps) / q)
    return q * privacy.gaussian_delta(eps=inner, sensitivity=shift(ONE_ROUND), sigma=1.0)


def experiment(eps):
    """Return the experiment of the privacy loss of one round: the mean of max(0, 1 - exp(eps - loss)) is delta."""
    q, mu = K / M, shift(ONE_ROUND)

    def draw(gen, reps):
        seen = mu * (gen.random(reps) < q) + gen.standard_normal(reps)
        loss = np.log1p(q * np.expm1(mu * seen - mu**2 / 2))
        return np.maximum(0.0, -np.expm1(eps - loss))[:, None]

    return SampledExperiment(draw, 1, 2, batch=65_536)


def numerical_budget(tau):
    """Return the budget of the federation by the privacy loss distribution of dp-accounting."""
    from dp_accounting import dp_event, pld

    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    step = dp_event.PoissonSampledDpEvent(K / M, dp_event.GaussianDpEvent(1 / float(shift(tau))))
    return float(accountant.compose(step, T // tau).get_epsilon(DELTA))


def compute(quick=False):
    """Return the budgets and deltas of all bounds, with provenance."""
    points = Points("adaped_bound", quick)
    budgets = {
        name: np.array([float(privacy.epsilon_from_rdp(ORDERS, rdp(tau, T), delta=DELTA)) for tau in STEPS])
        for name, rdp in RDPS.items()
    }
    points.require(bool((budgets["federation"] <= budgets["valid"]).all()), "a federation spends more than the valid bound")
    late = np.array(STEPS) > 10
    points.require(bool((budgets["printed"] < budgets["federation"])[late].all()), "the printed bound holds for many steps")
    taus = STEPS[1::2]
    found = np.array([numerical_budget(tau) for tau in taus])
    # Both are upper bounds of the same number, the numerical one up to its grid.
    most = dict(zip(STEPS, budgets["federation"], strict=True))
    points.require(all(y <= most[tau] * 1.01 for tau, y in zip(taus, found, strict=True)), "dp-accounting finds more")
    numerical = {"x": np.array(taus), "y": found}
    x = np.linspace(0.0, 0.8, 81)
    curves = {}
    for name, rdp in RDPS.items():
        rdp = rdp(ONE_ROUND, ONE_ROUND)
        curves[name] = np.array([privacy.delta_from_rdp(ORDERS, rdp, eps=eps) for eps in x])
    exact = {"x": x, "y": exact_delta(x), "points": points.compare("delta", PLACES, exact_delta, experiment)}
    points.require(bool((exact["y"] <= curves["valid"]).all()), "the valid bound is below the exact delta")
    parameters = {"K": K, "m": M, "C1": C1, "sigma2_q1": SIGMA2, "T": T, "delta": DELTA, "tau_of_one_round": ONE_ROUND}
    return {
        "budgets": {"tau": np.array(STEPS), **budgets},
        "numerical": numerical,
        "exact": exact,
        "deltas": curves,
        "provenance": points.provenance(CLAIMS, parameters),
    }


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.8, columns=2)
    tau, budgets, x = data["budgets"]["tau"], data["budgets"], data["exact"]["x"]
    wrong = {"color": style.VERMILLION, "linestyle": (0, (4, 2))}
    left.plot(tau, budgets["valid"], color=style.BLUE)
    left.plot(tau, budgets["federation"], color=style.INK)
    left.plot(tau, budgets["printed"], **wrong)
    left.plot(data["numerical"]["x"], data["numerical"]["y"], "x", color=style.INK, markersize=4.5, markeredgewidth=1.1)
    style.note(left, 130, 0.85, "× dp-accounting", ha="right")
    style.note(left, 1.0, 7, "a bound that holds", color=style.BLUE)
    style.note(left, 3.0, 1.62, "one federation (Rényi)")
    style.note(left, 9.5, 0.32, "Theorem 7\nas printed", ha="right", color=style.VERMILLION)
    left.set(xscale="log", yscale="log", xlim=(0.9, 135), ylim=(0.08, 30))
    left.set_xticks([1, 3, 10, 30, 120], ["1", "3", "10", "30", "120"])
    left.set_yticks([0.1, 0.3, 1, 3, 10, 30], ["0.1", "0.3", "1", "3", "10", "30"])
    left.minorticks_off()
    left.set_xlabel(rf"local steps per round, $\tau$ (of $T={T}$ in all)")
    left.set_ylabel(r"budget $\varepsilon$ at $\delta=10^{-5}$")
    right.plot(x, data["deltas"]["valid"], color=style.BLUE)
    style.curve(right, data["exact"], style.INK, "o")
    right.plot(x, data["deltas"]["printed"], **wrong)
    right.set(yscale="log", xlim=(0, 0.8), ylim=(1e-7, 3))
    right.set_xticks([0, 0.2, 0.4, 0.6, 0.8])
    right.set_yticks([1e-6, 1e-4, 1e-2, 1], ["$10^{-6}$", "$10^{-4}$", "0.01", "1"])
    right.yaxis.minorticks_off()
    right.set_xlabel(r"$\varepsilon$")
    right.set_ylabel(r"$\delta$ of one round")
    style.note(right, 0.36, 1e-3, "exact, one federation")
    style.note(right, 0.2, 1e-6, "Theorem 7\nas printed", color=style.VERMILLION)
    style.note(right, 0.02, 1.6, "a bound that holds", color=style.BLUE)
    style.panel_caption(left, "a", "all rounds")
    style.panel_caption(right, "b", rf"one round of $\tau={ONE_ROUND}$ steps")
    style.points_note(right, 0.98, 0.7, "right")
    return figure
