"""Converts effects of the quota engine into patches and Events of a Workload, with Kueue's reasons and messages.

All effects of one workload become one write. It is based on the known object and names its version, so that the server
rejects it if another client wrote meanwhile; the engine then decides again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate.controllers.framework import effects as out
from headgate.controllers.ownership.pods import object_reference
from headgate.kube import conditions
from headgate.kube.resource_amounts import amount_text
from headgate.kube.schema import GroupVersionKind
from headgate.kube.timestamps import format_time
from headgate.quota import effects, names
from headgate.quota.api.eviction_stats import reason_with_cause, with_eviction
from headgate.quota.api.workload import Admission, AdmissionCheckState, read_workload
from headgate.quota.cache.occupancy import WAIT_OVER_REASONS
from headgate.quota.controller.activation_writes import activation_write
from headgate.quota.kinds.names import STORED

Object = dict[str, Any]

KIND: Final = GroupVersionKind(names.GROUP, STORED, "Workload")
COMPONENT: Final = "kueue-admission"
_MAX_MESSAGE: Final = 1024


class WorkloadWrite(msgspec.Struct, frozen=True):
    """``status``, ``spec`` and ``metadata`` are merge patches; None: no change."""

    status: Object | None
    spec: Object | None
    events: tuple[out.EmitEvent, ...]
    metadata: Object | None = None


def workload_write(workload: Object, applicable: Sequence[effects.Effect], now_s: float) -> WorkloadWrite:
    builder = _WorkloadWriteBuilder(workload, now_s)
    for effect in applicable:
        builder.add(effect)
    return builder.build()


class _WorkloadWriteBuilder:
    def __init__(self, workload: Object, now_s: float) -> None:
        self._workload = workload
        self._now = format_time(now_s)
        self._status: Object = {}
        self._conditions: list[Object] = (workload.get("status") or {}).get("conditions") or []
        self._spec: Object = {}
        self._metadata: Object = {}
        self._events: list[out.EmitEvent] = []

    def add(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Admit(_, _, admission, is_admitted, waited_s, waits_for):
                self._admit(admission, is_admitted, waited_s)
                self._wait_for_terminating(waits_for)
            case effects.Evict():
                self._evict(effect)
            case effects.Release(_, _, reason, message):
                self._status["admission"] = None
                self._set(names.QUOTA_RESERVED, False, reason, message)
                for each in (names.ADMITTED, names.WAITING_FOR_TERMINATING_PODS):
                    if conditions.find(self._conditions, each) is not None:
                        self._set(each, False, names.NO_RESERVATION, "The workload has no reservation")
            case effects.SetCondition(_, _, type_, is_true, reason, message):
                self._set(type_, is_true, reason, message)
            case effects.Requeue(_, _, reason, message):
                self._set(names.REQUEUED, True, reason, message)
                if (self._status_field("requeueState") or {}).get("requeueAt"):
                    self._status.setdefault("requeueState", {})["requeueAt"] = None
            case effects.PutOff(_, _, until_s):
                self._status.setdefault("requeueState", {})["requeueAt"] = format_time(until_s)
            case effects.SetChecks(_, _, checks):
                self._status["admissionChecks"] = [
                    _check(each, self._status_field("admissionChecks")) for each in checks
                ]
            case effects.Deactivate():
                self._spec["active"] = False
            case effects.ConsumeActivationLabels(_, _, is_enabled, _):
                self._consume_labels(is_enabled)
            case effects.EmitWorkloadEvent(_, _, is_warning, reason, message):
                self._emit("Warning" if is_warning else "Normal", reason, message)

    def build(self) -> WorkloadWrite:
        if self._conditions != ((self._workload.get("status") or {}).get("conditions") or []):
            self._status["conditions"] = self._conditions
        return WorkloadWrite(self._status or None, self._spec or None, tuple(self._events), self._metadata or None)

    def _admit(self, admission: Admission, is_admitted: bool, waited_s: float) -> None:
        queue = admission.cluster_queue
        self._status["admission"] = _admission(admission)
        self._set(names.QUOTA_RESERVED, True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}")
        for each in (names.EVICTED, names.PREEMPTED):
            known = conditions.find(self._conditions, each)
            if known is not None and known.get("status") == "True":
                self._set(each, False, "QuotaReserved", f"Previously: {known.get('message', '')}")
        message = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited_s:.0f}s"
        self._emit("Normal", "QuotaReserved", message)
        if is_admitted:
            self._set(names.ADMITTED, True, "Admitted", "The workload is admitted")
            message = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
            self._emit("Normal", "Admitted", message)

    def _wait_for_terminating(self, waits_for: str) -> None:
        """In the same write as the admission, so that the job cannot start between two writes."""
        type_ = names.WAITING_FOR_TERMINATING_PODS
        if waits_for:
            self._set(type_, True, names.QUOTA_RELEASED_EARLY, waits_for)
            self._emit("Normal", type_, waits_for)
        elif conditions.is_true(self._conditions, type_):
            self._set(type_, False, *WAIT_OVER_REASONS["fits"])

    def _evict(self, effect: effects.Evict) -> None:
        reason = reason_with_cause(effect.reason, effect.cause)
        self._set(names.EVICTED, True, reason, effect.message)
        self._status["schedulingStats"] = {"evictions": with_eviction(self._workload, effect.reason, effect.cause)}
        if effect.reason == names.DEACTIVATED:
            self._forget_deactivation()
        if effect.preempted:
            self._set(names.PREEMPTED, True, effect.preempted, effect.message)
            self._emit("Normal", "Preempted", effect.message)
        if effect.checks:
            known = self._status_field("admissionChecks")
            self._status["admissionChecks"] = [_check(each, known) for each in effect.checks]
        if effect.requeue_at_s is not None:
            at = format_time(effect.requeue_at_s)
            self._status["requeueState"] = {"count": effect.requeue_count, "requeueAt": at}
        self._emit("Normal", f"EvictedDueTo{reason}", effect.message)

    def _consume_labels(self, is_enabled: bool) -> None:
        """Performs the transition that this version of the workload shows."""
        workload = read_workload(self._workload)
        if isinstance(workload, str):
            return  # the engine reports what is invalid, and asks again when it is valid
        write = activation_write(self._workload, workload, is_enabled)
        self._spec.update(write.spec)
        self._metadata.update(write.metadata)
        self._events += write.events

    def _forget_deactivation(self) -> None:
        """Removes the cause of the deactivation, so that it does not apply again after a reactivation."""
        self._conditions = [each for each in self._conditions if each.get("type") != names.DEACTIVATION_TARGET]
        if self._status_field("requeueState"):
            self._status["requeueState"] = None

    def _set(self, type_: str, is_true: bool, reason: str, message: str) -> None:
        generation = self._workload["metadata"].get("generation", 0)
        new = {
            "type": type_,
            "status": "True" if is_true else "False",
            "reason": reason,
            "message": message[:_MAX_MESSAGE],
            "observedGeneration": generation,
        }
        self._conditions = conditions.with_condition(self._conditions, new, self._now)

    def _emit(self, kind: Any, reason: str, message: str) -> None:
        text = message[:_MAX_MESSAGE]
        self._events.append(out.EmitEvent(object_reference(self._workload, KIND), kind, reason, text, COMPONENT))

    def _status_field(self, field: str) -> Any:
        return (self._workload.get("status") or {}).get(field)


def _admission(admission: Admission) -> Object:
    assignments = [
        {
            "name": each.name,
            "flavors": dict(each.flavors),
            "resourceUsage": {name: amount_text(name, amount) for name, amount in each.usage.items()},
            "count": each.count,
        }
        for each in admission.pod_sets
    ]
    return {"clusterQueue": admission.cluster_queue, "podSetAssignments": assignments}


def _check(state: AdmissionCheckState, known: list[Object] | None) -> Object:
    """Keeps the other fields that the controller of the check wrote."""
    before = next((each for each in known or () if each.get("name") == state.name), {})
    changed: Object = {
        "name": state.name,
        "state": state.state,
        "message": state.message,
        "lastTransitionTime": format_time(state.since_s),
        "requeueAfterSeconds": state.requeue_after_s,
        "retryCount": state.retries or None,
    }
    return {key: value for key, value in {**before, **changed}.items() if value is not None}
