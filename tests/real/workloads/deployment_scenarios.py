"""Scenarios of Deployments: rollouts, their progress and their status. `rollout_scenarios.py` has `kubectl rollout`."""

from __future__ import annotations

import time
from typing import Any

from headgate.kube.timestamps import parse_time
from real.workloads.manifests import deployment, template, workload
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

Object = dict[str, Any]

WEB = "deployments/web"
NEVER = {"start-after": "1h"}
"""Pods that never become ready."""


def rolling(surge: int | str, missing: int | str) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}


def all_new(cluster: WorkloadCluster, count: int) -> tuple[WaitCondition, ...]:
    """All wanted pods are new and available, no others are left, and the status says so."""
    numbers = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count)
    told = cluster.condition(WEB, "Progressing", "True", "NewReplicaSetAvailable")
    counted = cluster.status(WEB, unavailableReplicas=0, terminatingReplicas=0, **numbers)
    return counted, told, cluster.pods_are(count), *said(cluster, "ScalingReplicaSet", "SuccessfulCreate")


def rolled(cluster: WorkloadCluster, count: int) -> tuple[WaitCondition, ...]:
    return *all_new(cluster, count), *said(cluster, "SuccessfulDelete")


def said(cluster: WorkloadCluster, *words: str) -> list[WaitCondition]:
    """Events with these reasons, or with these words in their messages: they are written when there is time."""

    def texts() -> list[str]:
        return [f"{each['reason']} {each['message']}" for each in cluster.items(cluster.at("events"))]

    def has(word: str) -> WaitCondition:
        return WaitCondition(f"it is said: {word}", lambda: any(word in text for text in texts()), texts)

    return [has(word) for word in words]


def roll(cluster: WorkloadCluster, image: str = "two", wishes: dict[str, str] | None = None) -> None:
    """A merge patch: wishes that are not named are taken away."""
    new = template("web", wishes, image=image)
    new["metadata"].setdefault("annotations", {f"headgate.dev/{each}": None for each in ("start-after", "stop-after")})
    cluster.change(WEB, {"spec": {"template": new}})


def sizes(cluster: WorkloadCluster) -> dict[str, int]:
    """By image: the sizes of the ReplicaSets."""
    found = cluster.items(cluster.at("replicasets"))
    return {each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"] for each in found}


def sized(cluster: WorkloadCluster, **wanted: int) -> WaitCondition:
    return WaitCondition(f"the ReplicaSets have {wanted}", lambda: sizes(cluster) == wanted, lambda: sizes(cluster))


def named_by_hash(cluster: WorkloadCluster) -> None:
    """The names as they are, hash and all: on both servers the same."""
    resources = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1500m"}}
    probe = {"httpGet": {"path": "/", "port": "http"}}
    main = {"name": "main", "image": "one", "resources": resources, "readinessProbe": probe}
    rich = template("web", containers=[main], volumes=[{"name": "v", "emptyDir": {"sizeLimit": "2Gi"}}])
    cluster.create(deployment("web", replicas=1), deployment("rich", {**rich, "metadata": {"labels": {"app": "rich"}}}))
    cluster.wait(cluster.status(WEB, updatedReplicas=1), cluster.status("deployments/rich", updatedReplicas=1))
    cluster.notes.append(
        ("names", sorted(each["metadata"]["name"] for each in cluster.items(cluster.at("replicasets"))))
    )
    texts = said(cluster, "Created pod: rich-", "Created pod: web-", "replica set rich-", "replica set web-")
    cluster.checkpoint("both are up", cluster.status(WEB, readyReplicas=1), *texts, words=True)


def rolled_with_surge(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=3, strategy=rolling(1, 0)))
    cluster.checkpoint("the first is up", *all_new(cluster, 3))
    roll(cluster)
    cluster.checkpoint("the second is up", *rolled(cluster, 3))


def rolled_without_surge(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=3, strategy=rolling(0, 1)))
    cluster.wait(*all_new(cluster, 3))
    roll(cluster)
    cluster.checkpoint("the second is up", *rolled(cluster, 3))


def all_at_once(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=4, strategy=rolling("100%", "100%")))
    cluster.wait(*all_new(cluster, 4))
    roll(cluster)
    cluster.checkpoint("the second is up", *rolled(cluster, 4))


def stuck_within_fences(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", template("web", image="one"), replicas=7, strategy=rolling("25%", "25%")))
    cluster.wait(*all_new(cluster, 7))
    roll(cluster, "two", NEVER)
    texts = said(cluster, "from 7 to 6", "from 0 to 2", "from 2 to 3", "Deleted pod")
    cluster.checkpoint("as far as it may", sized(cluster, one=6, two=3), cluster.pods_are(9), *texts, words=True)
    roll(cluster, "one")
    cluster.checkpoint("back again", *rolled(cluster, 7))


def rolled_over(cluster: WorkloadCluster) -> None:
    """A third template while the second is stuck: what is not ready goes first."""
    cluster.create(deployment("web", template("web", image="one"), replicas=4, strategy=rolling(1, 1)))
    cluster.wait(*all_new(cluster, 4))
    roll(cluster, "two", NEVER)
    cluster.wait(sized(cluster, one=3, two=2), cluster.pods_are(5))
    roll(cluster, "three", NEVER)
    stuck = sized(cluster, one=3, two=0, three=2)
    cluster.checkpoint("the third is stuck as well", stuck, cluster.pods_are(5), *said(cluster, "SuccessfulDelete"))
    roll(cluster, "four")
    cluster.checkpoint("the fourth is up", *rolled(cluster, 4))


def out_of_time(cluster: WorkloadCluster) -> None:
    slow = template("web", NEVER, image="one")
    cluster.create(deployment("web", slow, replicas=2, progressDeadlineSeconds=2))
    late = cluster.condition(WEB, "Progressing", "False", "ProgressDeadlineExceeded")
    cluster.checkpoint("it is late", late, cluster.pods_are(2), *said(cluster, "ScalingReplicaSet", "SuccessfulCreate"))
    cluster.kubectl("rollout status deployment/web", "last")
    roll(cluster)
    cluster.checkpoint("another template is in time", *rolled(cluster, 2))


def without_deadline(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=1, progressDeadlineSeconds=2147483647))
    up = cluster.status(WEB, availableReplicas=1), cluster.pods_are(1, "Running")
    cluster.checkpoint("nothing is told of its progress", *up, *said(cluster, "ScalingReplicaSet", "SuccessfulCreate"))


def recreated(cluster: WorkloadCluster) -> None:
    lingering = template("web", {"stop-after": "3s"}, image="one", terminationGracePeriodSeconds=30)
    cluster.create(deployment("web", lingering, replicas=2, strategy={"type": "Recreate"}))
    cluster.checkpoint("the first is up", *all_new(cluster, 2))
    roll(cluster)
    since_s = int(time.time())
    cluster.wait(sized(cluster, one=0, two=2))
    (new,) = (each for each in cluster.items(cluster.at("replicasets")) if each["spec"]["replicas"])
    made_s = parse_time(new["metadata"]["creationTimestamp"])
    assert isinstance(made_s, int)
    cluster.note("the old ones were waited for", made_s - since_s >= 2)
    cluster.checkpoint("the second is up", *rolled(cluster, 2))


def paused_and_scaled(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", template("web", image="one"), replicas=10, strategy=rolling(3, 2)))
    cluster.wait(*all_new(cluster, 10))
    roll(cluster, "two", NEVER)
    cluster.wait(sized(cluster, one=8, two=5), cluster.pods_are(13))
    cluster.change(WEB, {"spec": {"paused": True}})
    unknown = cluster.condition(WEB, "Progressing", "Unknown", "DeploymentPaused")
    cluster.checkpoint("it is paused", unknown, cluster.pods_are(13), *said(cluster, "SuccessfulDelete"))
    cluster.change(WEB, {"spec": {"replicas": 5}})
    cluster.checkpoint("it is smaller", sized(cluster, one=5, two=3), cluster.pods_are(8))
    cluster.change(WEB, {"spec": {"replicas": 15}})
    cluster.checkpoint("it is larger", sized(cluster, one=11, two=7), cluster.pods_are(18))
    cluster.change(WEB, {"spec": {"paused": False}})
    cluster.wait(cluster.condition(WEB, "Progressing", "Unknown", "DeploymentResumed"))
    roll(cluster, "three")
    cluster.checkpoint("it rolls on", *all_new(cluster, 15))


def paused_from_the_start(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2, paused=True))
    paused = cluster.condition(WEB, "Progressing", "Unknown", "DeploymentPaused")
    cluster.checkpoint("nothing is made", paused, cluster.status(WEB, observedGeneration=1))
    cluster.change(WEB, {"spec": {"paused": False}})
    cluster.checkpoint("it is up", *all_new(cluster, 2))


def scaled_while_it_rolls(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", template("web", image="one"), replicas=4, strategy=rolling(2, 0)))
    cluster.wait(*all_new(cluster, 4))
    roll(cluster, "two", NEVER)
    cluster.wait(sized(cluster, one=4, two=2), cluster.pods_are(6))
    cluster.change(WEB, {"spec": {"replicas": 10}})
    cluster.checkpoint("both are larger", sized(cluster, one=8, two=4), cluster.pods_are(12))
    cluster.change(WEB, {"spec": {"replicas": 3}})
    cluster.checkpoint(
        "both are smaller", sized(cluster, one=3, two=2), cluster.pods_are(5), *said(cluster, "SuccessfulDelete")
    )


def scaled_to_nothing(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=3))
    cluster.wait(*all_new(cluster, 3))
    cluster.change(WEB, {"spec": {"replicas": 0}})
    texts = said(cluster, "from 0 to 3", "from 3 to 0", "Deleted pod", "Created pod")
    cluster.checkpoint("nothing is left", *all_new(cluster, 0), *texts, words=True)
    roll(cluster)
    cluster.checkpoint("nothing is rolled out", cluster.status(WEB, replicas=0), sized_sets(cluster, 2))
    cluster.change(WEB, {"spec": {"replicas": 2}})
    cluster.checkpoint("two of the second", *rolled(cluster, 2))


def sized_sets(cluster: WorkloadCluster, count: int) -> WaitCondition:
    def found() -> int:
        return len(cluster.items(cluster.at("replicasets")))

    return WaitCondition(f"there are {count} ReplicaSets", lambda: found() == count, found)


def short_history(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", template("web", image="one"), replicas=1, revisionHistoryLimit=1))
    cluster.wait(*all_new(cluster, 1))
    for image in ("two", "three", "four"):
        roll(cluster, image)
        cluster.wait(sized_sets(cluster, 2), *all_new(cluster, 1))
    cluster.checkpoint("one old one is kept", sized(cluster, three=0, four=1), *said(cluster, "SuccessfulDelete"))
    cluster.change(WEB, {"spec": {"revisionHistoryLimit": 0}})
    cluster.checkpoint("none is kept", sized(cluster, four=1))


def taken_up_again(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", template("web", image="one"), replicas=1))
    cluster.wait(*all_new(cluster, 1))
    for image in ("two", "one", "two", "one"):
        roll(cluster, image)
        cluster.wait(sized(cluster, **{"one": 0, "two": 0, image: 1}), *all_new(cluster, 1))
    cluster.checkpoint("the first has its third number", *said(cluster, "SuccessfulDelete"))
    cluster.kubectl("rollout history deployment/web")


def ready_for_long_enough(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2, minReadySeconds=2, strategy=rolling(1, 0)))
    cluster.checkpoint("the first is up", *all_new(cluster, 2))
    cluster.note("they were waited for", _told_at_s(cluster.read(WEB), "Available") - _ready_at_s(cluster) >= 2)
    roll(cluster)
    cluster.checkpoint("the second is up", *rolled(cluster, 2))
    cluster.change(WEB, {"spec": {"minReadySeconds": 1}})
    cluster.checkpoint("its ReplicaSet is told", *all_new(cluster, 2))


def _told_at_s(obj: Object, type_: str) -> int:
    (at,) = (each["lastTransitionTime"] for each in obj["status"]["conditions"] if each["type"] == type_)
    seconds = parse_time(at)
    assert isinstance(seconds, int)
    return seconds


def _ready_at_s(cluster: WorkloadCluster) -> int:
    return max(_told_at_s(each, "Ready") for each in cluster.pods())


def adopts_its_own(cluster: WorkloadCluster) -> None:
    mine = workload("ReplicaSet", "web", replicas=2)
    mine["metadata"] |= {"name": "mine", "labels": {"app": "web"}}
    cluster.create(mine)
    cluster.wait(cluster.status("replicasets/mine", readyReplicas=2))
    cluster.create(deployment("web", replicas=3))
    cluster.checkpoint("it is taken and grows", *all_new(cluster, 3))


def adopts_another(cluster: WorkloadCluster) -> None:
    other = workload("ReplicaSet", "web", template("web", image="other"), replicas=2)
    other["metadata"] |= {"name": "other", "labels": {"app": "web"}}
    cluster.create(other)
    cluster.wait(cluster.status("replicasets/other", readyReplicas=2))
    cluster.create(deployment("web", template("web", image="one"), replicas=2))
    cluster.checkpoint("it is rolled over", *rolled(cluster, 2), sized(cluster, other=0, one=2))


def releases(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", template("web", image="one"), replicas=1))
    cluster.wait(*all_new(cluster, 1))
    (mine,) = cluster.items(cluster.at("replicasets"))
    cluster.change(f"replicasets/{mine['metadata']['name']}", {"metadata": {"labels": {"app": "elsewhere"}}})
    free = WaitCondition("it is released", lambda: not _owners(cluster, mine), lambda: _owners(cluster, mine))
    cluster.wait(free)
    made = cluster.status(WEB, readyReplicas=1, collisionCount=1)
    cluster.checkpoint("another is made", made, *said(cluster, "SuccessfulCreate", "ScalingReplicaSet"))


def _owners(cluster: WorkloadCluster, obj: Object) -> Any:
    return cluster.read(f"replicasets/{obj['metadata']['name']}")["metadata"].get("ownerReferences")


def set_deleted(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2))
    cluster.wait(*all_new(cluster, 2))
    (mine,) = cluster.items(cluster.at("replicasets"))
    name = f"replicasets/{mine['metadata']['name']}"
    cluster.remove(name)
    cluster.checkpoint("it is made again", *all_new(cluster, 2))


def annotated(cluster: WorkloadCluster) -> None:
    made = deployment("web", replicas=1)
    made["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first", "example.com/a": "1"}
    cluster.create(made)
    cluster.checkpoint("its ReplicaSet has them", *all_new(cluster, 1))
    cluster.change(WEB, {"metadata": {"annotations": {"example.com/a": None, "example.com/b": "2"}}})
    cluster.checkpoint("what is taken away stays there", *all_new(cluster, 1))
    cluster.kubectl("rollout history deployment/web")


def its_pods_end(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2))
    cluster.wait(*all_new(cluster, 2))
    cluster.end_pod(cluster.pods()[0]["metadata"]["name"])
    cluster.checkpoint("one has failed and is replaced", cluster.pods_are(3), cluster.status(WEB, availableReplicas=2))


SCENARIOS = [
    scenario("a Deployment names its ReplicaSet by the hash of its template", named_by_hash),
    scenario("a Deployment is rolled out with surge", rolled_with_surge),
    scenario("a Deployment is rolled out without surge", rolled_without_surge),
    scenario("a Deployment is rolled out all at once", all_at_once),
    scenario("a rollout is stuck within its fences and goes back", stuck_within_fences),
    scenario("a rollout is overtaken by the next", rolled_over),
    scenario("a rollout is out of time", out_of_time),
    scenario("a rollout has no deadline", without_deadline),
    scenario("a Deployment is recreated", recreated),
    scenario("a paused rollout is scaled in proportion", paused_and_scaled),
    scenario("a Deployment is paused from the start", paused_from_the_start),
    scenario("a Deployment is scaled while it rolls", scaled_while_it_rolls),
    scenario("a Deployment is scaled to nothing", scaled_to_nothing),
    scenario("a Deployment keeps a short history", short_history),
    scenario("an old template is taken up again", taken_up_again),
    scenario("a Deployment waits until pods are ready for long enough", ready_for_long_enough),
    scenario("a Deployment adopts a ReplicaSet of its template", adopts_its_own),
    scenario("a Deployment adopts a ReplicaSet of another template", adopts_another),
    scenario("a Deployment releases a ReplicaSet and meets its name again", releases),
    scenario("somebody deletes the ReplicaSet of a Deployment", set_deleted),
    scenario("annotations of a Deployment reach its ReplicaSet", annotated),
    scenario("pods of a Deployment end", its_pods_end),
]
