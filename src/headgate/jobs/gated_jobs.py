"""Gated jobs by queue: how many jobs of each queue have no Workload because of a gate, and which is the oldest.

The controllers of jobs and pods report each gated job; ``gated_jobs_controller.py`` writes a condition to the queues.
The oldest job of a queue is read from a heap, so a change costs logarithmic time, whatever the number of jobs. After a
start, the index is complete when every job of the first lists has been reconciled once: until then, a condition that
the previous process wrote is not changed, because it may still be right.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, Literal

import msgspec

from headgate.capacity.names import QUEUE_NAME as VOLCANO_QUEUE_NAME
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.kube.timestamps import format_time
from headgate.waiting.heap import Heap

QueueRef = tuple[Literal["LocalQueue", "Queue"], str, str]
"""The kind, the namespace and the name of a queue. A Queue of Volcano has no namespace."""
CONDITION: Final = "GatedJobs"
"""The condition of a queue that has gated jobs."""


def local_queue(namespace: str, name: str) -> QueueRef:
    return "LocalQueue", namespace, name


def volcano_queue(name: str) -> QueueRef:
    return "Queue", "", name


def named_queues(namespace: str, local_queue_name: str, pods: Iterable[Any]) -> tuple[QueueRef, ...]:
    """The queues that a job names: its LocalQueue, and the queues of Volcano in which its pods are going to wait.
    ``pods``: its pods or pod templates."""
    found = [get_path(each, ("metadata", "annotations", VOLCANO_QUEUE_NAME)) for each in pods]
    queues = [volcano_queue(name) for name in found if isinstance(name, str) and name]
    named = [local_queue(namespace, local_queue_name)] if local_queue_name else []
    return tuple(dict.fromkeys((*named, *queues)))


class GatedUnit(msgspec.Struct, frozen=True):
    """A job, a pod or a pod group without a Workload. ``since_s``: when it was created, because a gate cannot be added
    later."""

    kind: str
    namespace: str
    name: str
    gate: str
    since_s: float

    @property
    def order(self) -> tuple[float, str, str, str]:
        """The oldest is first; the names decide between jobs of the same second."""
        return self.since_s, self.kind, self.namespace, self.name


class GatedJobsOfQueue(msgspec.Struct, frozen=True):
    count: int
    oldest: GatedUnit


def describe_gated_jobs(found: GatedJobsOfQueue, *, names_job: bool) -> str:
    """The message of the condition. It has a time and not an age, so it changes only when the jobs change.
    ``names_job``: False on an object without a namespace, whose readers may not be allowed to see the job."""
    oldest = found.oldest
    jobs, which = ("1 job has", "") if found.count == 1 else (f"{found.count} jobs have", "the oldest ")
    name = f"{oldest.kind} {oldest.name}, " if names_job else ""
    since = format_time(oldest.since_s)
    return f"{jobs} no Workload because of a gate, {which}since {since} ({name}gate {oldest.gate})"


def condition_message(queue: Any) -> str:
    """The message of the condition of a queue; empty if it does not have the condition."""
    found = conditions.find(get_path(queue, ("status", "conditions")), CONDITION) or {}
    return str(found.get("message") or "") if found.get("status") == "True" else ""


class GatedJobs:
    """The gated jobs, by their work-queue keys and by queue."""

    def __init__(self) -> None:
        self._jobs: Final[dict[Hashable, tuple[GatedUnit, tuple[QueueRef, ...]]]] = {}
        self._by_queue: Final[dict[QueueRef, Heap[Hashable]]] = {}
        self._changed: Final[dict[QueueRef, None]] = {}
        self._unreconciled: Final[set[Hashable]] = set()
        self._is_complete = False

    def put(self, key: Hashable, job: GatedUnit, queues: Iterable[QueueRef]) -> None:
        """The job has no Workload because of its gate. ``queues``: the queues that it names."""
        reported = job, tuple(queues)
        if self._jobs.get(key) == reported:
            return
        self.remove(key)
        self._jobs[key] = reported
        for queue in reported[1]:
            self._by_queue.setdefault(queue, Heap()).put(key, job.order)
            self._changed[queue] = None

    def remove(self, key: Hashable) -> None:
        """The job is no longer gated, or was deleted."""
        for queue in self._jobs.pop(key, (None, ()))[1]:
            self._by_queue[queue].discard(key)
            if not self._by_queue[queue]:
                del self._by_queue[queue]
            self._changed[queue] = None

    def of_queue(self, queue: QueueRef) -> GatedJobsOfQueue | None:
        """None if no job of the queue is gated."""
        heap = self._by_queue.get(queue)
        first = None if heap is None else heap.first()
        return None if heap is None or first is None else GatedJobsOfQueue(len(heap), self._jobs[first[1]][0])

    def take_changed(self) -> list[QueueRef]:
        """The queues whose jobs have changed since the last call."""
        taken = list(self._changed)
        self._changed.clear()
        return taken

    # -- the first lists -------------------------------------------------------------------------------------------

    def expect(self, keys: Iterable[Hashable]) -> None:
        """These keys are going to be reconciled."""
        if not self._is_complete:
            self._unreconciled.update(keys)

    def reconciled(self, key: Hashable) -> None:
        self._unreconciled.discard(key)

    @property
    def is_complete(self) -> bool:
        """Whether all jobs of the first lists have been reconciled. It stays true."""
        self._is_complete = self._is_complete or not self._unreconciled
        return self._is_complete

    def complete(self) -> None:
        """Waits no longer for jobs that cannot be reconciled."""
        self._unreconciled.clear()
        self._is_complete = True
