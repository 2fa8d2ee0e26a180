"""Which state a pod, a job or a Workload has reached, and why not the next one."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.jobs.kinds.batch_job import JOB
from headgate.runtime.inspection.awaited import AwaitedState, Condition, job_state, pod_state, workload_state
from kueue_builders import a_condition, a_workload, reserved

Wire = dict[str, Any]
STAMP = '{"uid":"u","queue":"eng","requests":{"cpu":"1"},"at":"2026-01-01T00:00:00.000000Z"}'


def a_pod(phase: str = "Pending", node: str = "", gates: tuple[str, ...] = (), **metadata: Any) -> Wire:
    spec = {"schedulingGates": [{"name": each} for each in gates], **({"nodeName": node} if node else {})}
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata},
        "spec": spec,
        "status": {"phase": phase},
    }


def a_job(suspend: bool = False, queue: str = "lq", parallelism: int = 2, **status: Any) -> Wire:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    spec = {"suspend": suspend, "parallelism": parallelism}
    return {"metadata": {"name": "j", "namespace": "ns", "uid": "j", "labels": labels}, "spec": spec, "status": status}


def outcomes(state: AwaitedState) -> tuple[str, str]:
    return state.outcome, state.text


@pytest.mark.parametrize(
    ("pod", "condition", "expected"),
    [
        (a_pod(gates=("a", "b")), "gate-lifted", ("pending", "held by a, b")),
        (a_pod(), "gate-lifted", ("reached", "it has no gates")),
        (a_pod(), "scheduled", ("pending", "no scheduler has tried it yet")),
        (a_pod(node="n"), "scheduled", ("reached", "it is on node n")),
        (a_pod(node="n"), "running", ("pending", "it is on node n (Pending)")),
        (a_pod("Running", "n"), "running", ("reached", "it runs on node n")),
        (a_pod("Running", "n"), "finished", ("pending", "it is on node n (Running)")),
        (a_pod("Succeeded", "n"), "running", ("reached", "it has succeeded")),
        (a_pod("Failed", "n"), "running", ("impossible", "it has failed")),
        (a_pod(deletionTimestamp="x"), "scheduled", ("pending", "it is being deleted")),
        (a_pod(annotations={"headgate.dev/admitted": STAMP}), "admitted", ("reached", "it is admitted by queue eng")),
        (a_pod(uid="other", annotations={"headgate.dev/admitted": STAMP}), "admitted", ("pending", None)),
        (a_pod(labels={"kueue.x-k8s.io/managed": "true"}), "admitted", ("pending", "it has no Workload yet")),
    ],
)
def test_states_of_a_pod(pod: Wire, condition: Condition, expected: tuple[str, str | None]) -> None:
    found = pod_state(pod, [], condition)
    assert found.outcome == expected[0]
    assert expected[1] in (None, found.text)


def test_one_gate_may_be_gone_while_others_stay() -> None:
    pod = a_pod(gates=("a", "b"))
    assert outcomes(pod_state(pod, [], "gate-lifted", "a")) == ("pending", "held by a")
    assert outcomes(pod_state(pod, [], "gate-lifted", "c")) == ("reached", "gate c is gone")


def test_states_of_a_workload() -> None:
    waiting = a_workload("w", status={"conditions": [a_condition("QuotaReserved", False, "Pending", "no quota")]})
    assert outcomes(workload_state(waiting, "admitted")) == ("pending", "it waits for quota: Pending: no quota")
    admitted = a_workload("w", status=reserved(cpu=1))
    assert outcomes(workload_state(admitted, "admitted")) == ("reached", "it is admitted by ClusterQueue cq")
    assert workload_state(admitted, "finished").outcome == "pending"
    done = a_workload("w", status={"conditions": [a_condition("Finished", reason="Succeeded")]})
    assert workload_state(done, "admitted").outcome == "reached"
    failed = a_workload("w", status={"conditions": [a_condition("Finished", reason="Failed", message="boom")]})
    assert outcomes(workload_state(failed, "finished")) == ("impossible", "it has failed: Failed: boom")
    gated = a_workload("w", annotations={"kueue.x-k8s.io/admission-gated-by": "a.example/x,b.example/y"})
    assert outcomes(workload_state(gated, "gate-lifted")) == ("pending", "held by a.example/x, b.example/y")


def test_states_of_a_job() -> None:
    def state(
        job: Wire, condition: Condition, workloads: tuple[Wire, ...] = (), pods: tuple[Wire, ...] = ()
    ) -> tuple[str, str]:
        return outcomes(job_state(JOB, job, workloads, pods, condition))

    assert state(a_job(True), "admitted") == ("pending", "it has no Workload yet")
    assert state(a_job(True), "admitted", (a_workload("w", status=reserved(cpu=1)),))[0] == "reached"
    assert state(a_job(queue=""), "admitted") == ("reached", "it is in no queue, and is not suspended")
    assert state(a_job(True), "running") == ("pending", "it is suspended: its queue has not admitted it")
    assert state(a_job(active=2, ready=1), "running")[0] == "reached"
    assert state(a_job(active=2), "scheduled", pods=(a_pod(node="n"), a_pod(gates=("g",)))) == (
        *("pending", "1 of 2 pods are on nodes: held by g"),
    )
    assert state(a_job(active=2), "scheduled", pods=(a_pod(node="n"), a_pod(node="m")))[0] == "reached"
    complete = [{"type": "Complete", "status": "True"}]
    assert state(a_job(conditions=complete), "admitted")[0] == "reached"
    failed = [{"type": "Failed", "status": "True", "reason": "x", "message": "too slow"}]
    assert state(a_job(conditions=failed), "finished")[0] == "impossible"
