"""Cases of resource quotas: pods and compute, what is given back, and scopes. Run by ``test_http_quota.py``."""

from __future__ import annotations

from typing import Any

from harness.objects import (
    CLASSES,
    CONFIG_MAPS,
    CORE,
    PODS,
    config_map,
    pod,
    priority_class,
)
from harness.request_cases import Step, case, delete, get, patch, post

QUOTAS = f"{CORE}/resourcequotas"
CLAIMS = f"{CORE}/persistentvolumeclaims"
DEVICE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def quota(name: str, hard: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def made(name: str, hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> tuple[Step, Step]:
    """A quota, and the moment from which it counts."""
    nothing = dict.fromkeys(hard, "0")
    return post(QUOTAS, quota(name, hard, **spec)), knows(name, used if used is not None else nothing)


def knows(name: str, used: dict[str, str]) -> Step:
    return get(f"{QUOTAS}/{name}").until_it_holds("/status/used", used)


def asking(name: str, requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any) -> Any:
    return pod(name, containers=[container("c", requests, limits)], **spec)


def container(name: str, requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> Any:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "image": "i", "resources": {key: value for key, value in resources.items() if value}}


def pod_now(name: str) -> Step:
    return delete(f"{PODS}/{name}?gracePeriodSeconds=0")


PODS_AND_COMPUTE = [
    case(
        "pods beyond the number are refused",
        *made("q", {"pods": "1", "count/pods": "3"}),
        post(PODS, pod("a")),
        knows("q", {"pods": "1", "count/pods": "1"}),
        post(PODS, pod("b")),
        post(PODS, {**pod("x"), "metadata": {"generateName": "drawn-"}}),
        post(PODS, pod("a")),
        get(f"{PODS}/b"),
    ),
    case(
        "requests and limits that do not fit",
        *made("q", {"requests.cpu": "1", "limits.memory": "1Gi"}),
        post(PODS, asking("a", {"cpu": "600m"}, {"memory": "512Mi"})),
        knows("q", {"requests.cpu": "600m", "limits.memory": "512Mi"}),
        post(PODS, asking("b", {"cpu": "500m"}, {"memory": "1G"})),
        post(PODS, asking("b", {"cpu": "401m"}, {"memory": "1Mi"})),
        post(PODS, asking("b", {"cpu": "400m"}, {"memory": "512Mi"})),
        knows("q", {"requests.cpu": "1", "limits.memory": "1Gi"}),
    ),
    case(
        "the short names are requests",
        *made("q", {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}),
        post(PODS, asking("a", {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "100Mi"})),
        knows("q", {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "100Mi"}),
        post(PODS, asking("b", {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "1Gi"})),
    ),
    case(
        "containers must say what a quota limits",
        *made("q", {"cpu": "1", "limits.memory": "1Gi", "requests.ephemeral-storage": "1Gi"}),
        post(PODS, pod("a")),
        post(
            PODS,
            pod(
                "a",
                containers=[container("one", {"cpu": "1m"}), container("two", None, {"memory": "1Mi"})],
                initContainers=[container("zero")],
            ),
        ),
        post(PODS, asking("a", None, {"cpu": "1", "memory": "1Mi"})),
    ),
    case(
        "what init containers and sidecars add",
        *made("q", {"requests.cpu": "10"}),
        post(
            PODS,
            pod(
                "a",
                containers=[container("c", {"cpu": "1"})],
                initContainers=[
                    container("first", {"cpu": "3"}),
                    {**container("side", {"cpu": "500m"}), "restartPolicy": "Always"},
                    container("last", {"cpu": "4"}),
                ],
            ),
        ),
        knows("q", {"requests.cpu": "4500m"}),
    ),
    case(
        "resources of the pod as a whole",
        *made("q", {"requests.cpu": "10", "limits.memory": "1Gi"}),
        post(PODS, pod("a", resources={"requests": {"cpu": "2"}, "limits": {"memory": "100Mi"}})),
        knows("q", {"requests.cpu": "2", "limits.memory": "100Mi"}),
    ),
    case(
        "huge pages, devices and storage of the node",
        *made(
            "q",
            {
                "requests.example.com/gpu": "2",
                "hugepages-2Mi": "8Mi",
                "requests.hugepages-2Mi": "8Mi",
                "limits.ephemeral-storage": "1Gi",
            },
        ),
        post(
            PODS,
            asking(
                "a",
                {"cpu": "1"},
                {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "5Mi"},
            ),
        ),
        knows(
            "q",
            {
                "requests.example.com/gpu": "2",
                "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
                "limits.ephemeral-storage": "5Mi",
            },
        ),
        post(PODS, asking("b", {"cpu": "1"}, {"example.com/gpu": "1", "hugepages-2Mi": "6Mi"})),
    ),
    case(
        "several quotas are all charged, and each may refuse",
        *made("a", {"pods": "5"}),
        *made("b", {"requests.cpu": "1"}),
        post(PODS, pod("x")),
        post(PODS, asking("x", {"cpu": "1"})),
        knows("a", {"pods": "1"}),
        knows("b", {"requests.cpu": "1"}),
        post(PODS, asking("y", {"cpu": "1"})),
        knows("a", {"pods": "1"}),
    ),
    case(
        "a dry run is refused like any other and charges nothing",
        *made("q", {"pods": "1"}),
        post(f"{PODS}?dryRun=All", pod("a")),
        knows("q", {"pods": "0"}),
        post(PODS, pod("a")),
        knows("q", {"pods": "1"}),
        post(f"{PODS}?dryRun=All", pod("b")),
    ),
    case(
        "gated pods are charged at birth",
        *made("q", {"pods": "1"}),
        post(PODS, pod("a", schedulingGates=[{"name": "example.com/wait"}])),
        knows("q", {"pods": "1"}),
        post(PODS, pod("b", schedulingGates=[{"name": "example.com/wait"}])),
    ),
    case(
        "what is invalid is called invalid before it is called too much",
        *made("q", {"pods": "0"}),
        post(PODS, pod("a", restartPolicy="Odd")),
        post(PODS, pod("a")),
    ),
]

GIVEN_BACK = [
    case(
        "a deleted pod gives back what it had",
        *made("q", {"pods": "1", "requests.memory": "1Gi"}),
        post(PODS, asking("a", {"memory": "1Gi"})),
        knows("q", {"pods": "1", "requests.memory": "1Gi"}),
        post(PODS, asking("b", {"memory": "1Mi"})),
        pod_now("a"),
        knows("q", {"pods": "0", "requests.memory": "0"}),
        post(PODS, asking("b", {"memory": "1Mi"})),
        knows("q", {"pods": "1", "requests.memory": "1Mi"}),
    ),
    case(
        "a pod that has ended keeps its place and nothing else",
        *made("q", {"pods": "2", "count/pods": "2", "requests.cpu": "2"}),
        post(PODS, asking("a", {"cpu": "1"})),
        post(PODS, asking("b", {"cpu": "1"})),
        knows("q", {"pods": "2", "count/pods": "2", "requests.cpu": "2"}),
        patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}),
        knows("q", {"pods": "1", "count/pods": "2", "requests.cpu": "1"}),
        post(PODS, asking("c", {"cpu": "1"})),
        pod_now("a"),
        knows("q", {"pods": "1", "count/pods": "1", "requests.cpu": "1"}),
    ),
    case(
        "a collection gives back as its members do",
        *made("q", {"configmaps": "9"}, {"configmaps": "1"}),
        post(CONFIG_MAPS, config_map("a", labels={"go": "es"})),
        post(CONFIG_MAPS, config_map("b", labels={"go": "es"})),
        knows("q", {"configmaps": "3"}),
        delete(f"{CONFIG_MAPS}?labelSelector=go%3Des"),
        knows("q", {"configmaps": "1"}),
    ),
    case(
        "limits that change are counted anew",
        post(PODS, asking("a", {"cpu": "1"})),
        *made("q", {"pods": "5"}, {"pods": "1"}),
        patch(f"{QUOTAS}/q", {"spec": {"hard": {"requests.cpu": "500m", "pods": "4"}}}),
        get(f"{QUOTAS}/q").until_it_holds("/status/hard", {"requests.cpu": "500m", "pods": "4"}),
        knows("q", {"pods": "1", "requests.cpu": "1"}),
        post(PODS, asking("b", {"cpu": "1m"})),
        patch(f"{QUOTAS}/q", {"spec": {"hard": {"requests.cpu": None}}}),
        knows("q", {"pods": "1"}),
        post(PODS, pod("b")).until(201),
    ),
    case(
        "a resize is charged when it grows, and gives back when it shrinks",
        *made("q", {"requests.cpu": "2"}),
        post(PODS, asking("a", {"cpu": "1"})),
        knows("q", {"requests.cpu": "1"}),
        patch(f"{PODS}/a/resize", {"spec": {"containers": [container("c", {"cpu": "3"})]}}, "strategic"),
        patch(f"{PODS}/a/resize", {"spec": {"containers": [container("c", {"cpu": "1500m"})]}}, "strategic"),
        knows("q", {"requests.cpu": "1500m"}),
        patch(f"{PODS}/a/resize", {"spec": {"containers": [container("c", {"cpu": "500m"})]}}, "strategic"),
        # The real controller looks again only when a kubelet says what it did.
        post(PODS, asking("b", {"cpu": "400m"})),
        pod_now("b"),
        knows("q", {"requests.cpu": "500m"}),
    ),
]

FAR_AFFINITY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {}, "namespaces": ["other"], "topologyKey": "zone"}
        ]
    }
}


def selecting(scope: str, operator: str, *values: str) -> dict[str, Any]:
    expression = {"scopeName": scope, "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [expression]}}


SCOPES = [
    case(
        "best effort and the others",
        *made("best", {"pods": "1"}, scopes=["BestEffort"]),
        *made("rest", {"pods": "1", "requests.cpu": "1"}, scopes=["NotBestEffort"]),
        post(PODS, pod("a")),
        post(PODS, asking("b", {"cpu": "1"})),
        knows("best", {"pods": "1"}),
        knows("rest", {"pods": "1", "requests.cpu": "1"}),
        post(PODS, pod("c")),
        post(PODS, asking("c", {"memory": "1Mi"})),
        post(PODS, asking("c", {"cpu": "1"})),
    ),
    case(
        "with a deadline and without",
        *made("short", {"pods": "1"}, scopes=["Terminating"]),
        *made("long", {"pods": "1"}, scopes=["NotTerminating"]),
        post(PODS, pod("a", activeDeadlineSeconds=60)),
        post(PODS, pod("b")),
        knows("short", {"pods": "1"}),
        knows("long", {"pods": "1"}),
        post(PODS, pod("c", activeDeadlineSeconds=60)),
        post(PODS, pod("c")),
        patch(f"{PODS}/b", {"spec": {"activeDeadlineSeconds": 60}}),
        pod_now("a"),
        knows("short", {"pods": "0"}),
        patch(f"{PODS}/b", {"spec": {"activeDeadlineSeconds": 60}}),
        knows("short", {"pods": "1"}),
        knows("long", {"pods": "0"}),
    ),
    case(
        "by priority class",
        post(CLASSES, priority_class("{ns}", 7)),
        *made("in", {"pods": "0"}, **selecting("PriorityClass", "In", "{ns}", "other")),
        *made("not-in", {"pods": "5"}, **selecting("PriorityClass", "NotIn", "{ns}")),
        *made("any", {"pods": "5"}, **selecting("PriorityClass", "Exists")),
        *made("none", {"pods": "5"}, **selecting("PriorityClass", "DoesNotExist")),
        post(PODS, pod("a", priorityClassName="{ns}")),
        post(PODS, pod("a")),
        knows("not-in", {"pods": "1"}),
        knows("any", {"pods": "0"}),
        knows("none", {"pods": "1"}),
    ),
    case(
        "pods that look into other namespaces",
        *made("q", {"pods": "0"}, scopes=["CrossNamespacePodAffinity"]),
        post(PODS, pod("a", affinity=FAR_AFFINITY)),
        post(PODS, pod("a")),
        knows("q", {"pods": "0"}),
    ),
    case(
        "two scopes at once",
        *made("q", {"pods": "0"}, scopes=["BestEffort", "Terminating"]),
        post(PODS, pod("a")),
        post(PODS, asking("b", {"cpu": "1"}, activeDeadlineSeconds=5)),
        post(PODS, pod("c", activeDeadlineSeconds=5)),
    ),
    case(
        "claims by volume attributes class",
        *made("q", {"persistentvolumeclaims": "0"}, **selecting("VolumeAttributesClass", "In", "gold")),
        post(CLAIMS, {**config_map("a"), "kind": "PersistentVolumeClaim"}),
        post(
            CLAIMS,
            {
                "metadata": {"name": "a"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "volumeAttributesClassName": "gold",
                },
            },
        ),
    ),
]
