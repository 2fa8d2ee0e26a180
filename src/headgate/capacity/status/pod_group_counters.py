"""Counts PodGroups, and pods without a group, per queue and phase, for the status of queues.

It receives PodGroups and pods from the API, and collects the groups and queues whose status may have changed until
``status_reporter.py`` takes them. The status reporter computes the phase of a group and passes it back
(:meth:`PodGroupCounters.set_phase`). Pods come from two sources: the scheduler's watch of live pods, and the watches of
terminal pods (phase Succeeded or Failed). A pod that becomes terminal is deleted from the first and appears in the
second, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.pod_group_phase import INQUEUE, PENDING, RUNNING, TaskStatus
from headgate.capacity.cache.gang import PodGroup, read_group
from headgate.capacity.names import DEFAULT
from headgate.capacity.status.pod_group_members import PodGroupMember, read_member
from headgate.kube.lenient_reader import find_object

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""
GroupKey = tuple[str, str]
"""Namespace and name of a PodGroup."""
QueuePhase = tuple[str, str]
"""The name of a queue, and the phase under which a group, or a pod without a group, is counted in it."""

_LIVE: Final = (TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING)
_SINGLE_POD_PHASES: Final = {TaskStatus.BOUND: RUNNING, TaskStatus.RUNNING: RUNNING, TaskStatus.RELEASING: RUNNING}
"""The phase of a pod without a group that has a node, as if it were a group of one."""


class ObservedPodGroup:
    """What the API shows of a group: the object, its pods, or both. ``group``: the object as read; None while only pods
    are known. ``uid``, ``spec`` and ``status``: parts of the object. ``queue_phase``: the queue and phase under which
    the group is counted; None if it is not counted."""

    __slots__ = ("group", "members", "queue_phase", "spec", "status", "uid")

    def __init__(self) -> None:
        self.group: PodGroup | None = None
        self.uid = ""
        self.spec: Any = None
        self.status: JSONObject = {}
        self.members: dict[str, PodGroupMember] = {}
        self.queue_phase: QueuePhase | None = None


class PodGroupCounters:
    """``schedulers``: the scheduler names whose pods are counted. ``queue_of`` returns the queue of a pod by its uid;
    an empty text if it is unknown. ``generates_groups``: whether each pod without a group gets a PodGroup of its own,
    with the name that Volcano generates; then it counts as a member of that group.

    The status reporter reads and clears three ordered sets: ``touched_groups`` and ``touched_queues``, which may need a
    new status, and ``missing_groups``, the generated PodGroups that must be created because they do not exist."""

    def __init__(
        self, schedulers: Collection[str], queue_of: Callable[[str], str], *, generates_groups: bool = False
    ) -> None:
        self._generates_groups = generates_groups
        self.missing_groups: dict[GroupKey, None] = {}
        self._schedulers = frozenset(schedulers)
        self._queue_of = queue_of
        self._groups: dict[GroupKey, ObservedPodGroup] = {}
        self._pods: dict[str, PodGroupMember] = {}
        self._single_pods: dict[str, QueuePhase] = {}
        self._phases: dict[str, dict[str, int]] = {}
        self.touched_groups: dict[GroupKey, None] = {}
        self.touched_queues: dict[str, None] = {}

    def get(self, key: GroupKey) -> ObservedPodGroup | None:
        """A group that has an object."""
        found = self._groups.get(key)
        return None if found is None or found.group is None else found

    def groups(self) -> list[GroupKey]:
        """The groups that have an object."""
        return [key for key, found in self._groups.items() if found.group is not None]

    def phases(self, queue: str) -> Mapping[str, int]:
        return self._phases.get(queue, {})

    def queue_of_members(self, found: ObservedPodGroup) -> str:
        """The queue of the first member with a known queue; empty if there is none."""
        return next((queue for uid in found.members if (queue := self._queue_of(uid))), "")

    def apply_group(self, obj: JSONObject) -> list[GroupKey]:
        """Apply a PodGroup. Returns its key in a list if it replaces another object of the same name whose deletion was
        not seen, otherwise an empty list."""
        group = read_group(obj)
        key = (group.namespace, group.name)
        found = self._groups.setdefault(key, ObservedPodGroup())
        before, found.uid = found.uid, str(find_object(obj, "metadata").get("uid") or "")
        is_other = found.group is not None and before != found.uid
        found.group = group
        found.spec, found.status = obj.get("spec"), find_object(obj, "status")
        self.touched_groups[key] = None
        return [key] if is_other else []

    def remove_group(self, key: GroupKey) -> None:
        found = self._groups.get(key)
        if found is not None:
            found.group = None
            self.set_phase(found, None)
            self._mark_missing_group(key, found)
            self._forget_if_empty(key, found)

    def apply_pod(self, obj: JSONObject) -> None:
        """Apply a pod from the watch of live pods or from a watch of terminal pods."""
        member = read_member(obj)
        if member is None or member.scheduler_name not in self._schedulers:
            return
        if self._generates_groups and not member.group:
            member = msgspec.structs.replace(member, group=generated_name(member.uid))
        before = self._pods.get(member.uid)
        if before == member or (before is not None and _is_terminal(before) and not _is_terminal(member)):
            return  # unchanged, or an old version from a late watch
        if before is not None and before.group != member.group:
            self._remove_member(before)
        self._pods[member.uid] = member
        if member.group:
            key = (member.namespace, member.group)
            found = self._groups.setdefault(key, ObservedPodGroup())
            found.members[member.uid] = member
            self.touched_groups[key] = None
            self._mark_missing_group(key, found)
        else:
            self._count_single_pod(member)

    def remove_pod(self, uid: str, *, from_terminal_watch: bool) -> None:
        """A watch reported the pod as deleted. For the watch of live pods this may only mean that the pod is terminal
        now, so a pod that is already known as terminal is kept."""
        member = self._pods.get(uid)
        if member is not None and (from_terminal_watch or not _is_terminal(member)):
            del self._pods[uid]
            self._remove_member(member)

    def queue_changed(self, uid: str) -> None:
        """The queue of the pod is another one than before: count the pod there."""
        member = self._pods.get(uid)
        if member is None:
            return
        if member.group:
            self.touched_groups[member.namespace, member.group] = None
        else:
            self._count_single_pod(member)

    def recount_single_pods(self) -> None:
        """Count the pods without a group again. Called once, when all objects that decide their queues are known."""
        for uid in list(self._single_pods):
            self._count_single_pod(self._pods[uid])

    def set_phase(self, found: ObservedPodGroup, queue_phase: QueuePhase | None) -> None:
        before, found.queue_phase = found.queue_phase, queue_phase
        self._count_phase(before, queue_phase)

    def _count_single_pod(self, member: PodGroupMember) -> None:
        """Count a pod without a group as if it were a group of one. A terminal pod is not counted: it has no PodGroup
        that would still exist."""
        waiting_phase = INQUEUE if member.is_admitted else PENDING
        queue = self._queue_of(member.uid) or DEFAULT
        queue_phase = None if _is_terminal(member) else (queue, _SINGLE_POD_PHASES.get(member.status, waiting_phase))
        before = self._single_pods.pop(member.uid, None)
        if queue_phase is not None:
            self._single_pods[member.uid] = queue_phase
        self._count_phase(before, queue_phase)

    def _remove_member(self, member: PodGroupMember) -> None:
        if not member.group:
            self._count_phase(self._single_pods.pop(member.uid, None), None)
            return
        key = (member.namespace, member.group)
        found = self._groups[key]
        del found.members[member.uid]
        self.touched_groups[key] = None
        self._forget_if_empty(key, found)

    def pod_without_group(self, key: GroupKey) -> PodGroupMember | None:
        """The live pod for which the PodGroup of this key must be created. None if the PodGroup exists, or if the key
        is not the generated name of a live pod's group."""
        found = self._groups.get(key)
        if not self._generates_groups or found is None or found.group is not None:
            return None
        live = (each for each in found.members.values() if each.status in _LIVE)
        return next((each for each in live if generated_name(each.uid) == key[1]), None)

    def _mark_missing_group(self, key: GroupKey, found: ObservedPodGroup) -> None:
        if self._generates_groups and found.group is None and self.pod_without_group(key) is not None:
            self.missing_groups[key] = None

    def _forget_if_empty(self, key: GroupKey, found: ObservedPodGroup) -> None:
        if found.group is None and not found.members:
            del self._groups[key]

    def _count_phase(self, before: QueuePhase | None, after: QueuePhase | None) -> None:
        """Move one group, or one pod without a group, from one queue and phase to another."""
        if before == after:
            return
        for queue_phase, sign in ((before, -1), (after, +1)):
            if queue_phase is None:
                continue
            queue, phase = queue_phase
            phases = self._phases.setdefault(queue, {})
            phases[phase] = phases.get(phase, 0) + sign
            if not phases[phase]:
                del phases[phase]
            if not phases:
                del self._phases[queue]
            self.touched_queues[queue] = None


def generated_name(uid: str) -> str:
    """The name that Volcano generates for the PodGroup of a pod without one."""
    return f"podgroup-{uid}"


def _is_terminal(member: PodGroupMember) -> bool:
    return member.status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
