"""Names of others in explanations become a count."""

from __future__ import annotations

from headgate.capacity.explanation import PodExplanation, PodHold
from headgate.capacity.names import QUEUES
from headgate.dashboard.redaction import redact, redact_detail, redact_estimate
from headgate.dashboard.rights import EVERYTHING, ViewerRights
from headgate.estimates.estimator import StartEstimate, no_basis
from headgate.kube.api_resources import PODS
from headgate.quota.explain.description import HolderDescription, ShortageDescription, WorkloadDescription
from headgate.quota.kinds.names import CLUSTER_QUEUES, WORKLOADS
from headgate.views.explanations import UnitDetail

MINE = frozenset({"mine"})
HOLD = PodHold("queue", "team", "queue team has no capacity: 3 of 4 are taken", "QueueFull", used="3", limit="4")
POD = PodExplanation(
    "mine",
    "p",
    "u",
    "waiting",
    "it waits for its queue",
    "headgate",
    holds=(HOLD,),
    next=("the end of pods secret/a, mine/b is enough",),
)
LACKS = ShortageDescription("f", "cpu", "2", "0", "4", "2", (HolderDescription("secret/w", "cq", "4"),))
WORK = WorkloadDescription(
    "mine",
    "w",
    "pending",
    "it waits behind secret/w",
    said=("Pending", "not enough quota"),
    lacks=(LACKS,),
    enders=("secret/w",),
)


def test_a_key_in_a_hidden_namespace_becomes_a_count() -> None:
    text = "at least 2 cpu (the end of pods secret/a, mine/b, other/c-1.x is enough)"
    assert (
        redact(text, MINE.__contains__) == "at least 2 cpu (the end of pods mine/b, 2 that you may not list is enough)"
    )


def test_gates_resources_and_paths_are_not_names_of_objects() -> None:
    text = "example.com/data holds it; nvidia.com/gpu 3 of 4; see docs at headgate.dev/run-for"
    assert redact(text, MINE.__contains__) == text


def test_a_pod_without_the_right_to_list_queues_shows_no_amounts() -> None:
    rights = ViewerRights(namespaces={PODS: MINE})
    found = redact_detail(UnitDetail("Pod", "mine", "p", POD), rights)
    assert "3 of 4" not in str(found)
    assert "secret" not in str(found)


def test_names_of_other_pods_are_hidden_from_a_viewer_of_queues() -> None:
    rights = ViewerRights(everywhere=frozenset({QUEUES}), namespaces={PODS: MINE})
    found = redact_detail(UnitDetail("Pod", "mine", "p", POD), rights)
    assert found.pod is not None
    assert found.pod.next == ("the end of pods mine/b, 1 that you may not list is enough",)
    assert found.pod.holds == POD.holds


def test_holders_of_quota_are_hidden_and_their_amounts_stay() -> None:
    rights = ViewerRights(everywhere=frozenset({CLUSTER_QUEUES}), namespaces={WORKLOADS: MINE})
    found = redact_detail(UnitDetail("Workload", "mine", "w", None, (WORK,)), rights)
    assert "secret" not in str(found)
    assert found.workloads[0].lacks[0].held_by[0].amount == "4"
    assert found.workloads[0].enders == ("1 that you may not list",)


def test_without_the_right_to_list_cluster_queues_only_the_object_itself_is_described() -> None:
    found = redact_detail(
        UnitDetail("Workload", "mine", "w", None, (WORK,)), ViewerRights(namespaces={WORKLOADS: MINE})
    )
    assert (found.workloads[0].lacks, found.workloads[0].summary) == ((), "not enough quota")


def test_the_operator_gets_the_whole_explanation() -> None:
    detail = UnitDetail("Pod", "mine", "p", POD, (WORK,))
    assert redact_detail(detail, EVERYTHING) is detail


def test_an_estimate_needs_the_right_to_list_the_queues_from_which_it_follows() -> None:
    estimate = StartEstimate("range", "2026-11-18T14:40:12Z", "2026-11-18T15:15:40Z", 1.0, 2.0)
    sees_queues = ViewerRights(everywhere=frozenset({QUEUES}))
    assert redact_estimate(estimate, EVERYTHING, "") is estimate
    assert redact_estimate(estimate, sees_queues, "") == estimate
    for rights, workload in ((ViewerRights(), ""), (sees_queues, "mine/w")):
        found = redact_estimate(estimate, rights, workload)
        assert (found.state, found.earliest_s) == ("no basis", None)
        assert "which you may not list" in found.reason


def test_an_estimate_names_neither_units_of_others_nor_nodes() -> None:
    rights = ViewerRights(everywhere=frozenset({QUEUES}), namespaces={PODS: frozenset({"mine"})})
    reason = "it is not known how long these units run: pod mine/a, gang secret/b; no five"
    found = redact_estimate(no_basis(reason), rights, "")
    assert found.reason == (
        "it is not known how long these units run: pod mine/a, gang 1 that you may not list; no five"
    )
    assert redact_estimate(StartEstimate("now", place="node-1"), rights, "").place == ""
