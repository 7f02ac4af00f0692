"""The benchmark's round in pfl (pfl-research, Granqvist et al. 2024), run by ``bench_federated`` as a process of its own.

``python pfl_rounds.py PROBLEM``, once or, with the variables of ``torch.distributed``, several times, which share the
clients.  PROBLEM.npz has x (C, rows, 784) and y (C, rows) in the order of the batches, the layers of the start, the learning
rate and the size of batches.  The first round is done at once, and the shared parameters after it are written to
PROBLEM.end.npy; then every line on standard input asks for one more round.  A line on standard output answers each, with
the processor's seconds that the first process took.

Nothing that pfl offers is held back: data are tensors, their batches are made beforehand, and nothing is evaluated but in
the first round.
"""

# pyright: reportMissingImports=false

import sys
from time import process_time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import MinimizeReuseUserSampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel


class Network(torch.nn.Sequential):
    def __init__(self, layers):
        shapes = [layer.shape for layer in layers]
        super().__init__(
            torch.nn.Linear(shapes[0][0] - 1, shapes[0][1]),
            torch.nn.ReLU(),
            torch.nn.Linear(shapes[1][0] - 1, shapes[1][1]),
        )
        with torch.no_grad():
            for module, layer in zip((self[0], self[2]), layers, strict=True):
                module.weight.copy_(torch.from_numpy(layer[:-1].T))
                module.bias.copy_(torch.from_numpy(layer[-1]))

    def loss(self, x, y):
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {}

    def flat(self):
        parts = [torch.cat([m.weight.T.flatten(), m.bias]) for m in (self[0], self[2])]
        return torch.cat(parts).detach().numpy().copy()


class OnRequest(TrainingProcessCallback):
    """Answers a finished round, waits for the next request; other processes wait for the first one."""

    def __init__(self, network, path):
        self.network, self.path, self.begun = network, path, process_time()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        stop = False
        if pytorch_ops.distributed.global_rank == 0:
            if central_iteration == 0:
                np.save(f"{self.path}.end.npy", self.network.flat())
            print("done", process_time() - self.begun, flush=True)
            stop = sys.stdin.readline() == ""
        if pytorch_ops.distributed.world_size > 1:
            torch.distributed.barrier()
        self.begun = process_time()
        return stop, Metrics()


def main(path):
    torch.set_num_threads(1)
    problem = np.load(f"{path}.npz")
    x, y = torch.from_numpy(problem["x"]), torch.from_numpy(problem["y"])
    clients = len(x)
    users = [Dataset(raw_data=[x[k], y[k]], user_id=str(k)) for k in range(clients)]
    network = Network([problem["first"], problem["second"]])
    data = FederatedDataset(lambda k: users[k], MinimizeReuseUserSampler(list(range(clients))))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**6, evaluation_frequency=10**6, train_cohort_size=clients, val_cohort_size=None
        ),
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0)),
        NNTrainHyperParams(
            local_batch_size=int(problem["batch"]), local_num_epochs=1, local_learning_rate=float(problem["rate"])
        ),
        callbacks=[OnRequest(network, path)],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main(sys.argv[1])
