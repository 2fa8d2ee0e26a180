"""Which admitted workloads wait for terminating pods, decided by the engine from Workloads and pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.quota.api.pods_ready import WaitForPodsReady
from headgate.quota.effects import Effect, SetCondition
from headgate.quota.engine import QuotaSettings
from headgate.quota.explain.description import describe_workload
from kueue_builders import Wire, a_pod_set
from quota_engine import Api

WAITS = "WaitingForTerminatingPods"
WITHIN: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def preempted(settings: QuotaSettings | None = None, *, is_heard: bool = True) -> tuple[Api, Wire]:
    """A workload took the place of another one; the pod of that terminates, which may not have been heard yet."""
    api = Api(settings)
    api.queue("cq", {"default": {"cpu": 1}}, **WITHIN)
    api.submit("low")
    api.cycle()
    pod = api.pod("victim", "low")
    api.show(pod)
    api.submit("high", priority=5)
    api.cycle()
    if is_heard:
        api.terminate(pod)
    api.gone("low")
    api.cycle()
    assert "high" in api.admitted()
    return api, pod


def starts(effects: list[Effect]) -> int:
    return sum(isinstance(each, SetCondition) and each.type == WAITS and not each.is_true for each in effects)


def test_a_release_that_is_observed_before_its_pods_terminate_starts_no_workload() -> None:
    """Workloads and pods come by two watches."""
    api, pod = preempted(is_heard=False)
    assert api.condition("high", WAITS)[0] == "True"
    api.terminate(pod)
    api.cycle()
    api.pass_s(30)
    assert api.condition("high", WAITS)[0] == "True"
    api.engine.pod_removed("uid-victim")
    api.cycle()
    assert api.condition("high", WAITS)[0] == "False"


def test_a_pod_that_never_terminates_after_the_release_is_not_waited_for() -> None:
    api, _ = preempted(is_heard=False)
    api.pass_s(4)
    assert api.condition("high", WAITS)[:2] == ("False", "TerminatingPodsNotCounted")


def test_a_start_is_reported_once_although_the_watch_is_late() -> None:
    api, _ = preempted()
    api.lag = True
    api.engine.pod_removed("uid-victim")
    assert starts(api.cycle()) == 1
    shown = api.objects["workload", "ns/high"]
    api.engine.workload_applied({**shown, "metadata": {**shown["metadata"], "resourceVersion": "1"}}, api.now_s)
    assert starts(api.cycle()) == 0
    api.catch_up()
    assert starts(api.cycle()) == 0


def test_a_start_that_the_server_rejects_is_reported_again() -> None:
    api, _ = preempted()
    api.engine.pod_removed("uid-victim")
    (told,) = [each for each in api.engine.run_cycle(api.now_s) if isinstance(each, SetCondition)]
    api.perform(api.engine.refused(told, api.now_s))
    assert starts(api.cycle()) == 1


def test_a_restarted_engine_waits_for_the_same_pods() -> None:
    api, _ = preempted()
    api.restart()
    assert starts(api.cycle()) == 0
    api.pass_s(62)
    assert api.condition("high", WAITS)[0] == "True"
    assert api.engine.next_deadline_s() is not None
    api.pass_s(2)
    assert api.condition("high", WAITS)[0] == "False", "the pod is overdue"


def test_a_borrower_waits_for_terminating_pods_of_other_queues_of_the_cohort() -> None:
    api = Api()
    api.queue("one", {"default": {"cpu": 1}}, local="one", cohortName="co")
    api.queue("two", {"default": {"cpu": 1}}, local="two", cohortName="co")
    _borrow_and_terminate(api)
    api.submit("owner", queue="two")
    api.cycle()
    assert api.condition("owner", WAITS)[0] == "True"
    api.queue("two", {"default": {"cpu": 1}}, local="two")  # it leaves the cohort
    api.cycle()
    assert api.condition("owner", WAITS)[:2] == ("False", "FitsBesideTerminatingPods")


def test_pods_of_a_queue_that_is_deleted_are_not_waited_for() -> None:
    api = Api()
    api.queue("one", {"default": {"cpu": 1}}, local="one", cohortName="co")
    api.queue("two", {"default": {"cpu": 1}}, local="two", cohortName="co")
    _borrow_and_terminate(api)
    api.submit("owner", queue="two")
    api.cycle()
    assert api.condition("owner", WAITS)[0] == "True"
    api.remove("cluster_queue", "one")
    api.cycle()
    assert api.condition("owner", WAITS)[0] == "False"


def test_pods_of_another_tree_of_cohorts_are_not_waited_for() -> None:
    api = Api()
    api.cohort("left", "root")
    api.queue("one", {"default": {"cpu": 1}}, local="one", cohortName="left")
    api.queue("two", {"default": {"cpu": 1}}, local="two", cohortName="root")
    _borrow_and_terminate(api)
    api.submit("owner", queue="two")
    api.cycle()
    assert api.condition("owner", WAITS)[0] == "True"
    api.remove("cohort", "left")
    api.cycle()
    assert api.condition("owner", WAITS)[0] == "False"


def _borrow_and_terminate(api: Api) -> None:
    """A pod of a workload in the LocalQueue "one" terminates that borrowed the quota of another queue."""
    api.submit("borrower", queue="one", cpu=2)
    api.cycle()
    pod = api.pod("borrowing", "borrower", cpu=2)
    api.show(pod)
    api.terminate(pod)
    api.remove("workload", "ns/borrower")


def _give_to_cohort(api: Api) -> None:
    api.cohort("co", "", {"default": {"cpu": 1}})


def _end(api: Api) -> None:
    api.remove("workload", "ns/other")


def _reclaim(api: Api) -> None:
    api.change("other", lambda wire: wire["status"].update(reclaimablePods=[{"name": "main", "count": 1}]))


@pytest.mark.parametrize("change", [_give_to_cohort, _end, _reclaim], ids=["cohort", "other ends", "other shrinks"])
def test_a_workload_that_fits_beside_the_terminating_pods_starts(change: Callable[[Api], object]) -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 3}}, cohortName="co", **WITHIN)
    api.submit("other", a_pod_set(count=2))
    api.submit("low")
    api.cycle()
    pod = api.pod("victim", "low")
    api.show(pod)
    api.terminate(pod)
    api.remove("workload", "ns/low")
    api.submit("high")
    api.cycle()
    assert api.condition("high", WAITS)[0] == "True"
    change(api)
    api.cycle()
    assert api.condition("high", WAITS)[:2] == ("False", "FitsBesideTerminatingPods")


@pytest.mark.parametrize("waited", [0, 200])
def test_the_pods_ready_timeout_begins_when_pods_may_start(waited: int) -> None:
    api, pod = preempted(QuotaSettings(pods_ready=WaitForPodsReady(timeout_s=100.0)))
    api.terminate(pod, 600)
    api.pass_s(waited)
    assert api.condition("high", "Evicted")[0] == ""
    api.engine.pod_removed("uid-victim")
    api.cycle()
    api.pass_s(99)
    assert api.condition("high", "Evicted")[0] == ""
    api.pass_s(2)
    assert api.condition("high", "Evicted")[:2] == ("True", "PodsReadyTimeout")


def test_explain_reports_the_terminating_pods() -> None:
    api, _ = preempted()
    found = describe_workload(api.engine, api.objects["workload", "ns/high"], True, api.now_s)
    assert found.summary.startswith("it is admitted by ClusterQueue cq, and its pods do not start yet: ")
    assert ", such as ns/victim (waited for until " in found.summary
    assert found.next[0].startswith("the terminating pods have to end")


def test_invalid_annotations_are_not_counted() -> None:
    api = Api()
    api.queue()
    api.submit("w")
    api.cycle()
    pod = api.pod("p", "w")
    for text in ("", "{", "[]", '{"workload": 1}', '{"workload":"u","clusterQueue":"cq"}'):
        pod["metadata"]["annotations"] = {"headgate.dev/quota-reservation": text}
        assert not api.engine.pod_applied(pod)


def test_a_terminating_pod_of_a_workload_that_holds_its_quota_is_counted_once() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 2}})
    api.submit("running")
    api.cycle()
    pod = api.pod("ending", "running")
    api.show(pod)
    api.terminate(pod)
    api.submit("next")
    api.cycle()
    assert api.condition("next", "Admitted")[0] == "True"
    assert api.condition("next", WAITS)[0] == ""


def test_a_workload_that_is_evicted_while_it_waits_does_not_start() -> None:
    api, _ = preempted()
    api.submit("higher", priority=9)
    api.cycle()
    assert api.condition("high", "Evicted")[0] == "True"
    api.engine.pod_removed("uid-victim")
    api.cycle()
    assert api.condition("high", WAITS)[0] == "True"


def test_a_workload_that_fits_after_an_admission_is_withdrawn_starts_in_the_same_cycle() -> None:
    api = Api()
    reclaims = {"reclaimWithinCohort": "Any"}
    for name, cpu in (("lender", 10), ("borrower", 0)):
        api.queue(name, {"default": {"cpu": cpu}}, local=name, cohortName="co", preemption=reclaims)
    api.submit("before", queue="lender", cpu=3)
    api.cycle()
    pod = api.pod("ending", "before", cpu=3)
    api.show(pod)
    api.terminate(pod)
    api.remove("workload", "ns/before")
    api.submit("first", queue="lender", cpu=2, at_s=1)
    api.submit("borrowing", queue="borrower", cpu=4, at_s=2)
    api.submit("waiting", queue="lender", cpu=2, at_s=3)  # beside the pod, "first" and "borrowing" use 9 of 10
    api.submit("reclaiming", queue="lender", cpu=3, at_s=4)
    api.cycle()
    assert api.admitted() == ["first", "reclaiming", "waiting"]
    assert api.condition("waiting", WAITS)[:2] == ("False", "FitsBesideTerminatingPods")


def test_a_workload_that_was_heard_before_its_queue_starts_because_the_pods_left() -> None:
    """A queue that is heard for the first time is no change of quota."""
    api, _ = preempted()
    del api.objects["pod", "uid-victim"]
    known = api.objects
    queue = known["cluster_queue", "cq"]
    api.objects = {at: wire for at, wire in known.items() if at[0] != "cluster_queue"}
    api.restart()
    api.objects = known
    api.perform(api.engine.cluster_queue_applied(queue, api.now_s))
    api.cycle()
    assert api.condition("high", WAITS)[:2] == ("False", "TerminatingPodsLeft")


def test_a_queue_that_is_heard_after_a_change_of_quota_does_not_hide_the_change() -> None:
    api = Api()
    api.queue("one", {"default": {"cpu": 1}}, local="one", cohortName="co")
    api.queue("two", {"default": {"cpu": 1}}, local="two", cohortName="co")
    _borrow_and_terminate(api)
    api.submit("owner", queue="two")
    api.cycle()
    api.queue("two", {"default": {"cpu": 1}}, local="two")  # it leaves the cohort
    api.queue("three", {"default": {"cpu": 1}}, local="three")
    api.cycle()
    assert api.condition("owner", WAITS)[:2] == ("False", "FitsBesideTerminatingPods")
