"""What the pods of a Workload do with the quota that it holds: placed, unplaced, terminating, behind a foreign gate.

A Workload holds quota for a number of pods, whether they exist or not. All its pods count with the same share. Its pods
are found by their owner, by their own uid, or by their pod group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.audit.bill import FOREIGN_GATE, PLACED, TERMINATING, UNPLACED, BillMeter
from headgate.audit.pod_facts import PodFacts
from headgate.audit.quota_judge import read_standing
from headgate.kube.object_meta import owner_references

Object = dict[str, Any]

_STATES: Final = (PLACED, TERMINATING, FOREIGN_GATE)
"""In this order; the rest of the pods is unplaced."""


class _Holder(msgspec.Struct, frozen=True):
    uid: str
    queue: str
    count: int
    per_pod: dict[str, float]
    keys: tuple[str, ...]
    group: str


class QuotaHoldings:
    def __init__(self, meter: BillMeter) -> None:
        self._meter = meter
        self._holders: dict[str, _Holder] = {}
        self._by_key: dict[str, set[str]] = {}
        self._states: dict[str, Counter[str]] = {}
        self._pods: dict[str, tuple[str, tuple[str, ...]]] = {}

    def has_quota(self, pod: PodFacts) -> bool | None:
        """Whether a Workload holds quota for the pod; None if the pod is in none of Kueue's queues."""
        keys = _keys_of(pod)
        if any(self._by_key.get(key) for key in keys):
            return True
        return False if pod.is_kueue_managed or pod.kueue_queue else None

    def take_pod(self, pod: PodFacts, deleted: bool, at_s: float) -> None:
        before = self._pods.pop(pod.uid, None)
        if before is not None:
            self._count(*before, -1)
        state = None if deleted or pod.is_terminal else _state(pod)
        keys = _keys_of(pod)
        if state is not None:
            self._pods[pod.uid] = (state, keys)
            self._count(state, keys, +1)
        self._update({uid for key in keys for uid in self._by_key.get(key, ())}, at_s)

    def take_workload(self, obj: Object, deleted: bool, at_s: float) -> None:
        uid = str(obj["metadata"]["uid"])
        before = self._holders.pop(uid, None)
        if before is not None:
            for key in before.keys:
                self._by_key[key].discard(uid)
                if not self._by_key[key]:
                    del self._by_key[key]
        now = None if deleted else _read_holder(obj)
        if now is None:
            for state in (*_STATES, UNPLACED):
                self._meter.hold(f"{uid}/{state}", "", None, {}, at_s)
            return
        self._holders[uid] = now
        for key in now.keys:
            self._by_key.setdefault(key, set()).add(uid)
        self._update([uid], at_s)

    def _count(self, state: str, keys: Iterable[str], sign: int) -> None:
        for key in keys:
            counts = self._states.setdefault(key, Counter())
            counts[state] += sign
            if not counts[state]:
                del counts[state]
            if not counts:
                del self._states[key]

    def _update(self, uids: Iterable[str], at_s: float) -> None:
        for uid in uids:
            holder = self._holders[uid]
            keys = (holder.group,) if holder.group in self._states else holder.keys
            left = holder.count
            for state in _STATES:
                count = min(left, sum(self._states.get(key, Counter())[state] for key in keys))
                left -= count
                self._set(holder, state, count, at_s)
            self._set(holder, UNPLACED, left, at_s)

    def _set(self, holder: _Holder, state: str, count: int, at_s: float) -> None:
        amounts = {resource: amount * count for resource, amount in holder.per_pod.items()}
        self._meter.hold(f"{holder.uid}/{state}", holder.queue, state if count else None, amounts, at_s)


def _state(pod: PodFacts) -> str:
    if pod.is_terminating:
        return TERMINATING
    if pod.node:
        return PLACED
    return FOREIGN_GATE if pod.foreign_gates else UNPLACED


def _keys_of(pod: PodFacts) -> tuple[str, ...]:
    group = (_group_key(pod.namespace, pod.kueue_group),) if pod.kueue_group else ()
    return tuple({*group, pod.uid, *([pod.owner] if pod.owner else [])})


def _group_key(namespace: str, name: str) -> str:
    return f"group {namespace}/{name}"


def _read_holder(obj: Object) -> _Holder | None:
    standing = read_standing(obj)
    if not standing.queue:
        return None
    metadata, admission = obj["metadata"], obj["status"]["admission"]
    count = sum(int(each.get("count") or 0) for each in admission.get("podSetAssignments") or ())
    total: Counter[str] = Counter()
    for (_, resource), amount in standing.usage.items():
        total[resource] += amount
    group = _group_key(str(metadata.get("namespace") or ""), str(metadata["name"]))
    owners = tuple(str(each.get("uid") or "") for each in owner_references(obj))
    per_pod = {resource: amount / count for resource, amount in total.items()} if count else {}
    return _Holder(standing.uid, standing.queue, count, per_pod, (*owners, group), group)
