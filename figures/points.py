"""Points of the figures: Monte Carlo of the raw model, compared with the closed form drawn as a line.

Belongs here: experiments on clients that blend their estimate with the server's, the comparison, and the
provenance of what was simulated.  Does not belong here: drawing, closed forms (they come in as functions).

The declared rule: every point is one independent run with its own key, and contradicts its line when it
lies further from it than the two-sided Student quantile at FALSE_ALARM = 1e-6, 4.9 standard errors (more
where replicates are few, because each is a whole federation).
A figure of P points that is right is therefore refused with probability at most 1e-6 P.
"""

import math
import platform
from importlib.metadata import version

import numpy as np
from scipy.special import stdtrit

from estimators.montecarlo import DEFAULT_ROOT, FALSE_ALARM, ClientsExperiment, run

__all__ = [
    "FULL_REPS",
    "QUICK_REPS",
    "FigureContradiction",
    "Points",
    "blend_experiment",
    "noise_experiment",
    "server_experiment",
    "silo_experiment",
    "weighted_experiment",
]

FULL_REPS = 1_000_000
"""Replicates of a point.  The mean of 1e6 squared normals has a relative standard error of 0.14 %.  A line
that is 1 % off (7.1 standard errors) is then caught at a point with probability 0.985, and at one of the four
points or more that every line has with probability 1 - 1e-7."""

QUICK_REPS = 100_000
"""Replicates of a point in quick mode, for a line that is 3 % off instead of 1 %."""

FEWEST = 40
"""Replicates of a point at least, where one replicate is a whole federation."""


def limit(reps):
    """Return how many standard errors a point may lie off its line."""
    return float(stdtrit(reps - 1, 1 - FALSE_ALARM / 2))


class FigureContradiction(Exception):
    """A simulated point lies further from its line than the declared rate allows."""


def spread(values, sizes):
    """Return one value per client from one per level."""
    return np.repeat(np.asarray(values, dtype=float), sizes)


def server_experiment(sizes, noises, alpha2, tau2, weights):
    """Squared error of the server's weighted average of all messages, as an estimate of the centre.

    Parameters
    ----------
    sizes : clients in each level.
    noises : variance of the privacy noise on one message of each level.
    alpha2, tau2 : variance of a client's estimation error, and of the clients' true values.
    weights : weight of one client of each level.
    """
    form = [0.0, 0.0, 0.0, 1.0]
    return ClientsExperiment(tau2, alpha2, spread(noises, sizes), 0, spread(weights, sizes), form, form)


def blend_experiment(lam, level, sizes, noises, alpha2, tau2, weights, noise):
    """Squared error of (own + lam server) / (1 + lam) as an estimate of the client's own true value.

    `level`, from 1, is the client's level; other parameters are as in `server_experiment`.  `noise` tells
    where the client's own privacy noise is: "server" in the server's average only (its own estimate is
    noise-free, as in FedHDP), "removed" taken out of that average too (as FedHDP's proofs assume), or "both"
    in its own estimate as well (MR-MTL, whose silos train privately).
    """
    pull = 1.0 if math.isinf(lam) else lam / (1 + lam)
    own = {"server": 0.0, "removed": -pull * weights[level - 1], "both": 1 - pull}[noise]
    # In p, e, l of the client and the average: (1 - pull)(p + e) + pull average - p, and its own l.
    form = [-pull, 1 - pull, own, pull]
    client = sum(sizes[: level - 1])
    return ClientsExperiment(tau2, alpha2, spread(noises, sizes), client, spread(weights, sizes), form, form)


def silo_experiment(lams, k, sigma2_locs, tau2):
    """Squared errors of (own + lam average) / (1 + lam) of silo `k`, one statistic per strength, on the same data.

    Parameters
    ----------
    lams : strengths, numbers (negative ones but -1 too) or inf.
    sigma2_locs : variance of every silo's local estimate, privacy noise included; tau2 : variance between silos.
    """
    pulls = [1.0 if math.isinf(lam) else lam / (1 + lam) for lam in lams]
    # In p, e, l of the silo and the plain average: (1 - pull)(p + e) + pull average - p.
    forms = [[-pull, 1 - pull, 0.0, pull] for pull in pulls]
    return ClientsExperiment(tau2, sigma2_locs, 0.0, k, np.full(len(sigma2_locs), 1 / len(sigma2_locs)), forms, forms)


def weighted_experiment(weights, k, sigma2_locs, tau2):
    """Squared error of a weighted average of all local estimates, `weights` adding to one, as an estimate of silo `k`'s."""
    form = [-1.0, 0.0, 0.0, 1.0]
    return ClientsExperiment(tau2, sigma2_locs, 0.0, k, weights, form, form)


def noise_experiment(weights, variances):
    """Squared noise of a weighted average of messages with independent noise."""
    form = [0.0, 0.0, 0.0, 1.0]
    return ClientsExperiment(0.0, 0.0, variances, 0, weights, form, form)


class Points:
    """The simulated points of one figure.

    Parameters
    ----------
    figure : name of the figure, the first part of the key of every run.
    quick : bool; fewer replicates.
    """

    def __init__(self, figure, quick):
        self.figure = figure
        self.reps = QUICK_REPS if quick else FULL_REPS
        self.runs = {}
        self.count = 0
        self.largest = 0.0

    def compare(self, curve, x, line, experiment, *, of=(1.0,), over=None, share=1.0):
        """Simulate `experiment(x)` for each x and compare it with `line(x)`.

        Parameters
        ----------
        curve : name of the curve, the second part of the keys.
        x : sequence of abscissae.
        line : function of x, the closed form.
        experiment : function of x that returns an experiment whose statistics estimate it.
        of : coefficients of the mean statistics that estimate the line.
        over : coefficients of a combination to divide that by (delta method), or None.
        share : part of the usual replicates that is enough, where one replicate averages over many clients.

        Returns
        -------
        dict with arrays x, y (estimates) and se (standard errors).

        Raises
        ------
        FigureContradiction
            Naming the point.
        """
        reps = max(FEWEST, round(self.reps * share))
        most, found = limit(reps), []
        for place in x:
            key = f"figures:{self.figure}:{curve}:{place!r}"
            if key not in self.runs:  # kept, as another curve may show another statistic of the same run
                self.runs[key] = run(experiment(place), reps, key)
            moments = self.runs[key]
            estimate, error = moments.linear(of) if over is None else moments.ratio(of, over)
            expected = float(line(place))
            distance = abs(estimate - expected) / error
            if not distance <= most:
                raise FigureContradiction(
                    f"{self.figure}, curve {curve}, at {place:g}: simulation {estimate:.6g} ± {error:.2g} "
                    f"and closed form {expected:.6g} are {distance:.1f} standard errors apart "
                    f"(limit {most:.1f})"
                )
            self.count += 1
            self.largest = max(self.largest, distance)
            found.append((float(place), estimate, error))
        return dict(zip(("x", "y", "se"), np.array(found).T, strict=True))

    def require(self, holds, what):
        """Raise FigureContradiction saying `what` unless `holds`; for facts that need no simulation."""
        if not holds:
            raise FigureContradiction(f"{self.figure}: {what}")

    def provenance(self, claims, parameters):
        """Return what is needed to compute the figure again, and how far the points were from the lines."""
        packages = ("numpy", "numba", "matplotlib")
        return {
            "claims": list(claims),
            "parameters": parameters,
            "root_seed": DEFAULT_ROOT,
            "replicates_per_point": self.reps,
            "points": self.count,
            "false_alarm_per_point": FALSE_ALARM,
            "limit_in_standard_errors": limit(self.reps),
            "largest_distance_in_standard_errors": self.largest,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        }
