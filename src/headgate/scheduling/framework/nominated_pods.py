"""Nominated pods: an incoming pod must also fit beside the pods that are nominated to a node and do not run there yet.

Nominated pods of equal or higher priority count as if they ran on the node. A dry run decides whether the pod fits
beside them; the result is kept until the node or its nominations change. Both kinds of changes are read from logs, so
an attempt costs what changed since the last one. ``scheduling/queue/nominator.py`` holds the nominations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from headgate.scheduling.cache.change_log import ChangeLog
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cycle_state import CycleState
from headgate.scheduling.framework.dry_run import NodeDryRun, Rejected

_MAX_PRIORITIES: Final = 8
_NEVER_READ: Final = -1  # a position before the beginning of each log
_EMPTY_LOG: Final[ChangeLog[str]] = ChangeLog()


class NominatedPods(Protocol):
    """Pods with a nominated node (``scheduling/queue/nominator.py``)."""

    @property
    def log(self) -> ChangeLog[str]: ...

    def nodes(self) -> Sequence[str]: ...

    def on_node(self, node: str, /) -> Sequence[PodInfo]: ...

    def node_of(self, uid: str, /) -> str | None: ...


class _Conflicts:
    """``rows``: the rows where pods of one priority do not fit beside the nominated pods, each with the filter that
    rejects them. ``changes`` and ``nominations``: the positions in the logs of the node matrix and of the nominations
    up to which this is current."""

    __slots__ = ("changes", "nominations", "rows")

    def __init__(self) -> None:
        self.changes = _NEVER_READ
        self.nominations = _NEVER_READ
        self.rows: dict[int, Rejected] = {}


class NominatedPodConflicts:
    """Dry-run results for one cycle state, by the priority of the incoming pods."""

    def __init__(self) -> None:
        self._by_priority: OrderedDict[int, _Conflicts] = OrderedDict()

    def for_priority(self, priority: int) -> _Conflicts:
        found = self._by_priority.get(priority)
        if found is None:
            found = self._by_priority[priority] = _Conflicts()
            if len(self._by_priority) > _MAX_PRIORITIES:
                self._by_priority.popitem(last=False)
        self._by_priority.move_to_end(priority)
        return found


class NominatedPodFilter:
    """Finds the nodes where an incoming pod does not fit beside the nominated pods."""

    def __init__(self, matrix: NodeMatrix, nominated_pods: NominatedPods | None) -> None:
        self._matrix = matrix
        self._nominated_pods = nominated_pods

    @property
    def log(self) -> ChangeLog[str]:
        return _EMPTY_LOG if self._nominated_pods is None else self._nominated_pods.log

    def node_of(self, pod: PodInfo) -> str:
        """The nominated node of the pod. The scheduler's own nomination takes precedence: the API may not
        show it yet."""
        found = None if self._nominated_pods is None else self._nominated_pods.node_of(pod.uid)
        return found or pod.nominated_node

    def nominated_on(self, pod: PodInfo, row: int) -> Sequence[PodInfo]:
        """The nominated pods that count as if they ran on the node when this pod is evaluated there."""
        return [each for each in self._nominated_for_priority(pod.priority, row) if each.uid != pod.uid]

    def _nominated_for_priority(self, priority: int, row: int) -> Sequence[PodInfo]:
        """As :meth:`nominated_on`, for any pod of this priority that is not nominated to the node itself."""
        pods = () if self._nominated_pods is None else self._nominated_pods.on_node(self._matrix.name(row))
        if not pods:
            return ()
        row_of_pod = self._matrix.home
        return [each for each in pods if each.priority >= priority and row_of_pod(each.uid) is None]

    def nominated_rows(self, pod: PodInfo) -> Iterator[tuple[int, Sequence[PodInfo]]]:
        """The rows with nominated pods that count for this pod, each with these pods."""
        for name in () if self._nominated_pods is None else self._nominated_pods.nodes():
            row = self._matrix.row_of(name)
            pods = () if row is None else self.nominated_on(pod, row)
            if row is not None and pods:
                yield row, pods

    def conflicting_rows(
        self, pod: PodInfo, cycle_state: CycleState, conflicts: NominatedPodConflicts
    ) -> Mapping[int, Rejected]:
        """Rows where the pod does not fit beside the pods nominated there. ``conflicts`` is updated."""
        nominated_pods = self._nominated_pods
        if nominated_pods is None:
            return {}
        found = conflicts.for_priority(pod.priority)
        for row in self._stale_rows(found, cycle_state, nominated_pods):
            self._check_row(found.rows, cycle_state, row, self._nominated_for_priority(pod.priority, row))
        found.changes, found.nominations = self._matrix.log.position, nominated_pods.log.position
        own_nominated_row = self._matrix.row_of(nominated_pods.node_of(pod.uid) or "")
        if own_nominated_row is None or own_nominated_row not in found.rows:
            return found.rows
        # The kept results count the pod itself on its nominated node.
        rows = dict(found.rows)
        self._check_row(rows, cycle_state, own_nominated_row, self.nominated_on(pod, own_nominated_row))
        return rows

    def conflicting_among(self, pod: PodInfo, cycle_state: CycleState, rows: Iterable[int]) -> Mapping[int, Rejected]:
        """As :meth:`conflicting_rows`, for a few rows; the result is not kept."""
        found: dict[int, Rejected] = {}
        for row in rows:
            self._check_row(found, cycle_state, row, self.nominated_on(pod, row))
        return found

    def _stale_rows(self, found: _Conflicts, cycle_state: CycleState, nominated_pods: NominatedPods) -> Iterable[int]:
        """Rows whose result may have changed; all rows with nominations if the logs do not reach back far enough."""
        matrix = self._matrix
        nominations, changes = nominated_pods.log.since(found.nominations), matrix.log.since(found.changes)
        depends_on_other_nodes = bool(cycle_state.filter_states) and found.changes != matrix.log.position
        if nominations is None or changes is None or depends_on_other_nodes:
            found.rows.clear()
            rows: list[int | None] = [matrix.row_of(name) for name in nominated_pods.nodes()]
        else:
            # A pod that got a node does not count any more on its nominated node.
            previous_nodes = (nominated_pods.node_of(each.pod.uid) for each in changes if each.pod is not None)
            rows = [matrix.row_of(name) for name in dict.fromkeys((*nominations, *previous_nodes)) if name]
            rows += [each.row for each in changes]
        return {row: None for row in rows if row is not None}

    def _check_row(self, rows: dict[int, Rejected], cycle_state: CycleState, row: int, pods: Sequence[PodInfo]) -> None:
        rejected = None
        if pods:
            with NodeDryRun(cycle_state, self._matrix, row) as dry_run:
                rejected = dry_run.rejected_beside(pods)
        if rejected is None:
            rows.pop(row, None)
        else:
            rows[row] = rejected


def signature(pods: Sequence[PodInfo]) -> tuple[tuple[str, int], ...]:
    """A value that is equal for equal lists of nominated pods."""
    return tuple([(each.uid, each.shape.number) for each in pods])
