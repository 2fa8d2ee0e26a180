"""Stories of namespaces, of what each of them has, and of pods that nobody looks after; see `test_controllers.py`."""

from __future__ import annotations

from harness.objects import config_map, pod
from harness.scenarios import MERGE, Place, Story
from real.controller_scenarios import HOLD, make

NODE = {"apiVersion": "v1", "kind": "Node"}


def namespace(place: Place) -> str:
    return f"/api/v1/namespaces/{place.ns}"


def conditions_are_told(place: Place) -> bool:
    return "conditions" in place.get(namespace(place)).json()["status"]


def empty(place: Place) -> None:
    place.make_namespace()
    place.kubectl(f"delete namespace {place.ns}")
    place.kubectl(f"get namespace {place.ns}")


def full(place: Place) -> None:
    place.make_namespace()
    make(place, "a")
    place.post(place.core("pods"), pod("p"))
    place.post(place.core("secrets"), {**config_map("s"), "kind": "Secret", "data": {}})
    place.post(
        f"/apis/apps/v1/namespaces/{place.ns}/controllerrevisions",
        {"metadata": {"name": "r"}, "data": {"a": 1}, "revision": 1},
    )
    place.post(f"/apis/coordination.k8s.io/v1/namespaces/{place.ns}/leases", {"metadata": {"name": "l"}, "spec": {}})
    place.kubectl(f"delete namespace {place.ns}")
    place.make_namespace()
    place.note_all(place.core("configmaps"))
    place.note_all(place.core("secrets"))
    place.note_all(f"/apis/coordination.k8s.io/v1/namespaces/{place.ns}/leases")
    place.kubectl(f"delete namespace {place.ns} --cascade=foreground")


def held(place: Place) -> None:
    place.make_namespace()
    make(place, "one", finalizers=[HOLD])
    make(place, "two", finalizers=[HOLD, "example.com/second"])
    place.post(place.core("secrets"), {"metadata": {"name": "s", "finalizers": [HOLD]}})
    make(place, "free")
    place.kubectl(f"delete namespace {place.ns} --wait=false")
    place.until("it says what is left", lambda: conditions_are_told(place))
    place.note_object(namespace(place))
    place.note_all(place.core("configmaps"))
    refused = place.server.request("POST", place.core("configmaps"), {"Content-Type": "application/json"}, b"{}")
    place.note("nothing new", [refused.status])
    for path in (place.core("configmaps", "one"), place.core("configmaps", "two"), place.core("secrets", "s")):
        place.patch(path, {"metadata": {"finalizers": None}})
    place.until_gone(namespace(place))


def held_itself(place: Place) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.ns, "finalizers": [HOLD]}}
    place.post("/api/v1/namespaces", body)
    place.kubectl(f"delete namespace {place.ns} --wait=false")
    place.until("its content is gone", lambda: not place.get(namespace(place)).json()["spec"].get("finalizers"))
    place.note_object(namespace(place))
    place.patch(namespace(place), {"metadata": {"finalizers": None}})
    place.until_gone(namespace(place))


def foreign_finalizer(place: Place) -> None:
    place.make_namespace(spec={"finalizers": ["example.com/f"]})
    place.kubectl(f"delete namespace {place.ns} --wait=false")
    place.until("ours is off", lambda: place.get(namespace(place)).json()["spec"]["finalizers"] == ["example.com/f"])
    place.note_object(namespace(place))


def graceful_pods(place: Place) -> None:
    """On a hollow node, and slow to stop: nothing else is touched before they are gone."""
    place.make_namespace()
    slow = pod("slow", nodeName="node-0001", terminationGracePeriodSeconds=60)
    slow["metadata"]["annotations"] = {"headgate.dev/stop-after": "12s"}
    place.post(place.core("pods"), slow)
    make(place, "waits")
    path = place.core("pods", "slow")
    place.until("it runs", lambda: place.get(path).json()["status"].get("phase") == "Running")
    place.kubectl(f"delete namespace {place.ns} --wait=false")
    place.until("conditions are told", lambda: conditions_are_told(place))
    place.note_object(namespace(place))
    place.note_all(place.core("configmaps"))
    place.until_gone(path, namespace(place))


def service_account(place: Place) -> None:
    place.make_namespace()
    path = place.core("serviceaccounts", "default")
    place.until("there is one", lambda: place.get(path).status == 200)
    place.note_object(path)
    uid = place.get(path).json()["metadata"]["uid"]
    place.kubectl("delete serviceaccount default")
    place.until("there is another one", lambda: place.get(path).json()["metadata"].get("uid", uid) != uid)
    place.note_object(path)


def root_certificate(place: Place) -> None:
    place.make_namespace()
    path = place.core("configmaps", "kube-root-ca.crt")

    def is_right() -> bool:
        found = place.get(path)
        return found.status == 200 and "CERTIFICATE" in found.json()["data"].get("ca.crt", "")

    def note() -> None:
        found = place.get(path).json()
        place.note("the certificate", {**found, "data": sorted(found["data"])})

    place.until("there is one", is_right)
    note()
    place.kubectl("delete configmap kube-root-ca.crt --wait=false")
    place.until("it came back", is_right)
    place.patch(path, {"data": {"ca.crt": "forged", "more": "x"}, "metadata": {"labels": {"mine": "yes"}}})
    place.until("it is right again", is_right)
    note()
    place.server.request("PATCH", path, MERGE, b'{"metadata":{"annotations":{"kubernetes.io/description":""}}}')
    place.until(
        "it is described", lambda: bool(place.get(path).json()["metadata"]["annotations"]["kubernetes.io/description"])
    )
    note()


def lose_node(place: Place) -> None:
    place.make_namespace()
    place.post("/api/v1/nodes", {**NODE, "metadata": {"name": place.ns}})
    for name, phase in (("running", "Running"), ("done", "Succeeded")):
        place.post(place.core("pods"), pod(name, nodeName=place.ns))
        place.patch(place.core("pods", f"{name}/status"), {"status": {"phase": phase}})
    stays = pod("held", nodeName=place.ns)
    stays["metadata"]["finalizers"] = [HOLD]
    place.post(place.core("pods"), stays)
    place.delete(f"/api/v1/nodes/{place.ns}")


def lost_node(place: Place) -> None:
    place.until_gone(place.core("pods", "running"), place.core("pods", "done"))
    place.until(
        "the held one failed", lambda: place.get(place.core("pods", "held")).json()["status"]["phase"] == "Failed"
    )
    place.note_object(place.core("pods", "held"))
    place.patch(place.core("pods", "held"), {"metadata": {"finalizers": None}})


def terminate_unplaced(place: Place) -> None:
    place.make_namespace()
    obj = pod("p", schedulingGates=[{"name": "example.com/g"}])
    obj["metadata"]["finalizers"] = [HOLD]
    place.post(place.core("pods"), obj)
    place.delete(place.core("pods", "p"))


def terminating_unplaced(place: Place) -> None:
    path = place.core("pods", "p")
    place.until("it failed", lambda: place.get(path).json()["status"]["phase"] == "Failed")
    place.note_object(path)
    place.patch(path, {"metadata": {"finalizers": None}})


def take_out_of_service(place: Place) -> None:
    place.make_namespace()
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "gone"}
    place.post("/api/v1/nodes", {**NODE, "metadata": {"name": place.ns}, "spec": {"taints": [taint]}})
    for name in ("leaving", "staying"):
        # They tolerate the taint: nobody but who collects pods takes them away.
        place.post(place.core("pods"), pod(name, nodeName=place.ns, tolerations=[{"operator": "Exists"}]))
    place.delete(place.core("pods", "leaving"))


def out_of_service(place: Place) -> None:
    place.until_gone(place.core("pods", "leaving"))
    place.note_all(place.core("pods"))
    place.delete(f"/api/v1/nodes/{place.ns}")


NAMESPACES = [
    Story("an empty namespace goes", empty),
    Story("a namespace goes with all that is in it", full),
    Story("a namespace waits for finalizers in it", held),
    Story("a namespace waits for its own finalizers", held_itself),
    Story("a namespace waits for somebody else", foreign_finalizer),
    Story("a namespace waits for its pods", graceful_pods),
    Story("the default service account comes back", service_account),
    Story("the root certificate is put right", root_certificate),
]
STRAY_PODS = [
    Story("pods of a lost node", lost_node, before=lose_node),
    Story("a pod that is going and has no node", terminating_unplaced, before=terminate_unplaced),
    Story("pods of a node out of service", out_of_service, before=take_out_of_service),
]
