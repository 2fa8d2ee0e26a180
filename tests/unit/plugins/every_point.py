"""Plugins of another package that serve every extension point and import nothing of Headgate but its interface."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from headgate.scheduling.framework import (
    ADD,
    ASSIGNED_POD,
    DELETE,
    NODE,
    NODE_LABEL,
    READS_NODE,
    READS_PODS,
    SKIP,
    APIResource,
    Bind,
    ClusterEvent,
    ClusterEventWithHint,
    FilterReason,
    Handle,
    Ints,
    Mask,
    NodeChange,
    NodeMatrix,
    ObjectPatch,
    PermitWait,
    PodInfo,
    PodLike,
    PodShape,
    PostFilterNomination,
    PostFilterUnschedulable,
    PreBindPending,
    PreFilterRejection,
    PreFilterResult,
    QueueUnit,
    Reads,
    Rejection,
    Rows,
    Skip,
    State,
    Unplaced,
    allocatable,
    asked_rows,
    free,
    label_values,
    named,
    nodes_at,
    on,
    on_one,
    own_update,
)

WINDOWS: Final = APIResource("example.com", "v1", "windows", namespaced=False)
RACK: Final = "example.com/rack"
POWERED: Final = "example.com/powered"


class Admission:
    """``preEnqueue`` and ``watched``: a pod that names a window in an annotation waits until there is one."""

    name = "Admission"
    annotations = ("example.com/window",)
    watched: Final = {WINDOWS: ("metadata.labels",)}

    def __init__(self) -> None:
        self.windows: set[str] = set()

    def applied(self, resource: APIResource, wire: Mapping[str, Any], /) -> Iterable[ClusterEvent]:
        name = wire["metadata"]["name"]
        self.windows.add(name)
        yield ClusterEvent(named(resource), ADD, new=wire, subjects=(name,))

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        self.windows.discard(name)
        return [ClusterEvent(named(resource), DELETE, subjects=(name,))]

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        window = pod.annotations.get(self.annotations[0])
        if window is None or window in self.windows:
            return None
        wakers = (*on_one(named(WINDOWS), window, ADD), *own_update())
        return Rejection(self.name, f"window {window} is not open", wakers, expires=False)


class Order:
    """``queueSort``: by name, which stands for any order."""

    name = "Order"

    def order_key(self, pod: PodLike, since_s: float, /) -> tuple[Any, ...]:
        return -pod.priority, pod.name


class Racks:
    """``preFilter``, ``filter``, ``preScore``, ``score``, ``normalize``: pods with a label for a rack go there, to the
    node with the most free CPU, and only to nodes that are powered."""

    name = "Racks"
    reads: Final[Reads] = READS_PODS

    def key(self, pod: PodInfo, /) -> Hashable:
        return pod.labels.get(RACK)

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        return matrix.count

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreFilterRejection | PreFilterResult | State:
        rack = pod.labels.get(RACK)
        if rack is None:
            return SKIP
        if rack == "none":
            return PreFilterRejection(FilterReason("there is no such rack", unresolvable=True))
        found = [node for node in nodes_at(matrix, None) if node is not None]
        if rack == "only":
            return PreFilterResult(frozenset(node.name for node in found if RACK in node.labels))
        return Racked(rack)

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        if state is None:
            return None
        racks = label_values(matrix, RACK, rows)
        powered = label_values(matrix, POWERED, rows)
        other = np.array([rack != state.rack for rack in racks], np.int64)
        off = np.array([value != "true" for value in powered], np.int64)
        return other + 2 * off

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return FilterReason("node(s) are in another rack", unresolvable=True), FilterReason("node(s) are not powered")

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return on(NODE, ADD, NODE_LABEL)

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | State:
        return Racked("")

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        whole = np.maximum(allocatable(matrix, "cpu", rows), 1)
        assert len(asked_rows(matrix, rows)) == len(whole)
        result: Ints = free(matrix, "cpu", rows) * 1000 // whole
        return result

    def scale(self, feasible: Ints, /) -> Hashable:
        return int(feasible.max(initial=0))

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        result: Ints = np.clip(raw * 100 // max(scale, 1), 0, 100)
        return result


class Racked:
    """The state for one shape: it follows changes and receives the feasible nodes."""

    def __init__(self, rack: str) -> None:
        self.rack = rack
        self.followed = 0
        self.feasible = 0

    def follow(self, change: NodeChange, /) -> Iterable[int] | None:
        self.followed += 1
        return (change.row,)

    def see(self, mask: Mask, /) -> bool:
        self.feasible = int(mask.sum())
        return False


class Evicts:
    """``postFilter``: takes the first pod of lower priority off a node where the pod fits then."""

    name = "Evicts"

    def post_filter(
        self, pod: PodInfo, unplaced: Unplaced, handle: Handle, /
    ) -> PostFilterNomination | PostFilterUnschedulable | str:
        if not unplaced.resolvable:
            return "no pod has to go"
        for name in unplaced.resolvable:
            row = handle.matrix.row_of(name)
            assert row is not None
            for victim in handle.matrix.pods_on(row).values():
                with handle.dry_run(pod, row) as dry_run:
                    dry_run.take(victim)
                    if victim.priority < pod.priority and not dry_run.reasons():
                        return PostFilterNomination(name, (victim,))
        return PostFilterUnschedulable("no pod of lower priority helps")


class Licences:
    """``reserve``, ``permit``, ``preBind``, ``bind``, ``postBind``: pods with a licence are bound in pairs, and the
    node is patched before and after the binding."""

    name = "Licences"
    timeout_s = 60.0

    def __init__(self) -> None:
        self.reserved: dict[str, str] = {}
        self.waiting: list[PodInfo] = []
        self.to_release: dict[str, Rejection | None] = {}
        self.ready: set[str] = set()

    def reserve(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        if pod.labels.get("licence") == "none":
            return Rejection(self.name, "there is no licence", on(ASSIGNED_POD, DELETE))
        self.reserved[pod.uid] = node_name
        return None

    def unreserve(self, pod: PodInfo, node_name: str, /) -> None:
        self.reserved.pop(pod.uid, None)

    def permit(self, pod: PodInfo, node_name: str, /) -> Rejection | PermitWait | None:
        if pod.labels.get("licence") != "pair":
            return None
        self.waiting.append(pod)
        if len(self.waiting) == 2:
            self.to_release = dict.fromkeys((each.uid for each in self.waiting), None)
        return PermitWait(30.0)

    def released(self) -> Mapping[str, Rejection | None]:
        found, self.to_release = self.to_release, {}
        return found

    def pre_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch] | Rejection:
        return [self._marked(pod, node_name, "reserved")] if "licence" in pod.labels else []

    def awaited(self, pod: PodInfo, node_name: str, /) -> PreBindPending | str | None:
        if pod.labels.get("licence") != "slow" or pod.uid in self.ready:
            return None
        return PreBindPending(on(named(WINDOWS), ADD))

    def bind(self, pod: PodInfo, node_name: str, /) -> Bind | ObjectPatch | None:
        return Bind(pod, node_name) if "licence" in pod.labels else None

    def post_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch]:
        return [self._marked(pod, node_name, "bound")] if "licence" in pod.labels else []

    def _marked(self, pod: PodInfo, node_name: str, value: str) -> ObjectPatch:
        body = {"metadata": {"annotations": {"example.com/licence": value}}}
        return ObjectPatch(APIResource("", "v1", "pods", namespaced=True), pod.namespace, pod.name, pod.uid, body)


class Cheap:
    """``score`` alone, of nodes alone: 0 to 100 as it stands."""

    name = "Cheap"
    reads: Final[Reads] = READS_NODE

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        return np.zeros(len(asked_rows(matrix, rows)), np.int64)


class Shifts:
    """Queues: lets units in while their window is open, counts their pods, and sorts short units first."""

    name = "Shifts"
    watched: Final[Mapping[APIResource, tuple[str, ...]]] = {WINDOWS: ("spec.open",)}

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.pods: dict[str, set[str]] = {}

    def admit_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        if unit.queue in self.open:
            return None
        return Rejection(self.name, f"window {unit.queue} is not open", on_one(named(WINDOWS), unit.queue, ADD))

    def reserve_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        self.pods.setdefault(unit.queue, set()).update(pod.uid for pod in unit.pods)
        return None

    def release_pod(self, pod: PodInfo, queue: str, now_s: float, /) -> None:
        self.pods[queue].remove(pod.uid)

    def unit_order_key(self, unit: QueueUnit, /) -> tuple[Any, ...]:
        return (len(unit.pods), unit.namespace)

    def applied(self, resource: APIResource, wire: Mapping[str, Any], /) -> Iterable[ClusterEvent]:
        name = wire["metadata"]["name"]
        self.open.add(name)
        return [ClusterEvent(named(WINDOWS), ADD, subjects=(name,))]

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        self.open.discard(name)
        return []
