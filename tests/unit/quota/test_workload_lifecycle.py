"""The lifecycle of workloads by rules and deadlines: stopped queues, deactivation, checks, gates, PodsReady."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.quota.api.admission_checks import required_checks, reset_checks
from headgate.quota.api.cluster_queue import ClusterQueue, find_active_condition, read_cluster_queue
from headgate.quota.api.pods_ready import WaitForPodsReady
from headgate.quota.api.workload import AdmissionCheckState
from headgate.quota.effects import Admit, Effect, Evict
from headgate.quota.engine import QuotaSettings
from kueue_builders import START_S, a_cluster_queue
from quota_engine import Api

_GATES = {"kueue.x-k8s.io/admission-gated-by": "example.com/a,example.com/b"}


def kinds(effects: list[Effect]) -> list[str]:
    return [type(each).__name__ for each in effects]


def running(**queue: Any) -> Api:
    api = Api()
    api.queue(**queue)
    api.submit("w", cpu=1)
    api.cycle()
    return api


def set_check(api: Api, name: str, check: str, state: str, **more: Any) -> list[Effect]:
    def change(wire: dict[str, Any]) -> None:
        for each in wire["status"]["admissionChecks"]:
            if each["name"] == check:
                each.update(state=state, **more)

    return api.change(name, change)


def test_a_held_queue_keeps_admitted_workloads_and_admits_no_other() -> None:
    api = running()
    api.queue(stopPolicy="Hold")
    api.submit("new", cpu=1)
    api.cycle()
    assert api.admitted() == ["w"]
    assert api.condition("w", "Evicted")[0] == ""
    assert api.condition("new") == ("False", "Suspended", "ClusterQueue cq is inactive")
    api.queue(stopPolicy="None")
    api.cycle()
    assert api.admitted() == ["new", "w"]


def test_a_drained_queue_evicts_and_requeues_when_it_is_restarted() -> None:
    api = running()
    api.queue(stopPolicy="HoldAndDrain")
    assert api.condition("w", "Evicted") == ("True", "ClusterQueueStopped", "The ClusterQueue is stopped")
    api.gone("w")
    api.cycle()
    assert api.admitted() == []
    api.queue()
    assert api.condition("w", "Requeued")[:2] == ("True", "ClusterQueueRestarted")
    api.cycle()
    assert api.admitted() == ["w"]


def test_a_local_queue_may_be_drained_alone() -> None:
    api = running()
    api.local("lq", "cq", stopPolicy="HoldAndDrain")
    assert api.condition("w", "Evicted") == ("True", "LocalQueueStopped", "The LocalQueue is stopped")
    api.gone("w")
    api.local("lq", "cq")
    assert api.condition("w", "Requeued")[1] == "LocalQueueRestarted"
    api.cycle()
    assert api.admitted() == ["w"]


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda api: api.remove("local_queue", "ns/lq"), ("False", "Misconfigured", "LocalQueue lq doesn't exist")),
        (lambda api: api.local("lq", "cq", stopPolicy="Hold"), ("False", "Suspended", "LocalQueue lq is inactive")),
        (lambda api: api.remove("cluster_queue", "cq"), ("False", "Misconfigured", "ClusterQueue cq doesn't exist")),
        (
            lambda api: api.queue(namespaceSelector={"matchLabels": {"team": "a"}}),
            ("False", "Misconfigured", "workload namespace doesn't match ClusterQueue selector"),
        ),
        (
            lambda api: api.remove("namespace", "ns"),
            ("False", "Misconfigured", 'workload namespace "ns" does not exist'),
        ),
        (lambda api: api.remove("flavor", "default"), ("False", "Suspended", "ClusterQueue cq is inactive")),
    ],
)
def test_a_blocked_workload_reports_its_blocker(prepare: Any, expected: tuple[str, str, str]) -> None:
    api = Api()
    api.queue()
    api.submit("w", cpu=1)
    prepare(api)
    assert api.condition("w") == expected
    assert api.cycle() == []
    api.namespace("ns", team="a")
    api.flavor("default")
    api.queue()
    api.cycle()
    assert api.admitted() == ["w"]


def test_a_deactivated_workload_is_evicted_and_requeued_when_reactivated() -> None:
    api = running()
    api.change("w", lambda wire: wire["spec"].update(active=False))
    assert api.condition("w", "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    api.gone("w")
    api.cycle()
    assert api.admitted() == []
    api.change("w", lambda wire: wire["spec"].update(active=True))
    assert api.condition("w", "Requeued")[:2] == ("True", "Reactivated")
    api.cycle()
    assert api.admitted() == ["w"]


def test_gates_keep_a_workload_out_of_its_queue_until_none_is_left() -> None:
    api = Api()
    api.queue(queueingStrategy="StrictFIFO")
    api.submit("gated", cpu=1, annotations=_GATES)
    api.submit("behind", cpu=1, at_s=9)
    api.cycle()
    assert api.admitted() == ["behind"]
    assert api.condition("gated") == ("False", "AdmissionGated", "Admission is gated by: example.com/a,example.com/b")
    assert api.events[0].message == "Workload admission is gated by: example.com/a,example.com/b"
    api.change("gated", lambda wire: wire["metadata"].update(annotations={}))
    assert api.condition("gated") == (
        "False",
        "PendingEvaluation",
        "AdmissionGatedBy cleared, waiting for quota reservation",
    )
    api.cycle()
    assert api.admitted() == ["behind", "gated"]


def test_gates_have_no_effect_when_the_feature_is_off() -> None:
    api = Api(QuotaSettings(honours_gates=False))
    api.queue()
    api.submit("gated", cpu=1, annotations=_GATES)
    api.cycle()
    assert api.admitted() == ["gated"]


def test_gates_take_no_quota_away_when_the_feature_is_switched_on() -> None:
    api = Api()
    api.queue()
    api.submit("admitted", cpu=1)
    api.cycle()
    api.change("admitted", lambda wire: wire["metadata"].update(annotations=_GATES))
    api.cycle()
    assert api.admitted() == ["admitted"]
    assert api.condition("admitted")[0] == "True"


def checked() -> Api:
    api = Api()
    for name in ("a", "b"):
        api.engine.check_applied(name, True, api.now_s)
    api.queue(admissionChecksStrategy={"admissionChecks": [{"name": "a"}, {"name": "b"}]})
    api.submit("w", cpu=1)
    api.cycle()
    return api


def test_quota_is_reserved_and_the_workload_admitted_once_all_checks_are_ready() -> None:
    api = checked()
    assert api.condition("w")[0] == "True"
    assert api.condition("w", "Admitted") == (
        "False",
        "UnsatisfiedAdmissionChecks",
        "The workload has not all checks ready",
    )
    set_check(api, "w", "a", "Ready")
    assert api.condition("w", "Admitted")[0] == "False"
    api.now_s += 7
    set_check(api, "w", "b", "Ready")
    assert api.condition("w", "Admitted")[0] == "True"
    assert api.events[-1].message == "Admitted by ClusterQueue cq, wait time since reservation was 7s"


def test_a_check_in_retry_evicts_and_delays_the_requeue() -> None:
    api = checked()
    set_check(api, "w", "a", "Retry", message="no node", requeueAfterSeconds=30)
    status, reason, message = api.condition("w", "Evicted")
    assert (status, reason, message) == (
        "True",
        "AdmissionCheck",
        'Evicted due to AdmissionCheck in Retry state: "a" (no node)',
    )
    check = api.objects["workload", "ns/w"]["status"]["admissionChecks"][0]
    assert (check["state"], check["message"]) == ("Pending", "Reset to Pending after eviction. Previously: Retry")
    api.gone("w")
    assert [each for each in api.pass_s(29) if isinstance(each, Admit)] == []
    assert api.engine.next_deadline_s() == START_S + 30
    assert "Admit" in kinds([*api.pass_s(1), *api.cycle()])


def test_a_rejected_check_deactivates() -> None:
    api = checked()
    set_check(api, "w", "b", "Rejected", message="never")
    assert api.objects["workload", "ns/w"]["spec"]["active"] is False
    status, reason, message = api.condition("w", "Evicted")
    assert (status, reason) == ("True", "Deactivated")
    assert message == 'The workload is deactivated due to AdmissionCheck in Rejected state: "b" (never)'


def test_checks_may_be_for_some_flavors_only() -> None:
    queue = read_cluster_queue(
        a_cluster_queue(
            "cq",
            {"spot": {"cpu": 1}, "fixed": {"cpu": 1}},
            admissionChecksStrategy={"admissionChecks": [{"name": "all"}, {"name": "spot", "onFlavors": ["spot"]}]},
        )
    )
    assert isinstance(queue, ClusterQueue)
    assert required_checks(queue, None) == {"all"}
    api = Api()
    api.queue()
    api.submit("w", cpu=1)
    admission = next(each.admission for each in api.cycle() if isinstance(each, Admit))
    assert required_checks(queue, admission) == set()


def test_after_an_eviction_admission_checks_are_reset() -> None:
    before = (
        AdmissionCheckState("a", "Retry", "no", 1.0, 30, 2),
        AdmissionCheckState("b", "Ready"),
        AdmissionCheckState("c"),
    )
    after = reset_checks(before, 9.0)
    assert [(each.state, each.retries) for each in after] == [("Pending", 3), ("Pending", 0), ("Pending", 0)]
    assert after[0].message == "Reset to Pending after eviction. Previously: Retry"
    assert after[2] == before[2]


def test_an_inactive_queue_reports_all_reasons() -> None:
    queue = read_cluster_queue(
        a_cluster_queue(
            "cq", stopPolicy="Hold", admissionChecksStrategy={"admissionChecks": [{"name": "a"}, {"name": "b"}]}
        )
    )
    assert isinstance(queue, ClusterQueue)
    found = find_active_condition(queue, (), {"b": False})
    assert (found.reason, found.message) == (
        "Stopped",
        "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): default, "
        "references missing AdmissionCheck(s): a, references inactive AdmissionCheck(s): b.",
    )
    assert find_active_condition(queue, ("default",), {"a": True, "b": True}).reason == "Stopped"


def impatient(limit: int | None = None) -> Api:
    api = Api(QuotaSettings(pods_ready=WaitForPodsReady(timeout_s=100.0, recovery_timeout_s=20.0, backoff_limit=limit)))
    api.queue()
    api.submit("w", cpu=1)
    api.cycle()
    return api


def test_a_pods_ready_timeout_evicts_with_a_back_off_that_doubles() -> None:
    api = impatient()
    for wait_s in (60, 120):
        assert [each for each in api.pass_s(99) if isinstance(each, Evict)] == []
        assert api.engine.next_deadline_s() == api.now_s + 1
        evicted = [each for each in api.pass_s(1) if isinstance(each, Evict)]
        assert [(each.reason, each.cause) for each in evicted] == [("PodsReadyTimeout", "WaitForStart")]
        api.gone("w")
        api.pass_s(wait_s - 1)
        assert api.admitted() == []
        api.pass_s(1)
        api.cycle()
        assert api.admitted() == ["w"]
        assert api.condition("w", "Requeued")[1] == "BackoffFinished"


def test_ready_pods_have_no_timeout_until_one_is_lost() -> None:
    api = impatient()
    api.change("w", lambda wire: api._condition(wire, "PodsReady", True, "Started", ""))
    assert api.engine.next_deadline_s() is None
    api.pass_s(500)
    api.change("w", lambda wire: api._condition(wire, "PodsReady", False, "WaitForRecovery", ""))
    assert [each.cause for each in api.pass_s(20) if isinstance(each, Evict)] == ["WaitForRecovery"]


def test_after_too_many_timeouts_the_workload_is_deactivated() -> None:
    api = impatient(limit=1)
    api.pass_s(100)
    api.gone("w")
    api.pass_s(60)
    api.cycle()
    api.pass_s(100)
    status, reason, message = api.condition("w", "Evicted")
    assert (status, reason) == ("True", "Deactivated")
    assert message == "The workload is deactivated due to exceeding the maximum number of re-queuing retries"


def test_the_back_off_doubles_up_to_its_maximum() -> None:
    rules = WaitForPodsReady(backoff_base_s=60, backoff_max_s=3600)
    waits_s = [rules.backoff_s(count) for count in (0, 1, 2, 3, 6, 7, 8, 100)]
    assert waits_s == [0, 60, 120, 240, 1920, 3600, 3600, 3600]


def test_the_maximum_execution_time_deactivates_the_workload() -> None:
    api = Api()
    api.queue()
    api.submit("w", cpu=1, maximumExecutionTimeSeconds=50)
    api.cycle()
    assert api.engine.next_deadline_s() == START_S + 50
    api.pass_s(50)
    assert api.condition("w", "Evicted") == (
        "True",
        "Deactivated",
        "The workload is deactivated due to exceeding the maximum execution time",
    )


def test_a_reservation_without_admission_is_released_when_its_queue_is_stopped() -> None:
    api = checked()
    api.local("lq", "cq", stopPolicy="Hold")
    assert api.condition("w") == ("False", "Suspended", "LocalQueue lq is inactive")
    assert api.admitted() == []
