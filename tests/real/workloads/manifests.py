"""The small manifests that workload scenarios begin with."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

IMAGE = "registry.example/app:1"
GRACE_S = 10
"""Long enough to be seen at a stop, also when the machine has much else to do."""
STUBBORN = {"stop-after": "60s"}
"""Containers that do not stop when they are asked to: they are killed after the grace period, and so have failed."""


def template(app: str, annotations: dict[str, str] | None = None, image: str = IMAGE, **spec: Any) -> Object:
    """`annotations` without a prefix are wishes to the hollow kubelet: `{"run-for": "1s", "exit-code": "1"}`."""
    wishes = {key if "/" in key else f"headgate.dev/{key}": value for key, value in (annotations or {}).items()}
    metadata = {"labels": {"app": app}, **({"annotations": wishes} if wishes else {})}
    containers = [{"name": "main", "image": image}]
    return {"metadata": metadata, "spec": {"terminationGracePeriodSeconds": GRACE_S, "containers": containers, **spec}}


def workload(kind: str, name: str, pods: Object | None = None, api: str = "apps/v1", **spec: Any) -> Object:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet whose pods are labelled `app: NAME`."""
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": pods or template(name), **spec},
    }


def deployment(name: str, pods: Object | None = None, **spec: Any) -> Object:
    return workload("Deployment", name, pods, **spec)


def stateful_set(name: str, pods: Object | None = None, **spec: Any) -> Object:
    return workload("StatefulSet", name, pods, **{"serviceName": name, **spec})


def job(name: str, annotations: dict[str, str] | None = None, pod_spec: Object | None = None, **spec: Any) -> Object:
    """Its pods run for a moment and succeed; with `annotations` they run until they are ended, or as those wish."""
    wishes = {"run-for": "300ms"} if annotations is None else {"run-for": "never", **annotations}
    pods = template(name, wishes, **(pod_spec or {}))
    pods["spec"].setdefault("restartPolicy", "Never")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": pods, **spec}}


def cron_job(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """It is never due by itself unless a `schedule` is given."""
    jobs = {"spec": job(name, annotations)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "0 0 30 2 *", "jobTemplate": jobs, **spec},
    }


def small_pods_only() -> Object:
    """A LimitRange that refuses pods of more than one processor."""
    limits = [{"type": "Pod", "max": {"cpu": "1"}}]
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}}


def rich_template(app: str) -> Object:
    """Pods with something of everything, for hashes that are made of all of it."""
    forever = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9_007_199_254_740_993}  # no float64
    probe = {"httpGet": {"path": "/<live>&", "port": "web"}, "periodSeconds": 7}
    pods = template(app, {"start-after": "1s", "example.com/note": "a < b & c > d, \u00e9\u2028"})
    pods["spec"] |= {
        "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
        "tolerations": [
            {"key": "example.com/k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
            forever,
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1500Mi"}}, {"name": "cm", "configMap": {"name": "c"}}],
    }
    pods["spec"]["containers"][0] |= {
        "args": ["--rate=0.5", '"quoted"\n'],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "web", "containerPort": 8080}],
        "livenessProbe": probe,
        "resources": {"requests": {"cpu": "100m", "memory": "0.5Gi"}, "limits": {"example.com/device": "2"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return pods
