"""Scenarios of DaemonSets, each on nodes of its own: nodes come and change, templates change, pods fail."""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object
from headgate.nodes.annotations import HOLLOW
from real.workloads.manifests import IMAGE, rich_template, small_pods_only, template, workload
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

SET = "daemonsets/log"
STORY = "example.com/story"
ROLE = "example.com/role"
NEXT = IMAGE.replace(":1", ":2")


def nodes(cluster: WorkloadCluster, *letters: str, role: str = "edge", **spec: Any) -> None:
    """Nodes that no other scenario's pods run on."""
    for letter in letters:
        labels = {HOLLOW: "true", STORY: cluster.ns, ROLE: role, "letter": letter}
        metadata = {
            "name": node(cluster, letter),
            "labels": labels,
            "annotations": {"headgate.dev/stop-after": "500ms"},
        }
        taint = {"key": STORY, "value": cluster.ns, "effect": "NoSchedule"}
        cluster.post(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [taint]}}
        )
    for letter in letters:
        cluster.wait(ready(cluster, letter))


def node(cluster: WorkloadCluster, letter: str) -> str:
    return f"{cluster.ns}-{letter}"


def ready(cluster: WorkloadCluster, letter: str) -> WaitCondition:
    """Ready, and free of what keeps pods away until it is."""

    def seen() -> list[Any]:
        found = cluster.read(f"nodes/{node(cluster, letter)}")
        told = [each["status"] for each in found["status"].get("conditions") or () if each["type"] == "Ready"]
        return [told, [each["key"] for each in found["spec"].get("taints") or ()]]

    return WaitCondition(f"node {letter} is ready", lambda: seen() == [["True"], [STORY]], seen)


def daemon_set(cluster: WorkloadCluster, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    tolerations = [{"key": STORY, "operator": "Exists", "effect": "NoSchedule"}]
    pods = template("log", annotations, nodeSelector={STORY: cluster.ns, ROLE: "edge"}, tolerations=tolerations)
    return workload("DaemonSet", "log", pods, **spec)


def up(cluster: WorkloadCluster, count: int, **more: int) -> WaitCondition:
    counts = {"desiredNumberScheduled": count, "currentNumberScheduled": count, "numberReady": count}
    return cluster.status(
        SET, **counts, updatedNumberScheduled=count, numberAvailable=count, numberUnavailable=0, **more
    )


def image(name: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def rolling(**limits: Any) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


def runs_everywhere(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b", "c")
    cluster.create(daemon_set(cluster))
    cluster.checkpoint("one pod on every node", up(cluster, 3), cluster.event("SuccessfulCreate"), words=True)
    cluster.kubectl("get daemonsets")
    cluster.kubectl("rollout status daemonset/log")


def follows_nodes(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a")
    nodes(cluster, "b", role="core")
    cluster.create(daemon_set(cluster))
    cluster.checkpoint("one pod on the one node", up(cluster, 1), cluster.event("SuccessfulCreate"))
    nodes(cluster, "c")
    cluster.checkpoint("a new node gets one", up(cluster, 2))
    cluster.change(f"nodes/{node(cluster, 'b')}", {"metadata": {"labels": {ROLE: "edge"}}})
    cluster.checkpoint("so does one that suits from now on", up(cluster, 3))
    cluster.change(f"nodes/{node(cluster, 'a')}", {"metadata": {"labels": {ROLE: "core"}}})
    cluster.checkpoint("from one that suits no longer it goes", up(cluster, 2), cluster.pods_are(2))


def stays_on_tainted_nodes(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster))
    cluster.wait(up(cluster, 2))
    own = {"key": STORY, "value": cluster.ns, "effect": "NoSchedule"}
    taint = {"key": "example.com/mine", "effect": "NoSchedule"}
    cluster.change(f"nodes/{node(cluster, 'a')}", {"spec": {"taints": [own, taint]}})
    cluster.change(SET, {"metadata": {"labels": {"touched": "true"}}})
    cluster.checkpoint("it stays, but is not wanted there", up(cluster, 1, numberMisscheduled=1), cluster.pods_are(2))
    cluster.change(f"nodes/{node(cluster, 'a')}", {"spec": {"taints": [own]}})
    cluster.checkpoint("it is wanted again", up(cluster, 2, numberMisscheduled=0))
    cluster.kubectl(f"cordon {node(cluster, 'b')}")
    cluster.checkpoint("it stays on a node that is cordoned", up(cluster, 2))


def rolls_out_and_back(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster))
    cluster.wait(up(cluster, 2))
    cluster.change(SET, image(NEXT))
    cluster.checkpoint("the second revision is everywhere", up(cluster, 2), cluster.pods_are(2), words=True)
    cluster.kubectl("rollout history daemonset/log")
    cluster.kubectl("rollout undo daemonset/log")
    cluster.checkpoint("the first revision is back under a new number", up(cluster, 2), cluster.pods_are(2))
    cluster.kubectl("rollout history daemonset/log")
    cluster.kubectl("rollout undo daemonset/log --to-revision=3")
    cluster.checkpoint("going back to where it is changes nothing", up(cluster, 2), cluster.pods_are(2))


def rolls_out_at_once(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b", "c")
    cluster.create(daemon_set(cluster, {"start-after": "1s"}, **rolling(maxUnavailable="100%")))
    cluster.wait(up(cluster, 3))
    cluster.change(SET, image(NEXT))
    cluster.checkpoint("all are replaced", up(cluster, 3), cluster.pods_are(3))


def surges(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster, **rolling(maxSurge=1, maxUnavailable=0)))
    cluster.wait(up(cluster, 2))
    cluster.change(SET, image(NEXT))
    cluster.checkpoint("new pods took the place of old ones", up(cluster, 2), cluster.pods_are(2))


def gets_stuck(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a")
    cluster.create(daemon_set(cluster))
    cluster.wait(up(cluster, 1))
    broken = {"annotations": {"headgate.dev/start-after": "10m"}}
    cluster.change(SET, {"spec": {"template": {"metadata": broken, **image(NEXT)["spec"]["template"]}}})
    cluster.checkpoint(
        "the new pod does not start",
        cluster.status(SET, updatedNumberScheduled=1, numberAvailable=0, numberUnavailable=1),
        cluster.pods_are(1),
    )
    cluster.kubectl("rollout undo daemonset/log")
    cluster.checkpoint("it is as before", up(cluster, 1), cluster.pods_are(1, "Running"))


def updates_on_delete(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster, updateStrategy={"type": "OnDelete"}))
    cluster.wait(up(cluster, 2))
    cluster.change(SET, image(NEXT))
    cluster.checkpoint("nobody is updated", cluster.status(SET, numberReady=2, updatedNumberScheduled=0))
    cluster.remove(f"pods/{on(cluster, 'b')}")
    cluster.checkpoint(
        "who was deleted comes back updated",
        cluster.status(SET, numberReady=2, updatedNumberScheduled=1),
        cluster.pods_are(2, "Running"),
    )


def on(cluster: WorkloadCluster, letter: str) -> str:
    """The name of the pod on a node."""
    (found,) = [each for each in cluster.pods(app="log") if each["spec"].get("nodeName") == node(cluster, letter)]
    return str(found["metadata"]["name"])


def replaces_the_ended(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster))
    cluster.wait(up(cluster, 2))
    cluster.end_pod(on(cluster, "a"))
    cluster.checkpoint(
        "a pod that failed is replaced",
        cluster.event("FailedDaemonPod"),
        up(cluster, 2),
        cluster.pods_are(2, "Running"),
    )
    cluster.end_pod(on(cluster, "b"), phase="Succeeded", exit_code=0)
    cluster.checkpoint(
        "so is one that succeeded", cluster.event("SucceededDaemonPod"), up(cluster, 2), cluster.pods_are(2, "Running")
    )


def lets_go_and_takes_back(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster))
    cluster.wait(up(cluster, 2))
    cluster.change(f"pods/{on(cluster, 'a')}", {"metadata": {"labels": {"app": "other"}}})
    cluster.checkpoint("a pod that is not meant any more is replaced", up(cluster, 2), cluster.pods_are(3, "Running"))


def takes_orphans_over(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster))
    cluster.checkpoint("all are up", up(cluster, 2), cluster.event("SuccessfulCreate"))
    cluster.remove(SET, "Orphan")
    cluster.checkpoint("pods are left alone", cluster.gone(SET), cluster.pods_are(2, "Running"))
    cluster.create(daemon_set(cluster))
    cluster.checkpoint("the next set of that name takes them over", up(cluster, 2), cluster.pods_are(2, "Running"))


def waits_to_be_available(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    cluster.create(daemon_set(cluster, minReadySeconds=4))
    cluster.checkpoint("all are available in the end", up(cluster, 2))


def keeps_some_history(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a")
    cluster.create(daemon_set(cluster, revisionHistoryLimit=1))
    cluster.checkpoint("there is no history yet", up(cluster, 1))
    for tag in ("2", "3", "4"):
        cluster.change(SET, image(IMAGE.replace(":1", f":{tag}")))
        cluster.checkpoint(f"one old revision is left: {tag}", up(cluster, 1), cluster.pods_are(1, "Running"))


def moves(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b")
    nodes(cluster, "c", role="core")
    cluster.create(daemon_set(cluster))
    cluster.wait(up(cluster, 2))
    cluster.change(SET, {"spec": {"template": {"spec": {"nodeSelector": {ROLE: "core"}}}}})
    cluster.checkpoint("pods are where the new template wants them", up(cluster, 1), cluster.pods_are(1))


def is_refused(cluster: WorkloadCluster) -> None:
    nodes(cluster, "a", "b", "c")
    refused = daemon_set(cluster)
    refused["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    cluster.create(small_pods_only(), refused)
    cluster.checkpoint("pods are refused", cluster.event("FailedCreate"), cluster.status(SET, desiredNumberScheduled=3))


def nowhere(pods: Object) -> Object:
    pods["spec"]["nodeSelector"] = {ROLE: "none"}
    return pods


def is_named_by_its_template(cluster: WorkloadCluster) -> None:
    cluster.create(workload("DaemonSet", "log", nowhere(rich_template("log"))))
    cluster.checkpoint("there is a revision", cluster.status(SET, desiredNumberScheduled=0))
    cluster.note_revision("controller-revision-hash")
    cluster.kubectl("rollout undo daemonset/log --to-revision=1")


SCENARIOS = [
    scenario("a daemon set runs everywhere", runs_everywhere),
    scenario("a daemon set follows the nodes", follows_nodes),
    scenario("a daemon set stays on tainted nodes", stays_on_tainted_nodes),
    scenario("a daemon set rolls out and back", rolls_out_and_back),
    scenario("a daemon set rolls out at once", rolls_out_at_once),
    scenario("a daemon set surges", surges),
    scenario("a daemon set gets stuck and is undone", gets_stuck),
    scenario("a daemon set is updated on delete", updates_on_delete),
    scenario("a daemon set replaces pods that ended", replaces_the_ended),
    scenario("a daemon set lets a pod go", lets_go_and_takes_back),
    scenario("a daemon set takes orphans over", takes_orphans_over),
    scenario("a daemon set waits until pods are available", waits_to_be_available),
    scenario("a daemon set keeps some history", keeps_some_history),
    scenario("a daemon set moves to other nodes", moves),
    scenario("a daemon set is refused its pods", is_refused),
    scenario("a daemon set names its revision by its template", is_named_by_its_template),
]
