"""Watches every pod of a server with queues from the start and checks every revision against the guarantees of queues.

At no revision the bound and promised pods of a queue, or of one of its ancestors, exceed its limit. The queue gate is
removed once per uid, after all other gates, with a stamp that names this uid and never changes. Only its owner removes
a foreign gate. No gated pod is unschedulable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from harness.scheduler_audit import SchedulerAudit, cpu_of
from harness.scheduler_process import scheduled_reason
from harness.server import Server
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, QUEUE_NAME, STAMP

Object = dict[str, Any]


class Limit(NamedTuple):
    parent: str
    cpu: int


class _Seen(NamedTuple):
    gates: tuple[str, ...]
    stamp: str


class QueueAudit(SchedulerAudit):
    """``tree``: the queues by name, with what they may use, in whole cpus. The pods are created with our gate."""

    def __init__(self, server: Server, capacity: Mapping[str, int], tree: Mapping[str, Limit]) -> None:
        super().__init__(server, capacity)
        self._tree = tree
        self._last: dict[str, _Seen] = {}
        self._held: dict[str, tuple[str, int]] = {}
        self.used: Counter[str] = Counter()
        """By queue, what is bound or promised in it and below it."""
        self.lifted: Counter[str] = Counter()
        """By uid, how often our gate went."""
        self.switched_off = False
        """Whether gates may go without a promise, because the feature was switched off."""
        self.let_go: set[str] = set()
        """Uids whose other gates are lifted by their owner, who says so here first."""

    def path(self, queue: str) -> Iterator[str]:
        while queue in self._tree:
            yield queue
            queue = self._tree[queue].parent

    def fits(self, pod: Object) -> bool:
        limits, asked = self._tree, cpu_of(pod)
        return all(self.used[each] + asked <= limits[each].cpu for each in self.path(queue_of(pod)))

    def waiting(self) -> list[Object]:
        """Those that were promised nothing yet, and have no gate but ours."""
        return [pod for pod in self._without_node() if not stamp_of(pod) and gates_of(pod) in ((GATE,), ())]

    def promised(self) -> list[Object]:
        """Those that were let in and have no node yet."""
        return [pod for pod in self._without_node() if stamp_of(pod)]

    def stamp(self, uid: str) -> str:
        """What was promised to the pod, be it gone by now."""
        return self._last[uid].stamp

    def _without_node(self) -> list[Object]:
        return [pod for pod in list(self.pods.values()) if not pod["spec"].get("nodeName")]

    def running(self) -> list[Object]:
        return [pod for pod in list(self.pods.values()) if pod["spec"].get("nodeName")]

    def judge(self, kind: str, pod: Object) -> None:
        super().judge(kind, pod)
        uid = pod["metadata"]["uid"]
        seen = _Seen(gates_of(pod), stamp_of(pod))
        problems = [*self._judge_gates(pod, seen, self._last.get(uid)), *self._count(kind, pod, seen)]
        self._last[uid] = seen
        name = pod["metadata"]["name"]
        self.problems += [f"{name} ({uid}) at {self._revision}: {each}" for each in problems]

    def _judge_gates(self, pod: Object, seen: _Seen, last: _Seen | None) -> Iterator[str]:
        uid = pod["metadata"]["uid"]
        if last is None:
            last = _Seen(seen.gates, "")
            if GATE not in seen.gates:
                yield "it has no gate from the beginning"
        if seen.stamp and read_stamp(seen.stamp, uid) is None:
            yield f"its stamp is another one's: {seen.stamp}"
        if last.stamp and seen.stamp != last.stamp:
            yield f"it was promised twice: {last.stamp}, {seen.stamp}"
        if GATE in last.gates and GATE not in seen.gates:
            self.lifted[uid] += 1
            if self.lifted[uid] > 1:
                yield "its gate went twice"
            if not seen.stamp and not self.switched_off:
                yield "its gate went without a promise"
            if last.gates != (GATE,):
                yield f"its gate went before those of others: {last.gates}"
        others = (tuple(each for each in gates if each != GATE) for gates in (last.gates, seen.gates))
        if len(set(others)) > 1 and uid not in self.let_go:
            yield f"a gate of somebody else was touched: {last.gates}, {seen.gates}"
        if seen.gates and scheduled_reason(pod) == "Unschedulable":
            yield "it has a gate and looks like a shortage"

    def _count(self, kind: str, pod: Object, seen: _Seen) -> Iterator[str]:
        uid = pod["metadata"]["uid"]
        counts = kind != "DELETED" and not pod["metadata"].get("deletionTimestamp")
        holds = counts and bool(pod["spec"].get("nodeName") or seen.stamp)
        held = self._held.pop(uid, None)
        if held is not None:
            self.used.subtract(dict.fromkeys(self.path(held[0]), held[1]))
        if not holds:
            return
        queue, cpu = self._held[uid] = (queue_of(pod), cpu_of(pod))
        for each in self.path(queue):
            self.used[each] += cpu
            if self.used[each] > self._tree[each].cpu:
                yield f"queue {each} has {self.used[each]} of {self._tree[each].cpu}"


def gates_of(pod: Object) -> tuple[str, ...]:
    return tuple(each["name"] for each in pod["spec"].get("schedulingGates") or ())


def queue_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][QUEUE_NAME])


def stamp_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"].get(STAMP, ""))
