"""Scenarios of StatefulSets: order, identity, updates by revision, claims, and what happens when members fail."""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object
from real.workloads.manifests import IMAGE, rich_template, small_pods_only, stateful_set, template
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

SET = "statefulsets/db"
NEXT = IMAGE.replace(":1", ":2")
THIRD = IMAGE.replace(":1", ":3")


def up(cluster: WorkloadCluster, replicas: int) -> WaitCondition:
    return cluster.status(SET, replicas=replicas, readyReplicas=replicas, availableReplicas=replicas)


def updated(cluster: WorkloadCluster, replicas: int) -> WaitCondition:
    """All are up and of the newest revision, and that is the current one."""
    return cluster.status(SET, readyReplicas=replicas, updatedReplicas=replicas, currentReplicas=replicas)


def image(name: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def replicas(count: int) -> Object:
    return {"spec": {"replicas": count}}


def claims(*names: str, **spec: Any) -> Object:
    """No provisioner handles these claims: the pods wait, the claims exist."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    return {
        "volumeClaimTemplates": [
            {"metadata": {"name": each, "labels": {"of": each}}, "spec": wanted} for each in names
        ],
        "podManagementPolicy": "Parallel",
        **spec,
    }


def starts_in_order(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=3))
    cluster.checkpoint("all three are up", up(cluster, 3), updated(cluster, 3), words=True)
    cluster.kubectl("get statefulsets")
    cluster.kubectl("rollout status statefulset/db")
    cluster.change(SET, replicas(1))
    cluster.checkpoint("the highest two are gone", up(cluster, 1), cluster.pods_are(1), words=True)
    cluster.change(SET, replicas(0))
    cluster.checkpoint("nobody is left", up(cluster, 0), cluster.pods_are(0))


def waits_for_the_first(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", template("db", {"start-after": "10m"}), replicas=3))
    cluster.checkpoint(
        "the second is not started before the first is ready", cluster.status(SET, replicas=1, readyReplicas=0)
    )
    cluster.change(SET, replicas(0))
    cluster.checkpoint("nobody is left", up(cluster, 0), cluster.pods_are(0))


def starts_in_parallel(cluster: WorkloadCluster) -> None:
    cluster.create(
        stateful_set("db", template("db", {"start-after": "2s"}), replicas=4, podManagementPolicy="Parallel")
    )
    cluster.checkpoint("all four are up", up(cluster, 4), updated(cluster, 4), words=True)
    cluster.change(SET, replicas(1))
    cluster.checkpoint("one is left", up(cluster, 1), cluster.pods_are(1))
    cluster.change(SET, replicas(3))
    cluster.checkpoint("three are up again", up(cluster, 3))


def rolls_out_and_back(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2))
    cluster.wait(updated(cluster, 2))
    cluster.change(SET, image(NEXT))
    cluster.checkpoint("the second revision is everywhere", updated(cluster, 2), cluster.pods_are(2), words=True)
    cluster.kubectl("rollout history statefulset/db")
    cluster.kubectl("rollout undo statefulset/db")
    cluster.checkpoint("the first revision is back under a new number", updated(cluster, 2), cluster.pods_are(2))
    cluster.kubectl("rollout history statefulset/db")
    cluster.kubectl("rollout undo statefulset/db --to-revision=3")
    cluster.checkpoint("going back to where it is changes nothing", updated(cluster, 2), cluster.pods_are(2))


def gets_stuck(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2))
    cluster.wait(updated(cluster, 2))
    broken = {"annotations": {"headgate.dev/start-after": "10m"}}
    cluster.change(SET, {"spec": {"template": {"metadata": broken, **image(NEXT)["spec"]["template"]}}})
    stuck = cluster.status(SET, readyReplicas=1, updatedReplicas=1, currentReplicas=1)
    cluster.checkpoint("the new member does not start", stuck, cluster.pods_are(2))
    cluster.kubectl("rollout undo statefulset/db")
    waits = cluster.status(SET, replicas=2, readyReplicas=1, updatedReplicas=1)
    cluster.checkpoint("going back waits for it, too", waits, cluster.pods_are(2))
    cluster.remove("pods/db-1")
    cluster.checkpoint("once somebody ends it all is as before", updated(cluster, 2), cluster.pods_are(2, "Running"))


def restarts(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2))
    cluster.wait(updated(cluster, 2))
    cluster.kubectl("rollout restart statefulset/db")
    cluster.kubectl("rollout status statefulset/db", lines="last")
    cluster.checkpoint("both are new", updated(cluster, 2), cluster.pods_are(2, "Running"))


def stops_at_the_partition(cluster: WorkloadCluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    cluster.create(stateful_set("db", replicas=3, updateStrategy=strategy))
    cluster.wait(updated(cluster, 3))
    cluster.change(SET, image(NEXT))
    cluster.checkpoint(
        "only the highest is updated",
        cluster.status(SET, readyReplicas=3, updatedReplicas=1, currentReplicas=2),
        cluster.pods_are(3),
    )
    cluster.remove("pods/db-0")
    cluster.checkpoint(
        "who comes back below the partition is of the old revision",
        cluster.status(SET, readyReplicas=3, updatedReplicas=1),
        cluster.pods_are(3, "Running"),
    )
    cluster.change(SET, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    cluster.checkpoint("all are updated", updated(cluster, 3), cluster.pods_are(3))


def updates_on_delete(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2, updateStrategy={"type": "OnDelete"}))
    cluster.wait(up(cluster, 2))
    cluster.change(SET, image(NEXT))
    cluster.checkpoint("nobody is updated", cluster.status(SET, readyReplicas=2, updatedReplicas=0, currentReplicas=2))
    cluster.remove("pods/db-1")
    cluster.checkpoint(
        "who was deleted comes back updated",
        cluster.status(SET, readyReplicas=2, updatedReplicas=1, currentReplicas=1),
        cluster.pods_are(2, "Running"),
    )


def replaces_the_failed(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2))
    cluster.wait(up(cluster, 2))
    cluster.end_pod("db-0")
    cluster.checkpoint(
        "the failed member is replaced",
        cluster.event("SuccessfulDelete"),
        up(cluster, 2),
        cluster.pods_are(2, "Running"),
    )
    cluster.end_pod("db-1", phase="Succeeded", exit_code=0)
    cluster.checkpoint("so is one that succeeded", up(cluster, 2), cluster.pods_are(2, "Running"))


def begins_elsewhere(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2, ordinals={"start": 5}))
    cluster.checkpoint("ordinals begin at five", up(cluster, 2), updated(cluster, 2))
    cluster.change(SET, {"spec": {"ordinals": {"start": 6}}})
    cluster.checkpoint("the range has moved", up(cluster, 2), cluster.pods_are(2, "Running"))


def waits_to_be_available(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2, minReadySeconds=4))
    cluster.checkpoint("all are available in the end", up(cluster, 2), updated(cluster, 2))


def keeps_some_history(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=1, revisionHistoryLimit=1))
    cluster.checkpoint("there is no history yet", updated(cluster, 1))
    for each in (NEXT, THIRD, IMAGE.replace(":1", ":4")):
        cluster.change(SET, image(each))
        cluster.checkpoint(f"one old revision is left: {each}", updated(cluster, 1), cluster.pods_are(1, "Running"))


def makes_claims(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2, **claims("data", "logs")))
    cluster.checkpoint(
        "each pod has claims of its own", cluster.status(SET, replicas=2), cluster.pods_are(2), words=True
    )
    cluster.change(SET, replicas(1))
    cluster.checkpoint("claims stay", cluster.status(SET, replicas=1), cluster.pods_are(1))
    cluster.remove(SET, "Background")
    cluster.checkpoint("claims stay still", cluster.gone(SET), cluster.pods_are(0))


def lets_claims_go_with_the_set(cluster: WorkloadCluster) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    cluster.create(stateful_set("db", replicas=2, **claims("data", persistentVolumeClaimRetentionPolicy=policy)))
    cluster.checkpoint("the set owns the claims", cluster.status(SET, replicas=2), cluster.pods_are(2))
    cluster.remove(SET, "Background")
    cluster.checkpoint("they go with it", cluster.gone(SET, "persistentvolumeclaims/data-db-0"), cluster.pods_are(0))


def lets_claims_go_with_a_pod(cluster: WorkloadCluster) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    cluster.create(stateful_set("db", replicas=2, **claims("data", persistentVolumeClaimRetentionPolicy=policy)))
    cluster.wait(cluster.status(SET, replicas=2), cluster.pods_are(2))
    cluster.change(SET, replicas(1))
    cluster.checkpoint(
        "the claim of the pod that was scaled away is gone",
        cluster.status(SET, replicas=1),
        cluster.pods_are(1),
        cluster.gone("persistentvolumeclaims/data-db-1"),
    )


def takes_orphans_over(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2))
    cluster.wait(updated(cluster, 2))
    cluster.remove(SET, "Orphan")
    cluster.checkpoint("pods are left alone", cluster.gone(SET), cluster.pods_are(2, "Running"))
    cluster.create(stateful_set("db", replicas=2))
    cluster.checkpoint("the next set of that name takes them over", updated(cluster, 2), cluster.pods_are(2, "Running"))


def is_refused(cluster: WorkloadCluster) -> None:
    refused = stateful_set("db", replicas=2)
    refused["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    cluster.create(small_pods_only(), refused)
    cluster.checkpoint("pods are refused", cluster.event("FailedCreate"), cluster.status(SET, replicas=0), words=True)


def is_named_by_its_template(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", rich_template("db"), replicas=0))
    cluster.checkpoint("there is a revision", cluster.status(SET, replicas=0))
    cluster.note_revision("controller.kubernetes.io/hash")
    cluster.kubectl("rollout undo statefulset/db --to-revision=1")


SCENARIOS = [
    scenario("a stateful set starts in order and scales down", starts_in_order),
    scenario("a stateful set waits for its first member", waits_for_the_first),
    scenario("a stateful set starts in parallel", starts_in_parallel),
    scenario("a stateful set rolls out and back", rolls_out_and_back),
    scenario("a stateful set gets stuck and is helped", gets_stuck),
    scenario("a stateful set is restarted", restarts),
    scenario("a stateful set stops at its partition", stops_at_the_partition),
    scenario("a stateful set is updated on delete", updates_on_delete),
    scenario("a stateful set replaces members that ended", replaces_the_failed),
    scenario("a stateful set begins at another ordinal", begins_elsewhere),
    scenario("a stateful set waits until members are available", waits_to_be_available),
    scenario("a stateful set keeps some history", keeps_some_history),
    scenario("a stateful set makes claims that stay", makes_claims),
    scenario("a stateful set takes its claims along", lets_claims_go_with_the_set),
    scenario("a stateful set takes the claims of a pod along", lets_claims_go_with_a_pod),
    scenario("a stateful set takes orphans over", takes_orphans_over),
    scenario("a stateful set is refused its pods", is_refused),
    scenario("a stateful set names its revision by its template", is_named_by_its_template),
]
