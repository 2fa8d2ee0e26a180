"""Room that was promised: whom a pod has to fit beside on which nodes, although they do not run there yet.

Pods of equal or higher priority that were promised a node count as if they ran there. Where a pod would not fit beside
them it is denied the node; that is found out by a trial, and kept until the node or the promises on it change. Who was
promised what is ``nominations.py``'s.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Protocol

from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.question import Question
from headgate.scheduling.trial import NodeTrial, Rejected

Denials = dict[int, tuple[Hashable, Rejected | None]]
"""By row, what was found out for one question, and when that holds."""


class Promises(Protocol):
    """Pods that were promised a node where room is being made (``scheduling/nominations.py``)."""

    @property
    def moves(self) -> int: ...

    def nodes(self) -> Sequence[str]: ...

    def on_node(self, node: str, /) -> Sequence[Pod]: ...

    def node_of(self, uid: str, /) -> str | None: ...


class PromisedRoom:
    def __init__(self, matrix: NodeMatrix, promises: Promises | None) -> None:
        self._matrix = matrix
        self._promises = promises

    @property
    def moves(self) -> int:
        return 0 if self._promises is None else self._promises.moves

    def node_of(self, pod: Pod) -> str:
        """Our word counts before the API's, which may not show it yet."""
        found = None if self._promises is None else self._promises.node_of(pod.uid)
        return found or pod.nominated_node

    def beside(self, pod: Pod, row: int) -> Sequence[Pod]:
        """Pods that are counted as if they ran on a node when this one is put to it."""
        there = () if self._promises is None else self._promises.on_node(self._matrix.name(row))
        if not there:
            return ()
        home = self._matrix.home
        return [
            each for each in there if each.priority >= pod.priority and each.uid != pod.uid and home(each.uid) is None
        ]

    def to_others(self, pod: Pod) -> Iterator[tuple[int, Sequence[Pod]]]:
        """The rows where there are such pods."""
        for name in () if self._promises is None else self._promises.nodes():
            row = self._matrix.row_of(name)
            there = () if row is None else self.beside(pod, row)
            if row is not None and there:
                yield row, there

    def denied(self, pod: Pod, question: Question, known: Denials) -> dict[int, Rejected]:
        """Rows where the pod does not fit beside those who were promised room there. ``known`` is kept up to date."""
        found: dict[int, Rejected] = {}
        for row, there in self.to_others(pod):
            stamp = self._stamp(question, row, there)
            before = known.get(row)
            if before is None or before[0] != stamp:
                with NodeTrial(question, self._matrix, row) as trial:
                    before = known[row] = stamp, trial.rejected_beside(there)
            if before[1] is not None:
                found[row] = before[1]
        return found

    def _stamp(self, question: Question, row: int, there: Sequence[Pod]) -> Hashable:
        changes = self._matrix.log.position if question.judges else self._matrix.moves[row]
        return changes, signature(there)


def signature(pods: Sequence[Pod]) -> tuple[tuple[str, int], ...]:
    """What tells one lot of promised pods from another."""
    return tuple([(each.uid, each.shape.number) for each in pods])
