"""Occupancy: quota in use on nodes by started workloads, and by terminating pods whose quota was released.

The quota of pods is free as soon as they terminate (Kueue's KEP-6143), so a workload may be admitted before any node
has capacity for it. A workload that fits beside the terminating pods starts at once. A workload that fits only without
them has quota and does not start yet. It waits until it fits beside them, until the pods that began to terminate before
its reservation are gone, or until those pods are overdue. All state is computed from Workloads and pods in the API. A
waiting workload is checked when quota in its tree is freed or quotas change, never per pod; workloads with equal usage
in one queue are in one heap, and only the first is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.quota_reservation import SKEW_S, QuotaHolder, QuotaPod
from headgate.quota.api.resource_groups import Cohort, FlavorResource, Usage
from headgate.quota.cache.quota_tree import QuotaTree
from headgate.waiting.heap import DeadlineHeap, Heap

UsageKey = tuple[tuple[FlavorResource, int], ...]
"""A usage as a hashable value."""
ClusterQueueOf = Callable[[str], str]
"""The ClusterQueue of a LocalQueue; empty if there is none."""

WaitOverCause = Literal["left", "overdue", "max wait", "not counted", "fits", "disabled"]
"""Why a workload no longer waits. If several apply, the first one in this order is reported."""

WAIT_OVER_REASONS: Final[Mapping[WaitOverCause, tuple[str, str]]] = {
    "left": (
        names.TERMINATING_PODS_LEFT,
        "Enough terminating pods are gone, or all that began to terminate before the reservation are gone",
    ),
    "overdue": (
        names.TERMINATING_PODS_OVERDUE,
        f"Terminating pods are overdue, {OVERDUE_AFTER_S:g} seconds after their deletion timestamps, and are waited "
        "for no longer; they may still use their nodes",
    ),
    "max wait": (
        names.TERMINATING_PODS_MAX_WAIT,
        "Terminating pods were waited for as long as --max-wait-for-terminating-pods allows; they may still use their "
        "nodes until their deletion timestamps",
    ),
    "not counted": (
        names.TERMINATING_PODS_NOT_COUNTED,
        "Terminating pods no longer count: they do not terminate any more, or their annotation, their LocalQueue or "
        "the flavors of their ClusterQueue changed; they may still use their nodes",
    ),
    "fits": (names.FITS_BESIDE_TERMINATING_PODS, "The workload fits in its quota beside the terminating pods"),
    "disabled": (
        names.START_AFTER_TERMINATING_PODS_DISABLED,
        "The feature gate StartAfterTerminatingPods is off: no terminating pod is waited for",
    ),
}
"""The reason and the message of the condition and the Event."""


class TerminatingPodsAhead(msgspec.Struct, frozen=True):
    """What a workload waits for: the number of pods, and the one that began to terminate first."""

    count: int
    first: QuotaPod


def describe_terminating(pods: TerminatingPodsAhead) -> str:
    """The message of the condition and the Event."""
    first = pods.first
    until = "" if first.until_s is None else f" (waited for until {format_time(first.until_s)} at the latest)"
    return (
        f"Quota is reserved, but {pods.count} terminating pod(s) whose quota was released early are still on nodes, "
        f"such as {first.name}{until}. The pods of this workload start when enough of them are gone"
    )


class Occupancy:
    """The tree of usage on nodes, and the workloads that wait for terminating pods."""

    def __init__(self, cluster_queue_of: ClusterQueueOf) -> None:
        self.tree: Final = QuotaTree()
        self._cluster_queue_of: Final = cluster_queue_of
        self._started: Final[dict[str, QuotaHolder]] = {}  # by key
        self._by_uid: Final[dict[str, QuotaHolder]] = {}  # the same by uid
        self._waiting: Final[dict[str, QuotaHolder]] = {}
        self._waiting_heaps: Final[dict[str, dict[UsageKey, Heap[str]]]] = {}  # by queue and usage
        # by uid; began_s: when the deletion began, until_s: until when workloads wait for the pod
        self._pods: Final[dict[str, QuotaPod]] = {}
        self._pods_of: Final[dict[str, dict[str, None]]] = {}  # by the uid of the Workload
        self._pods_in: Final[dict[str, dict[str, None]]] = {}  # by LocalQueue
        self._pods_by_queue: Final[dict[str, dict[str, None]]] = {}  # by ClusterQueue
        self._flavor_resources: Final[dict[str, frozenset[FlavorResource]]] = {}  # with quota, by ClusterQueue
        self._counted: Final[dict[str, QuotaPod]] = {}  # the pods whose usage the tree includes
        self._terminating: Final[dict[tuple[str, FlavorResource], Heap[str]]] = {}  # counted pods by tree, oldest first
        self._deadlines: Final[DeadlineHeap[str]] = DeadlineHeap()
        self._overdue: Final[set[str]] = set()
        self._released: Final[set[str]] = set()  # pods not known to terminate yet, whose Workload lost its quota
        self._without_deadline: Final[list[str]] = []  # those of them that have no deadline yet
        self._trees_to_check: Final[dict[str, set[WaitOverCause]]] = {}  # trees whose waiting workloads are tried again
        self.ignored: Final[dict[str, str]] = {}
        """By reason: the first pod whose reservation annotation is ignored for it."""
        self._has_moved_queues = False  # a queue may be in another tree now
        self._has_changed_quota = False  # since waiting workloads were last tried

    # Queues.

    def place_queue(self, queue: ClusterQueue) -> None:
        is_new = self.tree.queue(queue.name) is None
        flavor_resources = frozenset(queue.quotas)
        is_changed = self._flavor_resources.get(queue.name) != flavor_resources
        self._flavor_resources[queue.name] = flavor_resources
        self.tree.place_queue(queue.name, queue.cohort, queue.quotas)
        if is_new:
            usages = [(each.queue, each.usage) for each in self._started.values()]
            usages += [(each.queue, each.usage) for each in self._counted.values()]
            for name, usage in usages:
                if name == queue.name:
                    self._add(name, usage, +1)
        self._has_moved_queues = True
        self._has_changed_quota |= not is_new
        if is_changed:
            self._recount(self._pods_by_queue.get(queue.name, ()))

    def remove_queue(self, name: str) -> None:
        self._flavor_resources.pop(name, None)
        self.tree.remove_queue(name)
        self._has_moved_queues = self._has_changed_quota = True

    def place_cohort(self, cohort: Cohort) -> None:
        self.tree.place_cohort(cohort.name, cohort.parent, cohort.quotas)
        self._has_moved_queues = self._has_changed_quota = True

    def remove_cohort(self, name: str) -> None:
        self.tree.remove_cohort(name)
        self._has_moved_queues = self._has_changed_quota = True

    # Workloads with quota.

    def put(self, holder: QuotaHolder) -> None:
        """Adds or updates a workload with quota. The usage of a started one is added to the tree; one that waits for
        terminating pods is put into its heap."""
        known = self._started.get(holder.key)
        if known is not None and not holder.is_waiting and _reservation(known) == _reservation(holder):
            self._started[holder.key] = self._by_uid[holder.uid] = holder
            if known.usage != holder.usage:
                self._add(known.queue, known.usage, -1)
                self._add(holder.queue, holder.usage, +1)
                self._mark_tree(self._tree_of(holder.queue))
            return
        self.remove(holder.key)
        if not holder.is_waiting:
            self._started[holder.key] = self._by_uid[holder.uid] = holder
            self._add(holder.queue, holder.usage, +1)
            self._recount(self._pods_of.get(holder.uid, ()))
        elif not holder.is_evicted:  # an evicted workload does not start
            # first, so that a quota change from before this wait is not reported as its end
            self._rebuild_after_moves()
            self._waiting[holder.key] = holder
            heap = self._waiting_heaps.setdefault(holder.queue, {}).setdefault(_usage_key(holder), Heap())
            heap.put(holder.key, (holder.reserved_s, holder.key))
            self._mark_tree(self._tree_of(holder.queue))

    def remove(self, key: str, *, keeps_pods: bool = False) -> None:
        """``keeps_pods``: the quota is released because the pods terminate; the watch may not have shown that yet."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            self._remove_waiting(waiting)
        holder = self._started.pop(key, None)
        if holder is None:
            return
        del self._by_uid[holder.uid]
        self._add(holder.queue, holder.usage, -1)
        if keeps_pods:
            for uid in self._pods_of.get(holder.uid, ()):
                pod = self._pods[uid]
                if pod.until_s is None and pod.reserved_s == holder.reserved_s:
                    self._released.add(uid)
                    self._without_deadline.append(uid)
        self._recount(self._pods_of.get(holder.uid, ()))
        self._mark_tree(self._tree_of(holder.queue))

    # Pods.

    def pod_applied(self, pod: QuotaPod) -> bool:
        """Returns whether workloads may have to be tried again."""
        known, was_counted = self._pods.get(pod.uid), False
        if known == pod:
            return False
        if known is not None:
            # A second deletion with a shorter grace period does not change when the first one began.
            if known.began_s is not None and pod.began_s is not None:
                pod = _shortened(known, pod)
            was_counted = pod.uid in self._counted
            self._forget(pod.uid, None)
        self._pods[pod.uid] = pod
        for index, key in self._indexes_of(pod):
            index.setdefault(key, {})[pod.uid] = None
        if pod.until_s is not None:
            self._deadlines.put(pod.uid, pod.until_s)
        self._count(pod)
        if was_counted and known is not None and pod.uid not in self._counted:
            self._mark_tree(self._tree_of(known.queue), "not counted")
        return pod.until_s is not None or known is not None

    def pod_removed(self, uid: str, cause: WaitOverCause = "left") -> bool:
        """Returns whether the pod was known."""
        return self._forget(uid, cause)

    def _forget(self, uid: str, cause: WaitOverCause | None) -> bool:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return False
        for index, key in self._indexes_of(pod):
            del index[key][uid]
            if not index[key]:
                del index[key]
        self._deadlines.discard(uid)
        self._overdue.discard(uid)
        self._released.discard(uid)
        self._uncount(uid, cause)
        return True

    def local_queue_changed(self, key: str) -> None:
        """Counts the pods of the LocalQueue again: a pod counts only in the ClusterQueue of its LocalQueue, whatever
        its annotation says."""
        self._recount(self._pods_in.get(key, ()))

    # Decisions.

    def terminating_ahead(self, queue: str, usage: Usage, reserved_s: float) -> TerminatingPodsAhead | None:
        """The terminating pods that a workload has to wait for; None if it may start."""
        short = self._find_shortage(queue, usage, reserved_s)
        if not short:
            return None
        tree = self._tree_of(queue)
        heaps = [self._terminating[tree, fr] for fr in short]
        first = min(first for heap in heaps if (first := heap.first()) is not None)
        return TerminatingPodsAhead(max(map(len, heaps)), self._counted[first[1]])

    def ready(self) -> list[tuple[QuotaHolder, WaitOverCause]]:
        """Workloads whose wait is over, and why, in the order of their reservations. They count as started from now
        on."""
        self._rebuild_after_moves()
        if not self._trees_to_check:
            return []
        causes_by_tree, started = dict(self._trees_to_check), list[tuple[QuotaHolder, WaitOverCause]]()
        self._trees_to_check.clear()
        heads: Heap[tuple[str, UsageKey]] = Heap()
        for queue, heaps in self._waiting_heaps.items():
            if self._tree_of(queue) in causes_by_tree:
                for usage_key, heap in heaps.items():
                    heads.put((queue, usage_key), _order_of(heap))
        while (head := heads.pop()) is not None:
            queue, usage_key = head
            heap = self._waiting_heaps[queue][usage_key]
            (reserved_s, key) = _order_of(heap)
            holder = self._waiting[key]
            if self._find_shortage(queue, holder.usage, reserved_s):
                continue
            started.append((holder, self._wait_over_cause(holder, causes_by_tree)))
            self.put(msgspec.structs.replace(holder, is_waiting=False))
            if len(heap):
                heads.put(head, _order_of(heap))
        return started

    def expire(self, now_s: float) -> None:
        """Stops counting pods that are overdue."""
        for uid in self._without_deadline:
            if uid in self._released:
                self._deadlines.put(uid, now_s + OVERDUE_AFTER_S)
        self._without_deadline.clear()
        for uid in self._deadlines.due(now_s):
            self._overdue.add(uid)
            self._released.discard(uid)
            pod = self._pods[uid]
            self._uncount(
                uid, "not counted" if pod.until_s is None else "max wait" if pod.is_wait_limited else "overdue"
            )

    def next_deadline_s(self) -> float | None:
        return self._deadlines.next_deadline_s()

    # Helpers.

    def _find_shortage(self, queue: str, usage: Usage, reserved_s: float) -> list[FlavorResource]:
        """The resources that do not fit now and may fit when pods that began to terminate before the reservation are
        gone."""
        self._rebuild_after_moves()
        node = self.tree.queue(queue)
        if node is None or not self._counted:
            return []
        tree, found = self._tree_of(queue), []
        for fr, amount in usage.items():
            heap = self._terminating.get((tree, fr))
            first = None if heap is None else heap.first()
            if first is not None and first[0][0] <= reserved_s + SKEW_S and amount > node.available(fr):
                found.append(fr)
        return found

    def _is_counted(self, pod: QuotaPod) -> bool:
        """The pods of a started workload are covered by its usage. Pods of an earlier reservation count in addition."""
        holder = self._by_uid.get(pod.workload)
        if holder is not None and holder.reserved_s == pod.reserved_s:
            return False
        if self._cluster_queue_of(pod.local_queue) != pod.queue:
            return False
        flavor_resources = self._flavor_resources.get(pod.queue)
        if flavor_resources is not None and not flavor_resources.issuperset(pod.usage):
            self.ignored.setdefault("its ClusterQueue has no quota of these flavors", pod.name)
            return False
        return pod.uid in self._released or (pod.until_s is not None and pod.uid not in self._overdue)

    def _recount(self, uids: Iterable[str]) -> None:
        for uid in tuple(uids):
            self._count(self._pods[uid])

    def _indexes_of(self, pod: QuotaPod) -> Iterator[tuple[dict[str, dict[str, None]], str]]:
        yield self._pods_of, pod.workload
        yield self._pods_in, pod.local_queue
        yield self._pods_by_queue, pod.queue

    def _count(self, pod: QuotaPod) -> None:
        """Counts the pod if it must be counted, otherwise removes it from the counts."""
        self._rebuild_after_moves()
        if not self._is_counted(pod):
            is_covered = pod.workload in self._by_uid
            self._uncount(pod.uid, None if is_covered else "not counted")
        elif pod.uid not in self._counted:
            self._counted[pod.uid] = pod
            self._add(pod.queue, pod.usage, +1)
            self._add_terminating(pod)

    def _uncount(self, uid: str, cause: WaitOverCause | None) -> None:
        """Removes the pod from the counts. ``cause``: what workloads report that start because of this."""
        self._rebuild_after_moves()
        pod = self._counted.pop(uid, None)
        if pod is None:
            return
        tree = self._tree_of(pod.queue)
        self._add(pod.queue, pod.usage, -1)
        for fr in pod.usage:
            heap = self._terminating.get((tree, fr))
            if heap is not None:
                heap.discard(uid)
                if not len(heap):
                    del self._terminating[tree, fr]
        self._mark_tree(tree, cause)

    def _mark_tree(self, tree: str, cause: WaitOverCause | None = None) -> None:
        """The waiting workloads of the tree are tried again; ``cause``: what they report if they start."""
        self._trees_to_check.setdefault(tree, set()).update(() if cause is None else (cause,))

    def _wait_over_cause(self, holder: QuotaHolder, causes: Mapping[str, set[WaitOverCause]]) -> WaitOverCause:
        """The first recorded cause of its tree; without one, derived from the present state."""
        tree = self._tree_of(holder.queue)
        found = causes.get(tree, ())
        default: WaitOverCause = "fits" if any((tree, fr) in self._terminating for fr in holder.usage) else "left"
        return next((each for each in WAIT_OVER_REASONS if each in found), default)

    def _add_terminating(self, pod: QuotaPod) -> None:
        tree = self._tree_of(pod.queue)
        for fr in pod.usage:
            self._terminating.setdefault((tree, fr), Heap()).put(pod.uid, (pod.began_s or 0.0, pod.uid))

    def _rebuild_after_moves(self) -> None:
        """Assigns terminating pods to trees again, after queues or quotas changed."""
        if not self._has_moved_queues:
            return
        self._has_moved_queues = False
        self._terminating.clear()
        for pod in self._counted.values():
            self._add_terminating(pod)
        cause: WaitOverCause | None = "fits" if self._has_changed_quota else None
        self._has_changed_quota = False
        for queue in self._waiting_heaps:
            self._mark_tree(self._tree_of(queue), cause)

    def _remove_waiting(self, holder: QuotaHolder) -> None:
        heaps, usage_key = self._waiting_heaps[holder.queue], _usage_key(holder)
        heaps[usage_key].discard(holder.key)
        if not len(heaps[usage_key]):
            del heaps[usage_key]
        if not heaps:
            del self._waiting_heaps[holder.queue]

    def _tree_of(self, queue: str) -> str:
        node = self.tree.queue(queue)
        root = None if node is None else node.root
        return f"/{queue}" if root is None or root.is_queue else root.name

    def _add(self, queue: str, usage: Usage, sign: int) -> None:
        node = self.tree.queue(queue)
        if node is not None:
            self.tree.add(node, usage, sign)


def _reservation(holder: QuotaHolder) -> tuple[str, str, float]:
    return holder.uid, holder.queue, holder.reserved_s


def _shortened(known: QuotaPod, pod: QuotaPod) -> QuotaPod:
    """Merges two deletions of one pod: the earlier start, and the earlier end of the wait."""
    began_s = min(known.began_s or 0.0, pod.began_s or 0.0)
    is_sooner = known.until_s is not None and pod.until_s is not None and known.until_s < pod.until_s
    last = known if is_sooner else pod
    return msgspec.structs.replace(pod, began_s=began_s, until_s=last.until_s, is_wait_limited=last.is_wait_limited)


def _usage_key(holder: QuotaHolder) -> UsageKey:
    return tuple(sorted(holder.usage.items()))


def _order_of(heap: Heap[str]) -> tuple[float, str]:
    first = heap.first()
    assert first is not None, "empty heaps are dropped"
    order: tuple[float, str] = first[0]
    return order
