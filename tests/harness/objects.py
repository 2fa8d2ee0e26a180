"""The few objects and paths that most request cases are about; `manifests/` has one of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.manifests.pods import SMALL_POD_SPEC, pod_template

CORE = "/api/v1/namespaces/{ns}"
PODS = f"{CORE}/pods"
CONFIG_MAPS = f"{CORE}/configmaps"
SECRETS = f"{CORE}/secrets"
SERVICES = f"{CORE}/services"
APPS = "/apis/apps/v1/namespaces/{ns}"
DEPLOYMENTS = f"{APPS}/deployments"
JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
NODES = "/api/v1/nodes"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def _object(api_version: str, kind: str, name: str, labels: Mapping[str, str] | None, **rest: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def labelled(manifest: Any, **labels: str) -> Any:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}


def config_map(name: str, data: Mapping[str, Any] | None = None, labels: Mapping[str, str] | None = None) -> Any:
    return _object("v1", "ConfigMap", name, labels, data=dict(data) if data is not None else {"k": "v"})


def pod(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Any:
    return _object("v1", "Pod", name, labels, spec={**SMALL_POD_SPEC, **spec})


def gated(name: str, *gates: str, **spec: Any) -> Any:
    return pod(name, schedulingGates=[{"name": gate} for gate in gates], **spec)


def deployment(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Any:
    selector = {"matchLabels": {"app": "a"}}
    return _object(
        "apps/v1", "Deployment", name, labels, spec={"selector": selector, "template": pod_template(), **spec}
    )


def job(name: str, template: Mapping[str, Any] | None = None, **spec: Any) -> Any:
    pods = pod_template(SMALL_POD_SPEC, restartPolicy="Never", **(template or {}))
    return _object("batch/v1", "Job", name, None, spec={"template": pods, **spec})


def service(name: str, **spec: Any) -> Any:
    return _object("v1", "Service", name, None, spec={"ports": [{"port": 80}], **spec})


def node(name: str, labels: Mapping[str, str] | None = None, **rest: Any) -> Any:
    return _object("v1", "Node", name, labels, **rest)


def priority_class(name: str, value: int, **rest: Any) -> Any:
    return _object("scheduling.k8s.io/v1", "PriorityClass", name, None, value=value, **rest)


def binding(name: str, target: str = "some-node", **metadata: Any) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": target},
    }
