"""The node matrix: a row for every node, a column for every value that plugins read, updated by events.

:meth:`NodeMatrix.node_applied` and ``node_removed`` update nodes, ``pod_applied`` and ``pod_removed`` the pods on them.
A pod that was just given a node is *assumed* there until the API server shows it (:meth:`NodeMatrix.confirm`, or
``pod_applied``) or its binding fails (:meth:`NodeMatrix.forget`). Each change touches one row and is recorded in
``log``, so that readers with kept results recompute only that row. Invalid objects are ignored with a reason.
``scheduling/framework/scheduling_cycle.py`` finds nodes for pods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NewType, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.scheduling.cache.change_log import ChangeLog, NodeChange
from headgate.scheduling.cache.existing_terms import ExistingTermIndex
from headgate.scheduling.cache.label_columns import LabelColumns
from headgate.scheduling.cache.label_groups import LabelGroupIndex
from headgate.scheduling.cache.node import NodeInfo, Taints
from headgate.scheduling.cache.node_indexes import ImageIndex, PortIndex, VolumeUsage
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.resource_columns import ResourceColumns, Rows

T = TypeVar("T", bound=np.generic)
NodeIndex = NewType("NodeIndex", int)
"""A row. Rows of nodes that are gone are used again."""

NO_NODE: Final = 'bound to node "{}", which is not known'


class NodeMatrix:
    def __init__(self, capacity: int = 64) -> None:
        self.columns = ResourceColumns(capacity)
        self.labels = LabelColumns(capacity)
        self.ports = PortIndex()
        self.images = ImageIndex()
        self.terms = ExistingTermIndex()
        self.volumes = VolumeUsage()
        self.log: ChangeLog[NodeChange] = ChangeLog()
        # Plugins of others see these as views that cannot be written to: one that did would stop every pod.
        self._is_node: NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._unschedulable: NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._taint_set: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.is_node = _read_only(self._is_node)
        self.unschedulable = _read_only(self._unschedulable)
        self.taint_set = _read_only(self._taint_set)
        """Per row the number of its set of taints in ``taint_sets``: nodes share few of them."""
        self.taint_sets: list[Taints] = [()]
        self.size = 0
        """Rows in use, holes included."""
        self.moves: list[int] = [0] * capacity
        """Per row how often something changed that preemption looks at: the node, its pods, when they started."""
        self.layout = 0
        """Moves when nodes come or go: then rows, their number, or the order of names is another."""
        self.set_aside: dict[str, str] = {}
        """By ``node/<name>`` or ``pod/<uid>``, why the object is not counted with."""
        self._nodes: list[NodeInfo | None] = [None] * capacity
        self._row_of: dict[str, NodeIndex] = {}
        self._holes: list[int] = []
        self._pods_on: list[dict[str, PodInfo]] = [{} for _ in range(capacity)]
        self._home: dict[str, NodeIndex] = {}
        self._assumed: set[str] = set()
        self._strays: dict[str, dict[str, PodInfo]] = {}
        self._stray_at: dict[str, str] = {}
        self._cohorts: LabelGroupIndex | None = None
        self._taint_set_of: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._ordered_at = -1
        self._by_name: Rows = np.zeros(0, np.intp)
        self._rank: Rows = np.zeros(capacity, np.intp)

    # -- looking --------------------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        return self.columns.capacity

    @property
    def count(self) -> int:
        return len(self._row_of)

    @property
    def pod_count(self) -> int:
        """Pods on nodes, assumed pods included."""
        return len(self._home)

    def row_of(self, name: str) -> NodeIndex | None:
        return self._row_of.get(name)

    def node(self, row: int) -> NodeInfo | None:
        return self._nodes[row]

    def name(self, row: int) -> str:
        node = self._nodes[row]
        return "" if node is None else node.name

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """By uid, assumed pods included."""
        return self._pods_on[row]

    def home(self, uid: str) -> NodeIndex | None:
        return self._home.get(uid)

    def node_of(self, uid: str) -> str:
        """The name of the pod's node, be it one that is not known; empty if it has none."""
        row = self._home.get(uid)
        return self._stray_at.get(uid, "") if row is None else self.name(row)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    @property
    def cohorts(self) -> LabelGroupIndex:
        """The pods on nodes by namespace and labels: made when it is first asked for, kept from then on."""
        if self._cohorts is None:
            self._cohorts = LabelGroupIndex()
            for row, pods in enumerate(self._pods_on):
                for pod in pods.values():
                    self._cohorts.take(row, pod, 1)
        return self._cohorts

    @property
    def by_name(self) -> Rows:
        """The rows of all nodes, in the order of their names."""
        self._order()
        return self._by_name

    @property
    def rank(self) -> Rows:
        """Per row the place of its name in that order."""
        self._order()
        return self._rank

    def _order(self) -> None:
        if self._ordered_at == self.layout:
            return
        rows = [self._row_of[name] for name in sorted(self._row_of)]
        self._by_name = np.array(rows, np.intp)
        self._rank = np.zeros(self.capacity, np.intp)
        self._rank[self._by_name] = np.arange(len(rows))
        self._ordered_at = self.layout

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node_applied(self, node: NodeInfo) -> NodeIndex:
        """A node is new, or changed."""
        self.set_aside.pop(f"node/{node.name}", None)
        row = self._row_of.get(node.name)
        if row is None:
            row = self._open_row(node)
        old = self._nodes[row]
        if old == node:
            return row
        self._nodes[row] = node
        self.columns.set_allocatable(row, node.allocatable)
        self._unschedulable[row] = node.unschedulable
        self._taint_set[row] = self._number_of(node.taints)
        self.labels.set(row, node.name, node.labels)
        self.images.set(row, node.images)
        relabels = old is None or old.labels != node.labels or old.taints != node.taints
        self._tell(NodeChange(row, relabels=relabels))
        for pod in self._strays.pop(node.name, {}).values():
            del self._stray_at[pod.uid]
            self.set_aside.pop(f"pod/{pod.uid}", None)
            self._put(row, pod)
        return row

    def node_refused(self, name: str, reason: str) -> None:
        """The node cannot be counted with (``read_node`` says why): until it is mended nothing goes there."""
        self.node_removed(name)
        self.set_aside[f"node/{name}"] = reason

    def node_removed(self, name: str) -> None:
        """Its pods, if they are still there, wait for it to come back; so do those on their way to it."""
        self.set_aside.pop(f"node/{name}", None)
        row = self._row_of.get(name)
        if row is None:
            return
        for pod in list(self._pods_on[row].values()):
            self._take(pod.uid)
            self._stray(pod)
        del self._row_of[name]
        self._nodes[row] = None
        self._is_node[row] = False
        self.columns.clear(row)
        self.labels.remove(row)
        self.images.remove(row)
        self._holes.append(row)
        self.layout += 1
        self._tell(NodeChange(row))

    def _open_row(self, node: NodeInfo) -> NodeIndex:
        row = NodeIndex(self._holes.pop() if self._holes else self.size)
        if row == self.size:
            self.size += 1
            if self.size > self.capacity:
                self._grow(2 * self.capacity)
        self._row_of[node.name] = row
        self._is_node[row] = True
        self.layout += 1
        return row

    def _grow(self, capacity: int) -> None:
        more = capacity - self.capacity
        self.columns.grow(capacity)
        self.labels.grow(capacity)
        self._is_node = np.append(self._is_node, np.zeros(more, np.bool_))
        self._unschedulable = np.append(self._unschedulable, np.zeros(more, np.bool_))
        self._taint_set = np.append(self._taint_set, np.zeros(more, np.int32))
        self.is_node = _read_only(self._is_node)
        self.unschedulable = _read_only(self._unschedulable)
        self.taint_set = _read_only(self._taint_set)
        self.moves += [0] * more
        self._nodes += [None] * more
        self._pods_on += [{} for _ in range(more)]

    def _number_of(self, taints: Taints) -> int:
        key = tuple((each["key"], each["value"], each["effect"]) for each in taints)
        found = self._taint_set_of.get(key)
        if found is None:
            found = self._taint_set_of[key] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    # -- pods -----------------------------------------------------------------------------------------------------

    def pod_applied(self, pod: PodInfo) -> None:
        """A pod that has a node is new there, or changed; an assumed one is thereby confirmed."""
        row = self._home.get(pod.uid)
        self._assumed.discard(pod.uid)
        if pod.terminal or not pod.node_name:
            self.pod_removed(pod.uid)
            return
        wanted = self._row_of.get(pod.node_name)
        if row is not None:
            old = self._pods_on[row][pod.uid]
            if row == wanted and old.shape is pod.shape:
                self._replace(row, old, pod)
                return
        self.pod_removed(pod.uid)
        if wanted is None:
            self._stray(pod)
        else:
            self._put(wanted, pod)

    def _replace(self, row: NodeIndex, old: PodInfo, pod: PodInfo) -> None:
        """It asks for what it asked for. Its labels may be others: API servers add some to pods that are bound."""
        self._pods_on[row][pod.uid] = pod
        if old.labels == pod.labels and old.deleting is pod.deleting:
            self.moves[row] += old.started_s != pod.started_s
        else:
            self._list(row, old, -1)
            self._list(row, pod, 1)

    def pod_removed(self, uid: str) -> None:
        """A pod is gone, or will run no more."""
        self._assumed.discard(uid)
        self.set_aside.pop(f"pod/{uid}", None)
        name = self._stray_at.pop(uid, None)
        if name is not None:
            del self._strays[name][uid]
            if not self._strays[name]:
                del self._strays[name]
        if uid in self._home:
            self._take(uid)

    def assume(self, pod: PodInfo, row: NodeIndex) -> PodInfo:
        """Count the pod as placed before the API server does; returns it as it will be."""
        placed = msgspec.structs.replace(pod, node_name=self.name(row), nominated_node="")
        if pod.uid in self._home:
            self._take(pod.uid)
        self._put(row, placed)
        self._assumed.add(pod.uid)
        return placed

    def forget(self, uid: str) -> None:
        """An assumed pod was not bound after all. One that was confirmed meanwhile stays."""
        if uid in self._assumed:
            self.pod_removed(uid)

    def confirm(self, uid: str) -> None:
        self._assumed.discard(uid)

    def assumed(self) -> Collection[str]:
        return self._assumed

    def charge(self, row: int, pod: PodInfo, sign: int) -> None:
        """Count a pod in (+1) or out (-1) of a row, and tell nobody: for a trial that its caller undoes."""
        self.columns.take(row, pod.shape, sign)
        if pod.shape.ports:
            self.ports.take(row, pod.shape.ports, sign)
        if pod.shape.volumes:
            self.volumes.take(row, pod, sign)
        if sign > 0:
            self._pods_on[row][pod.uid] = pod
        else:
            del self._pods_on[row][pod.uid]

    def _put(self, row: NodeIndex, pod: PodInfo) -> None:
        self.charge(row, pod, 1)
        self._home[pod.uid] = row
        self._list(row, pod, 1)

    def _take(self, uid: str) -> None:
        row = self._home.pop(uid)
        pod = self._pods_on[row][uid]
        self.charge(row, pod, -1)
        self._list(row, pod, -1)

    def _list(self, row: NodeIndex, pod: PodInfo, sign: int) -> None:
        if pod.shape.labels is not None:  # else nothing in it looks at other pods
            self.terms.take(row, pod.shape, sign)
        if self._cohorts is not None:
            self._cohorts.take(row, pod, sign)
        self._tell(NodeChange(row, pod, sign))

    def _tell(self, change: NodeChange) -> None:
        self.moves[change.row] += 1
        self.log.add(change)

    def _stray(self, pod: PodInfo) -> None:
        self._strays.setdefault(pod.node_name, {})[pod.uid] = pod
        self._stray_at[pod.uid] = pod.node_name
        self.set_aside[f"pod/{pod.uid}"] = NO_NODE.format(pod.node_name)


def _read_only(column: NDArray[T]) -> NDArray[T]:
    """The same numbers, now and later, that cannot be written through this view."""
    view = column.view()
    view.flags.writeable = False
    return view
