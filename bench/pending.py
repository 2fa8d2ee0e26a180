"""The cost of pending Workloads: one admission with few and with many pending, in process.

The queues are full. In each step a Workload that holds quota finishes, another one is created and waits, and the next
Workload of the queue is admitted. This is measured with the engine alone, and with the controller, whose writes (the
statuses of the queues included) get the responses that a server would send. Rounds alternate; the result is the median
of the CPU time of many rounds.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any, Final, Protocol

from bench import report
from bench.loads import Class, Load, cluster_queue, flavor, local_queue, workload
from bench.standings import Bar
from headgate.controllers.framework.effects import Effect, EffectResponse, ParallelRequests, Patch
from headgate.controllers.framework.reconcile import Done, Enqueue
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.controller.workload_writes import workload_write
from headgate.quota.effects import Effect as Decision
from headgate.quota.engine import QuotaEngine, QuotaSettings
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS

Object = dict[str, Any]

FEW: Final = 1_000
MANY: Final = 100_000
COST: Final = Bar(1.2, at_least=False)
_KINDS: Final = 20
_ROUNDS: Final = 15
_ADMISSIONS: Final = 100
_START_S: Final = 1_700_000_000.0


class Server:
    """The last written objects, by collection and key; ``admitted``: Workloads that got quota, in order."""

    def __init__(self) -> None:
        self._revision = 0
        self.objects: dict[tuple[APIResource, str], Object] = {}
        self.admitted: deque[str] = deque()

    def store(self, resource: APIResource, obj: Object) -> Object:
        metadata = obj["metadata"]
        self._revision += 1
        kept = {**obj, "metadata": {**metadata, "resourceVersion": str(self._revision)}}
        self.objects[resource, f"{metadata.get('namespace', '')}/{metadata['name']}"] = kept
        return kept

    def patch(self, resource: APIResource, key: str, body: Object) -> Object:
        """Only the top-level fields of metadata and status are merged: no writer here changes less than that."""
        known = self.objects[resource, key]
        if resource == WORKLOADS and (body.get("status") or {}).get("admission"):
            self.admitted.append(key)
        merged = {part: {**(known.get(part) or {}), **(body.get(part) or {})} for part in ("metadata", "status")}
        return self.store(resource, {**known, **merged})


class QuotaManager(Protocol):
    """The measured quota manager: receives objects and deletions of Workloads, decides and writes."""

    def handle(self, resource: APIResource, obj: Object, now_s: float) -> None: ...

    def lose(self, key: str, now_s: float) -> None: ...

    def decide(self, now_s: float) -> None: ...


class EngineAlone:
    """The engine alone: its decisions are in the API at once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._engine = QuotaEngine(QuotaSettings())
        self._requested: list[Decision] = []
        self._handle: dict[APIResource, Callable[[Object, float], list[Decision]]] = {
            RESOURCE_FLAVORS: self._engine.flavor_applied,
            CLUSTER_QUEUES: self._engine.cluster_queue_applied,
            LOCAL_QUEUES: self._engine.local_queue_applied,
            WORKLOADS: self._engine.workload_applied,
            NAMESPACES: lambda obj, now_s: self._engine.namespace_applied(obj["metadata"]["name"], {}, now_s),
        }

    def handle(self, resource: APIResource, obj: Object, now_s: float) -> None:
        self._requested += self._handle[resource](obj, now_s)

    def lose(self, key: str, now_s: float) -> None:
        self._requested += self._engine.workload_removed(key, now_s)

    def decide(self, now_s: float) -> None:
        self._requested += self._engine.run_cycle(now_s)
        while self._requested:
            requested, self._requested = self._requested, []
            for effect in requested:
                write = workload_write(self._server.objects[WORKLOADS, effect.key], [effect], now_s)
                if write.status is not None:
                    shown = self._server.patch(WORKLOADS, effect.key, {"status": write.status})
                    self._engine.written(effect, int(shown["metadata"]["resourceVersion"]))
                    self.handle(WORKLOADS, shown, now_s)


class Served:
    """The controller, whose writes get a response at once; Events are dropped."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._quota = QuotaController(QuotaSettings())
        self._due: dict[Any, None] = {}

    def handle(self, resource: APIResource, obj: Object, now_s: float) -> None:
        self._wake(self._quota.applied(resource, obj, now_s))

    def lose(self, key: str, now_s: float) -> None:
        namespace, _, name = key.partition("/")
        self._wake(self._quota.removed(WORKLOADS, namespace, name, "", now_s))

    def decide(self, now_s: float) -> None:
        """Statuses of queues are written after everything else, as in the runtime, which delays them."""
        while self._due:
            key = next(iter(self._due))
            del self._due[key]
            steps, response = self._quota.reconcile(key, now_s), None
            try:
                effect = next(steps)
                while True:
                    response = self._response(effect, now_s)
                    effect = steps.send(response)
            except StopIteration as done:
                if isinstance(done.value, Done):
                    self._wake(done.value.enqueues)

    def _wake(self, wakes: Iterable[Enqueue]) -> None:
        for wake in wakes:
            self._due.setdefault(wake.key)

    def _response(self, effect: Effect, now_s: float) -> EffectResponse:
        if isinstance(effect, ParallelRequests):
            return EffectResponse(200, {}, now_s, tuple(self._response(each, now_s) for each in effect.requests))
        if not isinstance(effect, Patch):
            return EffectResponse(202, {}, now_s)
        shown = self._server.patch(effect.resource, f"{effect.namespace}/{effect.name}", effect.body)
        return EffectResponse(200, shown, now_s)


class Stage:
    """Full queues with this number of pending Workloads."""

    def __init__(self, make: Callable[[Server], QuotaManager], load: Load, count: int) -> None:
        self._load = load
        self._places = load.places
        self._came = 0
        self._now_s = _START_S + 10 * MANY
        self._server = Server()
        self._manager = make(self._server)
        self._furnish()
        for _ in range(count):
            self._come()
        self._manager.decide(self._now_s)

    def step(self) -> None:
        """Workloads finish and others are created until one gets quota."""
        self._now_s += 0.01
        while True:
            before = len(self._server.admitted)
            self._finish(self._server.admitted.popleft())
            self._come()
            self._manager.decide(self._now_s)
            if len(self._server.admitted) >= before:
                return

    def _furnish(self) -> None:
        self._show(RESOURCE_FLAVORS, flavor())
        for cohort, name in self._places:
            self._show(NAMESPACES, {"metadata": {"name": name}})
            self._show(CLUSTER_QUEUES, cluster_queue(self._load, cohort, name))
            self._show(LOCAL_QUEUES, local_queue(name))

    def _come(self) -> None:
        number = self._came
        self._came += 1
        _, queue = self._places[number % len(self._places)]
        obj = workload(self._load.classes[number // len(self._places) % _KINDS], queue, number)
        obj["metadata"]["creationTimestamp"] = format_time(_START_S + number)
        self._show(WORKLOADS, obj)

    def _show(self, resource: APIResource, obj: Object) -> None:
        obj["metadata"]["uid"] = f"{resource.plural}-{obj['metadata']['name']}"
        self._manager.handle(resource, self._server.store(resource, obj), self._now_s)

    def _finish(self, key: str) -> None:
        done = {"type": names.FINISHED, "status": "True", "reason": "ByTest"}
        known = self._server.objects[WORKLOADS, key]["status"]["conditions"]
        finished = self._server.patch(WORKLOADS, key, {"status": {"conditions": [*known, done]}})
        self._manager.handle(WORKLOADS, finished, self._now_s)
        del self._server.objects[WORKLOADS, key]
        self._manager.lose(key, self._now_s)


def load_of(cohorts: int, queues: int) -> Load:
    """Workloads of twenty shapes: requests of one to four, and two priorities."""
    kinds = tuple(Class(f"kind-{each:02}", 0, 0.0, 0.0, 1 + each % 4, 100) for each in range(_KINDS))
    return Load(cohorts, queues, 8, None, kinds)


def _seconds_each(simulation: Stage) -> float:
    started = time.process_time()
    for _ in range(_ADMISSIONS):
        simulation.step()
    return (time.process_time() - started) / _ADMISSIONS


def _row(title: str, few: Stage, many: Stage) -> list[str]:
    gc.disable()
    rounds = [[_seconds_each(each) for each in (few, many)] for _ in range(_ROUNDS)]
    gc.enable()
    middle = [median(each) for each in zip(*rounds, strict=True)]
    ratio = median(of_many / of_few for of_few, of_many in rounds)
    row = [title, *(f"{each * 1e6:,.0f} µs" for each in middle), COST.said(ratio)]
    print("  " + "; ".join(row), flush=True)
    return row


def measure(few: int = FEW, many: int = MANY) -> list[str]:
    print(f"\none admission in process, {many:,} pending against {few:,}")
    rows = []
    makers: tuple[tuple[str, Callable[[Server], QuotaManager]], ...] = (("engine", EngineAlone), ("controller", Served))
    for name, make in makers:
        load = load_of(5, 6)
        rows.append(_row(f"{name}, 30 queues", Stage(make, load, few), Stage(make, load, many)))
    wide = [Stage(Served, load_of(cohorts, 100), cohorts * few) for cohorts in (1, 10)]
    rows.append(_row(f"controller, one cohort of 100 queues against ten, {few:,} pending in each", *wide))
    return report.table(("what", f"{few:,} pending", f"{many:,} pending", "many / few"), rows)
