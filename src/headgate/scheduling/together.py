"""Pods that are of use only together: nodes for enough of them, or none for any.

Each is counted in before the next is looked at, and all are counted out again if too few find a node. As soon as they
are enough, the others are not looked at: another group may come before them. If there are too few nodes, the group may
fit when terminating pods are gone (:func:`wait_together`); then its pods wait for that, each with a node of its own.
Which pods belong together, and how many are enough, is ``capacity/``'s to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from headgate.capacity.queues import Company
from headgate.scheduling.contract import Placement, Unplaced
from headgate.scheduling.cycle import Cycle, unplaced_by_error
from headgate.scheduling.leaving import Leaving, Room
from headgate.scheduling.nodes import NodeIndex
from headgate.scheduling.nominations import Nominations
from headgate.scheduling.pod import Pod


class Together(msgspec.Struct, frozen=True):
    """The nodes of those that got one, by uid."""

    nodes: dict[str, str]


class Waiting(msgspec.Struct, frozen=True):
    """A group that fits when terminating pods are gone. ``nodes``: of its pods, by uid, those with free room included.
    ``rooms``: of the pods whose room has to be left first. ``unplaced``: why the others get no node even then."""

    nodes: Mapping[str, str]
    rooms: Mapping[str, Room]
    unplaced: Mapping[str, Unplaced]

    @property
    def until_s(self) -> float:
        """When the first of the rooms has to be free."""
        return min(each.until_s for each in self.rooms.values())


class OwnPromises:
    """The nodes that pods of one group were promised, set aside while the group is looked at: what one of them was
    promised must not keep another from a node when all of them are given nodes anew."""

    def __init__(self, nominations: Nominations[Pod], uids: Collection[str]) -> None:
        self._nominations = nominations
        self._kept = nominations.set_aside(uids)

    @contextmanager
    def of(self, pod: Pod) -> Iterator[None]:
        """A pod still prefers the node that it was promised itself."""
        kept = self._kept.get(pod.uid)
        if kept is not None:
            self._nominations.promise(*kept)
        try:
            yield
        finally:
            if kept is not None:
                self._nominations.forget(pod.uid)

    def restore(self) -> None:
        for pod, node in self._kept.values():
            self._nominations.promise(pod, node)


def place_together(cycle: Cycle, pods: Iterator[Pod], company: Company, own: OwnPromises) -> Together | Unplaced | None:
    """``pods``: those of the company that may be tried, asked for one by one. ``None``: there were too few. Room that
    others would have to make is not looked for: it is made for a whole or not at all."""
    found: dict[str, str] = {}
    total, tried, first = len(company.uids), 0, None
    if total < company.least:
        return None
    for pod in pods:
        tried += 1
        with own.of(pod):
            outcome = cycle.decide(pod)
        if isinstance(outcome, Unplaced):
            first = first or outcome
            if len(found) + total - tried < company.least:
                break
            continue
        cycle.matrix.assume(pod, NodeIndex(outcome.row))
        found[pod.uid] = outcome.node_name
        if company.is_enough(found):
            return Together(found)
    for uid in found:
        cycle.matrix.forget(uid)
    if first is None:
        return None
    message = f"{total - len(found)}/{total} tasks in gang unschedulable: {first.message}"
    return msgspec.structs.replace(first, message=message)


def wait_together(
    cycle: Cycle, leaving: Leaving, pods: Iterable[Pod], company: Company, own: OwnPromises, now_s: float
) -> Waiting | None:
    """Nodes for the group in free room and in the room that terminating pods leave, each pod counted in before the next
    is looked at. ``None``: too few of them would get one."""
    nodes: dict[str, str] = {}
    rooms: dict[str, Room] = {}
    unplaced: dict[str, Unplaced] = {}
    for pod in pods:
        with own.of(pod):
            outcome = cycle.decide(pod)
            room = None
            if isinstance(outcome, Unplaced) and not outcome.is_error:
                try:
                    room = leaving.find(pod, cycle, now_s)
                except BaseException as broken:  # a plugin that is asked about terminating pods
                    cycle.tell_failure(broken, pod)
                    outcome = unplaced_by_error(broken)
        node = outcome.node_name if isinstance(outcome, Placement) else "" if room is None else room.node_name
        row = cycle.matrix.row_of(node)
        if row is None:
            unplaced[pod.uid] = outcome if isinstance(outcome, Unplaced) else Unplaced("")
            continue
        # A node that pods are leaving may hold more than it has for the moment: what it will have is looked at.
        cycle.matrix.assume(pod, row)
        nodes[pod.uid] = node
        if room is not None:
            rooms[pod.uid] = room
    for uid in nodes:
        cycle.matrix.forget(uid)
    return Waiting(nodes, rooms, unplaced) if rooms and company.is_enough(nodes) else None
