"""Resource quotas: what is refused and in which words, what is charged, and what is given back, on both servers.

The real server has the real quota controller beside it, the embedded one keeps the books itself; a step that needs a
usage waits until both know it.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.case_runner import Run
from harness.embedded_server import EmbeddedServer
from harness.objects import (
    CONFIG_MAPS,
    CORE,
    DEPLOYMENTS,
    JOBS,
    PODS,
    SECRETS,
    SERVICES,
    config_map,
    deployment,
    job,
    pod,
    service,
)
from harness.processes import Process
from harness.request_cases import Case, case, cases_of, delete, get, patch, post, put
from harness.server import JSON_TYPE, Server
from harness.server_pair import ServerPair
from real.quota_cases import (
    CLAIMS,
    DEVICE_CLAIMS,
    GIVEN_BACK,
    PODS_AND_COMPUTE,
    QUOTAS,
    SCOPES,
    STORAGE_CLASSES,
    asking,
    knows,
    made,
    pod_now,
    quota,
)

pytestmark = pytest.mark.real


def volume_claim(name: str, storage: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": storage}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


VOLUMES = "/api/v1/persistentvolumes"
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "{ns}"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "{ns}",
        "hostPath": {"path": "/tmp/v"},
    },
}
GOLD = "{ns}.storageclass.storage.k8s.io"
EXPANDING = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "{ns}"},
    "provisioner": "example.com/p",
    "allowVolumeExpansion": True,
}
COUNTED = [
    case(
        "objects by their old names and by count/",
        *made(
            "q",
            {"configmaps": "2", "secrets": "1", "count/configmaps": "5", "count/deployments.apps": "1"},
            {"configmaps": "1", "secrets": "0", "count/configmaps": "1", "count/deployments.apps": "0"},
        ),
        post(CONFIG_MAPS, config_map("a")),
        post(SECRETS, {"metadata": {"name": "a"}}),
        post(DEPLOYMENTS, deployment("a")),
        knows("q", {"configmaps": "2", "secrets": "1", "count/configmaps": "2", "count/deployments.apps": "1"}),
        post(CONFIG_MAPS, config_map("b")),
        post(SECRETS, {"metadata": {"name": "b"}}),
        post(DEPLOYMENTS, deployment("b")),
        put(f"{CONFIG_MAPS}/a", config_map("a", {"k": "w"})),
        patch(f"{CONFIG_MAPS}/c?fieldManager=x", {**config_map("c")}, "apply"),
    ),
    case(
        "quotas count themselves",
        *made(
            "q",
            {"resourcequotas": "2", "count/resourcequotas": "5"},
            {"resourcequotas": "1", "count/resourcequotas": "1"},
        ),
        post(QUOTAS, quota("r", {"pods": "1"})),
        knows("q", {"resourcequotas": "2", "count/resourcequotas": "2"}),
        post(QUOTAS, quota("s", {"pods": "1"})),
        delete(f"{QUOTAS}/r"),
        knows("q", {"resourcequotas": "1", "count/resourcequotas": "1"}),
    ),
    case(
        "services, their node ports and balancers",
        *made("q", {"services": "5", "services.nodeports": "2", "services.loadbalancers": "1", "count/services": "9"}),
        post(SERVICES, service("a", type="NodePort")),
        knows("q", {"services": "1", "services.nodeports": "1", "services.loadbalancers": "0", "count/services": "1"}),
        post(
            SERVICES,
            service("b", type="NodePort", ports=[{"port": 1, "name": "x"}, {"port": 2, "name": "y"}]),
        ),
        post(SERVICES, service("b", type="LoadBalancer", allocateLoadBalancerNodePorts=False)),
        knows("q", {"services": "2", "services.nodeports": "1", "services.loadbalancers": "1", "count/services": "2"}),
        post(SERVICES, service("c", type="LoadBalancer")),
        post(SERVICES, service("c")),
        patch(f"{SERVICES}/c", {"spec": {"type": "LoadBalancer"}}),
        patch(f"{SERVICES}/c", {"spec": {"type": "NodePort"}}),
        knows("q", {"services": "3", "services.nodeports": "2", "services.loadbalancers": "1", "count/services": "3"}),
        delete(f"{SERVICES}/b"),
        knows("q", {"services": "2", "services.nodeports": "2", "services.loadbalancers": "0", "count/services": "2"}),
    ),
    case(
        "storage, all of it and by class",
        *made(
            "q",
            {"persistentvolumeclaims": "5", "requests.storage": "10Gi", f"{GOLD}/requests.storage": "2Gi"},
        ),
        post(CLAIMS, volume_claim("a", "3Gi", storageClassName="")),
        post(CLAIMS, volume_claim("b", "1Gi", storageClassName="{ns}")),
        knows("q", {"persistentvolumeclaims": "2", "requests.storage": "4Gi", f"{GOLD}/requests.storage": "1Gi"}),
        post(CLAIMS, volume_claim("c", "1.5Gi", storageClassName="{ns}")),
        post(CLAIMS, volume_claim("c", "7Gi")),
        delete(f"{CLAIMS}/b"),
    ),
    case(
        "a claim that grows",
        post(STORAGE_CLASSES, EXPANDING),
        *made("q", {"requests.storage": "3Gi"}),
        post(VOLUMES, VOLUME),
        post(CLAIMS, volume_claim("a", "1Gi", storageClassName="{ns}", volumeName="{ns}")),
        knows("q", {"requests.storage": "1Gi"}),
        # Only bound claims grow, and binding takes its time.
        patch(f"{CLAIMS}/a", {"spec": {"resources": {"requests": {"storage": "4Gi"}}}}).until(403),
        patch(f"{CLAIMS}/a", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        knows("q", {"requests.storage": "2Gi"}),
    ),
    case(
        "devices of claims",
        *made("q", {"gpu.deviceclass.resource.k8s.io/devices": "4", "count/resourceclaims.resource.k8s.io": "9"}),
        post(
            DEVICE_CLAIMS,
            {
                "metadata": {"name": "a"},
                "spec": {
                    "devices": {
                        "requests": [
                            {"name": "x", "exactly": {"deviceClassName": "gpu", "count": 2}},
                            {
                                "name": "y",
                                "firstAvailable": [
                                    {"name": "one", "deviceClassName": "gpu", "count": 1},
                                    {"name": "two", "deviceClassName": "gpu", "count": 2},
                                    {"name": "other", "deviceClassName": "tpu", "allocationMode": "All"},
                                ],
                            },
                        ]
                    }
                },
            },
        ),
        knows("q", {"gpu.deviceclass.resource.k8s.io/devices": "4", "count/resourceclaims.resource.k8s.io": "1"}),
        post(
            DEVICE_CLAIMS,
            {
                "metadata": {"name": "b"},
                "spec": {
                    "devices": {
                        "requests": [{"name": "x", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]
                    }
                },
            },
        ),
    ),
    case(
        "controllers and jobs are objects too",
        *made("q", {"count/jobs.batch": "0", "replicationcontrollers": "0"}),
        post(JOBS, job("a")),
        post(
            f"{CORE}/replicationcontrollers",
            {
                "metadata": {"name": "a"},
                "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}},
            },
        ),
    ),
    case(
        "what nobody can count is left out",
        *made("q", {"count/nothings.example.com": "1", "count/events": "1", "pods": "1"}, {"pods": "0"}),
        post(PODS, pod("a")),
        knows("q", {"pods": "1"}),
        get(f"{QUOTAS}/q", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ),
]

CASES = cases_of(PODS_AND_COMPUTE, GIVEN_BACK, SCOPES, COUNTED)


def settled_in(server: Server, name: str) -> None:
    """A namespace, once it has what every namespace is given: a service account, and a config map that counts."""
    body = json.dumps({"metadata": {"name": name}}).encode()
    server.request("POST", "/api/v1/namespaces", JSON_TYPE, body)
    for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
        for _ in range(200):
            if server.request("GET", f"/api/v1/namespaces/{name}/{path}").status == 200:
                break
            time.sleep(0.05)


@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.name)
def test_a_quota_is_kept_the_same(governed: ServerPair, scenario: Case) -> None:
    """The real controller counts from a cache that may be late, and counts again after minutes: an update makes it
    count again."""
    governed.compare(scenario, attempts=3, prepare=settled_in)


def test_of_many_at_once_exactly_as_many_pass_as_fit(governed: ServerPair) -> None:
    def race(server: Server) -> tuple[list[int], dict[str, str]]:
        namespace = {"metadata": {"name": "race"}}
        server.request("POST", "/api/v1/namespaces", JSON_TYPE, json.dumps(namespace).encode())
        path = QUOTAS.replace("{ns}", "race")
        server.request("POST", path, JSON_TYPE, json.dumps(quota("q", {"pods": "7", "requests.cpu": "10"})).encode())

        def create(number: int) -> int:
            body = json.dumps(asking(f"p{number}", {"cpu": "1"})).encode()
            return server.request("POST", PODS.replace("{ns}", "race"), JSON_TYPE, body).status

        with ThreadPoolExecutor(8) as threads:
            codes = sorted(threads.map(create, range(30)))
        return codes, server.request("GET", f"{path}/q").json()["status"]["used"]

    codes, used = race(governed.ours)
    assert codes == [201] * 7 + [403] * 23
    assert used == {"pods": "7", "requests.cpu": "7"}


@pytest.mark.parametrize("components", ["apiserver", "apiserver,controllers"])
def test_a_real_quota_controller_agrees_with_the_books(kube_binaries: Path, tmp_path: Path, components: str) -> None:
    """Alone it gives back what the server only charges; beside the server's own keeping it changes nothing."""
    server = EmbeddedServer(tmp_path, kube_binaries / "kubectl", ("--components", components))
    manager = Process(
        [
            str(kube_binaries / "kube-controller-manager"),
            *(f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--secure-port=0"),
            *("--controllers=resourcequota-controller", "--use-service-account-credentials=false"),
        ],
        tmp_path / "kube-controller-manager.log",
    )
    hard = {"pods": "3", "requests.cpu": "3", "count/secrets": "5"}
    steps = (
        *made("q", hard),
        post(PODS, asking("a", {"cpu": "1"})),
        post(PODS, asking("b", {"cpu": "2"})),
        post(SECRETS, {"metadata": {"name": "s"}}),
        knows("q", {"pods": "2", "requests.cpu": "3", "count/secrets": "1"}),
        post(PODS, asking("c", {"cpu": "1"})),
        patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}}),
        knows("q", {"pods": "1", "requests.cpu": "2", "count/secrets": "1"}),
        pod_now("b"),
        delete(f"{SECRETS}/s"),
        knows("q", {"pods": "0", "requests.cpu": "0", "count/secrets": "0"}),
        post(PODS, asking("c", {"cpu": "1"})),
        knows("q", {"pods": "1", "requests.cpu": "1", "count/secrets": "0"}),
    )
    try:
        seen = Run(server, "beside").run(Case("beside", steps))
    finally:
        manager.stop()
        server.disconnect()
        server.stop()
    assert [each.status for each in seen] == [201, 200, 201, 201, 201, 200, 403, 200, 200, 200, 200, 200, 201, 200]
    for step, answer in zip(steps, seen, strict=True):
        if step.holding:
            assert answer.body["status"]["used"] == step.holding[1]
