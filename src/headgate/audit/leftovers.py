"""Checks what is left behind: gates, finalizers and quota that nothing needs any more.

A state counts from the moment at which it is seen, for a listed object from the time that the object itself names.
``lasting_states.py`` turns it into a finding when it lasts too long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.audit.findings import subject_of
from headgate.audit.lasting_states import LastingStates
from headgate.audit.pod_facts import KUEUE_GATES, PodFacts, seconds
from headgate.capacity.names import GATE
from headgate.jobs.names import MANAGED
from headgate.kube import conditions
from headgate.kube.object_meta import owner_references

Object = dict[str, Any]
Place = tuple[str, str]

IN_USE: Final = "kueue.x-k8s.io/resource-in-use"
_RECORDED_OWNERS: Final = frozenset({"Pod", "Job"})


class _Workload(msgspec.Struct, frozen=True):
    place: Place
    owners: tuple[str, ...]
    is_judged: bool
    """All its owners are of kinds that are recorded."""
    queue: str
    holds: bool
    reserved_s: float
    admitted_s: float


class LeftoverJudge:
    def __init__(self, states: LastingStates) -> None:
        self._states = states
        self._pods: dict[str, PodFacts] = {}
        self._ended_jobs: set[str] = set()
        self._jobs: set[str] = set()
        self._workloads: dict[Place, _Workload] = {}
        self._by_owner: dict[str, set[Place]] = {}
        self._flavors_in_use: dict[str, set[str]] = {}
        self._leaving_queues: dict[str, Object] = {}
        self._leaving_flavors: dict[str, Object] = {}
        self._now: tuple[float, int, bool] = (0.0, 0, False)

    def take_pod(self, pod: PodFacts, obj: Object, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        self._now = at_s, revision, observed
        if deleted:
            self._pods.pop(pod.uid, None)
            self._states.clear(pod.subject, at_s)
        else:
            self._pods[pod.uid] = pod
            self._judge_gates(pod)
            self._judge_finalizers(pod, obj)
        self._judge_holders(self._by_owner.get(pod.uid, ()))

    def take_job(self, obj: Object, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        self._now = at_s, revision, observed
        uid = str(obj["metadata"]["uid"])
        told = (obj.get("status") or {}).get("conditions")
        has_ended = any(conditions.is_true(told, each) for each in ("Complete", "Failed"))
        (self._jobs.discard if deleted else self._jobs.add)(uid)
        (self._ended_jobs.add if has_ended and not deleted else self._ended_jobs.discard)(uid)
        self._judge_holders(self._by_owner.get(uid, ()))

    def take_workload(self, obj: Object, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        self._now = at_s, revision, observed
        metadata = obj["metadata"]
        place = str(metadata.get("namespace") or ""), str(metadata["name"])
        before = self._workloads.pop(place, None)
        for owner in before.owners if before is not None else ():
            places = self._by_owner.get(owner, set())
            places.discard(place)
            if not places:
                self._by_owner.pop(owner, None)
        if deleted:
            self._states.clear(subject_of("Workload", *place), at_s)
        else:
            now = _read_workload(place, obj)
            self._workloads[place] = now
            for owner in now.owners:
                self._by_owner.setdefault(owner, set()).add(place)
            self._judge_holders([place])
        for queue in {each.queue for each in (before, self._workloads.get(place)) if each is not None}:
            self._judge_queue(queue)
        self._judge_gates_of(place, before)

    def take_cluster_queue(self, obj: Object, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        self._now = at_s, revision, observed
        name = str(obj["metadata"]["name"])
        groups = (obj.get("spec") or {}).get("resourceGroups") or ()
        flavors = {str(flavor["name"]) for group in groups for flavor in group.get("flavors") or ()}
        self._flavors_in_use[name] = flavors
        if deleted:
            del self._flavors_in_use[name]
            self._leaving_queues.pop(name, None)
            self._states.clear(subject_of("ClusterQueue", "", name), at_s)
        elif obj["metadata"].get("deletionTimestamp"):
            self._leaving_queues[name] = obj
            self._judge_queue(name)
        for each in list(self._leaving_flavors):
            self._judge_flavor(each)

    def take_flavor(self, obj: Object, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        self._now = at_s, revision, observed
        name = str(obj["metadata"]["name"])
        if deleted:
            self._leaving_flavors.pop(name, None)
            self._states.clear(subject_of("ResourceFlavor", "", name), at_s)
        elif obj["metadata"].get("deletionTimestamp"):
            self._leaving_flavors[name] = obj
            self._judge_flavor(name)

    # -- gates -----------------------------------------------------------------------------------------------------

    def _judge_gates(self, pod: PodFacts) -> None:
        is_waiting = pod.is_active and not pod.node
        has_kueue_gate = is_waiting and any(each in KUEUE_GATES for each in pod.gates)
        orphaned = None
        certain = True
        if has_kueue_gate and not pod.is_kueue_managed and not pod.kueue_queue:
            orphaned = "it has a gate of Kueue's queues, and is in none of them"
        elif is_waiting and GATE in pod.gates and not pod.opted_in:
            orphaned, certain = "it has the queue gate and did not opt in, so no component removes the gate", False
        self._set("orphaned-gate", pod.subject, orphaned, pod.created_s, certain=certain)
        late, late_s = None, pod.created_s
        if is_waiting and GATE in pod.gates and pod.stamp is not None:
            late = f"its capacity is promised by queue {pod.stamp.queue}, and it keeps the queue gate"
        elif has_kueue_gate and not pod.foreign_gates:
            admitted = [self._workloads[each].admitted_s for each in self._places(pod)]
            late_s = max(admitted, default=0.0)
            late = "its Workload is admitted, and it keeps the gate" if late_s else None
        self._set("gate-not-lifted", pod.subject, late, late_s)

    def _judge_gates_of(self, place: Place, before: _Workload | None) -> None:
        now = self._workloads.get(place)
        owners = {*(now.owners if now is not None else ()), *(before.owners if before is not None else ())}
        for uid in owners:
            if (pod := self._pods.get(uid)) is not None:
                self._judge_gates(pod)

    def _places(self, pod: PodFacts) -> Iterable[Place]:
        return self._by_owner.get(pod.uid, ())

    # -- finalizers ------------------------------------------------------------------------------------------------

    def _judge_finalizers(self, pod: PodFacts, obj: Object) -> None:
        left = MANAGED in (obj["metadata"].get("finalizers") or ()) and pod.is_terminating
        is_over = left and (pod.is_terminal or not pod.node) and not any(map(self._is_held, self._places(pod)))
        text = f"it has ended, and keeps the finalizer {MANAGED}" if is_over else None
        self._set("orphaned-finalizer", pod.subject, text, pod.terminates_s)

    def _is_held(self, place: Place) -> bool:
        found = self._workloads.get(place)
        return found is not None and found.holds

    def _judge_queue(self, name: str) -> None:
        obj = self._leaving_queues.get(name)
        if obj is None:
            return
        is_used = any(each.holds and each.queue == name for each in self._workloads.values())
        text, since_s = _unused_text(obj, is_used), seconds(obj["metadata"].get("deletionTimestamp"))
        self._set("orphaned-finalizer", subject_of("ClusterQueue", "", name), text, since_s)

    def _judge_flavor(self, name: str) -> None:
        is_used = any(name in flavors for flavors in self._flavors_in_use.values())
        obj = self._leaving_flavors[name]
        text, since_s = _unused_text(obj, is_used), seconds(obj["metadata"].get("deletionTimestamp"))
        self._set("orphaned-finalizer", subject_of("ResourceFlavor", "", name), text, since_s)

    # -- quota -----------------------------------------------------------------------------------------------------

    def _judge_holders(self, places: Iterable[Place]) -> None:
        for place in list(places):
            workload = self._workloads[place]
            text = None
            if workload.holds and workload.is_judged and not any(map(self._needs_quota, workload.owners)):
                text = f"it holds quota of ClusterQueue {workload.queue}, and all its owners have ended"
            # A list does not say when the owners ended.
            certain = self._now[2]
            self._set("quota-leaked", subject_of("Workload", *place), text, workload.reserved_s, certain=certain)

    def _needs_quota(self, uid: str) -> bool:
        pod = self._pods.get(uid)
        if pod is not None:
            return not pod.is_terminal
        return uid in self._jobs and uid not in self._ended_jobs

    def _set(self, rule: str, subject: str, text: str | None, since_s: float, *, certain: bool = True) -> None:
        """``since_s``: when the state of a listed object began, as the object says; 0 if it does not."""
        at_s, revision, observed = self._now
        begin_s = at_s if observed or not since_s else min(at_s, since_s)
        self._states.set(rule, subject, text, at_s, revision, certain=certain, since_s=begin_s)


def _read_workload(place: Place, obj: Object) -> _Workload:
    status = obj.get("status") or {}
    told, references = status.get("conditions"), owner_references(obj)
    holds = bool(status.get("admission")) and conditions.is_true(told, "QuotaReserved")
    admitted = conditions.find(told, "Admitted") or {}
    is_admitted = admitted.get("status") == "True"
    return _Workload(
        place,
        tuple(str(each.get("uid") or "") for each in references),
        bool(references) and all(each.get("kind") in _RECORDED_OWNERS for each in references),
        str((status.get("admission") or {}).get("clusterQueue") or ""),
        holds and not conditions.is_true(told, "Finished"),
        seconds((conditions.find(told, "QuotaReserved") or {}).get("lastTransitionTime")),
        max(seconds(admitted.get("lastTransitionTime")), 1.0) if is_admitted else 0.0,
    )


def _unused_text(obj: Object, is_used: bool) -> str | None:
    is_left = obj["metadata"].get("deletionTimestamp") and IN_USE in (obj["metadata"].get("finalizers") or ())
    return f"nothing uses it, and it keeps the finalizer {IN_USE}" if is_left and not is_used else None
