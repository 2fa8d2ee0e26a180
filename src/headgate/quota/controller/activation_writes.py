"""The write for one transition of ``quota/api/activation.py``: labels, ``spec.active``, the mark, and Events.

The whole transition is one patch, so a process that is killed leaves either the former state with its label, or the
next state without it. An Event goes to the Workload and to the job that owns it, because users look at their jobs.
``workload_writes.py`` sends it with the other effects of the workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headgate.controllers.framework import effects as out
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.object_meta import controller_of
from headgate.kube.schema import GroupVersionKind
from headgate.quota import names
from headgate.quota.api.activation import (
    ActivationEvent,
    WorkloadActivation,
    WorkloadActivationEffect,
    WorkloadActivationState,
    pending_event,
    pending_transition,
    workload_state,
)
from headgate.quota.api.workload import Workload
from headgate.quota.kinds.names import STORED

Object = dict[str, Any]

DEACTIVATED: Final = "DeactivatedByLabel"
ACTIVATED: Final = "ActivatedByLabel"
SWITCHED_OFF: Final = "ActivationLabelsDisabled"
_KIND: Final = GroupVersionKind(names.GROUP, STORED, "Workload")
_COMPONENT: Final = "kueue-admission"
_WHY_IGNORED: Final = {
    WorkloadActivationState.ACTIVE: "the workload is admitted; only a suspended job can be deactivated",
    WorkloadActivationState.DEACTIVATED: (
        "spec.active of the Workload was set to false by another client or by a limit; "
        "a client with rights on Workloads has to set it to true"
    ),
}


class ActivationWrite(msgspec.Struct, frozen=True):
    """``metadata`` and ``spec``: merge patches, empty if nothing changes."""

    metadata: Object = {}
    spec: Object = {}
    events: tuple[out.EmitEvent, ...] = ()


_NOTHING: Final = ActivationWrite()


def activation_write(obj: Object, workload: Workload, is_enabled: bool) -> ActivationWrite:
    """``obj``: the Workload as the API shows it; ``workload``: the same, decoded."""
    event, transition = pending_event(workload, is_enabled), pending_transition(workload, is_enabled)
    if event is None or transition is None:
        return _NOTHING
    labels: Object = {}
    annotations: Object = {}
    spec: Object = {}
    for effect in transition.effects:
        match effect:
            case WorkloadActivationEffect.REMOVE_LABELS:
                labels |= {names.ACTIVATE: None, names.DEACTIVATE: None}
            case WorkloadActivationEffect.SET_INACTIVE:
                spec["active"] = False
                annotations[names.DEACTIVATED_BY_LABEL] = "true"
            case WorkloadActivationEffect.SET_ACTIVE:
                spec["active"] = True
                annotations[names.DEACTIVATED_BY_LABEL] = None
            case WorkloadActivationEffect.REMOVE_MARK:
                annotations[names.DEACTIVATED_BY_LABEL] = None
            case WorkloadActivationEffect.RETURN_LABEL:
                labels |= {names.ACTIVATE: None, names.DEACTIVATE: "true"}
            case WorkloadActivationEffect.REPORT_IGNORED:
                pass  # only an Event
    metadata = {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
    return ActivationWrite(metadata, spec, tuple(_events(obj, workload, event, transition)))


def _events(
    obj: Object, workload: Workload, event: ActivationEvent, transition: WorkloadActivation
) -> Iterator[out.EmitEvent]:
    if WorkloadActivationEffect.REPORT_IGNORED in transition.effects:
        listed = ", ".join(f"{key}={value}" for key, value in sorted(workload.activation_labels.items()))
        why = _WHY_IGNORED.get(workload_state(workload), "")
        if event is ActivationEvent.OTHER or not why:
            why = "its value is not true"
        yield from _emit(obj, "Warning", names.ACTIVATION_LABEL_IGNORED, f"Ignored and removed {listed}: {why}")
    elif WorkloadActivationEffect.SET_INACTIVE in transition.effects:
        text = f"Deactivated by {names.DEACTIVATE}=true; {names.ACTIVATE}=true on the job activates it again"
        yield from _emit(obj, "Normal", DEACTIVATED, text)
    elif event is ActivationEvent.SWITCHED_OFF and WorkloadActivationEffect.SET_ACTIVE in transition.effects:
        text = f"Active again: the feature gate ActivationLabels is off, so {names.DEACTIVATE}=true has no effect"
        yield from _emit(obj, "Normal", SWITCHED_OFF, text)
    elif WorkloadActivationEffect.SET_ACTIVE in transition.effects:
        yield from _emit(obj, "Normal", ACTIVATED, f"Activated by {names.ACTIVATE}=true; it waits for quota")


def _emit(obj: Object, kind: Any, reason: str, text: str) -> Iterator[out.EmitEvent]:
    yield out.EmitEvent(object_reference(obj, _KIND), kind, reason, text, _COMPONENT)
    owner = controller_of(obj)
    if owner is not None:
        about: Object = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid") if key in owner}
        about["namespace"] = obj["metadata"]["namespace"]
        yield out.EmitEvent(about, kind, reason, text, _COMPONENT)
