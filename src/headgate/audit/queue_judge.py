"""Checks queues in the manner of Volcano, and their gate: limits, promises, gates.

At no revision a grant lifts the bound and promised pods of a queue, or of one of its ancestors, above its limit. The
queue gate is removed once per uid, after all other gates, with a stamp that names this uid and does not change. Only
its owner removes a gate of another component.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.audit.findings import Finding
from headgate.audit.pod_facts import OWN_GATES, PodFacts
from headgate.capacity.names import DEFAULT, GATE, QUEUE_NAME, ROOT
from headgate.kube.resource_amounts import amount_text, is_requestable, read_amounts
from headgate.kube.timestamps import parse_micro_time

Object = dict[str, Any]
Problem = tuple[str, str, bool]
"""Rule, text, and whether it is certain."""

SERVED: Final = frozenset({"headgate", "volcano"})
"""The schedulers whose pods are in queues by default."""
_WITHOUT_PROMISE: Final = "gate-lifted-without-promise"
_MAX_DEPTH: Final = 32
_LATE_S: Final = 5.0
"""A grant that was decided before a limit was lowered may be written this much later."""
_US: Final = 1_000_000


class QueueLimit(msgspec.Struct, frozen=True):
    parent: str
    capability: Mapping[str, int]


class _Held(msgspec.Struct, frozen=True):
    queue: str
    amounts: Mapping[str, int]


class QueueJudge:
    def __init__(self, served: Iterable[str] = SERVED) -> None:
        self.findings: list[Finding] = []
        self.used: dict[str, Counter[str]] = {}
        """By queue, what is bound or promised in it and below it, by resource."""
        self.lifted: Counter[str] = Counter()
        """By uid, how often the queue gate was removed."""
        self.queues: dict[str, QueueLimit] = {}
        self.has_stamps = False
        """Whether promises of Headgate were seen."""
        self._served = frozenset(served)
        self._groups: dict[tuple[str, str], str] = {}
        self._namespaces: dict[str, str] = {}
        self._lowered_s: dict[str, float] = {}
        self._held: dict[str, _Held] = {}
        self._last: dict[str, PodFacts] = {}

    def finish(self) -> None:
        """At the end it is known whether Headgate made promises here: then a gate that is removed without one is an
        error."""
        if self.has_stamps:
            self.findings = [
                msgspec.structs.replace(each, certain=True) if each.rule == _WITHOUT_PROMISE else each
                for each in self.findings
            ]

    # -- queues ----------------------------------------------------------------------------------------------------

    def take_queue(self, obj: Object, deleted: bool, at_s: float) -> None:
        name, spec = str(obj["metadata"]["name"]), obj.get("spec") or {}
        before = self.queues.pop(name, None)
        if deleted:
            now = None
        else:
            found = read_amounts(spec.get("capability"), "spec.capability")
            limits = {} if isinstance(found, str) else found
            parent = "" if name == ROOT else str(spec.get("parent") or ROOT)
            now = QueueLimit(parent, {each: amount for each, amount in limits.items() if is_requestable(each)})
            self.queues[name] = now
        if before is not None and now is not None and _is_lowered(before.capability, now.capability):
            self._lowered_s[name] = at_s
        if before is None or now is None or before.parent != now.parent:
            self._lowered_s[name] = at_s if before is not None else self._lowered_s.get(name, 0.0)
            self._count_again()

    def take_group(self, obj: Object, deleted: bool) -> None:
        key = str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])
        queue = str((obj.get("spec") or {}).get("queue") or "")
        if deleted or not queue:
            self._groups.pop(key, None)
        else:
            self._groups[key] = queue

    def take_namespace(self, obj: Object, deleted: bool) -> None:
        queue = (obj["metadata"].get("annotations") or {}).get(QUEUE_NAME)
        if deleted or not queue:
            self._namespaces.pop(str(obj["metadata"]["name"]), None)
        else:
            self._namespaces[str(obj["metadata"]["name"])] = str(queue)

    def path(self, queue: str) -> list[str]:
        """The queue and its ancestors, as far as they exist."""
        found: list[str] = []
        while queue in self.queues and queue not in found and len(found) < _MAX_DEPTH:
            found.append(queue)
            queue = self.queues[queue].parent
        return found

    def queue_of(self, pod: PodFacts) -> str:
        group = self._groups.get((pod.namespace, pod.group)) if pod.group else None
        return group or pod.queue or self._namespaces.get(pod.namespace) or DEFAULT

    def takes_part(self, pod: PodFacts) -> bool:
        return pod.scheduler in self._served or pod.opted_in or bool(pod.stamp_text) or GATE in pod.gates

    def exceeded(self, queue: str, amounts: Mapping[str, int], beside: Mapping[str, Mapping[str, int]]) -> str | None:
        """The queue on the path that has no capacity for these amounts beside what is used, and beside others."""
        for each in self.path(queue):
            limits, used = self.queues[each].capability, self.used.get(each, Counter())
            for resource, amount in amounts.items():
                more = used.get(resource, 0) + beside.get(each, {}).get(resource, 0) + amount
                if amount and resource in limits and more > limits[resource]:
                    return each
        return None

    def over_limit(self) -> Iterator[tuple[str, str]]:
        """The queues that use more than their limit now, each with a text. The limit may have been lowered."""
        for name, queue in sorted(self.queues.items()):
            used = self.used.get(name, Counter())
            for resource, limit in sorted(queue.capability.items()):
                if used[resource] > limit:
                    amounts = f"{amount_text(resource, used[resource])} of {amount_text(resource, limit)} {resource}"
                    yield f"Queue {name}", f"it has {amounts} now"

    # -- pods ------------------------------------------------------------------------------------------------------

    def take_pod(self, pod: PodFacts, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        before = self._last.pop(pod.uid, None)
        states: list[Problem] = []
        problems: list[Problem] = []
        self.has_stamps = self.has_stamps or bool(pod.stamp_text)
        if not deleted:
            self._last[pod.uid] = pod
            states += self._of_state(pod)
            if before is not None:
                problems += self._of_gates(before, pod)
                problems += self._of_stamp(before, pod)
        problems += self._count(pod, deleted, at_s)
        self.findings += [
            Finding(rule, pod.subject, text, at_s, revision, certain)
            for rule, text, certain in (*states, *(problems if observed else ()))
        ]

    def forget_pod(self, uid: str) -> None:
        """The pod is gone, and its history with it."""
        self.lifted.pop(uid, None)

    def _of_state(self, pod: PodFacts) -> Iterator[Problem]:
        if pod.stamp_text and pod.stamp is None:
            yield "stamp-of-another-pod", f"its stamp does not name its uid: {pod.stamp_text}", True
        if pod.node and pod.gates:
            yield "bound-with-gate", f"it is on node {pod.node} and has gates: {', '.join(pod.gates)}", True

    def _of_gates(self, before: PodFacts, now: PodFacts) -> Iterator[Problem]:
        added = [each for each in now.gates if each not in before.gates]
        if added:
            yield "gate-added", f"gates appeared: {', '.join(added)}", True
        if GATE not in before.gates or GATE in now.gates:
            return
        self.lifted[now.uid] += 1
        if self.lifted[now.uid] > 1:
            yield "gate-lifted-twice", "its gate was removed twice", True
        if now.stamp is None and now.opted_in and now.is_active:
            yield _WITHOUT_PROMISE, "its gate was removed without a promise", self.has_stamps
        others_before = [each for each in before.gates if each not in OWN_GATES]
        others = [each for each in now.gates if each not in OWN_GATES]
        if others:
            yield "gate-lifted-early", f"its gate was removed before those of others: {', '.join(others)}", True
        if others_before and others != others_before:
            gone = ", ".join(each for each in others_before if each not in others)
            yield "foreign-gate-removed", f"the same write removed gates of others: {gone}", True

    def _of_stamp(self, before: PodFacts, now: PodFacts) -> Iterator[Problem]:
        if now.stamp is not None and now.stamp_text != before.stamp_text:
            missing = _shortfall(now)
            if missing:
                yield "promise-mismatch", f"it was promised less than it requests: {missing}", True
        if before.stamp is None or before.stamp_text == now.stamp_text:
            return
        if now.stamp is not None:
            is_same_size = before.requests == now.requests
            yield "promise-changed", f"it was promised twice: {before.stamp_text}, {now.stamp_text}", is_same_size
        elif now.is_active and not now.has_lapsed and not now.stamp_text:
            if now.node:
                yield "promise-lost", "the record of its promise was removed while it runs", True
            elif not self._has_reason_to_revoke(before):
                yield "promise-lost", f"the promise of queue {before.stamp.queue} ended without a reason", True

    def _has_reason_to_revoke(self, pod: PodFacts) -> bool:
        """Whether a preemptor, a gang, or a limit may have ended the promise of this pod."""
        if pod.group or pod.stamp is None:
            return True
        path = self.path(pod.stamp.queue)
        if not path:
            return True
        for each in path:
            used, limits = self.used.get(each, Counter()), self.queues[each].capability
            if any(used.get(resource, 0) > limit for resource, limit in limits.items()):
                return True
        others = (each for each in self._last.values() if each.is_active and not each.node and each.uid != pod.uid)
        return any(each.priority > pod.priority and self.takes_part(each) for each in others)

    def _count(self, pod: PodFacts, deleted: bool, at_s: float) -> Iterator[Problem]:
        held = self._held.pop(pod.uid, None)
        if held is not None:
            self._add(held, -1)
        if deleted or not pod.is_active or not (pod.node or pod.stamp is not None) or not self.takes_part(pod):
            return
        if pod.stamp is not None:
            now = _Held(pod.stamp.queue, pod.stamp.requests)
        else:
            now = _Held(self.queue_of(pod), pod.requests)
        self._held[pod.uid] = now
        self._add(now, +1)
        before = held.amounts if held is not None and held.queue == now.queue else {}
        grown = [resource for resource, amount in now.amounts.items() if amount > before.get(resource, 0)]
        if grown:
            yield from self._of_limits(pod, now.queue, grown, at_s)

    def _of_limits(self, pod: PodFacts, queue: str, resources: Iterable[str], at_s: float) -> Iterator[Problem]:
        path = self.path(queue)
        granted_s = at_s
        if pod.stamp is not None:
            found = parse_micro_time(pod.stamp.at)
            granted_s = found / _US if isinstance(found, int) else at_s
        for each in path:
            if self._lowered_s.get(each) and granted_s <= self._lowered_s[each] + _LATE_S:
                continue  # the grant may be older than the present limit
            limits = self.queues[each].capability
            for resource in resources:
                used = self.used[each][resource]
                if resource in limits and used > limits[resource]:
                    amounts = f"{amount_text(resource, used)} of {amount_text(resource, limits[resource])} {resource}"
                    yield "over-admission", f"queue {each} has {amounts}", True

    def _add(self, held: _Held, sign: int) -> None:
        for each in self.path(held.queue):
            counts = self.used.setdefault(each, Counter())
            for resource, amount in held.amounts.items():
                counts[resource] += sign * amount

    def _count_again(self) -> None:
        """After the tree has changed."""
        self.used = {}
        for held in self._held.values():
            self._add(held, +1)


def _is_lowered(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    return any(resource not in before or limit < before[resource] for resource, limit in now.items())


def _shortfall(pod: PodFacts) -> str:
    """The resources of which less was promised than the pod requests."""
    promised = pod.stamp.requests if pod.stamp is not None else {}
    return ", ".join(
        f"{resource} {amount_text(resource, promised.get(resource, 0))} of {amount_text(resource, amount)}"
        for resource, amount in sorted(pod.requests.items())
        if amount > promised.get(resource, 0) and is_requestable(resource)
    )
