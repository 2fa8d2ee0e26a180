"""The counts of PodDisruptionBudgets, and evictions."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.disruption.controller import DisruptionController
from headgate.controllers.framework.discovery import DiscoveredKind, DiscoveredKinds
from headgate.controllers.framework.effects import EffectResponse, Get, Replace
from headgate.controllers.framework.reconcile import Controller, Done
from headgate.kube import api_resources
from headgate.kube.api_resources import POD_DISRUPTION_BUDGETS, APIResource
from headgate.kube.timestamps import format_time
from unit.controllers.disruption.fixtures import BUDGETS, Stage
from unit.controllers.workload_fixtures import PODS, force_delete, get, patch, set_ready

ROLLOUT = DiscoveredKind(APIResource("example.com", "v1", "rollouts", namespaced=True), "Rollout", frozenset({"get"}))
ABOUT_TWO_MINUTES_S = 121.0


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_an_absolute_min_available_counts_the_existing_pods(stage: Stage) -> None:
    stage.budget(minAvailable=2)
    assert stage.numbers() == (0, 2, 0, 0)
    assert stage.events() == ["NoPods"]
    stage.pods("one", "two", "three")
    assert stage.numbers() == (3, 2, 3, 1)
    assert stage.condition() == ("True", "SufficientPods", "")
    assert stage.status()["observedGeneration"] == 1
    set_ready(stage.world, "two", ready=False)
    stage.look()
    assert stage.numbers() == (3, 2, 2, 0)
    assert stage.condition() == ("False", "InsufficientPods", "")


def test_pods_older_than_the_budget_count(stage: Stage) -> None:
    stage.pods("one", "two")
    stage.pod("other", app="db")
    stage.budget(minAvailable=1)
    assert stage.numbers() == (2, 1, 2, 1)


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ({"maxUnavailable": 1}, (4, 3, 3, 0)),
        ({"maxUnavailable": 5}, (4, 0, 3, 3)),
        ({"maxUnavailable": "50%"}, (4, 2, 3, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 3, 1)),
        ({"minAvailable": "50%"}, (4, 2, 3, 1)),
        ({"minAvailable": "60%"}, (4, 3, 3, 0)),
        ({"minAvailable": "100%"}, (4, 4, 3, 0)),
    ],
)
def test_percentages_refer_to_the_replicas_of_the_owner(
    stage: Stage, spec: dict[str, Any], numbers: tuple[int, int, int, int]
) -> None:
    deployment = stage.owner("deployments", "Deployment", "web", 4)
    replica_set = stage.owner("replicasets", "ReplicaSet", "web-1", 3, deployment)
    stage.pods("one", "two", "three", owner=replica_set)
    stage.budget(**spec)
    assert stage.numbers() == numbers


def test_two_replica_sets_of_one_deployment_count_as_their_deployment(stage: Stage) -> None:
    deployment = stage.owner("deployments", "Deployment", "web", 5)
    stage.pods("one", owner=stage.owner("replicasets", "ReplicaSet", "web-1", 3, deployment))
    stage.pods("two", owner=stage.owner("replicasets", "ReplicaSet", "web-2", 2, deployment))
    stage.budget(maxUnavailable=4)
    assert stage.numbers() == (5, 1, 2, 1)


def test_replicas_of_several_owners_are_summed(stage: Stage) -> None:
    stage.pods("one", owner=stage.owner("replicasets", "ReplicaSet", "alone", 2))
    stage.pods("two", owner=stage.owner("statefulsets", "StatefulSet", "db", 3))
    stage.budget(minAvailable="40%")
    assert stage.numbers() == (5, 2, 2, 0)


def test_the_scale_of_an_owner_of_any_kind_is_read(stage: Stage) -> None:
    columns = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"scale": columns, "status": {}},
    }
    names = {"plural": "rollouts", "kind": "Rollout"}
    definition = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert stage.server.post(path, {"metadata": {"name": "rollouts.example.com"}, "spec": definition}).status == 201
    stage.world.discover()
    body = {"apiVersion": "example.com/v1", "kind": "Rollout", "metadata": {"name": "r"}, "spec": {"replicas": 3}}
    rollout = stage.server.post("/apis/example.com/v1/namespaces/a/rollouts", body).body
    stage.pods("one", "two", owner=rollout)
    stage.budget(maxUnavailable=2)
    assert stage.numbers() == (3, 1, 2, 1)


def test_an_owner_without_a_scale_is_reported_and_no_disruption_is_allowed(stage: Stage) -> None:
    stage.pods("one", owner=stage.owner("daemonsets", "DaemonSet", "d", 0))
    stage.budget(maxUnavailable=1)
    why = "daemonsets.apps does not implement the scale subresource"
    assert stage.condition() == ("False", "SyncFailed", why)
    assert stage.said("CalculateExpectedPodCountFailed").endswith(f": {why}")
    refused = stage.evict("one")
    assert refused.status == 429
    patch(stage.world, f"{BUDGETS}/b", {"spec": {"maxUnavailable": None, "minAvailable": 0}})
    stage.look()
    assert stage.numbers() == (1, 0, 1, 1)


def test_a_deleted_owner_is_reported(stage: Stage) -> None:
    replica_set = stage.owner("replicasets", "ReplicaSet", "web-1", 3)
    stage.pods("one", owner=replica_set)
    assert stage.server.delete("/apis/apps/v1/namespaces/a/replicasets/web-1").status == 200
    stage.budget(maxUnavailable=1)
    assert stage.condition() == ("False", "SyncFailed", 'found no controllers for pod "one"')


def test_an_object_with_the_owners_name_and_another_uid_does_not_count(stage: Stage) -> None:
    replica_set = stage.owner("replicasets", "ReplicaSet", "web-1", 3)
    earlier = {**replica_set, "metadata": {**replica_set["metadata"], "uid": "earlier"}}
    stage.pods("one", owner=earlier)
    stage.budget(maxUnavailable=1)
    assert stage.condition()[2] == 'found no controllers for pod "one"'


def test_a_budget_that_changes_during_a_request_is_not_overwritten(stage: Stage) -> None:
    controller: Controller = DisruptionController()
    controller.discovered(DiscoveredKinds(by_name={("example.com/v1", "Rollout"): ROLLOUT}))
    stage.pods("one", owner={"apiVersion": "example.com/v1", "kind": "Rollout", "metadata": {"name": "r", "uid": "u"}})
    controller.applied(api_resources.PODS, get(stage.world, f"{PODS}/one"), 0.0)
    [wake] = controller.applied(POD_DISRUPTION_BUDGETS, stage.budget(maxUnavailable=1), 0.0)
    steps = controller.reconcile(wake.key, 0.0)
    assert isinstance(next(steps), Get)
    patch(stage.world, f"{BUDGETS}/b", {"spec": {"maxUnavailable": 2}})
    controller.applied(POD_DISRUPTION_BUDGETS, get(stage.world, f"{BUDGETS}/b"), 0.0)
    with pytest.raises(StopIteration) as done:
        steps.send(EffectResponse(200, {"metadata": {"uid": "u"}, "spec": {"replicas": 3}}, 0.0))
    assert done.value.value == Done()


def test_an_owner_of_an_unserved_kind_is_reported(stage: Stage) -> None:
    strange = {"apiVersion": "example.com/v1", "kind": "Rollout", "metadata": {"name": "r", "uid": "u"}}
    stage.pods("one", owner=strange)
    stage.budget(maxUnavailable=1)
    assert stage.condition()[2] == 'no matches for kind "Rollout" in version "example.com/v1"'


def test_unmanaged_pods_are_reported_if_a_percentage_is_requested(stage: Stage) -> None:
    stage.pods("one")
    stage.budget(maxUnavailable=1)
    assert stage.numbers() == (0, 0, 1, 0)
    shown = "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert shown in stage.said("UnmanagedPods")


def test_an_empty_selector_selects_all_pods_of_the_namespace(stage: Stage) -> None:
    stage.pod("one", app="web")
    stage.pod("two", app="db")
    stage.budget(selector={}, minAvailable=1)
    assert stage.numbers() == (2, 1, 2, 1)


def test_a_pod_that_changes_its_labels_changes_its_budget(stage: Stage) -> None:
    stage.budget(minAvailable=1)
    stage.budget("db", selector={"matchLabels": {"app": "db"}}, minAvailable=1)
    stage.pods("one", "two")
    patch(stage.world, f"{PODS}/one", {"metadata": {"labels": {"app": "db"}}})
    stage.look()
    assert (stage.numbers(), stage.numbers("db")) == ((1, 1, 1, 0), (1, 1, 1, 0))


def test_a_changed_selector_counts_again(stage: Stage) -> None:
    stage.budget(minAvailable=1)
    stage.pod("one", app="web")
    stage.pod("two", app="db")
    patch(stage.world, f"{BUDGETS}/b", {"spec": {"selector": {"matchLabels": {"app": "db"}}}})
    stage.look()
    assert stage.numbers() == (1, 1, 1, 0)
    assert stage.status()["observedGeneration"] == 2
    force_delete(stage.world, "two")
    stage.look()
    assert stage.numbers() == (0, 1, 0, 0)


def test_two_budgets_of_one_pod_both_count_it_and_are_reported(stage: Stage) -> None:
    stage.budget("a", minAvailable=1)
    stage.budget("b", minAvailable=1)
    stage.pods("one", "two")
    assert stage.numbers("a") == stage.numbers("b") == (2, 1, 2, 1)
    text = 'Pod "a"/"one" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.'
    assert stage.said("MultiplePodDisruptionBudgets") == text
    assert stage.evict("one").status == 500


def test_evictions_are_granted_as_long_as_the_budget_lasts(stage: Stage) -> None:
    stage.budget(minAvailable=2)
    stage.pods("one", "two", "three")
    assert stage.evict("one").status == 201
    refused = stage.evict("two")
    assert (refused.status, refused.body["reason"]) == (429, "TooManyRequests")
    text = "The disruption budget b needs 2 healthy pods and has 2 currently"
    stage.look()
    again = stage.evict("two")
    assert again.status == 429
    assert again.body["details"]["causes"][0]["message"] == text
    force_delete(stage.world, "one")
    stage.look()
    assert stage.numbers() == (2, 2, 2, 0)
    stage.pods("four")
    assert stage.numbers() == (3, 2, 3, 1)
    assert stage.evict("two").status == 201


def test_a_burst_of_evictions_is_never_granted_more_than_the_budget(stage: Stage) -> None:
    stage.budget(minAvailable=3)
    stage.pods("a", "b", "c", "d", "e")
    granted = []
    for name in ("a", "b", "c", "d", "e"):
        granted.append(stage.evict(name).status)
        stage.world.settle()
    assert granted == [201, 201, 429, 429, 429]


def test_a_granted_eviction_that_did_not_happen_expires_after_two_minutes(stage: Stage) -> None:
    stage.budget(minAvailable=1)
    stage.pods("one", "two")
    now = format_time(stage.server.epoch_s)
    patch(stage.world, f"{BUDGETS}/b/status", {"status": {"disruptedPods": {"one": now, "nobody": now}}})
    stage.look()
    assert stage.numbers() == (2, 1, 1, 0)
    assert stage.status()["disruptedPods"] == {"one": now}
    stage.world.advance(ABOUT_TWO_MINUTES_S)
    assert stage.numbers() == (2, 1, 2, 1)
    assert "disruptedPods" not in stage.status()
    assert stage.said("NotDeleted") == "Pod was expected by PDB a/a to be deleted but it wasn't"


def test_a_granted_eviction_is_dropped_when_the_pod_is_being_deleted(stage: Stage) -> None:
    stage.budget(minAvailable=1)
    stage.pods("one", "two")
    assert stage.evict("one").status == 201
    assert list(stage.status()["disruptedPods"]) == ["one"]
    stage.look()
    assert "disruptedPods" not in stage.status()
    assert stage.numbers() == (2, 1, 1, 0)


def test_a_status_that_the_server_wrote_meanwhile_is_not_overwritten(stage: Stage) -> None:
    stage.budget(minAvailable=1)
    stage.pods("one", "two", "three")
    conflict = [EffectResponse(409, {"message": "the object has been modified"}, 0.0)]
    stage.world.refuse = lambda effect: conflict.pop() if isinstance(effect, Replace) and conflict else None
    force_delete(stage.world, "one")
    stage.look()
    assert not conflict
    assert stage.numbers() == (2, 1, 2, 1)


def test_nothing_is_written_when_nothing_changed(stage: Stage) -> None:
    stage.budget(minAvailable=1)
    stage.pods("one", "two")
    before = len(stage.world.requests)
    patch(stage.world, f"{PODS}/one", {"metadata": {"annotations": {"note": "x"}}})
    patch(stage.world, f"{BUDGETS}/b", {"metadata": {"annotations": {"note": "x"}}})
    stage.look()
    assert stage.world.requests[before:] == []


def test_a_disruption_target_condition_without_a_disruption_is_reset(stage: Stage) -> None:
    stage.pods("one", "two", "three")
    now = format_time(stage.server.epoch_s)
    target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now, "reason": "X", "message": "y"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    patch(stage.world, f"{PODS}/one/status", {"status": {"conditions": [ready, target]}})
    by_kubelet = {**target, "reason": "TerminationByKubelet"}
    patch(stage.world, f"{PODS}/three/status", {"status": {"phase": "Failed", "conditions": [target]}})
    patch(stage.world, f"{PODS}/two/status", {"status": {"conditions": [ready, by_kubelet]}})
    stage.world.advance(119)
    assert stage.server.get(f"{PODS}/one").body["status"]["conditions"][1]["status"] == "True"
    stage.world.advance(2)
    one, two = (stage.server.get(f"{PODS}/{name}").body["status"]["conditions"][1] for name in ("one", "two"))
    assert one == {
        "type": "DisruptionTarget",
        "status": "False",
        "lastTransitionTime": format_time(stage.server.epoch_s - 1),
        "lastProbeTime": None,
        "observedGeneration": 1,
    }
    assert two["status"] == "True"
    [three] = stage.server.get(f"{PODS}/three").body["status"]["conditions"]
    assert three["status"] == "True", "it has ended, by whatever means"


def test_a_restarted_process_counts_the_same(stage: Stage) -> None:
    stage.budget(minAvailable=1)
    stage.pods("one", "two", "three")
    before = stage.status()
    stage.world.crash()
    stage.look()
    assert stage.status() == before
