"""Pods that were told to end and still have time to: the room that they leave is soon there, and need not be bought.

Quota that is given on as soon as its holders terminate (KEP-6143) lets pods in whose room is not there yet. Such a pod
is promised the node where it fits once those are gone (:meth:`Leaving.find`), beside all that were promised the same
before, and is not called a shortage until their time is over. Who is waited for in this way is told by labels
(``awaits``); all other pods are treated as kube-scheduler does. What is then said of the pod is ``attempts.py``'s.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from typing import Final

import msgspec

from headgate.scheduling.contract import Ground
from headgate.scheduling.pod import Pod

WAITING_FOR_ROOM: Final = "WaitingForTerminatingPods"
"""The reason that hides a pod from autoscalers while the room that it fits in is being left."""
LATE_S: Final = 3.0
"""A deletion timestamp is cut to whole seconds, and who uses all of his time is shown as gone a moment after it."""

_KINDS: Final = 64


class Room(msgspec.Struct, frozen=True):
    """Where a pod will fit, and by when. ``last``: who has to leave for it and may take longest."""

    node_name: str
    until_s: float
    last: Pod


class _Leaver(msgspec.Struct, frozen=True):
    pod: Pod
    until_s: float


class Leaving:
    def __init__(self, labels: Collection[str] = ()) -> None:
        """``labels``: pods that have one of these are spared being called a shortage."""
        self._labels = tuple(labels)
        self._by_node: dict[str, dict[str, _Leaver]] = {}
        self._node_of: dict[str, str] = {}
        self._vain: OrderedDict[Hashable, dict[str, Hashable]] = OrderedDict()

    def applied(self, pod: Pod, until_s: float) -> None:
        """A pod on a node was told to end by then."""
        self.removed(pod.uid)
        self._by_node.setdefault(pod.node_name, {})[pod.uid] = _Leaver(pod, until_s + LATE_S)
        self._node_of[pod.uid] = pod.node_name

    def removed(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is not None:
            there = self._by_node[node]
            del there[uid]
            if not there:
                del self._by_node[node]

    def awaits(self, pod: Pod) -> bool:
        return bool(self._by_node) and any(name in pod.labels for name in self._labels)

    def find(self, pod: Pod, ground: Ground, now_s: float) -> Room | None:
        """Where the pod, which fits nowhere, would fit when some of those are gone; the node it was promised first,
        and then where somebody leaves first."""
        if not self.awaits(pod):
            return None
        in_time = {name: self._in_time(name, now_s) for name in self._by_node}
        mine = ground.promised_node(pod)
        names = sorted((name for name, there in in_time.items() if there), key=lambda name: _order(name, mine, in_time))
        promised = ground.promised(pod) if names else {}
        key, looks_around = ground.question(pod) if names else (None, False)
        vain = self._memory((key, pod.priority))
        matrix = ground.matrix
        for name in names:
            row = matrix.row_of(name)
            if row is None:
                continue
            there = in_time[name]
            changes = matrix.log.position if looks_around else matrix.moves[row]
            stamp = changes, promised.get(row), len(there)
            if vain.get(name) == stamp:
                continue
            last = _last_to_leave(pod, row, there, ground)
            if last is not None:
                return Room(name, last.until_s, last.pod)
            vain[name] = stamp
        return None

    def _in_time(self, node: str, now_s: float) -> Sequence[_Leaver]:
        """Those that are not overdue, the first to leave first."""
        there = (each for each in self._by_node[node].values() if each.until_s > now_s)
        return sorted(there, key=lambda each: (each.until_s, each.pod.key))

    def _memory(self, kind: Hashable) -> dict[str, Hashable]:
        """By node, as what it was looked at in vain for pods of a kind."""
        found = self._vain.setdefault(kind, {})
        self._vain.move_to_end(kind)
        if len(self._vain) > _KINDS:
            self._vain.popitem(last=False)
        return found


def _order(name: str, mine: str, in_time: dict[str, Sequence[_Leaver]]) -> tuple[bool, float, str]:
    return name != mine, in_time[name][0].until_s, name


def _last_to_leave(pod: Pod, row: int, there: Sequence[_Leaver], ground: Ground) -> _Leaver | None:
    """Of those whose leaving makes room, if all of them going would."""
    with ground.trial(pod, row) as trial:
        known = ground.matrix.pods_on(row)
        leavers = [each for each in there if each.pod.uid in known]
        for each in leavers:
            trial.take(each.pod)
        if not leavers or trial.reasons():
            return None
        for each in reversed(leavers):
            trial.put(each.pod)
            if trial.reasons():
                return each
    return leavers[0]
