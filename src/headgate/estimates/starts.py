"""When pods and Workloads start: the estimator (``estimator.py``) on the replays of both kinds of queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate.estimates.estimator import EstimateSettings, StartEstimate, estimate_starts
from headgate.estimates.pod_replay import MakeScheduler, PodReplay, PodReplayState, ReplayResult
from headgate.estimates.run_times import RunTimeDraw, RunTimeHistory
from headgate.estimates.workload_replay import MakeController, WorkloadReplay, WorkloadState


def estimate_pods(
    make_scheduler: MakeScheduler,
    state: PodReplayState,
    targets: Mapping[str, frozenset[str]],
    settings: EstimateSettings,
) -> dict[str, StartEstimate]:
    """``targets``: by name, the uids of pods."""

    def run(draw: RunTimeDraw, seed: int | None, horizon_s: float, names: frozenset[str]) -> ReplayResult:
        asked = {name: targets[name] for name in sorted(names)}
        return PodReplay(make_scheduler, state, draw, asked, arrivals_seed=seed).run(horizon_s)

    return estimate_starts(
        run,
        RunTimeHistory(state.ended),
        state.now_s,
        targets,
        settings,
        has_arrivals=bool(state.arrivals.arrivals),
    )


def estimate_workloads(
    make_controller: MakeController,
    state: WorkloadState,
    targets: Collection[str],
    settings: EstimateSettings,
) -> dict[str, StartEstimate]:
    """``targets``: keys of Workloads."""

    def run(draw: RunTimeDraw, seed: int | None, horizon_s: float, names: frozenset[str]) -> ReplayResult:
        asked = {key: frozenset((key,)) for key in sorted(names)}
        return WorkloadReplay(make_controller, state, draw, asked, arrivals_seed=seed).run(horizon_s)

    return estimate_starts(
        run,
        RunTimeHistory(state.ended),
        state.now_s,
        targets,
        settings,
        has_arrivals=bool(state.arrivals.arrivals),
    )
