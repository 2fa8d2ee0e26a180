"""Who is in which queue and how far: groups with their pods, pods of their own, counted by phase.

Follows what the API shows of PodGroups and pods, and remembers which groups and queues that touched until somebody
asks. How far a group is, ``reporting.py`` works out when it looks at it; the counts follow (:meth:`Census.stand`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.groups import PodGroup, read_group
from headgate.capacity.members import Member, read_member
from headgate.capacity.names import DEFAULT
from headgate.capacity.phases import INQUEUE, PENDING, RUNNING, Doing

Wire = Mapping[str, Any]
GroupKey = tuple[str, str]
Place = tuple[str, str]
"""A queue, and the phase under which something is counted in it."""

_ALIVE: Final = (Doing.PENDING, Doing.BOUND, Doing.RUNNING)
_BARE: Final = {Doing.BOUND: RUNNING, Doing.RUNNING: RUNNING, Doing.RELEASING: RUNNING}


class Group:
    """A group: the object, its pods, or both. ``spec`` and ``status`` are as the API shows them."""

    __slots__ = ("group", "members", "place", "spec", "status", "uid")

    def __init__(self) -> None:
        self.group: PodGroup | None = None
        self.uid = ""
        self.spec: Any = None
        self.status: Wire = {}
        self.members: dict[str, Member] = {}
        self.place: Place | None = None


class Census:
    """``schedulers``: whose pods are counted. ``queue_of`` gives the queue of a pod by its uid, or nothing.
    ``invents``: pods of their own have groups of one, by a name that Volcano's users know."""

    def __init__(self, schedulers: Collection[str], queue_of: Callable[[str], str], *, invents: bool = False) -> None:
        self._invents = invents
        self.lacking: dict[GroupKey, None] = {}  # invented groups that were found without an object since last asked
        self._schedulers = frozenset(schedulers)
        self._queue_of = queue_of
        self._groups: dict[GroupKey, Group] = {}
        self._pods: dict[str, Member] = {}
        self._bare: dict[str, Place] = {}
        self._phases: dict[str, dict[str, int]] = {}
        self.touched_groups: dict[GroupKey, None] = {}
        self.touched_queues: dict[str, None] = {}

    def get(self, key: GroupKey) -> Group | None:
        """A group that has an object."""
        found = self._groups.get(key)
        return None if found is None or found.group is None else found

    def groups(self) -> list[GroupKey]:
        """Those that have an object."""
        return [key for key, found in self._groups.items() if found.group is not None]

    def phases(self, queue: str) -> Mapping[str, int]:
        return self._phases.get(queue, {})

    def queue_of_members(self, found: Group) -> str:
        return next((queue for uid in found.members if (queue := self._queue_of(uid))), "")

    def apply_group(self, wire: Wire) -> list[GroupKey]:
        """The groups that went without a word, and have a successor of the same name now: this one, or none."""
        group = read_group(wire)
        key = (group.namespace, group.name)
        found = self._groups.setdefault(key, Group())
        before, found.uid = found.uid, str(_mapping(wire.get("metadata")).get("uid") or "")
        is_other = found.group is not None and before != found.uid
        found.group = group
        found.spec, found.status = wire.get("spec"), _mapping(wire.get("status"))
        self.touched_groups[key] = None
        return [key] if is_other else []

    def remove_group(self, key: GroupKey) -> None:
        found = self._groups.get(key)
        if found is not None:
            found.group = None
            self.stand(found, None)
            self._lack(key, found)
            self._forget_if_empty(key, found)

    def apply_pod(self, wire: Wire) -> None:
        """Of any pod, live or ended."""
        member = read_member(wire)
        if member is None or member.scheduler_name not in self._schedulers:
            return
        if self._invents and not member.group:
            member = msgspec.structs.replace(member, group=invented_name(member.uid))
        before = self._pods.get(member.uid)
        if before == member or (before is not None and _has_ended(before) and not _has_ended(member)):
            return  # nothing new, or from a watch that is late
        if before is not None and before.group != member.group:
            self._leave(before)
        self._pods[member.uid] = member
        if member.group:
            key = (member.namespace, member.group)
            found = self._groups.setdefault(key, Group())
            found.members[member.uid] = member
            self.touched_groups[key] = None
            self._lack(key, found)
        else:
            self._stand_bare(member)

    def remove_pod(self, uid: str, *, ended: bool) -> None:
        """Gone from the watch on live pods, or from that on pods that ``ended``: a pod moves from one to the other."""
        member = self._pods.get(uid)
        if member is not None and (ended or not _has_ended(member)):
            del self._pods[uid]
            self._leave(member)

    def moved(self, uid: str) -> None:
        """The pod counts in another queue than before."""
        member = self._pods.get(uid)
        if member is None:
            return
        if member.group:
            self.touched_groups[member.namespace, member.group] = None
        else:
            self._stand_bare(member)

    def place_bare_pods(self) -> None:
        """Anew, once all is known that says where they belong."""
        for uid in list(self._bare):
            self._stand_bare(self._pods[uid])

    def stand(self, found: Group, place: Place | None) -> None:
        before, found.place = found.place, place
        self._recount(before, place)

    def _stand_bare(self, member: Member) -> None:
        """A pod of its own is a group of one. One that ended is counted no more: there is no group left to see."""
        waiting = INQUEUE if member.is_admitted else PENDING
        queue = self._queue_of(member.uid) or DEFAULT
        place = None if _has_ended(member) else (queue, _BARE.get(member.doing, waiting))
        before = self._bare.pop(member.uid, None)
        if place is not None:
            self._bare[member.uid] = place
        self._recount(before, place)

    def _leave(self, member: Member) -> None:
        if not member.group:
            self._recount(self._bare.pop(member.uid, None), None)
            return
        key = (member.namespace, member.group)
        found = self._groups[key]
        del found.members[member.uid]
        self.touched_groups[key] = None
        self._forget_if_empty(key, found)

    def lonely(self, key: GroupKey) -> Member | None:
        """The pod for which a group is to be made: it is alive, and its invented group has no object."""
        found = self._groups.get(key)
        if not self._invents or found is None or found.group is not None:
            return None
        alive = (each for each in found.members.values() if each.doing in _ALIVE)
        return next((each for each in alive if invented_name(each.uid) == key[1]), None)

    def _lack(self, key: GroupKey, found: Group) -> None:
        if self._invents and found.group is None and self.lonely(key) is not None:
            self.lacking[key] = None

    def _forget_if_empty(self, key: GroupKey, found: Group) -> None:
        if found.group is None and not found.members:
            del self._groups[key]

    def _recount(self, before: Place | None, after: Place | None) -> None:
        if before == after:
            return
        for place, sign in ((before, -1), (after, +1)):
            if place is None:
                continue
            queue, phase = place
            phases = self._phases.setdefault(queue, {})
            phases[phase] = phases.get(phase, 0) + sign
            if not phases[phase]:
                del phases[phase]
            if not phases:
                del self._phases[queue]
            self.touched_queues[queue] = None


def invented_name(uid: str) -> str:
    return f"podgroup-{uid}"


def _has_ended(member: Member) -> bool:
    return member.doing in (Doing.SUCCEEDED, Doing.FAILED)


def _mapping(value: Any) -> Wire:
    return value if isinstance(value, Mapping) else {}
