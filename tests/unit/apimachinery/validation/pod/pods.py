"""Builders for pods in wire form, as the server has them after defaulting."""

from __future__ import annotations

import json
from typing import Any

from headgate.apimachinery.defaults.pod import default_pod
from headgate.apimachinery.pods.preparation import prepare_pod_create
from headgate.apimachinery.validation.pod import validate_pod_create, validate_pod_update
from headgate.kube.feature_gates import DEFAULTS, FeatureGates
from headgate.kube.field_errors import FieldErrors

Object = dict[str, Any]

NOW = "2026-11-15T08:00:00Z"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GATES_OFF = FeatureGates(pod_scheduling_readiness=False)


def make_pod(*, metadata: Object | None = None, container: Object | None = None, **spec: Any) -> Object:
    """A pod as a client sends it."""
    return {
        "metadata": {"name": "p", "namespace": "default", **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "nginx:1", **(container or {})}], **spec},
    }


def defaulted(pod: Object) -> Object:
    default_pod(pod)
    return pod


def stored(pod: Object, features: FeatureGates = DEFAULTS) -> Object:
    """A pod as the server stores it."""
    default_pod(pod)
    prepare_pod_create(pod, features, NOW)
    pod["metadata"].update(uid="u1", resourceVersion="7", creationTimestamp=NOW)
    return pod


def copy_of(pod: Object) -> Object:
    copied: Object = json.loads(json.dumps(pod))
    return copied


def changed(pod: Object, **spec: Any) -> Object:
    """A copy with other fields in its spec; ``None`` removes one."""
    new = copy_of(pod)
    for field, value in spec.items():
        if value is None:
            new["spec"].pop(field, None)
        else:
            new["spec"][field] = value
    return new


def make_gates(*names: str) -> list[Object]:
    return [{"name": name} for name in names]


def create_errors(pod: Object, features: FeatureGates = DEFAULTS) -> list[str]:
    default_pod(pod)
    prepare_pod_create(pod, features, NOW)
    return texts(validate_pod_create(pod, features))


def update_errors(new: Object, old: Object, features: FeatureGates = DEFAULTS) -> list[str]:
    return texts(validate_pod_update(new, old, features))


def texts(errors: FieldErrors) -> list[str]:
    return [str(error) for error in errors]
