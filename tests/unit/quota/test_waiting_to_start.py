"""What ``workloads`` and ``explain pod`` report of an admitted workload that waits for terminating pods."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.capacity.explanation import PodExplanation, PodGate, explain
from headgate.cli.commands.explain_pod import with_admission_gate
from headgate.cli.commands.workloads import cells_of
from headgate.quota.explain.description import describe_workload
from headgate.quota.explain.workload_list import WorkloadRow, workload_rows
from headgate.runtime.inspection.pods import PodInspection
from headgate.runtime.inspection.quota import QuotaInspection
from quota_engine import Api

GATE = "kueue.x-k8s.io/admission"
WITHIN: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def preempted() -> Api:
    """``high`` is admitted and waits for the pod of ``low``, 60 seconds at most."""
    api = Api()
    api.queue("cq", {"default": {"cpu": 1}}, **WITHIN)
    api.submit("low")
    api.cycle()
    pod = api.pod("victim", "low")
    api.show(pod)
    api.submit("high", priority=5)
    api.cycle()
    api.terminate(pod)
    api.gone("low")
    api.cycle()
    return api


def listed(api: Api) -> WorkloadRow:
    (row,) = workload_rows(api.engine, [api.objects["workload", "ns/high"]])
    return row


def cells(api: Api) -> tuple[str, ...]:
    found = QuotaInspection(api.engine, {}, "1")
    return cells_of(found, listed(api), api.now_s, False, True)


def explained(api: Api, scheduler: str) -> PodExplanation:
    pod = {
        "metadata": {"namespace": "ns", "name": "high", "uid": "uid-pod"},
        "spec": {"schedulerName": scheduler, "schedulingGates": [{"name": GATE}]},
        "status": {"phase": "Pending"},
    }
    about = explain(pod, None, {}, [PodGate(GATE, "headgate", "")], ("headgate",))
    account = describe_workload(api.engine, api.objects["workload", "ns/high"], True, api.now_s)
    return with_admission_gate(about, PodInspection((account,)))


def test_a_workload_that_waits_to_start_has_a_status_of_its_own_and_no_execution_time() -> None:
    api = preempted()
    api.pass_s(30)
    row = listed(api)
    assert (row.state, row.reason) == ("waitingtostart", "QuotaReleasedEarly")
    assert row.admitted_s == api.now_s - 30
    assert row.started_s is None
    assert "such as ns/victim" in row.message
    shown = cells(api)
    assert (shown[5], shown[-1]) == ("WAITINGTOSTART", "QuotaReleasedEarly")
    assert shown[7] == "", "it has not run yet"


def test_the_execution_time_counts_from_the_start() -> None:
    api = preempted()
    api.pass_s(30)
    api.engine.pod_removed("uid-victim")
    api.cycle()
    api.pass_s(7)
    row = listed(api)
    assert (row.state, row.started_s, row.admitted_s) == ("admitted", api.now_s - 7, api.now_s - 37)
    assert cells(api)[7] == "7s"
    api.finish("high")
    api.pass_s(100)
    assert cells(api)[7] == "7s"


@pytest.mark.parametrize("scheduler", ["headgate", "default-scheduler"])
def test_a_pod_of_an_admitted_workload_is_explained_by_the_terminating_pods(scheduler: str) -> None:
    found = explained(preempted(), scheduler)
    assert found.summary.startswith("it waits for terminating pods to leave (its Workload is admitted)")
    (gate,) = [hold for hold in found.holds if hold.name == GATE]
    assert gate.text == "comes off when Workload ns/high, which is admitted, waits for terminating pods no longer"
    assert any(step.startswith("the terminating pods have to end, or quota has to grow") for step in found.next)
    assert not any("has to be admitted" in step for step in found.next)


def test_a_gated_pod_of_an_admitted_workload_does_not_report_a_missing_admission() -> None:
    """A replacement in a group that runs waits for the place of the pod before it."""
    api = preempted()
    api.engine.pod_removed("uid-victim")
    api.cycle()
    found = explained(api, "default-scheduler")
    assert found.summary == "it waits for a place in its Workload (which is admitted)"
    assert not any("has to be admitted" in step for step in found.next)


def test_a_pod_whose_workload_has_no_quota_waits_for_its_admission() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 0}})
    api.submit("high")
    api.cycle()
    found = explained(api, "default-scheduler")
    assert found.summary == "it waits for the admission of its Workload"
    assert found.next == ("Workload ns/high has to be admitted: see below",)
