"""The real kube-scheduler and kube-controller-manager run a cluster on the embedded server as they do on a real one.

The same scenarios run on both servers at the same time; what they leave behind must be the same, and in the end the
two foreign processes may complain of nothing that they do not complain of on the real server. Headgate's own
controllers are switched off: whatever is created, bound, rolled out or collected here, the real ones did it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.control_plane import ControlPlane, Nodes, embedded_server, real_server
from harness.objects import deployment, job, pod

pytestmark = pytest.mark.real

Object = dict[str, Any]

NODES = 50
PODS = 500
RESOURCES = {"cpu": "8", "memory": "32Gi"}
SMALL = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}


class Planes:
    """Both control planes; `on_each` runs a scenario on both and gives what they left behind if it is the same."""

    def __init__(self, real: ControlPlane, ours: ControlPlane) -> None:
        self.real, self.ours = real, ours
        self._threads = ThreadPoolExecutor(2)

    def agree(self, scenario: Callable[[ControlPlane], Any]) -> Any:
        real, ours = (self._threads.submit(scenario, each) for each in (self.real, self.ours))
        found = real.result(), ours.result()
        assert found[0] == found[1]
        return found[0]

    def close(self) -> None:
        self._threads.shutdown()


@pytest.fixture(scope="module")
def planes(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    real, embedded = real_server(theirs, kube_binaries), embedded_server(ours, kube_binaries, NODES, RESOURCES)
    nodes = Nodes(real, NODES, {**RESOURCES, "pods": "110"})
    planes = Planes(ControlPlane(real, kube_binaries, theirs), ControlPlane(embedded, kube_binaries, ours))
    planes.agree(slow_to_stop)
    yield planes
    planes.close()
    for plane in (planes.real, planes.ours):
        plane.stop()
    nodes.stop()
    for server in (real, embedded):
        server.disconnect()
        server.stop()


def slow_to_stop(plane: ControlPlane) -> None:
    """Containers need a moment to stop, as they do anywhere: controllers race with kubelets that need none."""
    plane.until("all nodes are there", lambda: len(plane.items("/api/v1/nodes")) == NODES)
    plane.kubectl("annotate", "nodes", "--all", "headgate.dev/stop-after=500ms")


def path(namespace: str, resource: str, api: str = "api/v1") -> str:
    return f"/{api}/namespaces/{namespace}/{resource}"


def pods(namespace: str, app: str = "") -> str:
    return path(namespace, "pods") + (f"?labelSelector=app%3D{app}" if app else "")


def a_deployment(name: str, **pod_spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [SMALL], **pod_spec}}
    wanted: Object = deployment(name, replicas=2, selector={"matchLabels": labels}, template=template)
    return wanted


def phases(found: list[Object]) -> dict[str, int]:
    return dict(Counter(each["status"]["phase"] for each in found))


def in_namespace(plane: ControlPlane, name: str) -> str:
    plane.kubectl("create", "namespace", name)
    return name


def all_run(plane: ControlPlane, where: str, count: int) -> list[Object]:
    def running() -> list[Object] | None:
        found = plane.items(where)
        return found if phases(found) == {"Running": count} else None

    found: list[Object] = plane.until(f"{count} pods of {where} run", running)
    return found


def condition(obj: Object, kind: str) -> tuple[str, str]:
    found = [each for each in obj["status"].get("conditions", []) if each["type"] == kind]
    return (found[0]["status"], found[0].get("reason", "")) if found else ("", "")


def test_the_real_scheduler_binds_five_hundred_pods_to_fifty_nodes(planes: Planes) -> None:
    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "many")
        for number in range(PODS):
            plane.post(pods(namespace), pod(f"p{number}", {"app": "many"}, containers=[SMALL]))
        found = all_run(plane, pods(namespace), PODS)
        bound = Counter(each["spec"]["nodeName"] for each in found)
        lease = plane.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
        assert lease["spec"]["holderIdentity"]
        plane.kubectl("delete", "pods", "--all", "-n", namespace, "--wait=false", "--grace-period=0", "--force")
        return len(bound), max(bound.values()), {condition(each, "PodScheduled") for each in found}

    assert planes.agree(scenario) == (NODES, PODS // NODES, {("True", "")})


def test_pods_of_a_replica_set_run_when_their_last_gate_is_gone(planes: Planes) -> None:
    template = {
        "metadata": {"labels": {"app": "gated"}},
        "spec": {"containers": [SMALL], "schedulingGates": [{"name": "foo"}, {"name": "bar"}]},
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "gated"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "gated"}}, "template": template},
    }

    def open_gate(plane: ControlPlane, namespace: str, gate: str) -> None:
        for each in plane.items(pods(namespace, "gated")):
            change = f'{{"spec":{{"schedulingGates":[{{"$patch":"delete","name":"{gate}"}}]}}}}'
            plane.kubectl("patch", "pod", each["metadata"]["name"], "-n", namespace, "-p", change)

    def state(plane: ControlPlane, namespace: str) -> list[Any]:
        found = plane.items(pods(namespace, "gated"))
        return [(each["spec"].get("nodeName"), condition(each, "PodScheduled")) for each in found]

    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "gates")
        plane.post(path(namespace, "replicasets", "apis/apps/v1"), replica_set)
        plane.until("three pods are made", lambda: len(plane.items(pods(namespace, "gated"))) == 3)
        made = state(plane, namespace)
        open_gate(plane, namespace, "foo")
        # Whatever the scheduler would have done with them, it has done when a younger pod runs.
        plane.post(pods(namespace), pod("younger", {"app": "younger"}))
        all_run(plane, pods(namespace, "younger"), 1)
        half_open = state(plane, namespace)
        open_gate(plane, namespace, "bar")
        all_run(plane, pods(namespace, "gated"), 3)
        plane.until(
            "the replica set counts them",
            lambda: plane.get(path(namespace, "replicasets/gated", "apis/apps/v1"))["status"].get("readyReplicas") == 3,
        )
        return made, half_open, [each[1] for each in state(plane, namespace)]

    gated = [(None, ("False", "SchedulingGated"))] * 3
    assert planes.agree(scenario) == (gated, gated, [("True", "")] * 3)


def test_a_deployment_rolls_out_and_back_and_goes_with_all_it_owns(planes: Planes) -> None:
    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "rolling")
        here = ("-n", namespace)
        told: list[Any] = []
        plane.kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3", *here)
        for change in (("set", "image", "deployment/web", "web=web:2"), ("rollout", "undo", "deployment/web")):
            plane.kubectl("rollout", "status", "deployment/web", "--timeout=60s", *here)
            plane.kubectl(*change, *here)
        plane.kubectl("rollout", "status", "deployment/web", "--timeout=60s", *here)
        told.append(plane.kubectl("rollout", "history", "deployment/web", *here).stdout)
        replica_sets = path(namespace, "replicasets", "apis/apps/v1")
        sets = plane.items(replica_sets)
        told.append(
            sorted(
                (each["spec"]["template"]["spec"]["containers"][0]["image"], each["spec"]["replicas"]) for each in sets
            )
        )
        found = plane.get(path(namespace, "deployments/web", "apis/apps/v1"))
        told.append([condition(found, kind) for kind in ("Available", "Progressing")])
        told.append(plane.kubectl("delete", "deployment", "web", *here).stdout)
        plane.until("its replica sets are collected", lambda: not plane.items(replica_sets))
        plane.until("their pods are collected", lambda: not plane.items(pods(namespace)))
        return told

    history, sets, conditions, _ = planes.agree(scenario)
    assert "2" in history
    assert sets == [("web:1", 3), ("web:2", 0)]
    assert conditions == [("True", "MinimumReplicasAvailable"), ("True", "NewReplicaSetAvailable")]


def test_an_orphaning_and_a_foreground_delete_do_what_they_say(planes: Planes) -> None:
    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "orphans")
        here = ("-n", namespace)
        for name in ("kept", "lost"):
            plane.post(path(namespace, "deployments", "apis/apps/v1"), a_deployment(name))
            plane.kubectl("rollout", "status", f"deployment/{name}", "--timeout=60s", *here)
        plane.kubectl("delete", "deployment", "kept", "--cascade=orphan", *here)
        sets = plane.items(path(namespace, "replicasets", "apis/apps/v1") + "?labelSelector=app%3Dkept")
        owners = [each["metadata"].get("ownerReferences") for each in sets]
        plane.kubectl("delete", "replicaset", sets[0]["metadata"]["name"], "--cascade=orphan", *here)
        left = plane.items(pods(namespace, "kept"))
        plane.kubectl("delete", "deployment", "lost", "--cascade=foreground", *here)
        # Foreground: the owner is the last to go, so nothing of it is left when kubectl comes back.
        lost = plane.items(pods(namespace, "lost")), plane.items(path(namespace, "deployments", "apis/apps/v1"))
        return owners, [each["metadata"].get("ownerReferences") for each in left], phases(left), lost

    assert planes.agree(scenario) == ([None], [None, None], {"Running": 2}, ([], []))


def test_a_stateful_set_grows_and_shrinks_in_order(planes: Planes) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db"},
        "spec": {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 80}]},
    }
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": 3,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [SMALL]}},
        },
    }

    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "ordered")
        here = ("-n", namespace)
        plane.post(path(namespace, "services"), service)
        plane.post(path(namespace, "statefulsets", "apis/apps/v1"), stateful_set)
        told = [plane.kubectl("rollout", "status", "statefulset/db", "--timeout=60s", *here).stdout.splitlines()[-1]]
        plane.kubectl("set", "image", "statefulset/db", "c=other", *here)
        plane.kubectl("rollout", "status", "statefulset/db", "--timeout=60s", *here)
        images = [each["spec"]["containers"][0]["image"] for each in plane.items(pods(namespace, "db"))]
        plane.kubectl("scale", "statefulset", "db", "--replicas=1", *here)
        plane.until("one is left", lambda: len(plane.items(pods(namespace, "db"))) == 1)
        left = [each["metadata"]["name"] for each in plane.items(pods(namespace, "db"))]
        revisions = len(plane.items(path(namespace, "controllerrevisions", "apis/apps/v1")))
        return told, images, left, revisions

    told, images, left, revisions = planes.agree(scenario)
    assert (images, left, revisions) == (["other"] * 3, ["db-0"], 2), told


def test_a_job_runs_to_completion(planes: Planes) -> None:
    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "work")
        wanted = job("work", completions=6, parallelism=3)
        wanted["spec"]["template"]["metadata"]["annotations"] = {"headgate.dev/run-for": "1s"}
        plane.post(path(namespace, "jobs", "apis/batch/v1"), wanted)
        plane.kubectl("wait", "job/work", "--for=condition=Complete", "--timeout=60s", "-n", namespace)
        done = plane.get(path(namespace, "jobs/work", "apis/batch/v1"))
        finalizers = [each["metadata"].get("finalizers") for each in plane.items(pods(namespace))]
        conditions = sorted(each["type"] for each in done["status"]["conditions"])
        return done["status"]["succeeded"], conditions, phases(plane.items(pods(namespace))), finalizers

    assert planes.agree(scenario) == (6, ["Complete", "SuccessCriteriaMet"], {"Succeeded": 6}, [None] * 6)


def test_a_namespace_goes_with_all_that_is_in_it(planes: Planes) -> None:
    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "doomed")
        here = ("-n", namespace)
        # The namespace controller waits for half of the longest grace before it looks again.
        plane.post(path(namespace, "deployments", "apis/apps/v1"), a_deployment("web", terminationGracePeriodSeconds=2))
        plane.kubectl("create", "configmap", "c", "--from-literal=a=b", *here)
        plane.kubectl("create", "service", "clusterip", "s", "--tcp=80", *here)
        plane.kubectl("rollout", "status", "deployment/web", "--timeout=60s", *here)
        told = plane.kubectl("delete", "namespace", namespace, "--timeout=60s").stdout
        left = plane.get(f"/api/v1/namespaces/{namespace}"), plane.items(pods(namespace))
        return told, left

    assert planes.agree(scenario) == ('namespace "doomed" deleted\n', (None, []))


def test_the_other_controllers_do_their_part(planes: Planes) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "60"}}}
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [SMALL]}}
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "manual",
            "hostPath": {"path": "/nowhere"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "manual",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }

    def scenario(plane: ControlPlane) -> Any:
        namespace = in_namespace(plane, "others")
        here = ("-n", namespace)
        plane.until("an account", lambda: plane.get(path(namespace, "serviceaccounts/default")))
        authority = plane.until("the authority", lambda: plane.get(path(namespace, "configmaps/kube-root-ca.crt")))
        plane.post(path(namespace, "resourcequotas"), quota)
        plane.post(path(namespace, "daemonsets", "apis/apps/v1"), daemon_set)
        plane.kubectl("rollout", "status", "daemonset/d", "--timeout=60s", *here)
        plane.kubectl("create", "service", "clusterip", "d", "--tcp=80", *here)
        plane.kubectl("create", "poddisruptionbudget", "b", "--selector=app=d", "--min-available=1", *here)
        slices = path(namespace, "endpointslices", "apis/discovery.k8s.io/v1")
        budget = path(namespace, "poddisruptionbudgets/b", "apis/policy/v1")
        plane.until("endpoints", lambda: [len(e.get("endpoints") or ()) for e in plane.items(slices)] == [NODES])
        plane.until("healthy pods", lambda: plane.get(budget).get("status", {}).get("currentHealthy") == NODES)
        plane.until(
            "pods counted",
            lambda: (
                plane.get(path(namespace, "resourcequotas/q")).get("status", {}).get("used") == {"pods": str(NODES)}
            ),
        )
        plane.post("/api/v1/persistentvolumes", volume)
        plane.kubectl("wait", "pv/v", "--for=jsonpath={.status.phase}=Available", "--timeout=60s")
        plane.post(path(namespace, "persistentvolumeclaims"), claim)
        plane.kubectl("wait", "pvc/c", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s", *here)
        bound = plane.get(path(namespace, "persistentvolumeclaims/c"))
        done = job("done", completions=1, ttlSecondsAfterFinished=1)
        done["spec"]["template"]["metadata"]["annotations"] = {"headgate.dev/run-for": "1s"}
        plane.post(path(namespace, "jobs", "apis/batch/v1"), done)
        plane.until("its end", lambda: plane.get(path(namespace, "jobs/done", "apis/batch/v1")) is None)
        plane.kubectl("delete", "daemonset", "d", *here)
        plane.until("no pods", lambda: not plane.items(pods(namespace)))
        plane.kubectl("delete", "pvc", "c", *here)
        plane.kubectl("delete", "pv", "v")
        return sorted(authority["data"]), bound["spec"]["volumeName"], bound["metadata"]["finalizers"]

    assert planes.agree(scenario) == (["ca.crt"], "v", ["kubernetes.io/pvc-protection"])


def test_they_complain_of_nothing_that_a_real_server_does_not_give_them_reason_for(planes: Planes) -> None:
    """The last test of the module."""
    assert planes.ours.complaints() - planes.real.complaints() == set()
