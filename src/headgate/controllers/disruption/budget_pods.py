"""Which pods each budget selects, and how many of them are healthy. The counts are updated when pods change.

The change of a pod updates only the budgets that select it before or after the change. A new or changed budget reads
only the pods that it selects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.ownership import pods as facts
from headgate.controllers.ownership.indexes import LabelIndex, SelectorIndex
from headgate.kube.labels import Selector
from headgate.kube.object_meta import controller_of

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a budget."""


class ControllerRef(msgspec.Struct, frozen=True):
    """The controller of a pod."""

    api_version: str
    kind: str
    name: str
    uid: str


class BudgetedPod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner: ControllerRef | None
    is_terminating: bool
    is_ready: bool

    @property
    def is_healthy(self) -> bool:
        return self.is_ready and not self.is_terminating


class BudgetPodCounts(msgspec.Struct):
    """The counts of one budget. Mutable. ``owners``: how many of the pods each controller has."""

    pods: dict[str, BudgetedPod] = msgspec.field(default_factory=dict)
    healthy: int = 0
    unmanaged: int = 0
    owners: dict[ControllerRef, int] = msgspec.field(default_factory=dict)

    def add(self, pod: BudgetedPod) -> None:
        self.pods[pod.uid] = pod
        self.healthy += pod.is_healthy
        if pod.owner is None:
            self.unmanaged += 1
        else:
            self.owners[pod.owner] = self.owners.get(pod.owner, 0) + 1

    def remove(self, pod: BudgetedPod) -> None:
        del self.pods[pod.uid]
        self.healthy -= pod.is_healthy
        if pod.owner is None:
            self.unmanaged -= 1
            return
        self.owners[pod.owner] -= 1
        if not self.owners[pod.owner]:
            del self.owners[pod.owner]

    def first_pod_of(self, owner: ControllerRef) -> str:
        """The name of the first pod that it controls."""
        return min(pod.name for pod in self.pods.values() if pod.owner == owner)


class BudgetPodIndex:
    def __init__(self) -> None:
        self._selectors: Final[SelectorIndex[Key]] = SelectorIndex()
        self._labels: Final[LabelIndex[str]] = LabelIndex()
        self._counts: Final[dict[Key, BudgetPodCounts]] = {}
        self._pods: Final[dict[str, BudgetedPod]] = {}
        self._uids: Final[dict[tuple[str, str], str]] = {}
        self._budgets_by_pod: Final[dict[str, tuple[Key, ...]]] = {}

    # -- lookups ---------------------------------------------------------------------------------------------------

    def counts(self, key: Key) -> BudgetPodCounts:
        return self._counts[key]

    def pod(self, uid: str) -> BudgetedPod | None:
        return self._pods.get(uid)

    def pod_by_name(self, namespace: str, name: str) -> BudgetedPod | None:
        uid = self._uids.get((namespace, name))
        return None if uid is None else self._pods[uid]

    def budgets_of(self, uid: str) -> tuple[Key, ...]:
        """The budgets that select a pod, by name."""
        return self._budgets_by_pod.get(uid, ())

    # -- watch events ----------------------------------------------------------------------------------------------

    def budget_applied(self, key: Key, selector: Selector) -> None:
        if not self._selectors.put(key, key[0], selector):
            return
        self._remove_budget(key)
        pod_counts = self._counts[key] = BudgetPodCounts()
        for uid in self._labels.matching(key[0], selector):
            pod_counts.add(self._pods[uid])
            self._budgets_by_pod[uid] = tuple(sorted((*self._budgets_by_pod.get(uid, ()), key)))

    def budget_removed(self, key: Key) -> None:
        self._selectors.drop(key)
        self._remove_budget(key)
        self._counts.pop(key, None)

    def pod_applied(self, pod: BudgetedPod) -> Iterable[Key]:
        """Returns the budgets whose counts may have changed."""
        before = self._pods.get(pod.uid)
        if before == pod:
            return ()
        old_keys = new_keys = self._budgets_by_pod.get(pod.uid, ())
        if before is None or before.labels != pod.labels:
            new_keys = tuple(sorted(self._selectors.matching(pod.namespace, pod.labels)))
            self._labels.put(pod.uid, pod.namespace, pod.labels)
        for key in old_keys:
            if before is not None:
                self._counts[key].remove(before)
        for key in new_keys:
            self._counts[key].add(pod)
        self._pods[pod.uid] = pod
        self._uids[pod.namespace, pod.name] = pod.uid
        if new_keys:
            self._budgets_by_pod[pod.uid] = new_keys
        else:
            self._budgets_by_pod.pop(pod.uid, None)
        return dict.fromkeys((*old_keys, *new_keys))

    def pod_removed(self, uid: str) -> Iterable[Key]:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return ()
        self._labels.drop(uid)
        if self._uids.get((pod.namespace, pod.name)) == uid:
            del self._uids[pod.namespace, pod.name]
        keys = self._budgets_by_pod.pop(uid, ())
        for key in keys:
            self._counts[key].remove(pod)
        return keys

    def _remove_budget(self, key: Key) -> None:
        known = self._counts.get(key)
        for uid in () if known is None else known.pods:
            left = tuple(each for each in self._budgets_by_pod[uid] if each != key)
            if left:
                self._budgets_by_pod[uid] = left
            else:
                del self._budgets_by_pod[uid]


def read_pod(obj: Object) -> BudgetedPod:
    metadata = obj["metadata"]
    reference = controller_of(obj)
    owner = None
    if reference is not None:
        owner = ControllerRef(reference["apiVersion"], reference["kind"], reference["name"], reference["uid"])
    return BudgetedPod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata.get("labels") or {},
        owner,
        is_terminating="deletionTimestamp" in metadata,
        is_ready=facts.is_ready(obj),
    )
