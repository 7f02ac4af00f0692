"""Monte Carlo engine: streams, compiled kernels, mergeable moments, checks with declared error rates.

Belongs here: the public names, imported on first use so that importing this package costs nothing
and never imports numba. Does not belong here: code. ``streams`` are random numbers, ``kernels`` the compiled loops and
``reference`` their plain twins, ``runner`` draws replicates in chunks, ``moments`` merges them, ``independence`` refuses
replicates that repeat, ``checks`` decides.
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from .checks import (
        DECLARED,
        FALSE_ALARM,
        MISS,
        Check,
        CheckResult,
        TwoStageRule,
        perform,
        required_reps,
        smallest_detectable,
    )
    from .moments import Moments, combine
    from .runner import (
        CHUNK,
        ClientsExperiment,
        Experiment,
        JamesSteinExperiment,
        RegressionExperiment,
        SampledExperiment,
        merge_chunks,
        n_chunks,
        run,
        run_chunks,
    )
    from .streams import DEFAULT_ROOT, stream

__all__ = [
    "CHUNK", "DECLARED", "DEFAULT_ROOT", "FALSE_ALARM", "MISS", "Check", "CheckResult", "ClientsExperiment", "Experiment",
    "JamesSteinExperiment", "Moments", "RegressionExperiment", "SampledExperiment", "TwoStageRule", "combine",
    "merge_chunks", "n_chunks", "perform", "required_reps", "run", "run_chunks", "smallest_detectable", "stream",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "checks": "DECLARED FALSE_ALARM MISS Check CheckResult TwoStageRule perform required_reps smallest_detectable",
        "moments": "Moments combine",
        "runner": "CHUNK ClientsExperiment Experiment JamesSteinExperiment RegressionExperiment SampledExperiment "
        "merge_chunks n_chunks run run_chunks",
        "streams": "DEFAULT_ROOT stream",  # streams.streams would clash with the module's name
    },
)
