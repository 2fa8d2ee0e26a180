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

_PRIORITIES: Final = 8
_NEVER: Final = -1
_NO_PROMISES: Final[ChangeLog[str]] = ChangeLog()


class NominatedPods(Protocol):
    """Pods with a nominated node (``scheduling/queue/nominator.py``)."""

    @property
    def log(self) -> ChangeLog[str]: ...

    def nodes(self) -> Sequence[str]: ...

    def on_node(self, node: str, /) -> Sequence[PodInfo]: ...

    def node_of(self, uid: str, /) -> str | None: ...


class _Denied:
    """What pods of one priority are denied, as of a position in each log. Mutable: it is brought up to date."""

    __slots__ = ("changes", "promises", "rows")

    def __init__(self) -> None:
        self.changes = _NEVER
        self.promises = _NEVER
        self.rows: dict[int, Rejected] = {}


class NominatedPodConflicts:
    """Dry-run results for one cycle state, by the priority of the incoming pods."""

    def __init__(self) -> None:
        self._of: OrderedDict[int, _Denied] = OrderedDict()

    def of(self, priority: int) -> _Denied:
        found = self._of.get(priority)
        if found is None:
            found = self._of[priority] = _Denied()
            if len(self._of) > _PRIORITIES:
                self._of.popitem(last=False)
        self._of.move_to_end(priority)
        return found


class NominatedPodFilter:
    def __init__(self, matrix: NodeMatrix, promises: NominatedPods | None) -> None:
        self._matrix = matrix
        self._promises = promises

    @property
    def log(self) -> ChangeLog[str]:
        return _NO_PROMISES if self._promises is None else self._promises.log

    def node_of(self, pod: PodInfo) -> str:
        """Our word counts before the API's, which may not show it yet."""
        found = None if self._promises is None else self._promises.node_of(pod.uid)
        return found or pod.nominated_node

    def nominated_on(self, pod: PodInfo, row: int) -> Sequence[PodInfo]:
        """Pods that are counted as if they ran on a node when this one is put to it."""
        return [each for each in self._counted(pod.priority, row) if each.uid != pod.uid]

    def _counted(self, priority: int, row: int) -> Sequence[PodInfo]:
        """The same for a pod of this priority that was not promised the node itself."""
        there = () if self._promises is None else self._promises.on_node(self._matrix.name(row))
        if not there:
            return ()
        home = self._matrix.home
        return [each for each in there if each.priority >= priority and home(each.uid) is None]

    def nominated_rows(self, pod: PodInfo) -> Iterator[tuple[int, Sequence[PodInfo]]]:
        """The rows where there are such pods."""
        for name in () if self._promises is None else self._promises.nodes():
            row = self._matrix.row_of(name)
            there = () if row is None else self.nominated_on(pod, row)
            if row is not None and there:
                yield row, there

    def conflicting_rows(
        self, pod: PodInfo, question: CycleState, known: NominatedPodConflicts
    ) -> Mapping[int, Rejected]:
        """Rows where the pod does not fit beside those who were promised room there. ``known`` is kept up to date."""
        promises = self._promises
        if promises is None:
            return {}
        found = known.of(pod.priority)
        for row in self._stale(found, question, promises):
            self._note(found.rows, question, row, self._counted(pod.priority, row))
        found.changes, found.promises = self._matrix.log.position, promises.log.position
        own = self._matrix.row_of(promises.node_of(pod.uid) or "")
        if own is None or own not in found.rows:
            return found.rows
        rows = dict(found.rows)
        self._note(rows, question, own, self.nominated_on(pod, own))
        return rows

    def conflicting_among(self, pod: PodInfo, question: CycleState, rows: Iterable[int]) -> Mapping[int, Rejected]:
        """The same about a few nodes; nothing is kept."""
        found: dict[int, Rejected] = {}
        for row in rows:
            self._note(found, question, row, self.nominated_on(pod, row))
        return found

    def _stale(self, found: _Denied, question: CycleState, promises: NominatedPods) -> Iterable[int]:
        """Rows about which something else may be found now; all of them if too much happened since."""
        matrix = self._matrix
        promised, changes = promises.log.since(found.promises), matrix.log.since(found.changes)
        looks_around = bool(question.filter_states) and found.changes != matrix.log.position
        if promised is None or changes is None or looks_around:
            found.rows.clear()
            rows: list[int | None] = [matrix.row_of(name) for name in promises.nodes()]
        else:
            # A pod that got a node does not count any more on the one that it was promised.
            moved = (promises.node_of(each.pod.uid) for each in changes if each.pod is not None)
            rows = [matrix.row_of(name) for name in dict.fromkeys((*promised, *moved)) if name]
            rows += [each.row for each in changes]
        return {row: None for row in rows if row is not None}

    def _note(self, rows: dict[int, Rejected], question: CycleState, row: int, there: Sequence[PodInfo]) -> None:
        rejected = None
        if there:
            with NodeDryRun(question, self._matrix, row) as trial:
                rejected = trial.rejected_beside(there)
        if rejected is None:
            rows.pop(row, None)
        else:
            rows[row] = rejected


def signature(pods: Sequence[PodInfo]) -> tuple[tuple[str, int], ...]:
    """What tells one lot of promised pods from another."""
    return tuple([(each.uid, each.shape.number) for each in pods])
