"""Which pods each budget means, and how many of them are ready: counted as they change, never over again.

A pod costs the budgets that mean it, before and after; a selector that is new costs the pods it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.kube.labels import Selector
from headgate.kube.references import controller_of
from headgate.owners.families import pods as facts
from headgate.owners.families.index import LabelIndex, SelectorIndex

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a budget."""


class Owner(msgspec.Struct, frozen=True):
    """Who controls a pod."""

    api_version: str
    kind: str
    name: str
    uid: str


class Pod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner: Owner | None
    is_going: bool
    is_ready: bool

    @property
    def is_healthy(self) -> bool:
        return self.is_ready and not self.is_going


class Tally(msgspec.Struct):
    """Of one budget. Changes as pods do; ``owners`` says how many pods each of them controls."""

    pods: dict[str, Pod] = msgspec.field(default_factory=dict)
    healthy: int = 0
    unmanaged: int = 0
    owners: dict[Owner, int] = msgspec.field(default_factory=dict)

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.healthy += pod.is_healthy
        if pod.owner is None:
            self.unmanaged += 1
        else:
            self.owners[pod.owner] = self.owners.get(pod.owner, 0) + 1

    def take(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        self.healthy -= pod.is_healthy
        if pod.owner is None:
            self.unmanaged -= 1
            return
        self.owners[pod.owner] -= 1
        if not self.owners[pod.owner]:
            del self.owners[pod.owner]

    def a_pod_of(self, owner: Owner) -> str:
        """The name of the first one that it controls."""
        return min(pod.name for pod in self.pods.values() if pod.owner == owner)


class Tallies:
    def __init__(self) -> None:
        self._selectors: Final[SelectorIndex[Key]] = SelectorIndex()
        self._labels: Final[LabelIndex[str]] = LabelIndex()
        self._tallies: Final[dict[Key, Tally]] = {}
        self._pods: Final[dict[str, Pod]] = {}
        self._uids: Final[dict[tuple[str, str], str]] = {}
        self._covers: Final[dict[str, tuple[Key, ...]]] = {}

    # -- what is known ---------------------------------------------------------------------------------------------

    def tally(self, key: Key) -> Tally:
        return self._tallies[key]

    def pod(self, uid: str) -> Pod | None:
        return self._pods.get(uid)

    def named(self, namespace: str, name: str) -> Pod | None:
        uid = self._uids.get((namespace, name))
        return None if uid is None else self._pods[uid]

    def covering(self, uid: str) -> tuple[Key, ...]:
        """The budgets that mean a pod, by name."""
        return self._covers.get(uid, ())

    # -- news ------------------------------------------------------------------------------------------------------

    def budget_applied(self, key: Key, selector: Selector) -> None:
        if not self._selectors.put(key, key[0], selector):
            return
        self._uncover(key)
        tally = self._tallies[key] = Tally()
        for uid in self._labels.matching(key[0], selector):
            tally.add(self._pods[uid])
            self._covers[uid] = tuple(sorted((*self._covers.get(uid, ()), key)))

    def budget_removed(self, key: Key) -> None:
        self._selectors.drop(key)
        self._uncover(key)
        self._tallies.pop(key, None)

    def pod_applied(self, pod: Pod) -> Iterable[Key]:
        """The budgets whose counts may have changed."""
        before = self._pods.get(pod.uid)
        if before == pod:
            return ()
        had = has = self._covers.get(pod.uid, ())
        if before is None or before.labels != pod.labels:
            has = tuple(sorted(self._selectors.matching(pod.namespace, pod.labels)))
            self._labels.put(pod.uid, pod.namespace, pod.labels)
        for key in had:
            if before is not None:
                self._tallies[key].take(before)
        for key in has:
            self._tallies[key].add(pod)
        self._pods[pod.uid] = pod
        self._uids[pod.namespace, pod.name] = pod.uid
        if has:
            self._covers[pod.uid] = has
        else:
            self._covers.pop(pod.uid, None)
        return dict.fromkeys((*had, *has))

    def pod_removed(self, uid: str) -> Iterable[Key]:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return ()
        self._labels.drop(uid)
        if self._uids.get((pod.namespace, pod.name)) == uid:
            del self._uids[pod.namespace, pod.name]
        covers = self._covers.pop(uid, ())
        for key in covers:
            self._tallies[key].take(pod)
        return covers

    def _uncover(self, key: Key) -> None:
        known = self._tallies.get(key)
        for uid in () if known is None else known.pods:
            left = tuple(each for each in self._covers[uid] if each != key)
            if left:
                self._covers[uid] = left
            else:
                del self._covers[uid]


def read(obj: Object) -> Pod:
    metadata = obj["metadata"]
    reference = controller_of(obj)
    owner = None
    if reference is not None:
        owner = Owner(reference["apiVersion"], reference["kind"], reference["name"], reference["uid"])
    return Pod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata.get("labels") or {},
        owner,
        is_going="deletionTimestamp" in metadata,
        is_ready=facts.is_ready(obj),
    )
