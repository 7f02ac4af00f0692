"""Federations of clients that differ in budget and batch size: the part that `noise_estimates` and `aggregate_noise` share.

Belongs here: drawing budgets, batch sizes and synthetic updates, the noise of each client's update by (7), and the weights
of each algorithm.  Does not belong here: drawing of figures.
"""

from functools import cache

import numpy as np

from estimators.accounting import dpsgd, privacy
from estimators.accounting.accountants import calibrate_noise
from estimators.closed_forms import aggregation
from estimators.montecarlo import stream
from estimators.server import robust_pca

__all__ = ["ALGORITHMS", "CLIENTS", "PARAMETERS", "Federation"]

CLIENTS, P, SHARED, BLOCK = 20, 2000, 0.1, 500
RECORDS, ETA, C, ROUNDS, DELTA = 2400, 0.01, 3.0, 200, 1e-4
ORDERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
ALGORITHMS = ("oracle", "robust", "eps", "fedavg", "least eps")
PARAMETERS = {
    "clients": CLIENTS,
    "p": P,
    "shared_variance_over_least_noise": SHARED,
    "block_rows": BLOCK,
    "N": RECORDS,
    "eta": ETA,
    "c": C,
    "rounds": ROUNDS,
    "delta": DELTA,
}


@cache
def noise(b, eps):
    """Return the variance (7) of the noise in one element of an update, over the squared learning rate."""
    steps = -(-RECORDS // b)

    def spent(z):
        return privacy.sampled_gaussian_epsilon(
            noise_multiplier=z, sampling_rate=b / RECORDS, rounds=ROUNDS * steps, delta=DELTA, orders=ORDERS
        )

    z = calibrate_noise(spent, eps=eps)
    return float(dpsgd.model_update_variance(K=1, N=RECORDS, b=b, eta=1.0, c=C, z=z, p=1, path="shuffled"))


class Federation:
    """Clients with the budgets `eps`, their noise and updates, drawn from the stream of `key`.

    Batch sizes are drawn from `batches`, all equally likely.
    """

    def __init__(self, key, eps, batches):
        gen = stream(f"figures:{key}", 0)
        self.eps = np.sort(eps)
        self.batches = gen.choice(batches, CLIENTS)
        self.variances = np.array([noise(int(b), float(eps)) for b, eps in zip(self.batches, self.eps, strict=True)])
        self.strictest = np.array([noise(int(b), float(self.eps.min())) for b in self.batches])
        common = np.sqrt(SHARED * self.variances.min()) * gen.standard_normal((P, 1))
        updates = common + np.sqrt(self.variances) * gen.standard_normal((P, CLIENTS))
        # Rounded, so that the last bits of the linear algebra library do not show.
        found = robust_pca.noise_variances(updates, block_rows=BLOCK)
        self.converged = found.converged
        self.estimates = np.array([float(f"{x:.6g}") for x in found.variances])

    def of(self, algorithm):
        """Return the weights of an algorithm, and the noise variances of the clients under it."""
        if algorithm == "oracle":
            return aggregation.precision_weights(self.variances), self.variances
        if algorithm == "robust":
            return aggregation.precision_weights(self.estimates), self.variances
        if algorithm == "eps":
            return aggregation.eps_weights(self.eps), self.variances
        uniform = np.full(CLIENTS, 1 / CLIENTS)
        return uniform, self.variances if algorithm == "fedavg" else self.strictest

    def left(self, algorithm):
        """Return the noise in an element of the aggregated update, a closed form."""
        return float(aggregation.aggregate_variance(*self.of(algorithm)))
