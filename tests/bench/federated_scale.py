"""Memory of a federation of many clients, few of them in a round: resident bytes as its rounds go on.

``python -m tests.bench.federated_scale --clients 1000000 --number 1000 --algorithm AdaPeD`` prints, for a network of 10-50-4
and 5 rows at each client, the seconds and resident bytes after the data are there and after each round.

Belongs here: that measurement.  Does not belong here: speed of a round (``federated_speed``), that sparse rows have the bits
of dense ones (``test_own_rows``).
"""

import argparse
import resource
from itertools import islice
from pathlib import Path
from time import monotonic

from estimators.federated import algorithms
from estimators.federated.data import synthetic_federation
from estimators.federated.models import neural_network
from estimators.federated.task import Task
from estimators.federated.training import training

SETTINGS = {
    "FedAvg": {},
    "DPFedAvg": {"clip": 1.0, "multiplier": 1.0, "delta": 1e-7, "lam": 0.1},
    "PFedMe": {"personal_rate": 0.1, "lam": 2.0, "inner_steps": 2},
    "AdaPeD": {"psi_rate": 0.01},
}


def resident():
    """Bytes of this process in memory, now and at most."""
    now = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return now, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--algorithm", choices=SETTINGS, default="AdaPeD")
    given = parser.parse_args()
    begun = monotonic()

    def say(what):
        now, most = resident()
        print(f"{what}: {monotonic() - begun:.1f} s, {now / 1e6:.0f} MB, at most {most / 1e6:.0f} MB", flush=True)

    say("imports")
    federation = synthetic_federation("mixture", clients=given.clients, rows=5, features=10, test_fraction=0.2)
    say("rows of all clients")
    model = neural_network(10, 50, 4)
    task = Task(federation, model, work={"rule": "epochs", "n_epochs": 1, "batch_size": 5}, seed=0)
    del federation
    say("task")
    settings = SETTINGS[given.algorithm]
    algorithm = getattr(algorithms, given.algorithm)(learning_rate=0.1, number=given.number, **settings)
    rounds = training(algorithm, task, rounds=given.rounds + 1)  # the last one ends with measures of all clients
    for step in islice(rounds, given.rounds):
        say(f"round {step.finished}")


if __name__ == "__main__":
    main()
