"""The node matrix: a row for every node, a column for every value that plugins read, updated by events.

:meth:`NodeMatrix.node_applied` and ``node_removed`` update nodes, ``pod_applied`` and ``pod_removed`` the pods on them.
A pod that got a node is *assumed* there until the API server shows it (:meth:`NodeMatrix.confirm`, or
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
"""The number of a row. Rows of deleted nodes are reused."""

NO_NODE: Final = 'bound to node "{}", which is not known'


class NodeMatrix:
    """All nodes with their pods. Public for plugins, which only read it."""

    def __init__(self, capacity: int = 64) -> None:
        self.columns = ResourceColumns(capacity)
        self.labels = LabelColumns(capacity)
        self.ports = PortIndex()
        self.images = ImageIndex()
        self.terms = ExistingTermIndex()
        self.volumes = VolumeUsage()
        self.log: ChangeLog[NodeChange] = ChangeLog()
        # External plugins get read-only views of these: a write would affect every pod.
        self._is_node: NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._unschedulable: NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._taint_set: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.is_node = _read_only(self._is_node)
        self.unschedulable = _read_only(self._unschedulable)
        self.taint_set = _read_only(self._taint_set)
        """Per row the index of its set of taints in ``taint_sets``: nodes share few sets."""
        self.taint_sets: list[Taints] = [()]
        self.size = 0
        """The number of rows in use, including rows without a node."""
        self.generations: list[int] = [0] * capacity
        """Per row the number of changes that preemption depends on: of the node, its pods, and their start times."""
        self.layout = 0
        """Increases when nodes are added or removed: rows, their number, or the order of names changed."""
        self.ignored_objects: dict[str, str] = {}
        """Why an object is ignored, by ``node/<name>`` or ``pod/<uid>``."""
        self._nodes: list[NodeInfo | None] = [None] * capacity
        self._row_of: dict[str, NodeIndex] = {}
        self._free_rows: list[int] = []
        self._pods_on: list[dict[str, PodInfo]] = [{} for _ in range(capacity)]
        self._row_of_pod: dict[str, NodeIndex] = {}
        self._assumed: set[str] = set()
        self._orphans: dict[str, dict[str, PodInfo]] = {}  # by node name: pods of nodes that are not known
        self._node_of_orphan: dict[str, str] = {}
        self._label_groups: LabelGroupIndex | None = None
        self._taint_set_of: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._ordered_layout = -1
        self._by_name: Rows = np.zeros(0, np.intp)
        self._rank: Rows = np.zeros(capacity, np.intp)

    # -- queries --------------------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        return self.columns.capacity

    @property
    def count(self) -> int:
        return len(self._row_of)

    @property
    def pod_count(self) -> int:
        """Pods on nodes, assumed pods included."""
        return len(self._row_of_pod)

    def row_of(self, name: str) -> NodeIndex | None:
        return self._row_of.get(name)

    def node(self, row: int) -> NodeInfo | None:
        return self._nodes[row]

    def name(self, row: int) -> str:
        node = self._nodes[row]
        return "" if node is None else node.name

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """The pods on the node of a row, by uid, assumed pods included."""
        return self._pods_on[row]

    def home(self, uid: str) -> NodeIndex | None:
        """The row of the pod's node; None if the pod has no known node."""
        return self._row_of_pod.get(uid)

    def node_of(self, uid: str) -> str:
        """The name of the pod's node, which may be unknown; empty if the pod has none."""
        row = self._row_of_pod.get(uid)
        return self._node_of_orphan.get(uid, "") if row is None else self.name(row)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    @property
    def label_groups(self) -> LabelGroupIndex:
        """The pods on nodes by namespace and labels. The index is built on first use and then updated."""
        if self._label_groups is None:
            self._label_groups = LabelGroupIndex()
            for row, pods in enumerate(self._pods_on):
                for pod in pods.values():
                    self._label_groups.update(row, pod, 1)
        return self._label_groups

    @property
    def by_name(self) -> Rows:
        """The rows of all nodes, in the order of their names."""
        self._update_order()
        return self._by_name

    @property
    def rank(self) -> Rows:
        """Per row the position of its name in the order of names."""
        self._update_order()
        return self._rank

    def _update_order(self) -> None:
        if self._ordered_layout == self.layout:
            return
        rows = [self._row_of[name] for name in sorted(self._row_of)]
        self._by_name = np.array(rows, np.intp)
        self._rank = np.zeros(self.capacity, np.intp)
        self._rank[self._by_name] = np.arange(len(rows))
        self._ordered_layout = self.layout

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node_applied(self, node: NodeInfo) -> NodeIndex:
        """A node was created or updated."""
        self.ignored_objects.pop(f"node/{node.name}", None)
        row = self._row_of.get(node.name)
        if row is None:
            row = self._allocate_row(node)
        old = self._nodes[row]
        if old == node:
            return row
        self._nodes[row] = node
        self.columns.set_allocatable(row, node.allocatable)
        self._unschedulable[row] = node.unschedulable
        self._taint_set[row] = self._taint_set_number(node.taints)
        self.labels.set(row, node.name, node.labels)
        self.images.set(row, node.images)
        relabels = old is None or old.labels != node.labels or old.taints != node.taints
        self._log_change(NodeChange(row, relabels=relabels))
        for pod in self._orphans.pop(node.name, {}).values():
            del self._node_of_orphan[pod.uid]
            self.ignored_objects.pop(f"pod/{pod.uid}", None)
            self._add_pod(row, pod)
        return row

    def node_refused(self, name: str, reason: str) -> None:
        """The node is invalid, for the reason that ``read_node`` returned: no pod is scheduled there until it is
        valid."""
        self.node_removed(name)
        self.ignored_objects[f"node/{name}"] = reason

    def node_removed(self, name: str) -> None:
        """A node was deleted. Its pods, including assumed ones, are kept for the case that the node returns."""
        self.ignored_objects.pop(f"node/{name}", None)
        row = self._row_of.get(name)
        if row is None:
            return
        for pod in list(self._pods_on[row].values()):
            self._remove_pod(pod.uid)
            self._add_orphan(pod)
        del self._row_of[name]
        self._nodes[row] = None
        self._is_node[row] = False
        self.columns.clear(row)
        self.labels.remove(row)
        self.images.remove(row)
        self._free_rows.append(row)
        self.layout += 1
        self._log_change(NodeChange(row))

    def _allocate_row(self, node: NodeInfo) -> NodeIndex:
        row = NodeIndex(self._free_rows.pop() if self._free_rows else self.size)
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
        self.generations += [0] * more
        self._nodes += [None] * more
        self._pods_on += [{} for _ in range(more)]

    def _taint_set_number(self, taints: Taints) -> int:
        key = tuple((each["key"], each["value"], each["effect"]) for each in taints)
        found = self._taint_set_of.get(key)
        if found is None:
            found = self._taint_set_of[key] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    # -- pods -----------------------------------------------------------------------------------------------------

    def pod_applied(self, pod: PodInfo) -> None:
        """A pod with a node was created or updated; this confirms an assumed pod."""
        row = self._row_of_pod.get(pod.uid)
        self._assumed.discard(pod.uid)
        if pod.terminal or not pod.node_name:
            self.pod_removed(pod.uid)
            return
        new_row = self._row_of.get(pod.node_name)
        if row is not None:
            old = self._pods_on[row][pod.uid]
            if row == new_row and old.shape is pod.shape:
                self._replace(row, old, pod)
                return
        self.pod_removed(pod.uid)
        if new_row is None:
            self._add_orphan(pod)
        else:
            self._add_pod(new_row, pod)

    def _replace(self, row: NodeIndex, old: PodInfo, pod: PodInfo) -> None:
        """Replace a pod of the same shape. Its labels may differ: API servers add some to bound pods."""
        self._pods_on[row][pod.uid] = pod
        if old.labels == pod.labels and old.deleting is pod.deleting:
            self.generations[row] += old.started_s != pod.started_s
        else:
            self._index_pod(row, old, -1)
            self._index_pod(row, pod, 1)

    def pod_removed(self, uid: str) -> None:
        """A pod was deleted or has terminated."""
        self._assumed.discard(uid)
        self.ignored_objects.pop(f"pod/{uid}", None)
        name = self._node_of_orphan.pop(uid, None)
        if name is not None:
            del self._orphans[name][uid]
            if not self._orphans[name]:
                del self._orphans[name]
        if uid in self._row_of_pod:
            self._remove_pod(uid)

    def assume(self, pod: PodInfo, row: NodeIndex) -> PodInfo:
        """Count the pod on a node before the API server shows it there. Returns the pod with its node."""
        placed = msgspec.structs.replace(pod, node_name=self.name(row), nominated_node="")
        if pod.uid in self._row_of_pod:
            self._remove_pod(pod.uid)
        self._add_pod(row, placed)
        self._assumed.add(pod.uid)
        return placed

    def forget(self, uid: str) -> None:
        """Remove an assumed pod that was not bound. A pod that was confirmed in the meantime stays."""
        if uid in self._assumed:
            self.pod_removed(uid)

    def confirm(self, uid: str) -> None:
        """The pod is bound: it is no longer assumed."""
        self._assumed.discard(uid)

    def assumed(self) -> Collection[str]:
        return self._assumed

    def count_pod(self, row: int, pod: PodInfo, sign: int) -> None:
        """Add a pod to a row (+1) or remove it (-1) without a log entry: for dry runs, which the caller reverts."""
        self.columns.update(row, pod.shape, sign)
        if pod.shape.ports:
            self.ports.update(row, pod.shape.ports, sign)
        if pod.shape.volumes:
            self.volumes.update(row, pod, sign)
        if sign > 0:
            self._pods_on[row][pod.uid] = pod
        else:
            del self._pods_on[row][pod.uid]

    def _add_pod(self, row: NodeIndex, pod: PodInfo) -> None:
        self.count_pod(row, pod, 1)
        self._row_of_pod[pod.uid] = row
        self._index_pod(row, pod, 1)

    def _remove_pod(self, uid: str) -> None:
        row = self._row_of_pod.pop(uid)
        pod = self._pods_on[row][uid]
        self.count_pod(row, pod, -1)
        self._index_pod(row, pod, -1)

    def _index_pod(self, row: NodeIndex, pod: PodInfo, sign: int) -> None:
        if pod.shape.labels is not None:  # otherwise the shape has no constraints about other pods
            self.terms.update(row, pod.shape, sign)
        if self._label_groups is not None:
            self._label_groups.update(row, pod, sign)
        self._log_change(NodeChange(row, pod, sign))

    def _log_change(self, change: NodeChange) -> None:
        self.generations[change.row] += 1
        self.log.add(change)

    def _add_orphan(self, pod: PodInfo) -> None:
        self._orphans.setdefault(pod.node_name, {})[pod.uid] = pod
        self._node_of_orphan[pod.uid] = pod.node_name
        self.ignored_objects[f"pod/{pod.uid}"] = NO_NODE.format(pod.node_name)


def _read_only(column: NDArray[T]) -> NDArray[T]:
    """A read-only view of the same array."""
    view = column.view()
    view.flags.writeable = False
    return view
