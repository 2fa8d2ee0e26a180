"""When pods and Workloads start: the estimator (``estimator.py``) on the replays of both kinds of queues.

``settle_pods`` and ``settle_workloads`` return the state that the engines reach at once: a unit that waits is explained
from that state, because units before it may have taken what is free now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headgate.estimates.estimator import EstimateSettings, StartEstimate, estimate_starts
from headgate.estimates.pod_replay import MakeScheduler, PodReplay, PodReplayState, ReplayResult
from headgate.estimates.run_times import RunTimeDraw, RunTimeHistory
from headgate.estimates.workload_replay import MakeController, WorkloadReplay, WorkloadState

Object = dict[str, Any]


def _history(state: PodReplayState | WorkloadState) -> RunTimeHistory:
    return RunTimeHistory(state.ended, state.units.values(), state.now_s)


def settle_pods(make_scheduler: MakeScheduler, state: PodReplayState) -> Sequence[Object]:
    """The pods, as the scheduler leaves them at once."""
    draw = RunTimeDraw(_history(state), 0, state.now_s)
    return PodReplay(make_scheduler, state, draw, {}, arrivals_seed=None).settled()


def settle_workloads(make_controller: MakeController, state: WorkloadState) -> Sequence[Object]:
    """The Workloads, as the quota controller leaves them at once."""
    draw = RunTimeDraw(_history(state), 0, state.now_s)
    return WorkloadReplay(make_controller, state, draw, {}, arrivals_seed=None).settled()


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
        _history(state),
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
        _history(state),
        state.now_s,
        targets,
        settings,
        has_arrivals=bool(state.arrivals.arrivals),
    )
