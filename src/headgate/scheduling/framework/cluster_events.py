"""Cluster events: a resource and an action. Plugins register for them, and metrics have them as labels.

An event is as specific as possible (``UpdateNodeTaint``, not ``Update``). Plugins register the events that may make a
rejected pod schedulable (:func:`on`). A plugin that registers ``Update`` gets the specific updates, too, but a plugin
that registers a specific update does not get ``Update``: the removal of one of two gates wakes no pod. Updates of an
unscheduled pod wake only that pod (``target``); events of pods on nodes and of other objects wake every pod that
registered for them. ``waiting/parking_lot.py`` finds the pods to wake; ``scheduling/queue/scheduling_queue.py``
requeues them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube import quantity
from headgate.kube.api_resources import APIResource
from headgate.scheduling.cache.pod import PodLike
from headgate.waiting.queueing_hints import ClusterEventWithHint, QueueingHint, Topic

POD: Final = "Pod"
ASSIGNED_POD: Final = "AssignedPod"
UNSCHEDULABLE_POD: Final = "UnschedulablePod"
NODE: Final = "Node"
PERSISTENT_VOLUME: Final = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM: Final = "PersistentVolumeClaim"
CSI_NODE: Final = "storage.k8s.io/CSINode"
CSI_DRIVER: Final = "storage.k8s.io/CSIDriver"
CSI_STORAGE_CAPACITY: Final = "storage.k8s.io/CSIStorageCapacity"
VOLUME_ATTACHMENT: Final = "storage.k8s.io/VolumeAttachment"
STORAGE_CLASS: Final = "storage.k8s.io/StorageClass"
QUEUE_GATE: Final = "QueueAllocationGate"
QUEUE_RESERVATION: Final = "QueueReservation"
ANY: Final = "*"

ADD: Final = "Add"
DELETE: Final = "Delete"
UPDATE: Final = "Update"
ALL: Final = "All"
POD_LABEL: Final = "UpdatePodLabel"
POD_SCALE_DOWN: Final = "UpdatePodScaleDown"
POD_GATES_ELIMINATED: Final = "UpdatePodSchedulingGatesEliminated"
POD_TOLERATION: Final = "UpdatePodToleration"
NODE_ALLOCATABLE: Final = "UpdateNodeAllocatable"
NODE_LABEL: Final = "UpdateNodeLabel"
NODE_TAINT: Final = "UpdateNodeTaint"
NODE_CONDITION: Final = "UpdateNodeCondition"
NODE_ANNOTATION: Final = "UpdateNodeAnnotation"
GRANTED: Final = "Granted"
GATE_REMOVED: Final = "Lifted"  # a label of metrics, so the value stays

POD_UPDATES: Final = (POD_LABEL, POD_SCALE_DOWN, POD_GATES_ELIMINATED, POD_TOLERATION)
NODE_UPDATES: Final = (NODE_ALLOCATABLE, NODE_LABEL, NODE_TAINT, NODE_CONDITION, NODE_ANNOTATION)
_PODS: Final = (ASSIGNED_POD, UNSCHEDULABLE_POD)
_UPDATES: Final[Mapping[str, tuple[str, ...]]] = {
    ASSIGNED_POD: POD_UPDATES,
    UNSCHEDULABLE_POD: POD_UPDATES,
    NODE: NODE_UPDATES,
    ANY: POD_UPDATES + NODE_UPDATES,
}

GateOwnership = Callable[[str], bool]
"""Whether a built-in plugin removes this scheduling gate; that plugin then rejects the pod at PreEnqueue."""


def no_gate_owned(gate: str) -> bool:
    return False


class ClusterEvent(msgspec.Struct, frozen=True):
    """``old`` is None for a new object, ``new`` for a deleted one. ``custom``: the label in metrics of an event without
    an object; other events have resource and action as their label.

    ``target``: the uid of the only pod that the event may wake. ``subjects``: texts that name the object, or a group of
    objects that it belongs to, such as ``namespace/name``. The component that creates the events chooses
    their form. A plugin can
    register for one subject (:func:`on_one`), so that events of other objects of the kind do not wake its pods."""

    resource: str
    action: str
    old: Any = None
    new: Any = None
    target: str | None = None
    custom: str = ""
    subjects: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.custom or self.resource + self.action

    @property
    def topics(self) -> tuple[Topic, ...]:
        general = (self.resource, self.action), (ANY, self.action)
        return (*general, *((self.resource, self.action, each) for each in self.subjects)) if self.subjects else general

    @property
    def for_everyone(self) -> bool:
        """Whether the event wakes all waiting pods (or its target), whatever they wait for."""
        return self.resource == ANY


UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(ANY, ALL, custom="UnschedulableTimeout")

# Reasons for which a pod enters a queue that are not cluster events, as the metrics name them.
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
FORCE_ACTIVATE: Final = "ForceActivate"
POD_ADD: Final = UNSCHEDULABLE_POD + ADD
POD_UPDATE: Final = UNSCHEDULABLE_POD + UPDATE


def named(resource: APIResource) -> str:
    """The text to use as the ``resource`` of events about a kind that has no constant here, such as
    ``foos.v1.example.com``."""
    if not isinstance(resource, APIResource):
        raise TypeError(f"named takes an APIResource, not {resource!r}")
    return ".".join(filter(None, (resource.plural, resource.version, resource.group)))


def force_activate(uid: str) -> ClusterEvent:
    return ClusterEvent(ANY, ALL, target=uid, custom=FORCE_ACTIVATE)


def queue_gate_event(action: str, uid: str) -> ClusterEvent:
    """The pod's queue granted capacity, or the API server answered the removal of its gate. It wakes only that pod."""
    return ClusterEvent(QUEUE_GATE, action, target=uid)


QUEUE_RESERVATION_RELEASED: Final = ClusterEvent(QUEUE_RESERVATION, DELETE)
"""A pod that held capacity of a queue holds it no more, and the queue plugins have released what they reserved."""


def on(resource: str, *actions: str, guard: QueueingHint | None = None) -> tuple[ClusterEventWithHint, ...]:
    """Registers a plugin for these actions; ``Pod`` means pods with and without a node. ``guard``: a queueing hint that
    checks each event; None accepts all."""
    wakers: dict[ClusterEventWithHint, None] = {}
    for each_resource in _PODS if resource == POD else (resource,):
        for action in actions:
            for each in _specific(each_resource, action):
                only_own_pod = each_resource == UNSCHEDULABLE_POD and each not in (ADD, DELETE)
                wakers[ClusterEventWithHint((each_resource, each), guard, only_own_pod)] = None
    return tuple(wakers)


def _specific(resource: str, action: str) -> tuple[str, ...]:
    if action == UPDATE:
        return UPDATE, *_UPDATES.get(resource, ())
    if action == ALL:
        return ADD, DELETE, *_specific(resource, UPDATE)
    return (action,)


def on_one(
    resource: str, subject: str, *actions: str, guard: QueueingHint | None = None
) -> tuple[ClusterEventWithHint, ...]:
    """As :func:`on`, only for events that have this text among their ``subjects`` (:class:`ClusterEvent`)."""
    return tuple(
        ClusterEventWithHint((*each.topic, subject), guard)
        for each in on(resource, *actions)
        if isinstance(each.topic, tuple)
    )


def own_update(guard: QueueingHint | None = None) -> tuple[ClusterEventWithHint, ...]:
    """Registers a plugin for any update of the pod itself."""
    return on(UNSCHEDULABLE_POD, UPDATE, guard=guard)


def pod_update_events(old: PodLike, new: PodLike, is_owned: GateOwnership = no_gate_owned) -> list[ClusterEvent]:
    """The specific updates of a pod in a fixed order, or a general update if none applies."""
    resource = ASSIGNED_POD if new.node_name else UNSCHEDULABLE_POD
    target = None if new.node_name else new.uid
    changes = {
        POD_LABEL: old.labels != new.labels,
        POD_SCALE_DOWN: _scaled_down(old, new),
        POD_GATES_ELIMINATED: gates_eliminated(old.gates, new.gates, is_owned),
        POD_TOLERATION: _toleration_added(old, new),
    }
    actions = [action for action, changed in changes.items() if changed]
    return [ClusterEvent(resource, action, old, new, target) for action in actions or [UPDATE]]


def gates_eliminated(old: Sequence[str], new: Sequence[str], is_owned: GateOwnership = no_gate_owned) -> bool:
    """Whether the last gate was removed, or the last gate that no built-in plugin removes."""
    if len(new) >= len(old):
        return False
    return not new or (not all(map(is_owned, old)) and all(map(is_owned, new)))


def _scaled_down(old: PodLike, new: PodLike) -> bool:
    if old.shape is new.shape:
        return False
    now = new.shape.requests
    return any(name not in now or now[name] < amount for name, amount in old.shape.requests.items())


def _toleration_added(old: PodLike, new: PodLike) -> bool:
    # Tolerations can only be added, so their number is enough.
    return old.shape is not new.shape and len(old.shape.tolerations) != len(new.shape.tolerations)


Object = Mapping[str, Any]


def node_update_events(old: Object, new: Object) -> list[ClusterEvent]:
    """The specific updates of a node, as decoded JSON; empty if only fields changed that no plugin reads."""
    return [ClusterEvent(NODE, action, old, new) for action, changed in _NODE_CHANGES if changed(old, new)]


def _field(obj: Object, *path: str) -> Any:
    found: Any = obj
    for key in path:
        found = (found or {}).get(key)
    return found


def _allocatable_changed(old: Object, new: Object) -> bool:
    before, after = (_field(node, "status", "allocatable") or {} for node in (old, new))
    return before != after and _amounts(before) != _amounts(after)


def _amounts(listed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: quantity.parse(value) for name, value in listed.items()}


def _labels_of_node_changed(old: Object, new: Object) -> bool:
    return (_field(old, "metadata", "labels") or {}) != (_field(new, "metadata", "labels") or {})


def _annotations_changed(old: Object, new: Object) -> bool:
    return (_field(old, "metadata", "annotations") or {}) != (_field(new, "metadata", "annotations") or {})


def _taints_changed(old: Object, new: Object) -> bool:
    """Uncordoning counts as well: a cordon is equivalent to a taint."""
    uncordoned = bool(_field(old, "spec", "unschedulable")) and not _field(new, "spec", "unschedulable")
    return uncordoned or (_field(old, "spec", "taints") or []) != (_field(new, "spec", "taints") or [])


def _conditions_changed(old: Object, new: Object) -> bool:
    """Compares types and statuses only: heartbeats change the times."""
    return _conditions(old) != _conditions(new)


def _conditions(node: Object) -> dict[str, str]:
    return {each.get("type", ""): each.get("status", "") for each in _field(node, "status", "conditions") or ()}


_NODE_CHANGES: Final[tuple[tuple[str, Callable[[Object, Object], bool]], ...]] = (
    (NODE_ALLOCATABLE, _allocatable_changed),
    (NODE_LABEL, _labels_of_node_changed),
    (NODE_TAINT, _taints_changed),
    (NODE_CONDITION, _conditions_changed),
    (NODE_ANNOTATION, _annotations_changed),
)
