"""Gang scheduling: finds nodes for enough pods of a group, or for none.

Each pod is assumed before the next one is tried, and all are forgotten if too few get a node. Once enough have a node
the others are not tried, because another group may come first. If there are too few nodes, the group may fit after
terminating pods (:func:`nominate_group`); its pods then wait, each with a nominated node. ``capacity/`` decides which
pods form a group and how many are enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from headgate.capacity.engine import GangAttempt
from headgate.scheduling.cache.node_matrix import NodeIndex
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cluster.terminating_pods import NodeAfterTermination, TerminatingPods
from headgate.scheduling.framework.interface import ScheduleResult, Unplaced
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle, unplaced_by_error
from headgate.scheduling.queue.nominator import Nominator


class GroupPlacement(msgspec.Struct, frozen=True):
    """The nodes of the placed pods, by uid."""

    nodes: dict[str, str]


class GroupNomination(msgspec.Struct, frozen=True):
    """A group that fits after termination. ``nodes``: of its pods, by uid, including nodes with free capacity.
    ``after_termination``: of the pods that wait for terminating pods. ``unplaced``: why the other pods get no node even
    then."""

    nodes: Mapping[str, str]
    after_termination: Mapping[str, NodeAfterTermination]
    unplaced: Mapping[str, Unplaced]

    @property
    def until_s(self) -> float:
        """When the first of the terminating pods is overdue."""
        return min(each.until_s for each in self.after_termination.values())


class GroupNominatedNodes:
    """Sets the nominated nodes of one group's pods aside while the group is tried: the nomination of one member must
    not reject another when all of them get nodes anew."""

    def __init__(self, nominations: Nominator[PodInfo], uids: Collection[str]) -> None:
        self._nominations = nominations
        self._set_aside = nominations.set_aside(uids)

    @contextmanager
    def of(self, pod: PodInfo) -> Iterator[None]:
        """A pod still prefers its own nominated node."""
        set_aside = self._set_aside.get(pod.uid)
        if set_aside is not None:
            self._nominations.nominate(*set_aside)
        try:
            yield
        finally:
            if set_aside is not None:
                self._nominations.forget(pod.uid)

    def restore(self) -> None:
        for pod, node in self._set_aside.values():
            self._nominations.nominate(pod, node)


def schedule_group(
    cycle: SchedulingCycle, pods: Iterator[PodInfo], gang: GangAttempt, nominations: GroupNominatedNodes
) -> GroupPlacement | Unplaced | None:
    """``pods``: the members that may be tried, one by one. ``None``: there were too few. No preemption: it would have
    to be for the whole group."""
    found: dict[str, str] = {}
    total, tried, first = len(gang.uids), 0, None
    if total < gang.min_member:
        return None
    for pod in pods:
        tried += 1
        with nominations.of(pod):
            outcome = cycle.decide(pod)
        if isinstance(outcome, Unplaced):
            first = first or outcome
            if len(found) + total - tried < gang.min_member:
                break
            continue
        cycle.matrix.assume(pod, NodeIndex(outcome.row))
        found[pod.uid] = outcome.node_name
        if gang.is_enough(found):
            return GroupPlacement(found)
    for uid in found:
        cycle.matrix.forget(uid)
    if first is None:
        return None
    message = f"{total - len(found)}/{total} tasks in gang unschedulable: {first.message}"
    return msgspec.structs.replace(first, message=message)


def nominate_group(
    cycle: SchedulingCycle,
    terminating_pods: TerminatingPods,
    pods: Iterable[PodInfo],
    gang: GangAttempt,
    nominations: GroupNominatedNodes,
    now_s: float,
) -> GroupNomination | None:
    """Nodes for the group in free capacity and in the capacity after terminating pods. Each member is assumed before
    the next one is tried. ``None``: too few members would get a node."""
    nodes: dict[str, str] = {}
    after_termination: dict[str, NodeAfterTermination] = {}
    unplaced: dict[str, Unplaced] = {}
    for pod in pods:
        with nominations.of(pod):
            outcome = cycle.decide(pod)
            room = None
            if isinstance(outcome, Unplaced) and not outcome.is_error:
                try:
                    room = terminating_pods.find_node(pod, cycle, now_s)
                except BaseException as error:  # of a plugin
                    cycle.report_failure(error, pod)
                    outcome = unplaced_by_error(error)
        node = outcome.node_name if isinstance(outcome, ScheduleResult) else "" if room is None else room.node_name
        row = cycle.matrix.row_of(node)
        if row is None:
            unplaced[pod.uid] = outcome if isinstance(outcome, Unplaced) else Unplaced("")
            continue
        # For the moment the node may hold more than it has: its capacity after termination counts.
        cycle.matrix.assume(pod, row)
        nodes[pod.uid] = node
        if room is not None:
            after_termination[pod.uid] = room
    for uid in nodes:
        cycle.matrix.forget(uid)
    return GroupNomination(nodes, after_termination, unplaced) if after_termination and gang.is_enough(nodes) else None
