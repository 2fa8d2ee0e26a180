"""The pods that wait, as units: a PodGroup with all its waiting pods is one, any other pod is its own.

A pod that waits for the admission of its Workload is no unit, because the Workload is (``quota_views.py``). A change of
a pod costs its unit; a change of a unit with many pods is counted once per flush.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from headgate.views.rows import OverviewRow, WaitingRow, WaitingState, asks_text
from headgate.views.viewed_pod import ViewedPod

K = TypeVar("K")
GroupKey = tuple[str, str]
QueueOf = Callable[[str], str]
"""The queue of a pod, by its uid."""

_ORDER: Final[tuple[WaitingState, ...]] = ("gated", "queued", "unschedulable", "without_node")
"""The state of a group is the first of these that one of its pods has."""
_COUNTED: Final = ("gated", "queued", "without_node", "unschedulable", "running", "terminating")


class PodUnits:
    """``pods``: all pods that have not ended, by uid."""

    def __init__(self) -> None:
        self.pods: Final[dict[str, ViewedPod]] = {}
        self._uids: Final[dict[str, str]] = {}  # of pods that wait without a group, by namespace/name
        self._groups: Final[dict[GroupKey, dict[str, None]]] = {}  # uids of waiting pods
        self._workload_groups: Final[dict[str, dict[str, None]]] = {}  # uids by namespace/group
        self._counts: Final[dict[str, Counter[str]]] = {}  # by namespace
        self._dirty: Final[dict[str, None]] = {}
        self._dirty_namespaces: Final[dict[str, None]] = {}

    def pod_changed(self, before: ViewedPod | None, after: ViewedPod | None) -> None:
        if before is not None:
            self._count(before, -1)
            del self.pods[before.uid]
            self._unlist(before)
        if after is not None and after.state != "ended":
            self._count(after, +1)
            self.pods[after.uid] = after
            self._list(after)

    def mark(self, uids: Iterable[str]) -> None:
        """The queue of these pods changed, or whether their Workload exists."""
        for uid in uids:
            pod = self.pods.get(uid)
            if pod is not None and pod.waits:
                self._dirty[unit_key(pod)] = None

    def mark_workload_group(self, key: str) -> None:
        self.mark(self._workload_groups.get(key, ()))

    def unit_of(self, uid: str) -> str:
        """The key of the row that the pod belongs to; empty if the pod does not wait."""
        pod = self.pods.get(uid)
        return unit_key(pod) if pod is not None and pod.waits else ""

    def _count(self, pod: ViewedPod, sign: int) -> None:
        counts = self._counts.setdefault(pod.namespace, Counter())
        counts[pod.state] += sign
        if not counts[pod.state]:
            del counts[pod.state]
        if not counts:
            del self._counts[pod.namespace]
        self._dirty_namespaces[pod.namespace] = None

    def _list(self, pod: ViewedPod) -> None:
        if not pod.waits:
            return
        if pod.group:
            self._groups.setdefault((pod.namespace, pod.group), {})[pod.uid] = None
        else:
            self._uids[pod.key] = pod.uid
        if pod.workload_group:
            self._workload_groups.setdefault(f"{pod.namespace}/{pod.workload_group}", {})[pod.uid] = None
        self._dirty[unit_key(pod)] = None

    def _unlist(self, pod: ViewedPod) -> None:
        if not pod.waits:
            return
        if pod.group:
            _discard(self._groups, (pod.namespace, pod.group), pod.uid)
        elif self._uids.get(pod.key) == pod.uid:
            del self._uids[pod.key]
        if pod.workload_group:
            _discard(self._workload_groups, f"{pod.namespace}/{pod.workload_group}", pod.uid)
        self._dirty[unit_key(pod)] = None

    def take_namespaces(self) -> list[str]:
        """The namespaces whose counts changed since the last call."""
        found = list(self._dirty_namespaces)
        self._dirty_namespaces.clear()
        return found

    def overview(self, namespace: str) -> OverviewRow:
        counts = self._counts.get(namespace, Counter())
        return OverviewRow(namespace, **{state: counts[state] for state in _COUNTED})

    def flush(
        self, queue_of: QueueOf, has_workload: Callable[[ViewedPod], bool]
    ) -> Iterator[tuple[str, WaitingRow | None]]:
        changed = list(self._dirty)
        self._dirty.clear()
        for key in changed:
            kind, namespace, name = key.split("/", 2)
            uids = self._groups.get((namespace, name), {}) if kind == "PodGroup" else self._uid_of(namespace, name)
            pods = [pod for pod in map(self.pods.__getitem__, uids) if not has_workload(pod)]
            yield key, _row(key, kind == "PodGroup", name, pods, queue_of) if pods else None

    def _uid_of(self, namespace: str, name: str) -> Iterable[str]:
        uid = self._uids.get(f"{namespace}/{name}")
        return () if uid is None else (uid,)


def unit_key(pod: ViewedPod) -> str:
    return f"PodGroup/{pod.namespace}/{pod.group}" if pod.group else f"Pod/{pod.key}"


def _row(key: str, is_group: bool, name: str, pods: list[ViewedPod], queue_of: QueueOf) -> WaitingRow:
    first = min(pods, key=lambda each: (_ORDER.index(_waiting(each)), each.created_s, each.name))
    asks: Counter[str] = Counter()
    gates: dict[str, None] = {}
    for pod in pods:
        asks.update(pod.requests)
        gates.update(dict.fromkeys(pod.gates))
    return WaitingRow(
        key,
        "PodGroup" if is_group else "Pod",
        first.namespace,
        name,
        _waiting(first),
        queue_of(first.uid),
        "",
        len(pods),
        asks_text(asks),
        min(each.created_s for each in pods),
        max(each.priority for each in pods),
        tuple(sorted(gates)),
        first.owner,
        first.reason,
        first.message,
        first.uid,
        first.name,
    )


def _waiting(pod: ViewedPod) -> WaitingState:
    assert pod.state in ("gated", "queued", "unschedulable", "without_node")
    return pod.state


def _discard(index: dict[K, dict[str, None]], key: K, uid: str) -> None:
    members = index[key]
    members.pop(uid, None)
    if not members:
        del index[key]
