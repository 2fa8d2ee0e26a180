"""Stories of DaemonSets, each on nodes of its own: nodes come and change, templates change, pods fail."""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object
from headgate.nodes.annotations import HOLLOW
from real.workloads.manifests import IMAGE, rich_template, small_pods_only, template, workload
from real.workloads.scenario_cluster import Hold, Workplace, story

SET = "daemonsets/log"
STORY = "example.com/story"
ROLE = "example.com/role"
NEXT = IMAGE.replace(":1", ":2")


def nodes(place: Workplace, *letters: str, role: str = "edge", **spec: Any) -> None:
    """Nodes that no other story's pods run on."""
    for letter in letters:
        labels = {HOLLOW: "true", STORY: place.ns, ROLE: role, "letter": letter}
        metadata = {"name": node(place, letter), "labels": labels, "annotations": {"headgate.dev/stop-after": "500ms"}}
        taint = {"key": STORY, "value": place.ns, "effect": "NoSchedule"}
        place.post(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [taint]}}
        )
    for letter in letters:
        place.wait(ready(place, letter))


def node(place: Workplace, letter: str) -> str:
    return f"{place.ns}-{letter}"


def ready(place: Workplace, letter: str) -> Hold:
    """Ready, and free of what keeps pods away until it is."""

    def seen() -> list[Any]:
        found = place.read(f"nodes/{node(place, letter)}")
        told = [each["status"] for each in found["status"].get("conditions") or () if each["type"] == "Ready"]
        return [told, [each["key"] for each in found["spec"].get("taints") or ()]]

    return Hold(f"node {letter} is ready", lambda: seen() == [["True"], [STORY]], seen)


def daemon_set(place: Workplace, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    tolerations = [{"key": STORY, "operator": "Exists", "effect": "NoSchedule"}]
    pods = template("log", annotations, nodeSelector={STORY: place.ns, ROLE: "edge"}, tolerations=tolerations)
    return workload("DaemonSet", "log", pods, **spec)


def up(place: Workplace, count: int, **more: int) -> Hold:
    counts = {"desiredNumberScheduled": count, "currentNumberScheduled": count, "numberReady": count}
    return place.status(SET, **counts, updatedNumberScheduled=count, numberAvailable=count, numberUnavailable=0, **more)


def image(name: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def rolling(**limits: Any) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


def runs_everywhere(place: Workplace) -> None:
    nodes(place, "a", "b", "c")
    place.create(daemon_set(place))
    place.stop("one pod on every node", up(place, 3), place.event("SuccessfulCreate"), words=True)
    place.kubectl("get daemonsets")
    place.kubectl("rollout status daemonset/log")


def follows_nodes(place: Workplace) -> None:
    nodes(place, "a")
    nodes(place, "b", role="core")
    place.create(daemon_set(place))
    place.stop("one pod on the one node", up(place, 1), place.event("SuccessfulCreate"))
    nodes(place, "c")
    place.stop("a new node gets one", up(place, 2))
    place.change(f"nodes/{node(place, 'b')}", {"metadata": {"labels": {ROLE: "edge"}}})
    place.stop("so does one that suits from now on", up(place, 3))
    place.change(f"nodes/{node(place, 'a')}", {"metadata": {"labels": {ROLE: "core"}}})
    place.stop("from one that suits no longer it goes", up(place, 2), place.pods_are(2))


def stays_on_tainted_nodes(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place))
    place.wait(up(place, 2))
    own = {"key": STORY, "value": place.ns, "effect": "NoSchedule"}
    taint = {"key": "example.com/mine", "effect": "NoSchedule"}
    place.change(f"nodes/{node(place, 'a')}", {"spec": {"taints": [own, taint]}})
    place.change(SET, {"metadata": {"labels": {"touched": "true"}}})
    place.stop("it stays, but is not wanted there", up(place, 1, numberMisscheduled=1), place.pods_are(2))
    place.change(f"nodes/{node(place, 'a')}", {"spec": {"taints": [own]}})
    place.stop("it is wanted again", up(place, 2, numberMisscheduled=0))
    place.kubectl(f"cordon {node(place, 'b')}")
    place.stop("it stays on a node that is cordoned", up(place, 2))


def rolls_out_and_back(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place))
    place.wait(up(place, 2))
    place.change(SET, image(NEXT))
    place.stop("the second revision is everywhere", up(place, 2), place.pods_are(2), words=True)
    place.kubectl("rollout history daemonset/log")
    place.kubectl("rollout undo daemonset/log")
    place.stop("the first revision is back under a new number", up(place, 2), place.pods_are(2))
    place.kubectl("rollout history daemonset/log")
    place.kubectl("rollout undo daemonset/log --to-revision=3")
    place.stop("going back to where it is changes nothing", up(place, 2), place.pods_are(2))


def rolls_out_at_once(place: Workplace) -> None:
    nodes(place, "a", "b", "c")
    place.create(daemon_set(place, {"start-after": "1s"}, **rolling(maxUnavailable="100%")))
    place.wait(up(place, 3))
    place.change(SET, image(NEXT))
    place.stop("all are replaced", up(place, 3), place.pods_are(3))


def surges(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place, **rolling(maxSurge=1, maxUnavailable=0)))
    place.wait(up(place, 2))
    place.change(SET, image(NEXT))
    place.stop("new pods took the place of old ones", up(place, 2), place.pods_are(2))


def gets_stuck(place: Workplace) -> None:
    nodes(place, "a")
    place.create(daemon_set(place))
    place.wait(up(place, 1))
    broken = {"annotations": {"headgate.dev/start-after": "10m"}}
    place.change(SET, {"spec": {"template": {"metadata": broken, **image(NEXT)["spec"]["template"]}}})
    place.stop(
        "the new pod does not start",
        place.status(SET, updatedNumberScheduled=1, numberAvailable=0, numberUnavailable=1),
        place.pods_are(1),
    )
    place.kubectl("rollout undo daemonset/log")
    place.stop("it is as before", up(place, 1), place.pods_are(1, "Running"))


def updates_on_delete(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place, updateStrategy={"type": "OnDelete"}))
    place.wait(up(place, 2))
    place.change(SET, image(NEXT))
    place.stop("nobody is updated", place.status(SET, numberReady=2, updatedNumberScheduled=0))
    place.remove(f"pods/{on(place, 'b')}")
    place.stop(
        "who was deleted comes back updated",
        place.status(SET, numberReady=2, updatedNumberScheduled=1),
        place.pods_are(2, "Running"),
    )


def on(place: Workplace, letter: str) -> str:
    """The name of the pod on a node."""
    (found,) = [each for each in place.pods(app="log") if each["spec"].get("nodeName") == node(place, letter)]
    return str(found["metadata"]["name"])


def replaces_the_ended(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place))
    place.wait(up(place, 2))
    place.end_pod(on(place, "a"))
    place.stop(
        "a pod that failed is replaced", place.event("FailedDaemonPod"), up(place, 2), place.pods_are(2, "Running")
    )
    place.end_pod(on(place, "b"), phase="Succeeded", exit_code=0)
    place.stop(
        "so is one that succeeded", place.event("SucceededDaemonPod"), up(place, 2), place.pods_are(2, "Running")
    )


def lets_go_and_takes_back(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place))
    place.wait(up(place, 2))
    place.change(f"pods/{on(place, 'a')}", {"metadata": {"labels": {"app": "other"}}})
    place.stop("a pod that is not meant any more is replaced", up(place, 2), place.pods_are(3, "Running"))


def takes_orphans_over(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place))
    place.stop("all are up", up(place, 2), place.event("SuccessfulCreate"))
    place.remove(SET, "Orphan")
    place.stop("pods are left alone", place.gone(SET), place.pods_are(2, "Running"))
    place.create(daemon_set(place))
    place.stop("the next set of that name takes them over", up(place, 2), place.pods_are(2, "Running"))


def waits_to_be_available(place: Workplace) -> None:
    nodes(place, "a", "b")
    place.create(daemon_set(place, minReadySeconds=4))
    place.stop("all are available in the end", up(place, 2))


def keeps_some_history(place: Workplace) -> None:
    nodes(place, "a")
    place.create(daemon_set(place, revisionHistoryLimit=1))
    place.stop("there is no history yet", up(place, 1))
    for tag in ("2", "3", "4"):
        place.change(SET, image(IMAGE.replace(":1", f":{tag}")))
        place.stop(f"one old revision is left: {tag}", up(place, 1), place.pods_are(1, "Running"))


def moves(place: Workplace) -> None:
    nodes(place, "a", "b")
    nodes(place, "c", role="core")
    place.create(daemon_set(place))
    place.wait(up(place, 2))
    place.change(SET, {"spec": {"template": {"spec": {"nodeSelector": {ROLE: "core"}}}}})
    place.stop("pods are where the new template wants them", up(place, 1), place.pods_are(1))


def is_refused(place: Workplace) -> None:
    nodes(place, "a", "b", "c")
    refused = daemon_set(place)
    refused["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    place.create(small_pods_only(), refused)
    place.stop("pods are refused", place.event("FailedCreate"), place.status(SET, desiredNumberScheduled=3))


def nowhere(pods: Object) -> Object:
    pods["spec"]["nodeSelector"] = {ROLE: "none"}
    return pods


def is_named_by_its_template(place: Workplace) -> None:
    place.create(workload("DaemonSet", "log", nowhere(rich_template("log"))))
    place.stop("there is a revision", place.status(SET, desiredNumberScheduled=0))
    place.note_revision("controller-revision-hash")
    place.kubectl("rollout undo daemonset/log --to-revision=1")


SCENARIOS = [
    story("a daemon set runs everywhere", runs_everywhere),
    story("a daemon set follows the nodes", follows_nodes),
    story("a daemon set stays on tainted nodes", stays_on_tainted_nodes),
    story("a daemon set rolls out and back", rolls_out_and_back),
    story("a daemon set rolls out at once", rolls_out_at_once),
    story("a daemon set surges", surges),
    story("a daemon set gets stuck and is undone", gets_stuck),
    story("a daemon set is updated on delete", updates_on_delete),
    story("a daemon set replaces pods that ended", replaces_the_ended),
    story("a daemon set lets a pod go", lets_go_and_takes_back),
    story("a daemon set takes orphans over", takes_orphans_over),
    story("a daemon set waits until pods are available", waits_to_be_available),
    story("a daemon set keeps some history", keeps_some_history),
    story("a daemon set moves to other nodes", moves),
    story("a daemon set is refused its pods", is_refused),
    story("a daemon set names its revision by its template", is_named_by_its_template),
]
