"""Monte Carlo engine: streams, compiled kernels, mergeable moments, checks with declared error rates.

Belongs here: the public names, imported on first use so that importing this package costs nothing
and never imports numba. Does not belong here: code. ``streams`` are random numbers, ``nets`` points that are more even,
``smoothness`` says whom they serve, ``kernels`` are the compiled loops over either and ``reference`` their plain twins,
``laws`` make other numbers of uniforms, ``experiments`` are what is simulated, ``runner`` draws them in chunks,
``randomisations`` uses large nets and ``strata`` many small ones, ``moments`` merges, ``independence`` refuses replicates
that repeat, ``checks`` decides from many replicates and ``student`` from a few nets; ``cubature`` draws nothing.
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
    from .experiments import (
        ClientsExperiment,
        Experiment,
        JamesSteinExperiment,
        RegressionExperiment,
        SampledExperiment,
    )
    from .moments import Moments, combine
    from .randomisations import run_nets
    from .runner import CHUNK, merge_chunks, n_chunks, run, run_chunks
    from .smoothness import NoNet
    from .strata import StratifiedExperiment, perform_on_strata, pilot_strata, plan_strata
    from .streams import DEFAULT_ROOT, stream
    from .student import MAX_COORDINATES, STUDENT, StudentRule, perform_on_nets, plan_nets

__all__ = [
    "CHUNK", "DECLARED", "DEFAULT_ROOT", "FALSE_ALARM", "MAX_COORDINATES", "MISS", "STUDENT", "Check", "CheckResult",
    "ClientsExperiment", "Experiment", "JamesSteinExperiment", "Moments", "NoNet", "RegressionExperiment",
    "SampledExperiment", "StratifiedExperiment", "StudentRule", "TwoStageRule", "combine", "merge_chunks", "n_chunks",
    "perform", "perform_on_nets", "perform_on_strata", "pilot_strata", "plan_nets", "plan_strata", "required_reps", "run",
    "run_chunks", "run_nets", "smallest_detectable", "stream",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "checks": "DECLARED FALSE_ALARM MISS Check CheckResult TwoStageRule perform required_reps smallest_detectable",
        "experiments": "ClientsExperiment Experiment JamesSteinExperiment RegressionExperiment SampledExperiment",
        "moments": "Moments combine",
        "randomisations": "run_nets",
        "runner": "CHUNK merge_chunks n_chunks run run_chunks",
        "smoothness": "NoNet",
        "strata": "StratifiedExperiment perform_on_strata pilot_strata plan_strata",
        "student": "MAX_COORDINATES STUDENT StudentRule perform_on_nets plan_nets",
        "streams": "DEFAULT_ROOT stream",  # streams.streams would clash with the module's name
    },
)
