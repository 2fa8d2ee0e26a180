"""Writes the condition GatedJobs of LocalQueues and of Volcano's Queues: how many jobs have no Workload, since when.

KEP-6915 asks for a warning in status conditions, because a job without a Workload is in no queue. The condition is
removed when no job of the queue is gated, and when the feature gate SchedulingGatedBy is off. A pass over the changed
queues runs every two seconds, so a queue is written at most that often, and a queue without changes costs nothing.
Other controllers write other conditions of the same object: a write has the resourceVersion that it was planned from,
and a condition that another writer has removed is written again. ``gated_jobs.py`` has the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.capacity.names import QUEUES
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import EffectResponse, ParallelRequests, Patch
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    WatchSpec,
)
from headgate.jobs.gated_jobs import CONDITION, GatedJobs, QueueRef, describe_gated_jobs, local_queue, volcano_queue
from headgate.kube import conditions
from headgate.kube.api_resources import APIResource
from headgate.kube.object_meta import resource_version_of
from headgate.kube.timestamps import format_time
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.waiting.heap import DeadlineHeap

Object = dict[str, Any]
Warn = Callable[[str], None]

REASON: Final = "SchedulingGated"
INTERVAL_S: Final = 2.0
"""The time between two passes."""
_MAX_START_S: Final = 60.0
"""How long the first pass waits for jobs that are not reconciled yet."""
_REFUSED_RETRY_S: Final = 60.0
_BATCH: Final = 256
_FIELDS: Final = frozenset({"status.conditions"})


class _Pass(msgspec.Struct, frozen=True):
    """The work-queue key of the pass over the changed queues."""


class _ShownQueue(msgspec.Struct, frozen=True):
    """The newest known version of a queue."""

    uid: str
    version: str
    revision: int
    conditions: tuple[Object, ...]

    @property
    def message(self) -> str | None:
        """The message of the condition; None if the queue does not have it."""
        found = conditions.find(self.conditions, CONDITION)
        is_current = found is not None and (found.get("status"), found.get("reason")) == ("True", REASON)
        return None if found is None else str(found.get("message") or "") if is_current else ""


_PASS: Final = _Pass()


class GatedJobsController(Controller):
    name = "gated jobs"

    def __init__(self, gated: GatedJobs, *, is_on: bool, warn: Warn = lambda text: None) -> None:
        """``is_on``: the feature gate SchedulingGatedBy. ``warn`` is called once for each kind of queue whose condition
        cannot be written."""
        self._gated: Final = gated
        self._is_on: Final = is_on
        self._warn: Final = warn
        self._warned: Final[set[tuple[str, int]]] = set()
        self._served: frozenset[APIResource] = frozenset()
        self._queues: Final[dict[QueueRef, _ShownQueue]] = {}
        self._due: Final[DeadlineHeap[QueueRef]] = DeadlineHeap()
        self._not_stored: Final[dict[QueueRef, str]] = {}  # messages that the API server dropped
        self._first_pass_s: float | None = None

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        return (Enqueue(_PASS, INTERVAL_S),)

    def watches(self) -> Iterable[WatchSpec]:
        if WORKLOADS not in self._served:
            return ()
        return [WatchSpec(each, _FIELDS) for each in (LOCAL_QUEUES, QUEUES) if each in self._served]

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        queue, shown = _ref_of(resource, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]), _read(obj)
        self._observe(queue, shown)
        if self._needs_write(queue):
            self._mark(queue, now_s)
        return () if self._is_on or not self._due else (Enqueue(_PASS, INTERVAL_S),)

    def _observe(self, queue: QueueRef, shown: _ShownQueue) -> None:
        """Applies a version that the watch or a response shows, unless a newer one is known."""
        known = self._queues.get(queue)
        if known is not None and known.uid != shown.uid:
            self._not_stored.pop(queue, None)
        elif known is not None and shown.revision < known.revision:
            return
        self._queues[queue] = shown

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        queue = _ref_of(resource, namespace, name)
        if queue in self._queues and self._queues[queue].uid == uid:
            del self._queues[queue]
            self._due.discard(queue)
            self._not_stored.pop(queue, None)
        return ()

    def _desired_message(self, queue: QueueRef) -> str | None:
        found = self._gated.of_queue(queue) if self._is_on else None
        return None if found is None else describe_gated_jobs(found, names_job=bool(queue[1]))

    def _needs_write(self, queue: QueueRef) -> bool:
        desired, shown = self._desired_message(queue), self._queues[queue].message
        if desired is None:
            self._not_stored.pop(queue, None)
            return shown is not None
        return desired not in (shown, self._not_stored.get(queue))

    def _mark(self, queue: QueueRef, due_s: float) -> None:
        if queue not in self._due:
            self._due.put(queue, due_s)

    def reconcile(self, key: _Pass, now_s: float) -> ReconcileSteps:
        if self._is_starting(now_s):
            return RequeueAfter(INTERVAL_S)
        for queue in self._gated.take_changed():
            if queue in self._queues:  # otherwise its watch event marks it
                self._mark(queue, now_s)
        patches: dict[QueueRef, tuple[Patch, str | None]] = {}
        for queue in self._due.due(now_s):
            if self._needs_write(queue):
                patches[queue] = self._patch(queue, now_s), self._desired_message(queue)
            if len(patches) == _BATCH:
                break
        if patches:
            response = yield ParallelRequests(tuple(patch for patch, _ in patches.values()))
            for (queue, (_, message)), part in zip(patches.items(), response.parts, strict=True):
                self._written(queue, message, part)
        if self._is_on:
            return RequeueAfter(INTERVAL_S if len(patches) < _BATCH else 0.0)
        next_s = self._due.next_deadline_s()
        return Done() if next_s is None else RequeueAfter(max(next_s - now_s, INTERVAL_S))

    def _is_starting(self, now_s: float) -> bool:
        if not self._is_on or self._gated.is_complete:
            return False
        if self._first_pass_s is None:
            self._first_pass_s = now_s
        if now_s < self._first_pass_s + _MAX_START_S:
            return True
        self._gated.complete()
        return False

    def _patch(self, queue: QueueRef, now_s: float) -> Patch:
        shown, message = self._queues[queue], self._desired_message(queue)
        listed = [each for each in shown.conditions if message is not None or each.get("type") != CONDITION]
        if message is not None:
            new = {"type": CONDITION, "status": "True", "reason": REASON, "message": message}
            listed = conditions.with_condition(listed, new, format_time(now_s))
        body = {"metadata": {"uid": shown.uid, "resourceVersion": shown.version}, "status": {"conditions": listed}}
        return Patch(_resource_of(queue), queue[1], queue[2], body, how="merge", subresource="status")

    def _written(self, queue: QueueRef, message: str | None, response: EffectResponse) -> None:
        known = self._queues.get(queue)
        if response.missing or known is None:
            return  # the watch shows that the queue was deleted
        if not response.ok:
            self._mark(queue, response.now_s + (_REFUSED_RETRY_S if response.refused else INTERVAL_S))
            if response.refused:
                self._warn_once(queue, response.status, f"cannot be written: {response.message}")
            return
        shown = _read(response.body)
        if shown.uid == known.uid:
            self._observe(queue, shown)
        if message is not None and shown.message != message:
            self._not_stored[queue] = message
            definition = f"{_resource_of(queue).plural}.{_resource_of(queue).group}"
            self._warn_once(queue, response.status, f"is not stored: the definition {definition} has no such field")
        elif self._needs_write(queue):
            self._mark(queue, response.now_s + INTERVAL_S)

    def _warn_once(self, queue: QueueRef, status: int, problem: str) -> None:
        if (queue[0], status) not in self._warned:
            self._warned.add((queue[0], status))
            name = f"{queue[1]}/{queue[2]}" if queue[1] else queue[2]
            self._warn(f"the condition {CONDITION} of {queue[0]} {name} {problem}")


def _ref_of(resource: APIResource, namespace: str, name: str) -> QueueRef:
    return local_queue(namespace, name) if resource == LOCAL_QUEUES else volcano_queue(name)


def _resource_of(queue: QueueRef) -> APIResource:
    return LOCAL_QUEUES if queue[0] == "LocalQueue" else QUEUES


def _read(obj: Object) -> _ShownQueue:
    metadata, listed = obj["metadata"], (obj.get("status") or {}).get("conditions") or ()
    version = str(metadata.get("resourceVersion") or "")
    return _ShownQueue(metadata["uid"], version, resource_version_of(obj), tuple(listed))
