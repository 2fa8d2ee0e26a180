"""How many workloads of Kueue's baseline load are evicted, depending on how long the server takes for a write.

    make bench ARGS=evictions

The quota engine runs on a virtual clock, without a server and without a network, so the result is the same on every
machine. All writes (creations, admissions, evictions, ends) go through one queue, and each takes the same time. As in
the controller, a limited number of decisions is in flight at a time, and the engine decides again when they have been
sent. The faster the writes are, the sooner a large workload is admitted after its creation, and the more often smaller
workloads that used the free quota are evicted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import msgspec

from bench import report
from bench.loads import BASELINE, Class, Load, cluster_queue, flavor, local_queue, workload
from headgate.kube import conditions
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.controller.workload_writes import workload_write
from headgate.quota.effects import Admit, Effect, Evict
from headgate.quota.engine import QuotaEngine

Object = dict[str, Any]

TITLE: Final = "quota, evictions"
_WRITES_MS: Final = (0.0, 1.0, 2.0, 2.5, 3.0, 4.0, 6.0)
_SENT: Final = 32
"""The number of decisions that are in flight to the server at a time."""
_START_S: Final = 1_700_000_000.0
_HEADS: Final = ("a write takes", "wall time", "evictions", "mean wait of large ones")


class Result(msgspec.Struct, frozen=True):
    wall_s: float
    evictions: int
    large_wait_s: float


class VirtualRun:
    """A load from its first workload to the end of its last. ``write_s``: how long a write takes; ``sent``: how many
    decisions are in flight at a time."""

    def __init__(self, load: Load, write_s: float, sent: int = _SENT) -> None:
        self._load = load
        self._write_s = write_s
        self._sent = sent
        self._decisions_done_s: list[float] = []
        self._cycle_is_due = False
        self._engine = QuotaEngine()
        self._now_s = _START_S
        self._free_s = _START_S
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._revisions = count(1)
        self._objects: dict[str, Object] = {}
        self._runtimes = {each.name: each.runtime_s for each in load.classes}
        self._running: dict[str, float] = {}  # start times, by Workload
        self._asked_s: dict[str, float] = {}
        self._waits_s: dict[str, float] = {}
        self._evictions = 0
        self._ended_s = 0.0

    def run(self) -> Result:
        self._engine.flavor_applied(flavor(), self._now_s)
        for cohort, name in self._load.places:
            self._engine.namespace_applied(name, {}, self._now_s)
            self._engine.cluster_queue_applied(cluster_queue(self._load, cohort, name), self._now_s)
            self._engine.local_queue_applied(local_queue(name), self._now_s)
            for one in self._load.classes:
                self._come(one, name, 0)
        while self._agenda:
            self._now_s = self._agenda[0][0]
            while self._agenda and self._agenda[0][0] <= self._now_s:
                heapq.heappop(self._agenda)[2]()
        large = [wait_s for key, wait_s in self._waits_s.items() if "/large-" in key]
        return Result(self._ended_s - _START_S, self._evictions, sum(large) / len(large))

    def _at(self, at_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (at_s, next(self._numbers), do))

    def _write(self, done: Callable[[], None]) -> None:
        self._free_s = max(self._now_s, self._free_s) + self._write_s
        self._at(self._free_s, done)

    def _decide_soon(self) -> None:
        if self._cycle_is_due:
            return
        self._cycle_is_due = True
        behind = len(self._decisions_done_s) - self._sent
        self._at(max(self._now_s, self._decisions_done_s[behind]) if behind >= 0 else self._now_s, self._decide)

    def _decide(self) -> None:
        self._cycle_is_due = False
        self._perform(self._engine.run_cycle(self._now_s))

    # -- workloads come, run and end ---------------------------------------------------------------------------------

    def _come(self, one: Class, queue: str, number: int) -> None:
        def ask() -> None:
            asked_s = self._now_s
            self._write(lambda: self._created(one, queue, number, asked_s))

        if number < one.count:
            self._at(self._now_s + one.interval_s, ask)

    def _created(self, one: Class, queue: str, number: int, asked_s: float) -> None:
        obj = workload(one, queue, number)
        uid = f"{next(self._numbers):08}"
        obj["metadata"].update(uid=uid, creationTimestamp=format_time(self._now_s))
        key = f"{queue}/{obj['metadata']['name']}"
        self._asked_s[key] = asked_s
        self._objects[key] = {**obj, "status": {}}
        self._changed(key, {})
        self._come(one, queue, number + 1)

    def _finish(self, key: str, since_s: float) -> None:
        def finished() -> None:
            if self._running.get(key) == since_s and not self._is(key, names.EVICTED):
                del self._running[key]
                self._ended_s = self._now_s
                self._set(key, {}, (names.FINISHED, "True"))

        if self._running.get(key) == since_s:
            self._write(finished)

    def _give_back(self, key: str) -> None:
        self._set(key, {"admission": None}, (names.QUOTA_RESERVED, "False"), (names.ADMITTED, "False"))

    # -- what the engine asks for ------------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[Effect]) -> None:
        """The reason why a workload waits is not written: nothing in this benchmark depends on it."""
        for effect in effects:
            if isinstance(effect, Admit | Evict):
                self._write(partial(self._written, effect))
                self._decisions_done_s.append(self._free_s)

    def _written(self, effect: Admit | Evict) -> None:
        key = effect.key
        if self._is(key, names.FINISHED):
            self._perform(self._engine.refused(effect, self._now_s))
            self._decide_soon()
            return
        status = workload_write(self._objects[key], [effect], self._now_s).status or {}
        if isinstance(effect, Evict):
            self._evictions += 1
            self._running.pop(key, None)
            self._write(lambda: self._give_back(key))
        else:
            since_s = self._running[key] = self._now_s
            self._waits_s.setdefault(key, since_s - self._asked_s[key])
            runtime_s = self._runtimes[key.partition("/")[2].partition("-")[0]]
            self._at(since_s + runtime_s, lambda: self._finish(key, since_s))
        self._changed(key, status, effect)

    def _is(self, key: str, type_: str) -> bool:
        return conditions.is_true(self._objects[key]["status"].get("conditions") or [], type_)

    def _set(self, key: str, status: Object, *condition: tuple[str, str]) -> None:
        now, listed = format_time(self._now_s), self._objects[key]["status"].get("conditions") or []
        for type_, value in condition:
            listed = conditions.with_condition(listed, {"type": type_, "status": value, "reason": "Bench"}, now)
        self._changed(key, {**status, "conditions": listed})

    def _changed(self, key: str, status: Object, effect: Effect | None = None) -> None:
        old, revision = self._objects[key], next(self._revisions)
        merged = {name: value for name, value in {**old["status"], **status}.items() if value is not None}
        metadata = {**old["metadata"], "resourceVersion": str(revision)}
        self._objects[key] = {**old, "metadata": metadata, "status": merged}
        if effect is not None:
            self._engine.written(effect, revision)
        self._perform(self._engine.workload_applied(self._objects[key], self._now_s))
        self._decide_soon()


def main(arguments: Sequence[str] = ()) -> None:
    """Cohorts share only the server: one cohort is run, with its share of the server."""
    share, one = BASELINE.cohorts, msgspec.structs.replace(BASELINE, cohorts=1)
    rows = []
    for write_ms in _WRITES_MS:
        found = VirtualRun(one, share * write_ms / 1000, _SENT // share).run()
        cells = [f"{write_ms:g} ms", f"{found.wall_s:.0f} s", f"{share * found.evictions:,}"]
        rows.append([*cells, f"{found.large_wait_s:.2f} s"])
        print("  evictions: " + "; ".join(rows[-1]), flush=True)
    report.write(TITLE, report.table(_HEADS, rows))
