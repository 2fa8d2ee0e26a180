"""Stories of StatefulSets: order, identity, updates by revision, claims, and what happens when members fail."""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object
from real.workloads.manifests import IMAGE, rich_template, small_pods_only, stateful_set, template
from real.workloads.scenario_cluster import Hold, Workplace, story

SET = "statefulsets/db"
NEXT = IMAGE.replace(":1", ":2")
THIRD = IMAGE.replace(":1", ":3")


def up(place: Workplace, replicas: int) -> Hold:
    return place.status(SET, replicas=replicas, readyReplicas=replicas, availableReplicas=replicas)


def updated(place: Workplace, replicas: int) -> Hold:
    """All are up and of the newest revision, and that is the current one."""
    return place.status(SET, readyReplicas=replicas, updatedReplicas=replicas, currentReplicas=replicas)


def image(name: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def replicas(count: int) -> Object:
    return {"spec": {"replicas": count}}


def claims(*names: str, **spec: Any) -> Object:
    """Nobody provides for them: the pods wait, the claims are there."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    return {
        "volumeClaimTemplates": [
            {"metadata": {"name": each, "labels": {"of": each}}, "spec": wanted} for each in names
        ],
        "podManagementPolicy": "Parallel",
        **spec,
    }


def starts_in_order(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=3))
    place.stop("all three are up", up(place, 3), updated(place, 3), words=True)
    place.kubectl("get statefulsets")
    place.kubectl("rollout status statefulset/db")
    place.change(SET, replicas(1))
    place.stop("the highest two are gone", up(place, 1), place.pods_are(1), words=True)
    place.change(SET, replicas(0))
    place.stop("nobody is left", up(place, 0), place.pods_are(0))


def waits_for_the_first(place: Workplace) -> None:
    place.create(stateful_set("db", template("db", {"start-after": "10m"}), replicas=3))
    place.stop("the second is not started before the first is ready", place.status(SET, replicas=1, readyReplicas=0))
    place.change(SET, replicas(0))
    place.stop("nobody is left", up(place, 0), place.pods_are(0))


def starts_in_parallel(place: Workplace) -> None:
    place.create(stateful_set("db", template("db", {"start-after": "2s"}), replicas=4, podManagementPolicy="Parallel"))
    place.stop("all four are up", up(place, 4), updated(place, 4), words=True)
    place.change(SET, replicas(1))
    place.stop("one is left", up(place, 1), place.pods_are(1))
    place.change(SET, replicas(3))
    place.stop("three are up again", up(place, 3))


def rolls_out_and_back(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2))
    place.wait(updated(place, 2))
    place.change(SET, image(NEXT))
    place.stop("the second revision is everywhere", updated(place, 2), place.pods_are(2), words=True)
    place.kubectl("rollout history statefulset/db")
    place.kubectl("rollout undo statefulset/db")
    place.stop("the first revision is back under a new number", updated(place, 2), place.pods_are(2))
    place.kubectl("rollout history statefulset/db")
    place.kubectl("rollout undo statefulset/db --to-revision=3")
    place.stop("going back to where it is changes nothing", updated(place, 2), place.pods_are(2))


def gets_stuck(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2))
    place.wait(updated(place, 2))
    broken = {"annotations": {"headgate.dev/start-after": "10m"}}
    place.change(SET, {"spec": {"template": {"metadata": broken, **image(NEXT)["spec"]["template"]}}})
    stuck = place.status(SET, readyReplicas=1, updatedReplicas=1, currentReplicas=1)
    place.stop("the new member does not start", stuck, place.pods_are(2))
    place.kubectl("rollout undo statefulset/db")
    waits = place.status(SET, replicas=2, readyReplicas=1, updatedReplicas=1)
    place.stop("going back waits for it, too", waits, place.pods_are(2))
    place.remove("pods/db-1")
    place.stop("once somebody ends it all is as before", updated(place, 2), place.pods_are(2, "Running"))


def restarts(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2))
    place.wait(updated(place, 2))
    place.kubectl("rollout restart statefulset/db")
    place.kubectl("rollout status statefulset/db", lines="last")
    place.stop("both are new", updated(place, 2), place.pods_are(2, "Running"))


def stops_at_the_partition(place: Workplace) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    place.create(stateful_set("db", replicas=3, updateStrategy=strategy))
    place.wait(updated(place, 3))
    place.change(SET, image(NEXT))
    place.stop(
        "only the highest is updated",
        place.status(SET, readyReplicas=3, updatedReplicas=1, currentReplicas=2),
        place.pods_are(3),
    )
    place.remove("pods/db-0")
    place.stop(
        "who comes back below the partition is of the old revision",
        place.status(SET, readyReplicas=3, updatedReplicas=1),
        place.pods_are(3, "Running"),
    )
    place.change(SET, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    place.stop("all are updated", updated(place, 3), place.pods_are(3))


def updates_on_delete(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2, updateStrategy={"type": "OnDelete"}))
    place.wait(up(place, 2))
    place.change(SET, image(NEXT))
    place.stop("nobody is updated", place.status(SET, readyReplicas=2, updatedReplicas=0, currentReplicas=2))
    place.remove("pods/db-1")
    place.stop(
        "who was deleted comes back updated",
        place.status(SET, readyReplicas=2, updatedReplicas=1, currentReplicas=1),
        place.pods_are(2, "Running"),
    )


def replaces_the_failed(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2))
    place.wait(up(place, 2))
    place.end_pod("db-0")
    place.stop(
        "the failed member is replaced", place.event("SuccessfulDelete"), up(place, 2), place.pods_are(2, "Running")
    )
    place.end_pod("db-1", phase="Succeeded", exit_code=0)
    place.stop("so is one that succeeded", up(place, 2), place.pods_are(2, "Running"))


def begins_elsewhere(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2, ordinals={"start": 5}))
    place.stop("ordinals begin at five", up(place, 2), updated(place, 2))
    place.change(SET, {"spec": {"ordinals": {"start": 6}}})
    place.stop("the range has moved", up(place, 2), place.pods_are(2, "Running"))


def waits_to_be_available(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2, minReadySeconds=4))
    place.stop("all are available in the end", up(place, 2), updated(place, 2))


def keeps_some_history(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=1, revisionHistoryLimit=1))
    place.stop("there is no history yet", updated(place, 1))
    for each in (NEXT, THIRD, IMAGE.replace(":1", ":4")):
        place.change(SET, image(each))
        place.stop(f"one old revision is left: {each}", updated(place, 1), place.pods_are(1, "Running"))


def makes_claims(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2, **claims("data", "logs")))
    place.stop("each pod has claims of its own", place.status(SET, replicas=2), place.pods_are(2), words=True)
    place.change(SET, replicas(1))
    place.stop("claims stay", place.status(SET, replicas=1), place.pods_are(1))
    place.remove(SET, "Background")
    place.stop("claims stay still", place.gone(SET), place.pods_are(0))


def lets_claims_go_with_the_set(place: Workplace) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    place.create(stateful_set("db", replicas=2, **claims("data", persistentVolumeClaimRetentionPolicy=policy)))
    place.stop("the set owns the claims", place.status(SET, replicas=2), place.pods_are(2))
    place.remove(SET, "Background")
    place.stop("they go with it", place.gone(SET, "persistentvolumeclaims/data-db-0"), place.pods_are(0))


def lets_claims_go_with_a_pod(place: Workplace) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    place.create(stateful_set("db", replicas=2, **claims("data", persistentVolumeClaimRetentionPolicy=policy)))
    place.wait(place.status(SET, replicas=2), place.pods_are(2))
    place.change(SET, replicas(1))
    place.stop(
        "the claim of the pod that was scaled away is gone",
        place.status(SET, replicas=1),
        place.pods_are(1),
        place.gone("persistentvolumeclaims/data-db-1"),
    )


def takes_orphans_over(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2))
    place.wait(updated(place, 2))
    place.remove(SET, "Orphan")
    place.stop("pods are left alone", place.gone(SET), place.pods_are(2, "Running"))
    place.create(stateful_set("db", replicas=2))
    place.stop("the next set of that name takes them over", updated(place, 2), place.pods_are(2, "Running"))


def is_refused(place: Workplace) -> None:
    refused = stateful_set("db", replicas=2)
    refused["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    place.create(small_pods_only(), refused)
    place.stop("pods are refused", place.event("FailedCreate"), place.status(SET, replicas=0), words=True)


def is_named_by_its_template(place: Workplace) -> None:
    place.create(stateful_set("db", rich_template("db"), replicas=0))
    place.stop("there is a revision", place.status(SET, replicas=0))
    place.note_revision("controller.kubernetes.io/hash")
    place.kubectl("rollout undo statefulset/db --to-revision=1")


SCENARIOS = [
    story("a stateful set starts in order and scales down", starts_in_order),
    story("a stateful set waits for its first member", waits_for_the_first),
    story("a stateful set starts in parallel", starts_in_parallel),
    story("a stateful set rolls out and back", rolls_out_and_back),
    story("a stateful set gets stuck and is helped", gets_stuck),
    story("a stateful set is restarted", restarts),
    story("a stateful set stops at its partition", stops_at_the_partition),
    story("a stateful set is updated on delete", updates_on_delete),
    story("a stateful set replaces members that ended", replaces_the_failed),
    story("a stateful set begins at another ordinal", begins_elsewhere),
    story("a stateful set waits until members are available", waits_to_be_available),
    story("a stateful set keeps some history", keeps_some_history),
    story("a stateful set makes claims that stay", makes_claims),
    story("a stateful set takes its claims along", lets_claims_go_with_the_set),
    story("a stateful set takes the claims of a pod along", lets_claims_go_with_a_pod),
    story("a stateful set takes orphans over", takes_orphans_over),
    story("a stateful set is refused its pods", is_refused),
    story("a stateful set names its revision by its template", is_named_by_its_template),
]
