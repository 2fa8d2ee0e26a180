"""Terminating pods whose quota is released, against a recount of all objects: in any order of watch events, the metrics
and the Events are those that the present objects demand."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers.framework.effects import EffectResponse, EmitEvent
from headgate.controllers.framework.reconcile import Enqueue, RequeueAfter
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.terminating_pods import TerminatingPodsController
from headgate.kube.api_resources import PODS
from headgate.kube.timestamps import format_time
from headgate.quota.api.quota_reservation import QuotaReservation
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import QUOTA_RESERVATION

PODS_BY_UID = ("p1", "p2", "p3")
WORKLOADS_BY_UID = ("w1", "w2")
AFTER_S = 5.0
T0_S = 1_700_000_000


@dataclasses.dataclass(frozen=True)
class Pod:
    workload: str
    reserved: int
    deleted: int | None
    grace_s: int
    phase: str

    def wire(self, uid: str) -> dict[str, Any]:
        text = msgspec.json.encode(QuotaReservation(self.workload, "cq", "lq", {}, format_time(T0_S + self.reserved)))
        metadata: dict[str, Any] = {"namespace": "ns", "name": uid, "uid": uid}
        metadata["annotations"] = {QUOTA_RESERVATION: text.decode()}
        if self.deleted is not None:
            metadata["deletionTimestamp"] = format_time(T0_S + self.deleted)
            metadata["deletionGracePeriodSeconds"] = self.grace_s
        return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": self.phase}}


class Run:
    """The controller with its work queue, on a clock of the test."""

    def __init__(self) -> None:
        self.metrics = JobMetrics()
        self.controller = TerminatingPodsController(self.metrics, AFTER_S)
        self.due: dict[str, float] = {}
        self.now_s = float(T0_S)
        self.reported: list[str] = []

    def enqueue(self, found: Any) -> None:
        for each in found:
            assert isinstance(each, Enqueue)
            self.due[str(each.key)] = self.now_s + each.after_s

    def settle(self) -> None:
        while keys := [key for key, due_s in self.due.items() if due_s <= self.now_s]:
            key = keys[0]
            del self.due[key]
            steps = self.controller.reconcile(key, self.now_s)
            try:
                effect = next(steps)
                while True:
                    assert isinstance(effect, EmitEvent)
                    self.reported.append(effect.about["uid"])
                    effect = steps.send(EffectResponse(202, {}, self.now_s))
            except StopIteration as done:
                if isinstance(done.value, RequeueAfter):
                    self.due[key] = self.now_s + done.value.after_s

    def shown(self) -> tuple[float, ...]:
        lines = (line.rpartition(" ") for line in self.metrics.page(self.now_s).decode().splitlines())
        return tuple(float(value) for name, _, value in lines if "_released_pods" in name and name[0] != "#")


def grace_ends(pods: dict[str, Pod], quota: dict[str, int]) -> dict[str, int]:
    """When the grace periods end of the terminating pods whose quota is released."""
    return {
        uid: T0_S + pod.deleted
        for uid, pod in pods.items()
        if pod.deleted is not None and pod.phase == "Running" and quota.get(pod.workload) != pod.reserved
    }


def expected(ends: dict[str, int], began: dict[str, float], now_s: float) -> tuple[float, ...]:
    overdue = [end_s for end_s in ends.values() if end_s + AFTER_S <= now_s]
    oldest = max(now_s - min(began[uid] for uid in ends), 0) if ends else 0
    return len(ends), oldest, len(overdue), now_s - min(overdue) if overdue else 0


POD_STEPS = st.tuples(
    st.sampled_from(PODS_BY_UID),
    st.one_of(
        st.none(),
        st.builds(
            Pod,
            st.sampled_from(WORKLOADS_BY_UID),
            st.integers(0, 1),
            st.sampled_from((None, 0, 1, 3, 9, 15)),
            st.integers(0, 10),
            st.sampled_from(("Running", "Running", "Failed")),
        ),
    ),
)
QUOTA_STEPS = st.tuples(st.sampled_from(WORKLOADS_BY_UID), st.one_of(st.none(), st.integers(0, 1)))
STEPS = st.lists(st.one_of(POD_STEPS, QUOTA_STEPS, st.integers(1, 20)), min_size=1, max_size=40)


@given(STEPS)
def test_metrics_and_events_follow_from_the_present_objects(steps: list[Any]) -> None:
    run = Run()
    pods: dict[str, Pod] = {}
    quota: dict[str, int] = {}
    began: dict[str, float] = {}
    reported: set[str] = set()  # since they began to terminate
    events: list[str] = []
    for step in steps:
        if isinstance(step, int):
            end_s = run.now_s + step
            while run.due and (next_s := min(run.due.values())) <= end_s:
                run.now_s = max(run.now_s, next_s)
                run.settle()
            run.now_s = end_s
        elif step[0] in PODS_BY_UID:
            uid, pod = step
            if pod is None:
                pods.pop(uid, None)
                run.enqueue(run.controller.removed(PODS, "ns", uid, uid, run.now_s))
            else:
                pods[uid] = pod
                run.enqueue(run.controller.applied(PODS, pod.wire(uid), run.now_s))
            if pod is None or pod.deleted is None or pod.phase != "Running":
                began.pop(uid, None)
                reported.discard(uid)
            else:
                began_s = float(T0_S + pod.deleted - pod.grace_s)
                began[uid] = min(began.get(uid, began_s), began_s)
        else:
            uid, reserved = step
            quota.pop(uid, None)
            listed: list[dict[str, Any]] = []
            if reserved is not None:
                quota[uid] = reserved
                at = format_time(T0_S + reserved)
                listed = [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": at}]
            wire = {"metadata": {"uid": uid, "namespace": "ns", "name": uid}, "status": {"conditions": listed}}
            run.enqueue(run.controller.applied(WORKLOADS, wire, run.now_s))
        run.settle()
        ends = grace_ends(pods, quota)
        assert run.shown() == expected(ends, began, run.now_s)
        new = {uid for uid, end_s in ends.items() if end_s + AFTER_S <= run.now_s} - reported
        reported |= new
        events += new
        assert sorted(run.reported) == sorted(events), "each overdue pod is reported once"
