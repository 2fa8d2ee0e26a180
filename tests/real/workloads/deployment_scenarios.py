"""Stories of Deployments: what is rolled out, how far, and what is told of it. `kubectl rollout` is told elsewhere."""

from __future__ import annotations

import time
from typing import Any

from headgate.kube.timestamps import parse_time
from real.workloads.manifests import deployment, template, workload
from real.workloads.scenario_cluster import Hold, Workplace, story

Object = dict[str, Any]

WEB = "deployments/web"
NEVER = {"start-after": "1h"}
"""Pods that never become ready."""


def rolling(surge: int | str, missing: int | str) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}


def all_new(place: Workplace, count: int) -> tuple[Hold, ...]:
    """Everything that is wanted is new and available, nothing else is left, and it has been told."""
    numbers = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count)
    told = place.condition(WEB, "Progressing", "True", "NewReplicaSetAvailable")
    counted = place.status(WEB, unavailableReplicas=0, terminatingReplicas=0, **numbers)
    return counted, told, place.pods_are(count), *said(place, "ScalingReplicaSet", "SuccessfulCreate")


def rolled(place: Workplace, count: int) -> tuple[Hold, ...]:
    return *all_new(place, count), *said(place, "SuccessfulDelete")


def said(place: Workplace, *words: str) -> list[Hold]:
    """Events with these reasons, or with these words in their messages: they are written when there is time."""

    def texts() -> list[str]:
        return [f"{each['reason']} {each['message']}" for each in place.items(place.at("events"))]

    def has(word: str) -> Hold:
        return Hold(f"it is said: {word}", lambda: any(word in text for text in texts()), texts)

    return [has(word) for word in words]


def roll(place: Workplace, image: str = "two", wishes: dict[str, str] | None = None) -> None:
    """A merge patch: wishes that are not named are taken away."""
    new = template("web", wishes, image=image)
    new["metadata"].setdefault("annotations", {f"headgate.dev/{each}": None for each in ("start-after", "stop-after")})
    place.change(WEB, {"spec": {"template": new}})


def sizes(place: Workplace) -> dict[str, int]:
    """By image: the sizes of the ReplicaSets."""
    found = place.items(place.at("replicasets"))
    return {each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"] for each in found}


def sized(place: Workplace, **wanted: int) -> Hold:
    return Hold(f"the ReplicaSets have {wanted}", lambda: sizes(place) == wanted, lambda: sizes(place))


def named_by_hash(place: Workplace) -> None:
    """The names as they are, hash and all: on both servers the same."""
    resources = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1500m"}}
    probe = {"httpGet": {"path": "/", "port": "http"}}
    main = {"name": "main", "image": "one", "resources": resources, "readinessProbe": probe}
    rich = template("web", containers=[main], volumes=[{"name": "v", "emptyDir": {"sizeLimit": "2Gi"}}])
    place.create(deployment("web", replicas=1), deployment("rich", {**rich, "metadata": {"labels": {"app": "rich"}}}))
    place.wait(place.status(WEB, updatedReplicas=1), place.status("deployments/rich", updatedReplicas=1))
    place.notes.append(("names", sorted(each["metadata"]["name"] for each in place.items(place.at("replicasets")))))
    texts = said(place, "Created pod: rich-", "Created pod: web-", "replica set rich-", "replica set web-")
    place.stop("both are up", place.status(WEB, readyReplicas=1), *texts, words=True)


def rolled_with_surge(place: Workplace) -> None:
    place.create(deployment("web", replicas=3, strategy=rolling(1, 0)))
    place.stop("the first is up", *all_new(place, 3))
    roll(place)
    place.stop("the second is up", *rolled(place, 3))


def rolled_without_surge(place: Workplace) -> None:
    place.create(deployment("web", replicas=3, strategy=rolling(0, 1)))
    place.wait(*all_new(place, 3))
    roll(place)
    place.stop("the second is up", *rolled(place, 3))


def all_at_once(place: Workplace) -> None:
    place.create(deployment("web", replicas=4, strategy=rolling("100%", "100%")))
    place.wait(*all_new(place, 4))
    roll(place)
    place.stop("the second is up", *rolled(place, 4))


def stuck_within_fences(place: Workplace) -> None:
    place.create(deployment("web", template("web", image="one"), replicas=7, strategy=rolling("25%", "25%")))
    place.wait(*all_new(place, 7))
    roll(place, "two", NEVER)
    texts = said(place, "from 7 to 6", "from 0 to 2", "from 2 to 3", "Deleted pod")
    place.stop("as far as it may", sized(place, one=6, two=3), place.pods_are(9), *texts, words=True)
    roll(place, "one")
    place.stop("back again", *rolled(place, 7))


def rolled_over(place: Workplace) -> None:
    """A third template while the second is stuck: what is not ready goes first."""
    place.create(deployment("web", template("web", image="one"), replicas=4, strategy=rolling(1, 1)))
    place.wait(*all_new(place, 4))
    roll(place, "two", NEVER)
    place.wait(sized(place, one=3, two=2), place.pods_are(5))
    roll(place, "three", NEVER)
    stuck = sized(place, one=3, two=0, three=2)
    place.stop("the third is stuck as well", stuck, place.pods_are(5), *said(place, "SuccessfulDelete"))
    roll(place, "four")
    place.stop("the fourth is up", *rolled(place, 4))


def out_of_time(place: Workplace) -> None:
    slow = template("web", NEVER, image="one")
    place.create(deployment("web", slow, replicas=2, progressDeadlineSeconds=2))
    late = place.condition(WEB, "Progressing", "False", "ProgressDeadlineExceeded")
    place.stop("it is late", late, place.pods_are(2), *said(place, "ScalingReplicaSet", "SuccessfulCreate"))
    place.kubectl("rollout status deployment/web", "last")
    roll(place)
    place.stop("another template is in time", *rolled(place, 2))


def without_deadline(place: Workplace) -> None:
    place.create(deployment("web", replicas=1, progressDeadlineSeconds=2147483647))
    up = place.status(WEB, availableReplicas=1), place.pods_are(1, "Running")
    place.stop("nothing is told of its progress", *up, *said(place, "ScalingReplicaSet", "SuccessfulCreate"))


def recreated(place: Workplace) -> None:
    lingering = template("web", {"stop-after": "3s"}, image="one", terminationGracePeriodSeconds=30)
    place.create(deployment("web", lingering, replicas=2, strategy={"type": "Recreate"}))
    place.stop("the first is up", *all_new(place, 2))
    roll(place)
    since_s = int(time.time())
    place.wait(sized(place, one=0, two=2))
    (new,) = (each for each in place.items(place.at("replicasets")) if each["spec"]["replicas"])
    made_s = parse_time(new["metadata"]["creationTimestamp"])
    assert isinstance(made_s, int)
    place.note("the old ones were waited for", made_s - since_s >= 2)
    place.stop("the second is up", *rolled(place, 2))


def paused_and_scaled(place: Workplace) -> None:
    place.create(deployment("web", template("web", image="one"), replicas=10, strategy=rolling(3, 2)))
    place.wait(*all_new(place, 10))
    roll(place, "two", NEVER)
    place.wait(sized(place, one=8, two=5), place.pods_are(13))
    place.change(WEB, {"spec": {"paused": True}})
    unknown = place.condition(WEB, "Progressing", "Unknown", "DeploymentPaused")
    place.stop("it is paused", unknown, place.pods_are(13), *said(place, "SuccessfulDelete"))
    place.change(WEB, {"spec": {"replicas": 5}})
    place.stop("it is smaller", sized(place, one=5, two=3), place.pods_are(8))
    place.change(WEB, {"spec": {"replicas": 15}})
    place.stop("it is larger", sized(place, one=11, two=7), place.pods_are(18))
    place.change(WEB, {"spec": {"paused": False}})
    place.wait(place.condition(WEB, "Progressing", "Unknown", "DeploymentResumed"))
    roll(place, "three")
    place.stop("it rolls on", *all_new(place, 15))


def paused_from_the_start(place: Workplace) -> None:
    place.create(deployment("web", replicas=2, paused=True))
    paused = place.condition(WEB, "Progressing", "Unknown", "DeploymentPaused")
    place.stop("nothing is made", paused, place.status(WEB, observedGeneration=1))
    place.change(WEB, {"spec": {"paused": False}})
    place.stop("it is up", *all_new(place, 2))


def scaled_while_it_rolls(place: Workplace) -> None:
    place.create(deployment("web", template("web", image="one"), replicas=4, strategy=rolling(2, 0)))
    place.wait(*all_new(place, 4))
    roll(place, "two", NEVER)
    place.wait(sized(place, one=4, two=2), place.pods_are(6))
    place.change(WEB, {"spec": {"replicas": 10}})
    place.stop("both are larger", sized(place, one=8, two=4), place.pods_are(12))
    place.change(WEB, {"spec": {"replicas": 3}})
    place.stop("both are smaller", sized(place, one=3, two=2), place.pods_are(5), *said(place, "SuccessfulDelete"))


def scaled_to_nothing(place: Workplace) -> None:
    place.create(deployment("web", replicas=3))
    place.wait(*all_new(place, 3))
    place.change(WEB, {"spec": {"replicas": 0}})
    texts = said(place, "from 0 to 3", "from 3 to 0", "Deleted pod", "Created pod")
    place.stop("nothing is left", *all_new(place, 0), *texts, words=True)
    roll(place)
    place.stop("nothing is rolled out", place.status(WEB, replicas=0), sized_sets(place, 2))
    place.change(WEB, {"spec": {"replicas": 2}})
    place.stop("two of the second", *rolled(place, 2))


def sized_sets(place: Workplace, count: int) -> Hold:
    def found() -> int:
        return len(place.items(place.at("replicasets")))

    return Hold(f"there are {count} ReplicaSets", lambda: found() == count, found)


def short_history(place: Workplace) -> None:
    place.create(deployment("web", template("web", image="one"), replicas=1, revisionHistoryLimit=1))
    place.wait(*all_new(place, 1))
    for image in ("two", "three", "four"):
        roll(place, image)
        place.wait(sized_sets(place, 2), *all_new(place, 1))
    place.stop("one old one is kept", sized(place, three=0, four=1), *said(place, "SuccessfulDelete"))
    place.change(WEB, {"spec": {"revisionHistoryLimit": 0}})
    place.stop("none is kept", sized(place, four=1))


def taken_up_again(place: Workplace) -> None:
    place.create(deployment("web", template("web", image="one"), replicas=1))
    place.wait(*all_new(place, 1))
    for image in ("two", "one", "two", "one"):
        roll(place, image)
        place.wait(sized(place, **{"one": 0, "two": 0, image: 1}), *all_new(place, 1))
    place.stop("the first has its third number", *said(place, "SuccessfulDelete"))
    place.kubectl("rollout history deployment/web")


def ready_for_long_enough(place: Workplace) -> None:
    place.create(deployment("web", replicas=2, minReadySeconds=2, strategy=rolling(1, 0)))
    place.stop("the first is up", *all_new(place, 2))
    place.note("they were waited for", _told_at_s(place.read(WEB), "Available") - _ready_at_s(place) >= 2)
    roll(place)
    place.stop("the second is up", *rolled(place, 2))
    place.change(WEB, {"spec": {"minReadySeconds": 1}})
    place.stop("its ReplicaSet is told", *all_new(place, 2))


def _told_at_s(obj: Object, type_: str) -> int:
    (at,) = (each["lastTransitionTime"] for each in obj["status"]["conditions"] if each["type"] == type_)
    seconds = parse_time(at)
    assert isinstance(seconds, int)
    return seconds


def _ready_at_s(place: Workplace) -> int:
    return max(_told_at_s(each, "Ready") for each in place.pods())


def adopts_its_own(place: Workplace) -> None:
    mine = workload("ReplicaSet", "web", replicas=2)
    mine["metadata"] |= {"name": "mine", "labels": {"app": "web"}}
    place.create(mine)
    place.wait(place.status("replicasets/mine", readyReplicas=2))
    place.create(deployment("web", replicas=3))
    place.stop("it is taken and grows", *all_new(place, 3))


def adopts_another(place: Workplace) -> None:
    other = workload("ReplicaSet", "web", template("web", image="other"), replicas=2)
    other["metadata"] |= {"name": "other", "labels": {"app": "web"}}
    place.create(other)
    place.wait(place.status("replicasets/other", readyReplicas=2))
    place.create(deployment("web", template("web", image="one"), replicas=2))
    place.stop("it is rolled over", *rolled(place, 2), sized(place, other=0, one=2))


def releases(place: Workplace) -> None:
    place.create(deployment("web", template("web", image="one"), replicas=1))
    place.wait(*all_new(place, 1))
    (mine,) = place.items(place.at("replicasets"))
    place.change(f"replicasets/{mine['metadata']['name']}", {"metadata": {"labels": {"app": "elsewhere"}}})
    free = Hold("it is released", lambda: not _owners(place, mine), lambda: _owners(place, mine))
    place.wait(free)
    made = place.status(WEB, readyReplicas=1, collisionCount=1)
    place.stop("another is made", made, *said(place, "SuccessfulCreate", "ScalingReplicaSet"))


def _owners(place: Workplace, obj: Object) -> Any:
    return place.read(f"replicasets/{obj['metadata']['name']}")["metadata"].get("ownerReferences")


def set_deleted(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.wait(*all_new(place, 2))
    (mine,) = place.items(place.at("replicasets"))
    name = f"replicasets/{mine['metadata']['name']}"
    place.remove(name)
    place.stop("it is made again", *all_new(place, 2))


def annotated(place: Workplace) -> None:
    made = deployment("web", replicas=1)
    made["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first", "example.com/a": "1"}
    place.create(made)
    place.stop("its ReplicaSet has them", *all_new(place, 1))
    place.change(WEB, {"metadata": {"annotations": {"example.com/a": None, "example.com/b": "2"}}})
    place.stop("what is taken away stays there", *all_new(place, 1))
    place.kubectl("rollout history deployment/web")


def its_pods_end(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.wait(*all_new(place, 2))
    place.end_pod(place.pods()[0]["metadata"]["name"])
    place.stop("one has failed and is replaced", place.pods_are(3), place.status(WEB, availableReplicas=2))


SCENARIOS = [
    story("a Deployment names its ReplicaSet by the hash of its template", named_by_hash),
    story("a Deployment is rolled out with surge", rolled_with_surge),
    story("a Deployment is rolled out without surge", rolled_without_surge),
    story("a Deployment is rolled out all at once", all_at_once),
    story("a rollout is stuck within its fences and goes back", stuck_within_fences),
    story("a rollout is overtaken by the next", rolled_over),
    story("a rollout is out of time", out_of_time),
    story("a rollout has no deadline", without_deadline),
    story("a Deployment is recreated", recreated),
    story("a paused rollout is scaled in proportion", paused_and_scaled),
    story("a Deployment is paused from the start", paused_from_the_start),
    story("a Deployment is scaled while it rolls", scaled_while_it_rolls),
    story("a Deployment is scaled to nothing", scaled_to_nothing),
    story("a Deployment keeps a short history", short_history),
    story("an old template is taken up again", taken_up_again),
    story("a Deployment waits until pods are ready for long enough", ready_for_long_enough),
    story("a Deployment adopts a ReplicaSet of its template", adopts_its_own),
    story("a Deployment adopts a ReplicaSet of another template", adopts_another),
    story("a Deployment releases a ReplicaSet and meets its name again", releases),
    story("somebody deletes the ReplicaSet of a Deployment", set_deleted),
    story("annotations of a Deployment reach its ReplicaSet", annotated),
    story("pods of a Deployment end", its_pods_end),
]
