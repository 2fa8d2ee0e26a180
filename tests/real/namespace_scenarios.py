"""Scenarios of namespaces, of the objects that each namespace has, and of pods without an owner; see
`test_controllers.py`.
"""

from __future__ import annotations

from harness.objects import config_map, pod
from harness.scenarios import MERGE, Scenario, ScenarioCluster
from real.controller_scenarios import HOLD, make

NODE = {"apiVersion": "v1", "kind": "Node"}


def namespace(cluster: ScenarioCluster) -> str:
    return f"/api/v1/namespaces/{cluster.ns}"


def conditions_are_told(cluster: ScenarioCluster) -> bool:
    return "conditions" in cluster.get(namespace(cluster)).json()["status"]


def empty(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    cluster.kubectl(f"delete namespace {cluster.ns}")
    cluster.kubectl(f"get namespace {cluster.ns}")


def full(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    make(cluster, "a")
    cluster.post(cluster.core("pods"), pod("p"))
    cluster.post(cluster.core("secrets"), {**config_map("s"), "kind": "Secret", "data": {}})
    cluster.post(
        f"/apis/apps/v1/namespaces/{cluster.ns}/controllerrevisions",
        {"metadata": {"name": "r"}, "data": {"a": 1}, "revision": 1},
    )
    cluster.post(
        f"/apis/coordination.k8s.io/v1/namespaces/{cluster.ns}/leases", {"metadata": {"name": "l"}, "spec": {}}
    )
    cluster.kubectl(f"delete namespace {cluster.ns}")
    cluster.make_namespace()
    cluster.note_all(cluster.core("configmaps"))
    cluster.note_all(cluster.core("secrets"))
    cluster.note_all(f"/apis/coordination.k8s.io/v1/namespaces/{cluster.ns}/leases")
    cluster.kubectl(f"delete namespace {cluster.ns} --cascade=foreground")


def held(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    make(cluster, "one", finalizers=[HOLD])
    make(cluster, "two", finalizers=[HOLD, "example.com/second"])
    cluster.post(cluster.core("secrets"), {"metadata": {"name": "s", "finalizers": [HOLD]}})
    make(cluster, "free")
    cluster.kubectl(f"delete namespace {cluster.ns} --wait=false")
    cluster.until("it says what is left", lambda: conditions_are_told(cluster))
    cluster.note_object(namespace(cluster))
    cluster.note_all(cluster.core("configmaps"))
    refused = cluster.server.request("POST", cluster.core("configmaps"), {"Content-Type": "application/json"}, b"{}")
    cluster.note("nothing new", [refused.status])
    for path in (cluster.core("configmaps", "one"), cluster.core("configmaps", "two"), cluster.core("secrets", "s")):
        cluster.patch(path, {"metadata": {"finalizers": None}})
    cluster.until_gone(namespace(cluster))


def held_itself(cluster: ScenarioCluster) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.ns, "finalizers": [HOLD]}}
    cluster.post("/api/v1/namespaces", body)
    cluster.kubectl(f"delete namespace {cluster.ns} --wait=false")
    cluster.until("its content is gone", lambda: not cluster.get(namespace(cluster)).json()["spec"].get("finalizers"))
    cluster.note_object(namespace(cluster))
    cluster.patch(namespace(cluster), {"metadata": {"finalizers": None}})
    cluster.until_gone(namespace(cluster))


def foreign_finalizer(cluster: ScenarioCluster) -> None:
    cluster.make_namespace(spec={"finalizers": ["example.com/f"]})
    cluster.kubectl(f"delete namespace {cluster.ns} --wait=false")
    cluster.until(
        "ours is off", lambda: cluster.get(namespace(cluster)).json()["spec"]["finalizers"] == ["example.com/f"]
    )
    cluster.note_object(namespace(cluster))


def graceful_pods(cluster: ScenarioCluster) -> None:
    """On a hollow node, and slow to stop: nothing else is touched before they are gone. The namespace is read while the
    pod terminates: when it has stopped and is not removed yet, kube-controller-manager shows an error for a moment."""
    cluster.make_namespace()
    slow = pod("slow", nodeName="node-0001", terminationGracePeriodSeconds=60)
    slow["metadata"]["annotations"] = {"headgate.dev/stop-after": "30s"}
    cluster.post(cluster.core("pods"), slow)
    make(cluster, "waits")
    path = cluster.core("pods", "slow")
    cluster.until("it runs", lambda: cluster.get(path).json()["status"].get("phase") == "Running")
    cluster.kubectl(f"delete namespace {cluster.ns} --wait=false")
    cluster.until("conditions are told", lambda: conditions_are_told(cluster))
    cluster.note_object(namespace(cluster))
    cluster.note_all(cluster.core("configmaps"))
    cluster.until_gone(path, namespace(cluster))


def service_account(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    path = cluster.core("serviceaccounts", "default")
    cluster.until("there is one", lambda: cluster.get(path).status == 200)
    cluster.note_object(path)
    uid = cluster.get(path).json()["metadata"]["uid"]
    cluster.kubectl("delete serviceaccount default")
    cluster.until("there is another one", lambda: cluster.get(path).json()["metadata"].get("uid", uid) != uid)
    cluster.note_object(path)


def root_certificate(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    path = cluster.core("configmaps", "kube-root-ca.crt")

    def is_right() -> bool:
        found = cluster.get(path)
        return found.status == 200 and "CERTIFICATE" in found.json()["data"].get("ca.crt", "")

    def note() -> None:
        found = cluster.get(path).json()
        cluster.note("the certificate", {**found, "data": sorted(found["data"])})

    cluster.until("there is one", is_right)
    note()
    cluster.kubectl("delete configmap kube-root-ca.crt --wait=false")
    cluster.until("it came back", is_right)
    cluster.patch(path, {"data": {"ca.crt": "forged", "more": "x"}, "metadata": {"labels": {"mine": "yes"}}})
    cluster.until("it is right again", is_right)
    note()
    cluster.server.request("PATCH", path, MERGE, b'{"metadata":{"annotations":{"kubernetes.io/description":""}}}')
    cluster.until(
        "it is described",
        lambda: bool(cluster.get(path).json()["metadata"]["annotations"]["kubernetes.io/description"]),
    )
    note()


def lose_node(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    cluster.post("/api/v1/nodes", {**NODE, "metadata": {"name": cluster.ns}})
    for name, phase in (("running", "Running"), ("done", "Succeeded")):
        cluster.post(cluster.core("pods"), pod(name, nodeName=cluster.ns))
        cluster.patch(cluster.core("pods", f"{name}/status"), {"status": {"phase": phase}})
    stays = pod("held", nodeName=cluster.ns)
    stays["metadata"]["finalizers"] = [HOLD]
    cluster.post(cluster.core("pods"), stays)
    cluster.delete(f"/api/v1/nodes/{cluster.ns}")


def lost_node(cluster: ScenarioCluster) -> None:
    cluster.until_gone(cluster.core("pods", "running"), cluster.core("pods", "done"))
    cluster.until(
        "the held one failed", lambda: cluster.get(cluster.core("pods", "held")).json()["status"]["phase"] == "Failed"
    )
    cluster.note_object(cluster.core("pods", "held"))
    cluster.patch(cluster.core("pods", "held"), {"metadata": {"finalizers": None}})


def terminate_unplaced(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    obj = pod("p", schedulingGates=[{"name": "example.com/g"}])
    obj["metadata"]["finalizers"] = [HOLD]
    cluster.post(cluster.core("pods"), obj)
    cluster.delete(cluster.core("pods", "p"))


def terminating_unplaced(cluster: ScenarioCluster) -> None:
    path = cluster.core("pods", "p")
    cluster.until("it failed", lambda: cluster.get(path).json()["status"]["phase"] == "Failed")
    cluster.note_object(path)
    cluster.patch(path, {"metadata": {"finalizers": None}})


def take_out_of_service(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "gone"}
    cluster.post("/api/v1/nodes", {**NODE, "metadata": {"name": cluster.ns}, "spec": {"taints": [taint]}})
    for name in ("leaving", "staying"):
        # They tolerate the taint: only the pod garbage collector deletes them.
        cluster.post(cluster.core("pods"), pod(name, nodeName=cluster.ns, tolerations=[{"operator": "Exists"}]))
    cluster.delete(cluster.core("pods", "leaving"))


def out_of_service(cluster: ScenarioCluster) -> None:
    cluster.until_gone(cluster.core("pods", "leaving"))
    cluster.note_all(cluster.core("pods"))
    cluster.delete(f"/api/v1/nodes/{cluster.ns}")


NAMESPACES = [
    Scenario("an empty namespace goes", empty),
    Scenario("a namespace goes with all that is in it", full),
    Scenario("a namespace waits for finalizers in it", held),
    Scenario("a namespace waits for its own finalizers", held_itself),
    Scenario("a namespace waits for somebody else", foreign_finalizer),
    Scenario("a namespace waits for its pods", graceful_pods),
    Scenario("the default service account comes back", service_account),
    Scenario("the root certificate is put right", root_certificate),
]
STRAY_PODS = [
    Scenario("pods of a lost node", lost_node, prepare=lose_node),
    Scenario("a pod that is going and has no node", terminating_unplaced, prepare=terminate_unplaced),
    Scenario("pods of a node out of service", out_of_service, prepare=take_out_of_service),
]
