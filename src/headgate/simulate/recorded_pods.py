"""The life of each pod of a recording: when it came, when it was bound, when it ended, and which pod replaced it.

A pod that was preempted, or lost with its node, did not end: its owner created it again. The simulation creates
preempted pods again itself, so all attempts of one pod are one unit here, with the arrival of the first attempt and the
run time of the last one. What a recording cannot say stays unknown: the run time of a pod that still ran at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.audit.pod_facts import PodFacts, read_pod, seconds
from headgate.kube import conditions
from headgate.recording.changes import Object, RecordedChange

_WAITS_FOR_SUCCESSOR_S: Final = 600.0
"""A pod that its owner creates later than this is not the successor of one that was interrupted."""


class PodHistory:
    """One pod. ``obj``: its last state before it began to stop. ``arrived_s``: when it was created, or when the last
    gate of another component was removed from it. ``bound_s``, ``ended_s``: ``None`` if this did not happen.
    ``is_interrupted``: it was stopped by a preemption, an eviction or the loss of its node. ``successor``: the pod
    that replaced it."""

    __slots__ = (
        *("arrived_s", "bound_s", "ended_s", "facts", "first_s", "is_held", "is_interrupted", "kind", "number", "obj"),
        *("replaces", "successor"),
    )

    def __init__(self, obj: Object, facts: PodFacts, arrived_s: float, number: int) -> None:
        self.obj = obj
        self.facts = facts
        self.kind = _owner_kind(obj)
        self.arrived_s = arrived_s
        self.first_s = arrived_s
        self.bound_s: float | None = None
        self.ended_s: float | None = None
        self.is_held = bool(facts.foreign_gates)
        self.is_interrupted = False
        self.number = number
        self.replaces: PodHistory | None = None
        self.successor: PodHistory | None = None

    @property
    def last(self) -> PodHistory:
        """The last attempt."""
        found = self
        while found.successor is not None:
            found = found.successor
        return found

    def run_s(self, until_s: float) -> float:
        """How long it ran, at most until ``until_s``; 0 if it was never bound."""
        if self.bound_s is None:
            return 0.0
        return max((until_s if self.ended_s is None else self.ended_s) - self.bound_s, 0.0)


class PodHistories:
    """Takes the changes of pods in the order of revisions."""

    def __init__(self) -> None:
        self._pods: dict[str, PodHistory] = {}  # by uid, in the order of their appearance
        self._names: dict[tuple[str, str], int] = {}  # how many pods have had this name
        self._interrupted: dict[tuple[str, str], list[PodHistory]] = {}  # by owner, or by namespace and name

    def __iter__(self) -> Iterator[PodHistory]:
        return iter(self._pods.values())

    def take(self, change: RecordedChange) -> None:
        found = self._pods.get(change.uid)
        if change.deleted:
            if found is not None and found.ended_s is None:
                self._ended(found, change.at_s)
            return
        facts = read_pod(change.object)
        if found is None:
            found = self._appeared(change, facts)
        self._observe(found, change, facts)

    def _appeared(self, change: RecordedChange, facts: PodFacts) -> PodHistory:
        key = facts.namespace, facts.name
        number = self._names.get(key, 0) + 1
        self._names[key] = number
        arrived_s = change.at_s if change.observed else facts.created_s or change.at_s
        found = self._pods[change.uid] = PodHistory(change.object, facts, arrived_s, number)
        waiting = self._interrupted.get(_lineage(facts))
        while waiting:
            before = waiting.pop(0)
            if before.ended_s is not None and arrived_s - before.ended_s <= _WAITS_FOR_SUCCESSOR_S:
                before.successor, found.replaces = found, before
                break
        return found

    def _observe(self, found: PodHistory, change: RecordedChange, facts: PodFacts) -> None:
        if found.is_held and not facts.foreign_gates:
            found.is_held = False
            found.arrived_s = change.at_s
        if facts.node and found.bound_s is None:
            found.bound_s = change.at_s if change.observed else _bound_s(change.object) or change.at_s
        if found.ended_s is not None:
            return
        if facts.is_terminal or facts.is_terminating:
            found.is_interrupted = conditions.is_true(
                (change.object.get("status") or {}).get("conditions"), conditions.DISRUPTION_TARGET
            )
            self._ended(found, change.at_s)
        else:
            found.obj, found.facts = change.object, facts

    def _ended(self, found: PodHistory, at_s: float) -> None:
        found.ended_s = at_s
        if found.is_interrupted:
            self._interrupted.setdefault(_lineage(found.facts), []).append(found)


def _lineage(facts: PodFacts) -> tuple[str, str]:
    return ("owner", facts.owner) if facts.owner else (facts.namespace, facts.name)


def _owner_kind(obj: Object) -> str:
    owners: Any = obj["metadata"].get("ownerReferences") or ()
    return next((str(each.get("kind") or "") for each in owners if isinstance(each, dict)), "") or "Pod"


def _bound_s(obj: Object) -> float:
    status = obj.get("status") or {}
    scheduled = conditions.find(status.get("conditions"), conditions.POD_SCHEDULED) or {}
    if scheduled.get("status") == "True":
        return seconds(scheduled.get("lastTransitionTime"))
    return seconds(status.get("startTime"))
