"""Gang scheduling: finds nodes for enough pods of a group, or for none.

Each pod is assumed on its node before the next pod is tried, and all assumed pods are removed again if too few get a
node. Once enough pods have a node, the others are not tried now: another group may be before them in the queue. If too
few pods get a node, the group may fit after terminating pods are gone (:func:`nominate_group`); its pods then wait,
each with a nominated node. ``capacity/`` decides which pods form a group and how many are enough.
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
    """A group that fits after terminating pods are gone. ``nodes``: the nodes of its pods, by uid, including nodes with
    free capacity. ``after_termination``: those of the pods that wait for terminating pods. ``unplaced``: why the other
    pods get no node even then."""

    nodes: Mapping[str, str]
    after_termination: Mapping[str, NodeAfterTermination]
    unplaced: Mapping[str, Unplaced]

    @property
    def until_s(self) -> float:
        """When the first of the terminating pods is overdue."""
        return min(each.until_s for each in self.after_termination.values())


class GroupNominatedNodes:
    """Clears the nominations of one group's pods while the group is tried, and restores them afterwards: the nomination
    of one member must not reject another, because all members get new nodes."""

    def __init__(self, nominations: Nominator[PodInfo], uids: Collection[str]) -> None:
        self._nominations = nominations
        self._cleared = nominations.clear(uids)

    @contextmanager
    def restored_for(self, pod: PodInfo) -> Iterator[None]:
        """Restores the nomination of one pod while it is tried: a pod prefers its own nominated node."""
        pod_and_node = self._cleared.get(pod.uid)
        if pod_and_node is not None:
            self._nominations.nominate(*pod_and_node)
        try:
            yield
        finally:
            if pod_and_node is not None:
                self._nominations.forget(pod.uid)

    def restore(self) -> None:
        for pod, node in self._cleared.values():
            self._nominations.nominate(pod, node)


def schedule_group(
    cycle: SchedulingCycle, pods: Iterator[PodInfo], gang: GangAttempt, nominations: GroupNominatedNodes
) -> GroupPlacement | Unplaced | None:
    """Nodes for enough members, or why a member fits no node; ``None`` if too few members may be tried. ``pods``: the
    members that may be tried. No pods are preempted for single members: preemption would have to be for the whole
    group."""
    found: dict[str, str] = {}
    total, tried, first = len(gang.uids), 0, None
    if total < gang.min_member:
        return None
    for pod in pods:
        tried += 1
        with nominations.restored_for(pod):
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
        with nominations.restored_for(pod):
            outcome = cycle.decide(pod)
            node_after_termination = None
            if isinstance(outcome, Unplaced) and not outcome.is_error:
                try:
                    node_after_termination = terminating_pods.find_node(pod, cycle, now_s)
                except BaseException as error:  # a plugin raised it
                    cycle.report_failure(error, pod)
                    outcome = unplaced_by_error(error)
        node = ""
        if isinstance(outcome, ScheduleResult):
            node = outcome.node_name
        elif node_after_termination is not None:
            node = node_after_termination.node_name
        row = cycle.matrix.row_of(node)
        if row is None:
            unplaced[pod.uid] = outcome if isinstance(outcome, Unplaced) else Unplaced("")
            continue
        # The matrix may count more on the node than it can hold, because terminating pods still count, too.
        cycle.matrix.assume(pod, row)
        nodes[pod.uid] = node
        if node_after_termination is not None:
            after_termination[pod.uid] = node_after_termination
    for uid in nodes:
        cycle.matrix.forget(uid)
    return GroupNomination(nodes, after_termination, unplaced) if after_termination and gang.is_enough(nodes) else None
