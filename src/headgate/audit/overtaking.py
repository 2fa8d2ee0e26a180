"""Checks order: a unit that waits must not be passed by a later unit of its queue that is not smaller.

Only equal cases are compared: pods without a gang in one queue, and Workloads of the same shape in one LocalQueue. The
unit that passes has no higher priority, was created later, and requests at least as much of everything. For each shape
only the first unit in line is looked at, so the cost does not grow with the number of units that wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.audit.findings import subject_of
from headgate.audit.lasting_states import LastingStates
from headgate.audit.pod_facts import PodFacts, seconds
from headgate.capacity.names import GATE
from headgate.kube import conditions
from headgate.kube.timestamps import parse_micro_time
from headgate.waiting.heap import Heap

Object = dict[str, Any]
Shape = tuple[tuple[str, int], ...] | str
Order = tuple[int, float, str]
"""Negative priority, creation, uid."""

_SETTLED_S: Final = 5.0
"""A unit that began to wait this recently may not have been known when the other one was admitted."""
_US: Final = 1_000_000


class _Waiting(msgspec.Struct, frozen=True):
    line: tuple[str, Shape]
    subject: str
    since_s: float


class OvertakingJudge:
    def __init__(self, states: LastingStates) -> None:
        self._states = states
        self._lines: dict[str, dict[Shape, Heap[str]]] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._evicted: set[str] = set()

    def take_pod(self, pod: PodFacts, queue: str, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        """``queue``: the Volcano-style queue of the pod."""
        shape = tuple(sorted(pod.requests.items()))
        is_unit = not deleted and pod.is_active and not pod.group
        was_waiting = pod.uid in self._waiting
        if is_unit and pod.gates == (GATE,) and pod.opted_in and pod.stamp is None and not pod.has_lapsed:
            self._wait(f"queue {queue}", shape, _order(pod.priority, pod.created_s, pod.uid), pod.subject, at_s)
            return
        self._leave(pod.uid, pod.subject, at_s)
        if is_unit and was_waiting and observed and pod.stamp is not None:
            granted = parse_micro_time(pod.stamp.at)
            granted_s = granted / _US if isinstance(granted, int) else at_s
            for other, line in self._lines.get(f"queue {queue}", {}).items():
                if not isinstance(other, str) and _is_at_most(dict(other), pod.requests):
                    order = _order(pod.priority, pod.created_s, pod.uid)
                    self._pass(line, order, pod.subject, min(at_s, granted_s), at_s, revision)

    def take_workload(self, obj: Object, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        uid, namespace = str(metadata["uid"]), str(metadata.get("namespace") or "")
        subject = subject_of("Workload", namespace, str(metadata["name"]))
        told = status.get("conditions")
        has_quota = conditions.is_true(told, "QuotaReserved")
        if conditions.is_true(told, "Evicted") or status.get("requeueState"):
            self._evicted.add(uid)
        has_ended = deleted or conditions.is_true(told, "Finished") or metadata.get("deletionTimestamp")
        is_held = spec.get("active") is False or any("gated-by" in key for key in metadata.get("annotations") or ())
        shape = msgspec.json.encode(spec.get("podSets"), order="sorted").decode()
        name, order = f"LocalQueue {namespace}/{spec.get('queueName')}", _workload_order(obj)
        was_waiting = uid in self._waiting
        if not (has_ended or has_quota or is_held or uid in self._evicted or _has_checks(status)):
            self._wait(name, shape, order, subject, at_s)
            return
        self._leave(uid, subject, at_s)
        line = self._lines.get(name, {}).get(shape)
        if has_quota and was_waiting and observed and not has_ended and line is not None:
            self._pass(line, order, subject, at_s, at_s, revision)

    def forget(self, uid: str) -> None:
        """The Workload is gone."""
        self._evicted.discard(uid)

    def _wait(self, name: str, shape: Shape, order: Order, subject: str, at_s: float) -> None:
        uid, now = order[2], (name, shape)
        before = self._waiting.get(uid)
        if before is not None and before.line != now:
            self._leave(uid, subject, at_s)
            before = None
        if before is None:
            self._waiting[uid] = _Waiting(now, subject, at_s)
            self._lines.setdefault(name, {}).setdefault(shape, Heap()).put(uid, order)
        elif self._lines[name][shape].key_of(uid) != order:
            self._lines[name][shape].put(uid, order)

    def _leave(self, uid: str, subject: str, at_s: float) -> None:
        before = self._waiting.pop(uid, None)
        if before is None:
            return
        name, shape = before.line
        self._lines[name][shape].discard(uid)
        if not self._lines[name][shape]:
            del self._lines[name][shape]
        if not self._lines[name]:
            del self._lines[name]
        self._states.set("starved", subject, None, at_s, 0)

    def _pass(self, line: Heap[str], order: Order, subject: str, granted_s: float, at_s: float, revision: int) -> None:
        first = line.first()
        if first is None:
            return
        passed = self._waiting[first[1]]
        is_earlier = first[0][:2] < order[:2] and first[0][1] < order[1]
        if is_earlier and passed.since_s + _SETTLED_S <= granted_s:
            self._states.set("starved", passed.subject, f"{subject} was admitted before it", at_s, revision)


def _order(priority: int, created_s: float, uid: str) -> Order:
    return -priority, created_s, uid


def _workload_order(obj: Mapping[str, Any]) -> Order:
    metadata = obj["metadata"]
    created_s = seconds(metadata.get("creationTimestamp"))
    return _order(int((obj.get("spec") or {}).get("priority") or 0), created_s, str(metadata["uid"]))


def _has_checks(status: Mapping[str, Any]) -> bool:
    return bool(status.get("admissionChecks"))


def _is_at_most(amounts: Mapping[str, int], others: Mapping[str, int]) -> bool:
    return all(amount <= others.get(resource, 0) for resource, amount in amounts.items())
