"""Which gates hold pods, by gate and namespace, and which users may lift them.

A change of a pod costs its gates; a change of a GatePolicy costs the namespaces of its gates. The owner of a gate
comes from the GatePolicy that is in effect for it, and its health from the conditions of that policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from headgate.gate_policies.api import read_policy
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.names import ACCEPTED, OWNER_ALIVE, WITHIN_MAX_AGE
from headgate.kube import conditions
from headgate.kube.lenient_reader import find_items, find_object, find_text
from headgate.kube.timestamps import human_duration
from headgate.views.rows import GateRow, ProblemRow
from headgate.views.viewed_pod import QUEUE_GATES, ViewedPod
from headgate.waiting.heap import DeadlineHeap, Heap

Object = dict[str, Any]
Held = tuple[str, str]
"""A gate and a namespace."""

OLD_AFTER_S: Final = 3600.0
"""A pod that a gate of another controller holds for longer is a problem that people want to know of."""
_QUEUE_OWNER: Final = "Headgate or Kueue, when its queue admits the pod"
_HEALTHY: Final = "OK"
_NOT_REPORTED: Final = "not reported"


class GateIndex:
    def __init__(self) -> None:
        self._held: Final[dict[Held, Heap[str]]] = {}  # uids, the oldest first
        self._namespaces: Final[dict[str, dict[str, None]]] = {}  # by gate
        self._names: Final[dict[str, str]] = {}  # of the pods with gates, by uid
        self._policies: Final = GatePolicyIndex()
        self._health: Final[dict[str, str]] = {}
        self._old: Final[DeadlineHeap[Held]] = DeadlineHeap()
        self._dirty: Final[dict[Held, None]] = {}

    def pod_changed(self, before: ViewedPod | None, after: ViewedPod | None) -> None:
        """Only pods that wait are held by a gate."""
        pod = after if before is None else before
        if pod is None:
            return
        uid = pod.uid
        old = {} if before is None or not before.waits else dict.fromkeys(before.gates)
        new = {} if after is None or not after.waits else dict.fromkeys(after.gates)
        for gate in old:
            if gate not in new and before is not None:
                self._discard((gate, before.namespace), uid)
        if after is not None and new:
            self._names[uid] = after.name
            for gate in new:
                if gate not in old:
                    self._put((gate, after.namespace), uid, after.created_s)
        else:
            self._names.pop(uid, None)

    def _put(self, held: Held, uid: str, since_s: float) -> None:
        self._held.setdefault(held, Heap()).put(uid, (since_s, self._names[uid]))
        self._namespaces.setdefault(held[0], {})[held[1]] = None
        self._dirty[held] = None

    def _discard(self, held: Held, uid: str) -> None:
        pods = self._held[held]
        pods.discard(uid)
        if not pods:
            del self._held[held]
            del self._namespaces[held[0]][held[1]]
            if not self._namespaces[held[0]]:
                del self._namespaces[held[0]]
        self._dirty[held] = None

    def policy_applied(self, obj: Object) -> None:
        policy = read_policy(obj)
        self._health[policy.name] = _health(obj, policy.generation)
        self._mark(self._policies.apply(policy))

    def policy_removed(self, name: str) -> None:
        self._health.pop(name, None)
        self._mark(self._policies.remove(name))

    def _mark(self, gates: Iterable[str]) -> None:
        for gate in gates:
            for namespace in self._namespaces.get(gate, ()):
                self._dirty[gate, namespace] = None

    def flush(self, now_s: float) -> Iterator[tuple[str, GateRow | None, ProblemRow | None]]:
        """The key, the row and the problem of each gate that changed or became old."""
        for held in self._old.due(now_s):
            self._dirty[held] = None
        changed = list(self._dirty)
        self._dirty.clear()
        for gate, namespace in changed:
            key = f"{gate} {namespace}"
            row = self._row(key, gate, namespace)
            yield key, row, None if row is None else self._problem(row, now_s)

    def _row(self, key: str, gate: str, namespace: str) -> GateRow | None:
        pods = self._held.get((gate, namespace))
        first = None if pods is None else pods.first()
        if pods is None or first is None:
            self._old.discard((gate, namespace))
            return None
        (since_s, _), uid = first
        policy = self._policies.of_gate(gate)
        owner, name, health = _QUEUE_OWNER if gate in QUEUE_GATES else "", "", ""
        if policy is not None:
            lifters = "every user" if policy.lifted_by is None else ", ".join(policy.lifted_by.display_names)
            owner, name, health = lifters or "no user", policy.name, self._health[policy.name]
        return GateRow(key, gate, namespace, len(pods), self._names[uid], since_s, owner, name, health)

    def _problem(self, row: GateRow, now_s: float) -> ProblemRow | None:
        """A gate whose policy is unhealthy, or one that holds a pod for long. Gates of queues may be old."""
        pods = f"{row.pods} {'pod' if row.pods == 1 else 'pods'}"
        fix = f"find what removes it, or remove it: headgate gates lift {row.gate} -n {row.namespace} --all --dry-run"
        held = row.gate, row.namespace
        if row.health not in ("", _HEALTHY, _NOT_REPORTED):
            self._old.discard(held)
            text = f"it holds {pods}, and its GatePolicy {row.policy} reports {row.health}"
            return ProblemRow(
                f"gate/{row.key}", "error", "StuckGate", f"gate/{row.gate}", text, row.namespace, fix, "gates"
            )
        if row.gate in QUEUE_GATES:
            return None
        old_s = row.since_s + OLD_AFTER_S
        if old_s > now_s:
            self._old.put(held, old_s)
            return None
        self._old.discard(held)
        text = f"it holds {pods}, pod {row.oldest} for more than {human_duration(OLD_AFTER_S)}"
        return ProblemRow(
            f"gate/{row.key}", "warning", "OldGate", f"gate/{row.gate}", text, row.namespace, fix, "gates"
        )


def _health(policy: Mapping[str, Any], generation: int) -> str:
    """The reasons of all conditions that are not true. A status of an older spec does not count."""
    reported = [
        each
        for each in find_items(find_object(policy, "status"), "conditions")
        if each.get("observedGeneration") in (None, generation)
    ]
    if not reported:
        return _NOT_REPORTED
    found = (conditions.find(reported, each) for each in (ACCEPTED, OWNER_ALIVE, WITHIN_MAX_AGE))
    problems = [find_text(each, "reason") for each in found if each is not None and each.get("status") != "True"]
    return ", ".join(problems) or _HEALTHY
