"""Who is not admitted and why, and who is finished: counts that follow each workload as it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from headgate.kube.exposition import Sample
from headgate.quota import names
from headgate.quota.metrics.families import of_cluster_queue, of_local_queue
from headgate.quota.metrics.tallies import local_labels
from headgate.quota.workload import Workload


class Entry(msgspec.Struct, frozen=True):
    """``cluster_queue``: that gave quota; empty if none did yet. ``reason``: empty for who is finished."""

    cluster_queue: str
    local_queue: str
    reason: str = ""
    cause: str = ""


class Roll:
    def __init__(self) -> None:
        self._entries: Final[dict[str, Entry]] = {}
        self._counts: Final[Counter[Entry]] = Counter()

    def put(self, key: str, workload: Workload | None) -> None:
        entry = None if workload is None else _entry(workload)
        before = self._entries.get(key)
        if before == entry:
            return
        if before is not None:
            del self._entries[key]
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if entry is not None:
            self._entries[key] = entry
            self._counts[entry] += 1

    def samples(self, led: Callable[[str], str]) -> Iterator[Sample]:
        """``led``: the ClusterQueue that a LocalQueue leads to now; who waits where nothing leads is not told of."""
        by_queue: Counter[Sample] = Counter()
        for entry, count in self._counts.items():
            queue = entry.cluster_queue or led(entry.local_queue)
            if not queue:
                continue
            of_queue, local = (("cluster_queue", queue),), local_labels(entry.local_queue)
            if not entry.reason:
                by_queue[Sample(of_cluster_queue("finished_workloads"), of_queue, 0)] += count
                by_queue[Sample(of_local_queue("finished_workloads"), local, 0)] += count
                continue
            why = (("reason", entry.reason), ("underlying_cause", entry.cause))
            by_queue[Sample(of_cluster_queue("unadmitted_workloads"), (*of_queue, *why), 0)] += count
            by_queue[Sample(of_local_queue("unadmitted_workloads"), (*local, *of_queue, *why), 0)] += count
        for sample, count in sorted(by_queue.items()):
            yield Sample(sample.name, sample.labels, count)


def _entry(workload: Workload) -> Entry | None:
    queue = "" if workload.admission is None else workload.admission.cluster_queue
    if workload.is_finished:
        return Entry(queue, workload.queue_key)
    if workload.has(names.ADMITTED) or workload.is_terminating:
        return None
    admitted, reserved = workload.conditions.get(names.ADMITTED), workload.conditions.get(names.QUOTA_RESERVED)
    reason = names.NO_RESERVATION if admitted is None else admitted.reason
    cause = names.PENDING_EVALUATION if reserved is None else "" if reserved.is_true else reserved.reason
    return Entry(queue, workload.queue_key, reason or names.NO_RESERVATION, cause)
