"""Builders of objects that wait in Kueue's queues: jobs, pods and the owners of pods, as users write them."""

from __future__ import annotations

from typing import Any

Wire = dict[str, Any]

GROUP = "kueue.x-k8s.io"
QUEUE = f"{GROUP}/queue-name"
PRIORITY = f"{GROUP}/priority-class"
GATE = f"{GROUP}/admission"
MANAGED = f"{GROUP}/managed"
ROLE = f"{GROUP}/role-hash"
PARENT = f"{GROUP}/pod-suspending-parent"
GROUP_NAME = f"{GROUP}/pod-group-name"
TOTAL = f"{GROUP}/pod-group-total-count"
RETRIABLE = f"{GROUP}/retriable-in-group"
SCHEDULING_GATED = f"{GROUP}/scheduling-gated-by"
ADMISSION_GATED = f"{GROUP}/admission-gated-by"
PLURALS = {
    "Job": "/apis/batch/v1/namespaces/{ns}/jobs",
    "Pod": "/api/v1/namespaces/{ns}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{ns}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{ns}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{ns}/statefulsets",
}


def collection(kind: str, namespace: str = "ns") -> str:
    return PLURALS[kind].replace("{ns}", namespace)


def queued(
    kind: str,
    name: str = "a",
    *,
    queue: str = "lq",
    labels: Wire | None = None,
    annotations: Wire | None = None,
    owner: Wire | None = None,
    cpu: str = "1",
    template: Wire | None = None,
    **spec: Any,
) -> Wire:
    """One of these kinds; ``queue`` empty: it names none."""
    metadata: Wire = {"name": name, "labels": {**({QUEUE: queue} if queue else {}), **(labels or {})}}
    if annotations:
        metadata["annotations"] = annotations
    if owner:
        metadata["ownerReferences"] = [owned_by(owner)]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod: Wire = {"containers": [container]}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {**pod, **spec}}
    if kind == "Job":
        made = {"template": {"metadata": template or {}, "spec": {**pod, "restartPolicy": "Never"}}, **spec}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": made}
    inner = {**(template or {}), "labels": {"app": name, **(template or {}).get("labels", {})}}
    made = {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": inner, "spec": pod}, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": made}


def owned_by(owner: Wire) -> Wire:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def gates(pod: Wire) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
