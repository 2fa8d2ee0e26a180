"""Are estimates calibrated? A trace is simulated; when a job has to wait, its start is estimated from the state then.

The simulation goes on and says when the job really started. A range of 80 % should hold in 80 % of cases, and its
interval score (Gneiting and Raftery 2007: the width, plus ten times the distance by which it is missed) should be
smaller than that of the 10th to 90th percentile of the queue's past waiting times. The parameters of the estimator were
tuned with ``--tune``, on other seeds than those of the table. ``--cases N``: how many cases for each kind of trace.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, Final

import msgspec

from bench import report
from bench.estimate_traces import KINDS, TraceKind
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.cli.wiring.estimates import EstimateEngines, make_quota_controller
from headgate.estimates.arrivals import ArrivalHistory, PastArrival, as_created
from headgate.estimates.estimator import EstimateSettings, StartEstimate
from headgate.estimates.present_state import Past, pod_state, workload_state
from headgate.estimates.starts import estimate_pods, estimate_workloads
from headgate.estimates.units import Unit, group_of, pod_unit, queue_of_pod, workload_unit
from headgate.estimates.workload_replay import SERVED, workload_key
from headgate.kube import conditions
from headgate.kube.api_resources import NAMESPACES, NODES, PODS, APIResource
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import ADMITTED, EVICTED, FINISHED
from headgate.simulate.cluster_state import Change
from headgate.simulate.random_numbers import RandomNumbers
from headgate.simulate.simulation import JournalEntry, Simulation, SimulationStopped
from headgate.simulate.statistics import nearest_rank
from simulated_clusters import simulation_input

Object = dict[str, Any]

COVERAGE: Final = (0.75, 0.85)
GAIN: Final = 0.2
_ALPHA: Final = 0.2
CASES: Final = 120
SEEDS: Final = 40
"""The cases of a kind are spread over so many traces: those of one trace share its backlog, so a further case of the
same trace says little."""
_SCORED_SEED: Final = 5000
_TUNING_SEED: Final = 1
_WARM_UP: Final = 0.3
_MIN_PAST: Final = 20
_ROUNDING_S: Final = 1.0
"""Times of the API have whole seconds."""
_PAGE: Final = report.FILE.with_name("estimates.md")


class Case(msgspec.Struct, frozen=True):
    """Times are seconds from the question to the start. ``high``: infinite if there is no upper end. ``seed``: of its
    trace."""

    seed: int
    low: float
    high: float
    past_low: float
    past_high: float
    real: float


class PastUnits:
    """What a recording of the simulated cluster would know at each moment."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._arrived: dict[str, tuple[Unit, list[tuple[APIResource, Object]]]] = {}
        self._running: dict[str, tuple[str, float]] = {}  # by uid: the key of the unit, and since when
        self.ended: dict[str, Unit] = {}
        self._ran_s: dict[str, float] = {}  # the longest run that was interrupted, of units that start again
        simulation.state.watch(PODS, self._pod)
        simulation.state.watch(WORKLOADS, self._workload)

    def _unit_of(self, pod: Object) -> Unit:
        """A pod that was created again is the same unit."""
        simulation = self._simulation
        namespaces = {name: obj for (_, name), obj in simulation.state.objects(NAMESPACES).items()}
        unit = pod_unit(pod, queue_of_pod(pod, simulation.state.objects(POD_GROUPS), namespaces))
        if group_of(pod):
            return unit
        metadata = pod["metadata"]
        return msgspec.structs.replace(unit, key=f"pod {metadata['namespace']}/{simulation.pods[metadata['uid']].name}")

    def _pod(self, change: Change) -> None:
        pod, now_s = change.obj, self._simulation.now_s
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if metadata.get("ownerReferences"):
            return
        if change.gone:
            known = self._running.pop(uid, None)
            if known is not None and not metadata.get("deletionTimestamp"):
                self._ended(known[0], known[1], now_s)
            return
        if metadata.get("deletionTimestamp"):
            if uid in self._running:
                self._interrupted(*self._running[uid], now_s)
            return
        if uid not in self._running and pod["spec"].get("nodeName"):
            self._running[uid] = self._unit_of(pod).key, now_s
        elif not pod["spec"].get("nodeName") and "-r" not in metadata["name"]:
            unit = self._unit_of(pod)
            if unit.key not in self._arrived:
                unit = msgspec.structs.replace(unit, created_s=now_s)
                group = self._simulation.state.get(POD_GROUPS, metadata["namespace"], unit.key.rpartition("/")[2])
                self._arrived[unit.key] = unit, ([(POD_GROUPS, group)] if group else [])
            listed = self._arrived[unit.key][1]
            if all(each["metadata"]["uid"] != uid for _, each in listed):
                listed.append((PODS, pod))

    def _workload(self, change: Change) -> None:
        workload, now_s = change.obj, self._simulation.now_s
        if change.gone:
            return
        key, uid = workload_key(workload), workload["metadata"]["uid"]
        listed = (workload.get("status") or {}).get("conditions")
        if f"workload {key}" not in self._arrived:
            queue = self._simulation.state.get(
                LOCAL_QUEUES, workload["metadata"]["namespace"], workload["spec"]["queueName"]
            )
            assert queue is not None
            unit = msgspec.structs.replace(workload_unit(workload, queue["spec"]["clusterQueue"]), created_s=now_s)
            self._arrived[unit.key] = unit, [(WORKLOADS, workload)]
        if conditions.is_true(listed, FINISHED):
            known = self._running.pop(uid, None)
            if known is not None:
                self._ended(known[0], known[1], now_s)
        elif conditions.is_true(listed, EVICTED):
            known = self._running.pop(uid, None)
            if known is not None:
                self._interrupted(*known, now_s)
        elif conditions.is_true(listed, ADMITTED):
            self._running.setdefault(uid, (f"workload {key}", now_s))

    def _interrupted(self, key: str, started_s: float, now_s: float) -> None:
        self._ran_s[key] = max(self._ran_s.get(key, 0.0), now_s - started_s)

    def _ended(self, key: str, started_s: float, now_s: float) -> None:
        self._ran_s.pop(key, None)
        if key in self._arrived:
            self.ended[key] = msgspec.structs.replace(self._arrived[key][0], started_s=started_s, ended_s=now_s)

    def past(self, start_s: float) -> Past:
        arrivals = [
            PastArrival(unit, tuple((resource, as_created(resource, obj)) for resource, obj in objects))
            for unit, objects in self._arrived.values()
        ]
        ran_s = dict(self._ran_s)
        for each in self._simulation.pods.values():
            prefix = f"pod {each.record.job.namespace}/{each.name}"
            if each.attempt and prefix in ran_s:
                ran_s[f"{prefix}-r{each.attempt}"] = ran_s[prefix]
        return Past(tuple(self.ended.values()), ArrivalHistory(tuple(arrivals), start_s), ran_s)


class Question(msgspec.Struct):
    job: str
    queue: str
    asked_s: float
    estimate: StartEstimate
    past_low: float
    past_high: float


class TraceStuckError(Exception):
    """Workloads preempt each other again and again, so the trace does not end."""


class StuckGuard:
    """Counts the journal entries of a trace. Too many, at one moment or in all, mean that it does not end."""

    MAX_AT_ONCE: Final = 500
    MAX_PER_JOB: Final = 200
    """On average over the jobs of the trace."""

    def __init__(self, trace: str, jobs: int) -> None:
        self._trace = trace
        self._max = self.MAX_PER_JOB * jobs
        self._at_s = -1.0
        self._at_once = 0
        self._entries = 0

    def observe(self, entry: JournalEntry) -> None:
        self._entries += 1
        self._at_once = self._at_once + 1 if entry.at == self._at_s else 1
        self._at_s = entry.at
        if self._at_once > self.MAX_AT_ONCE or self._entries > self._max:
            raise TraceStuckError(f"{self._trace}, at {entry.at:.0f} s: workloads preempt each other without end")


TraceCases = tuple[list[Case], int]
"""The cases with a basis, and how many questions there were."""


def cases_of(kind: TraceKind, seed: int, count: int, settings: EstimateSettings) -> TraceCases:
    """Simulates one trace, and asks about ``count`` of the jobs that wait."""
    given = simulation_input(kind.objects, queueing=kind.queueing)
    jobs = list(kind.jobs(seed))
    starts: dict[str, float] = {}
    bound: dict[str, int] = {}
    by_name = {each.name: each for each in jobs}
    is_kueue = kind.queueing == "kueue"
    guard = StuckGuard(f"{kind.name}, seed {seed}", len(jobs))

    def journal(entry: JournalEntry) -> None:
        guard.observe(entry)
        if is_kueue and entry.what == "admitted":
            starts.setdefault(entry.job, entry.at)
        elif not is_kueue and entry.what == "bound":
            bound[entry.job] = bound.get(entry.job, 0) + 1
            if bound[entry.job] == by_name[entry.job].pods:
                starts.setdefault(entry.job, entry.at)

    simulation = Simulation(given, journal)
    begin_s = simulation.now_s
    recorded = PastUnits(simulation)
    random = RandomNumbers(seed, 3)
    questions: list[Question] = []
    waits: dict[str, list[float]] = {}
    open_jobs: dict[str, TraceJobRef] = {}
    seen = 0
    first = int(len(jobs) * _WARM_UP)
    chance = min(1.0, 2.5 * count / (len(jobs) - first))

    def on_progress(simulation: Simulation) -> bool:
        nonlocal seen
        for name in [each for each in open_jobs if each in starts]:
            ref = open_jobs.pop(name)
            wait_s = starts[name] - ref.submit_s
            if wait_s > 0.5:
                waits.setdefault(ref.queue, []).append(wait_s)
        while seen < simulation.submitted_jobs:
            job = jobs[seen]
            seen += 1
            if job.name in starts:
                continue
            open_jobs[job.name] = TraceJobRef(job.queue, job.submit)
            past = sorted(waits.get(job.queue, ()))
            if seen <= first or len(past) < _MIN_PAST or len(questions) >= count or random.uniform() >= chance:
                continue
            estimate = _ask(simulation, recorded, job.name, kind, settings, begin_s)
            if estimate is not None:
                low, high = nearest_rank(past, 0.1), nearest_rank(past, 0.9)
                questions.append(Question(job.name, job.queue, simulation.elapsed_s, estimate, low, high))
        return len(questions) < count or any(each.job not in starts for each in questions)

    _run(simulation, jobs, on_progress)
    cases = [
        Case(
            seed,
            (each.estimate.earliest_s or 0.0) - begin_s - each.asked_s,
            math.inf if each.estimate.latest_s is None else each.estimate.latest_s - begin_s - each.asked_s,
            each.past_low,
            each.past_high,
            starts[each.job] - each.asked_s,
        )
        for each in questions
        if each.job in starts and each.estimate.state != "no basis"
    ]
    return cases, len(questions)


class TraceJobRef(msgspec.Struct, frozen=True):
    queue: str
    submit_s: float


def _run(simulation: Simulation, jobs: Iterable[Any], on_progress: Any) -> None:
    with contextlib.suppress(SimulationStopped):
        simulation.run(jobs, on_progress)


def _ask(
    simulation: Simulation, recorded: PastUnits, job: str, kind: TraceKind, settings: EstimateSettings, begin_s: float
) -> StartEstimate | None:
    engines = EstimateEngines(("headgate",))
    state, past = simulation.state, recorded.past(begin_s)
    if kind.queueing == "kueue":
        objects = {resource: list(state.objects(resource).values()) for resource, _ in SERVED}
        key = next(
            (
                workload_key(each)
                for each in objects[WORKLOADS]
                if each["metadata"]["ownerReferences"][0]["name"] == job
            ),
            None,
        )
        if key is None:
            return None
        present = workload_state(objects, simulation.now_s, past)
        return estimate_workloads(make_quota_controller, present, [key], settings)[key]
    objects = {
        resource: list(state.objects(resource).values()) for resource in (NODES, NAMESPACES, QUEUES, POD_GROUPS, PODS)
    }
    uids = frozenset(
        each["metadata"]["uid"]
        for each in objects[PODS]
        if simulation.pods[each["metadata"]["uid"]].record.job.name == job and not each["spec"].get("nodeName")
    )
    return estimate_pods(engines.scheduler, pod_state(objects, simulation.now_s, past), {job: uids}, settings)[job]


def interval_score(low: float, high: float, real: float) -> float:
    return (high - low) + (2 / _ALPHA) * (max(low - real, 0.0) + max(real - high, 0.0))


def _holds(case: Case) -> bool:
    return case.low - _ROUNDING_S <= case.real <= case.high + _ROUNDING_S


class KindResult(msgspec.Struct, frozen=True):
    """``asked``: how many questions there were; for those without a basis there is no case. ``stuck``: how many traces
    did not end; they have no cases."""

    kind: TraceKind
    cases: tuple[Case, ...]
    asked: int
    stuck: int
    seconds: float

    @property
    def coverage(self) -> float:
        return sum(map(_holds, self.cases)) / max(len(self.cases), 1)

    @property
    def coverage_error(self) -> float:
        """The standard error of the coverage: cases of one trace are not independent, the traces are."""
        by_trace: dict[int, list[bool]] = {}
        for each in self.cases:
            by_trace.setdefault(each.seed, []).append(_holds(each))
        residuals = (sum(held) - len(held) * self.coverage for held in by_trace.values())
        count = len(by_trace)
        return math.sqrt(math.fsum(each**2 for each in residuals) * count / max(count - 1, 1)) / max(len(self.cases), 1)

    @property
    def past_coverage(self) -> float:
        return sum(each.past_low <= each.real <= each.past_high for each in self.cases) / max(len(self.cases), 1)

    @property
    def gain(self) -> float:
        ours, past = self.scores()
        return 1 - ours / past if past else 0.0

    def scores(self) -> tuple[float, float]:
        """The mean interval scores of the estimates and of the past waiting times."""
        ours = [interval_score(each.low, min(each.high, _LONGEST_S), each.real) for each in self.cases]
        past = [interval_score(each.past_low, each.past_high, each.real) for each in self.cases]
        return math.fsum(ours) / max(len(ours), 1), math.fsum(past) / max(len(past), 1)


_LONGEST_S: Final = 7 * 86_400.0
"""The width of a range without an upper end."""


def measure(
    kinds: Sequence[TraceKind], cases: int, first_seed: int, settings: EstimateSettings, seeds: int, processes: int
) -> list[KindResult]:
    """Each trace runs in a process of its own, so many at the same time."""
    found = []
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for kind in kinds:
            began = time.perf_counter()
            numbers = range(first_seed, first_seed + seeds)
            parts = list(pool.map(partial(_cases_by_name, kind.name, cases // seeds, settings), numbers))
            result = result_of(kind, parts, time.perf_counter() - began)
            found.append(result)
            ours, past = result.scores()
            below = sum(each.real < each.low - _ROUNDING_S for each in result.cases)
            print(
                f"  {kind.name:10} {len(result.cases):4} of {result.asked} cases, holds in {result.coverage:.1%} "
                f"± {result.coverage_error:.1%} ({below} "
                f"earlier; past waiting {result.past_coverage:.1%}), score {ours:,.0f} against {past:,.0f}: "
                f"{result.gain:+.0%}, {result.stuck} traces do not end, {result.seconds:.0f} s",
                flush=True,
            )
    return found


def result_of(kind: TraceKind, parts: Sequence[TraceCases | None], seconds: float) -> KindResult:
    """``parts``: of each trace; None if it does not end."""
    done = [each for each in parts if each is not None]
    listed = tuple(case for part, _ in done for case in part)
    return KindResult(kind, listed, sum(asked for _, asked in done), len(parts) - len(done), seconds)


def _cases_by_name(name: str, count: int, settings: EstimateSettings, seed: int) -> TraceCases | None:
    """Functions of a trace cannot be sent to another process; its name can. None if the trace does not end."""
    try:
        return cases_of(next(each for each in KINDS if each.name == name), seed, count, settings)
    except TraceStuckError as stuck:
        print(f"  {stuck}", flush=True)
        return None


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench estimates")
    parser.add_argument("--cases", type=int, default=CASES, help="for each kind of trace")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="over how many traces the cases are spread")
    parser.add_argument("--kind", action="append", choices=[each.name for each in KINDS])
    parser.add_argument("--tune", action="store_true", help="use the traces for tuning; write no table")
    parser.add_argument("--first-seed", type=int, default=_TUNING_SEED, help="of the traces for tuning")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replays", type=int, default=EstimateSettings().replays)
    given = parser.parse_args(list(arguments))
    kinds = [each for each in KINDS if not given.kind or each.name in given.kind]
    settings = EstimateSettings(given.replays)
    print(f"\nestimates: {given.cases} cases for each kind of trace")
    first_seed = given.first_seed if given.tune else _SCORED_SEED
    results = measure(kinds, given.cases, first_seed, settings, given.seeds, given.processes)
    if not given.tune and len(kinds) == len(KINDS):
        report.write("estimates", result_table(results, settings), _PAGE)


def result_table(results: Iterable[KindResult], settings: EstimateSettings) -> list[str]:
    rows = []
    for each in results:
        (ours, past), gain = each.scores(), each.gain
        met = COVERAGE[0] <= each.coverage <= COVERAGE[1] and gain >= GAIN
        rows.append(
            [
                each.kind.name,
                each.kind.about,
                f"{len(each.cases)} of {each.asked}" + (f" ({each.stuck} traces do not end)" if each.stuck else ""),
                f"{each.coverage:.0%} ± {each.coverage_error:.0%}",
                f"{each.past_coverage:.0%}",
                f"{ours:,.0f} s",
                f"{past:,.0f} s",
                f"{gain:.0%}",
                "yes" if met else "**no**",
            ]
        )
    heads = (
        "trace",
        "jobs",
        "cases with a basis",
        "range holds",
        "past waiting holds",
        "score",
        "score of past waiting",
        "better",
    )
    bar = f"range holds in {COVERAGE[0]:.0%}–{COVERAGE[1]:.0%}, score at least {GAIN:.0%} better"
    return [
        f"`make bench ARGS=estimates`: {settings.replays} replays for each estimate. Bar: {bar}; "
        "± is one standard error over the traces.",
        "",
        *report.table((*heads, "met"), rows),
    ]
