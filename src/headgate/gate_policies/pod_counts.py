"""How many pods of each namespace wait behind each gate, updated by watch events and by admissions.

A pod that was admitted counts at once, and not only when the watch delivers it: several pods that are created at the
same time would otherwise all pass the same limit. If the watch does not deliver it within ``ADMISSION_LIFETIME_S``, its
creation has failed, and it is no longer counted. The cost of an event depends on the gates of the pod only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.gate_policies.decision import gates_of
from headgate.kube.lenient_reader import find_object, find_text
from headgate.waiting.heap import DeadlineHeap

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace and name of a pod."""

ADMISSION_LIFETIME_S: Final = 10.0
"""How long an admitted pod counts that the watch does not deliver."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def waiting_gates(pod: Object) -> frozenset[str]:
    """The gates behind which the pod waits; none if it has ended or has a node."""
    spec = find_object(pod, "spec")
    if spec.get("nodeName") or find_text(pod, "status", "phase") in _ENDED:
        return frozenset()
    return frozenset(gates_of(spec))


class AdmittedPod(msgspec.Struct, frozen=True):
    """A new pod that admission allowed. ``name``: the name of the pod; if the API server has not generated it yet, the
    uid of the request."""

    namespace: str
    name: str
    gates: frozenset[str]


class GatedPodCounts:
    """Counts pods by gate and namespace: those that the watch has delivered, and those that were admitted since."""

    def __init__(self) -> None:
        self._counts: Final[dict[tuple[str, str], int]] = {}  # by gate and namespace
        self._watched: Final[dict[Key, frozenset[str]]] = {}
        self._admitted: Final[dict[Key, AdmittedPod]] = {}
        self._expiry: Final = DeadlineHeap[Key]()

    def apply(self, pod: Object) -> None:
        metadata = find_object(pod, "metadata")
        key = find_text(metadata, "namespace"), find_text(metadata, "name")
        self._end_admission(key)
        self.remove(*key)
        gates = waiting_gates(pod)
        if gates:
            self._watched[key] = gates
            self._add(key[0], gates, 1)

    def remove(self, namespace: str, name: str) -> None:
        """The watch shows that a pod was deleted. A new pod of the same name that was admitted since still counts."""
        self._add(namespace, self._watched.pop((namespace, name), frozenset()), -1)

    def forget(self, namespace: str, name: str) -> None:
        """The pod does not exist or has no gate, and no creation of it is in progress."""
        self._end_admission((namespace, name))
        self.remove(namespace, name)

    def admit(self, pod: AdmittedPod, now_s: float) -> None:
        """Counts a pod until :meth:`apply` receives it, or for :data:`ADMISSION_LIFETIME_S`. If a pod of that name
        exists, the creation will fail, so nothing is added."""
        key = pod.namespace, pod.name
        if key in self._watched:
            return
        self._end_admission(key)
        self._admitted[key] = pod
        self._expiry.put(key, now_s + ADMISSION_LIFETIME_S)
        self._add(pod.namespace, pod.gates, 1)

    def count(self, gate: str, namespace: str, now_s: float) -> int:
        for key in list(self._expiry.due(now_s)):
            self._end_admission(key)
        return self._counts.get((gate, namespace), 0)

    def _end_admission(self, key: Key) -> None:
        pod = self._admitted.pop(key, None)
        if pod is not None:
            self._expiry.discard(key)
            self._add(pod.namespace, pod.gates, -1)

    def _add(self, namespace: str, gates: frozenset[str], change: int) -> None:
        for gate in gates:
            count = self._counts.get((gate, namespace), 0) + change
            if count:
                self._counts[gate, namespace] = count
            else:
                del self._counts[gate, namespace]
