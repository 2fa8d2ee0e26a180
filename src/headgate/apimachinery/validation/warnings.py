"""Warnings of the API server for kinds with few warnings.

``apimachinery/pods/warnings.py`` is for pods; services, nodes, endpoints and workloads have them in their own modules.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.apimachinery.ip_addresses import warnings_for_cidr
from headgate.apimachinery.validation.networking.network_policy import ip_blocks
from headgate.kube import quantity
from headgate.kube.field_errors import quote

Object = dict[str, Any]

_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_VOLUME_ANNOTATIONS: Final = {
    _CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"
_VOLUME_SOURCES: Final = {
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}


def _annotations(obj: Object) -> Mapping[str, str]:
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return annotations


def _deprecated_expressions(expressions: list[Object] | tuple[()], path: str) -> Iterator[str]:
    for i, expression in enumerate(expressions):
        key = expression.get("key", "")
        if key in _NODE_LABELS:
            yield f"{path}[{i}].key: {key} is {_NODE_LABELS[key]}"


def volume_warnings(obj: Object) -> list[str]:
    spec = obj.get("spec") or {}
    warnings: list[str] = []
    for key, text in _VOLUME_ANNOTATIONS.items():
        if key in _annotations(obj):
            warnings.append(f"metadata.annotations[{key}]: {text}")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended"
            " approach is to use dynamic provisioning."
        )
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for i, term in enumerate(terms):
        path = f"spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions"
        warnings += _deprecated_expressions(term.get("matchExpressions") or (), path)
    return warnings + [f"spec.{name}: {text}" for field, (name, text) in _VOLUME_SOURCES.items() if field in spec]


def claim_warnings(obj: Object) -> list[str]:
    warnings: list[str] = []
    if _CLASS_ANNOTATION in _annotations(obj):
        warnings.append(f"metadata.annotations[{_CLASS_ANNOTATION}]: {_VOLUME_ANNOTATIONS[_CLASS_ANNOTATION]}")
    return warnings + claim_spec_warnings(obj.get("spec") or {}, "spec")


def claim_spec_warnings(spec: Object, path: str) -> list[str]:
    warnings: list[str] = []
    for field in ("requests", "limits"):
        text = ((spec.get("resources") or {}).get(field) or {}).get("storage", "0")
        amount = quantity.amount(text)
        if amount.milli_value() % 1000:
            field_path = f"{path}.resources.{field}[storage]"
            warnings.append(
                f"{field_path}: fractional byte value {quote(amount.canonical)} is invalid, must be an integer"
            )
    return warnings


def storage_class_warnings(obj: Object) -> list[str]:
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {_NODE_LABELS[expression['key']]}"
        for i, term in enumerate(obj.get("allowedTopologies") or ())
        for j, expression in enumerate(term.get("matchLabelExpressions") or ())
        if expression.get("key") in _NODE_LABELS
    ]


def storage_capacity_warnings(obj: Object) -> list[str]:
    topology = obj.get("nodeTopology") or {}
    warnings = list(_deprecated_expressions(topology.get("matchExpressions") or (), "nodeTopology.matchExpressions"))
    labels = topology.get("matchLabels") or {}
    return warnings + [f"nodeTopology.matchLabels.{key}: {_NODE_LABELS[key]}" for key in labels if key in _NODE_LABELS]


def runtime_class_warnings(obj: Object) -> list[str]:
    selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
    return [f"scheduling.nodeSelector: {_NODE_LABELS[key]}" for key in selector if key in _NODE_LABELS]


def network_policy_warnings(obj: Object) -> list[str]:
    return [warning for path, cidr in ip_blocks(obj.get("spec") or {}) for warning in warnings_for_cidr(path, cidr)]


def service_account_warnings(obj: Object, old: Object | None = None) -> list[str]:
    if _MOUNTABLE not in _annotations(obj) or (old is not None and _MOUNTABLE in _annotations(old)):
        return []
    text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    return [f"metadata.annotations[{_MOUNTABLE}]: {text}"]


def secret_warnings(obj: Object) -> list[str]:
    """Checks only that a certificate and its key are PEM, not that they belong together."""
    data = obj.get("data") or {}
    if obj.get("type") != "kubernetes.io/tls":
        return []
    for field, marker, noun in (("tls.crt", b"-----BEGIN ", "certificate"), ("tls.key", b"-----BEGIN ", "key")):
        if marker not in _bytes(data.get(field, "")):
            return [f"tls: failed to find any PEM data in {noun} input"]
    return []


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""
