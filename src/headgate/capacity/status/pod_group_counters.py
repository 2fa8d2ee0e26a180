"""Counters for statuses: PodGroups with their pods, and pods without a group, per queue and phase.

It follows PodGroups and pods from the API and collects the changed groups and queues until they are read.
``status_reporter.py`` computes the phase of a group and passes it back (:meth:`PodGroupCounters.set_phase`).
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

Wire = Mapping[str, Any]
GroupKey = tuple[str, str]
QueuePhase = tuple[str, str]
"""A queue, and the phase under which something is counted in it."""

_ALIVE: Final = (TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING)
_BARE_POD_PHASES: Final = {TaskStatus.BOUND: RUNNING, TaskStatus.RUNNING: RUNNING, TaskStatus.RELEASING: RUNNING}


class ObservedPodGroup:
    """A group: the object, its pods, or both. ``spec`` and ``status`` are as in the API."""

    __slots__ = ("group", "members", "queue_phase", "spec", "status", "uid")

    def __init__(self) -> None:
        self.group: PodGroup | None = None
        self.uid = ""
        self.spec: Any = None
        self.status: Wire = {}
        self.members: dict[str, PodGroupMember] = {}
        self.queue_phase: QueuePhase | None = None


class PodGroupCounters:
    """``schedulers``: the scheduler names whose pods are counted. ``queue_of`` returns the queue of a pod by its uid,
    or an empty text. ``generates_groups``: a pod without a group counts as a group of one, with Volcano's generated
    name. ``missing_groups``: generated groups without an object, since they were last read."""

    def __init__(
        self, schedulers: Collection[str], queue_of: Callable[[str], str], *, generates_groups: bool = False
    ) -> None:
        self._generates_groups = generates_groups
        self.missing_groups: dict[GroupKey, None] = {}
        self._schedulers = frozenset(schedulers)
        self._queue_of = queue_of
        self._groups: dict[GroupKey, ObservedPodGroup] = {}
        self._pods: dict[str, PodGroupMember] = {}
        self._bare: dict[str, QueuePhase] = {}
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
        return next((queue for uid in found.members if (queue := self._queue_of(uid))), "")

    def apply_group(self, wire: Wire) -> list[GroupKey]:
        """Returns the key if the object replaces another one of the same name whose deletion was not seen."""
        group = read_group(wire)
        key = (group.namespace, group.name)
        found = self._groups.setdefault(key, ObservedPodGroup())
        before, found.uid = found.uid, str(find_object(wire, "metadata").get("uid") or "")
        is_other = found.group is not None and before != found.uid
        found.group = group
        found.spec, found.status = wire.get("spec"), find_object(wire, "status")
        self.touched_groups[key] = None
        return [key] if is_other else []

    def remove_group(self, key: GroupKey) -> None:
        found = self._groups.get(key)
        if found is not None:
            found.group = None
            self.set_phase(found, None)
            self._mark_missing_group(key, found)
            self._forget_if_empty(key, found)

    def apply_pod(self, wire: Wire) -> None:
        """Apply a pod, live or ended."""
        member = read_member(wire)
        if member is None or member.scheduler_name not in self._schedulers:
            return
        if self._generates_groups and not member.group:
            member = msgspec.structs.replace(member, group=generated_name(member.uid))
        before = self._pods.get(member.uid)
        if before == member or (before is not None and _has_ended(before) and not _has_ended(member)):
            return  # unchanged, or an old version from a late watch
        if before is not None and before.group != member.group:
            self._leave(before)
        self._pods[member.uid] = member
        if member.group:
            key = (member.namespace, member.group)
            found = self._groups.setdefault(key, ObservedPodGroup())
            found.members[member.uid] = member
            self.touched_groups[key] = None
            self._mark_missing_group(key, found)
        else:
            self._count_bare_pod(member)

    def remove_pod(self, uid: str, *, ended: bool) -> None:
        """The pod was removed from the watch of live pods, or from the watch of ``ended`` pods. A pod that ends moves
        from the first to the second."""
        member = self._pods.get(uid)
        if member is not None and (ended or not _has_ended(member)):
            del self._pods[uid]
            self._leave(member)

    def queue_changed(self, uid: str) -> None:
        """The pod counts in another queue than before."""
        member = self._pods.get(uid)
        if member is None:
            return
        if member.group:
            self.touched_groups[member.namespace, member.group] = None
        else:
            self._count_bare_pod(member)

    def recount_bare_pods(self) -> None:
        """Count pods without a group again, when all objects that decide their queue are known."""
        for uid in list(self._bare):
            self._count_bare_pod(self._pods[uid])

    def set_phase(self, found: ObservedPodGroup, queue_phase: QueuePhase | None) -> None:
        before, found.queue_phase = found.queue_phase, queue_phase
        self._recount(before, queue_phase)

    def _count_bare_pod(self, member: PodGroupMember) -> None:
        """Count a pod without a group as a group of one. An ended one is not counted: it has no group object."""
        waiting_phase = INQUEUE if member.is_admitted else PENDING
        queue = self._queue_of(member.uid) or DEFAULT
        queue_phase = None if _has_ended(member) else (queue, _BARE_POD_PHASES.get(member.status, waiting_phase))
        before = self._bare.pop(member.uid, None)
        if queue_phase is not None:
            self._bare[member.uid] = queue_phase
        self._recount(before, queue_phase)

    def _leave(self, member: PodGroupMember) -> None:
        if not member.group:
            self._recount(self._bare.pop(member.uid, None), None)
            return
        key = (member.namespace, member.group)
        found = self._groups[key]
        del found.members[member.uid]
        self.touched_groups[key] = None
        self._forget_if_empty(key, found)

    def pod_without_group(self, key: GroupKey) -> PodGroupMember | None:
        """The live pod whose generated group has no object, or None."""
        found = self._groups.get(key)
        if not self._generates_groups or found is None or found.group is not None:
            return None
        alive = (each for each in found.members.values() if each.status in _ALIVE)
        return next((each for each in alive if generated_name(each.uid) == key[1]), None)

    def _mark_missing_group(self, key: GroupKey, found: ObservedPodGroup) -> None:
        if self._generates_groups and found.group is None and self.pod_without_group(key) is not None:
            self.missing_groups[key] = None

    def _forget_if_empty(self, key: GroupKey, found: ObservedPodGroup) -> None:
        if found.group is None and not found.members:
            del self._groups[key]

    def _recount(self, before: QueuePhase | None, after: QueuePhase | None) -> None:
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
    return f"podgroup-{uid}"


def _has_ended(member: PodGroupMember) -> bool:
    return member.status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
