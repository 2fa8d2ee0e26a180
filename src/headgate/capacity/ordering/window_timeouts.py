"""How long a pod counts in the windows of its queues (``grant_windows.py``): a promise that gets no node does not fill
a window for ever.

A window keeps a long backlog from an autoscaler. A pod that has had a promise and no node for the timeout of a window
was shown to the autoscaler for that time, so from then on it is *overdue* there: its promise stays, and the window
admits the next pod. So a window of n pods admits at least n pods in each timeout, whatever the pods before them select
and however long their leases are. The time is that of the stamp, so a restarted process counts as the former one did. A
promise whose stamp was not sent yet is never overdue, because no autoscaler has seen the pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.capacity.cache.ledger import Ledger
from headgate.capacity.cache.pod_record import PodRecord
from headgate.capacity.cache.queue_tree import QueueTree
from headgate.kube.timestamps import parse_micro_time
from headgate.waiting.heap import DeadlineHeap

_US_PER_S: Final = 1_000_000
_Place = tuple[str, str]
"""The uid of a pod, and a queue on its path that has a window."""


class WindowTimeouts:
    """Times are in seconds since 1970. Without any window nothing is stored except the pods of each queue."""

    def __init__(self, tree: QueueTree, ledger: Ledger) -> None:
        self._tree = tree
        self._ledger = ledger
        self._pods: dict[str, dict[str, PodRecord]] = {}  # by queue and uid: promised pods without a node
        self._windows: dict[str, tuple[str, ...]] = {}  # by uid: the windows in which the pod counts, or is overdue
        self._deadlines: DeadlineHeap[_Place] = DeadlineHeap()
        self._overdue: dict[str, dict[str, None]] = {}  # by queue with a window: the uids of its overdue pods
        self._time_s: float | None = None  # None until the first update

    def add(self, record: PodRecord) -> None:
        """The ledger counts this pod among the pods without a node."""
        self._pods.setdefault(record.queue, {})[record.task.uid] = record
        self._start(record)

    def remove(self, record: PodRecord) -> None:
        uid, pods = record.task.uid, self._pods[record.queue]
        del pods[uid]
        if not pods:
            del self._pods[record.queue]
        self._stop(uid)

    def queue_changed(self, queue: str) -> None:
        """The path of the queue, or a window on it, may have changed."""
        for record in self._pods.get(queue, {}).values():
            self._stop(record.task.uid)
            self._start(record)

    def update(self, time_s: float) -> None:
        """Find the pods that are overdue now."""
        is_first, self._time_s = self._time_s is None, time_s
        for queue in list(self._pods) if is_first else ():
            self.queue_changed(queue)
        for uid, queue in self._deadlines.due(time_s):
            self._set_overdue(uid, queue)

    @property
    def has_pods(self) -> bool:
        """Whether a pod with a stamp and no node is in a queue with a window."""
        return bool(self._windows)

    def next_deadline_s(self) -> float | None:
        return self._deadlines.next_deadline_s()

    def overdue_count(self, queue: str) -> int:
        """The number of overdue pods in the window of this queue."""
        return len(self._overdue.get(queue, ()))

    def overdue_in(self, uid: str) -> Iterable[str]:
        """The queues in whose windows this pod is overdue."""
        return [name for name in self._windows.get(uid, ()) if uid in self._overdue.get(name, ())]

    def _start(self, record: PodRecord) -> None:
        tree_queue = self._tree.queues.get(record.queue)
        if tree_queue is None or not tree_queue.has_window or not record.may_be_stamped:
            return
        uid, promised_us = record.task.uid, parse_micro_time(record.promised_at)
        windows: list[str] = []
        for name in self._tree.path(record.queue):
            on_path = self._tree.queues.get(name)
            if on_path is None or on_path.spec.max_pods_without_node is None:
                continue
            windows.append(name)
            timeout_s = on_path.spec.without_node_timeout_s
            # A time that cannot be read, or is in the future, must not fill the window for ever.
            until_s = 0.0 if isinstance(promised_us, str) else promised_us / _US_PER_S + timeout_s
            if self._time_s is None or until_s > self._time_s:
                latest_s = until_s if self._time_s is None else self._time_s + timeout_s
                self._deadlines.put((uid, name), min(until_s, latest_s))
            else:
                self._set_overdue(uid, name)
        self._windows[uid] = tuple(windows)

    def _stop(self, uid: str) -> None:
        for name in self._windows.pop(uid, ()):
            self._deadlines.discard((uid, name))
            overdue = self._overdue.get(name, {})
            if overdue.pop(uid, uid) is None:
                self._ledger.touched[name] = None
                if not overdue:
                    del self._overdue[name]

    def _set_overdue(self, uid: str, queue: str) -> None:
        self._overdue.setdefault(queue, {})[uid] = None
        self._ledger.touched[queue] = None
