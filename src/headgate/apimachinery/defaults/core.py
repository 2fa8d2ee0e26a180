"""Defaults of the small core kinds: namespaces, nodes, configuration, quotas, claims and volumes.

Pods are in ``pod.py``, services in ``service.py``, kinds that hold a pod template in ``workloads.py``. Only the
defaults of the versioned API are here; ``apimachinery/strategy/`` has the values that a kind's strategy sets on create.
"""

from __future__ import annotations

import base64
from typing import Any

from headgate.apimachinery.defaults.persistent_volume_sources import default_persistent_volume_source
from headgate.apimachinery.defaults.resource_lists import round_resource_list


def default_namespace(obj: dict[str, Any]) -> None:
    metadata = obj.setdefault("metadata", {})
    # If the name is generated later, the strategy adds the label.
    if name := metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    status = obj.setdefault("status", {})
    status["phase"] = status.get("phase") or "Active"


def default_node(obj: dict[str, Any]) -> None:
    _sync_pod_cidrs(obj.get("spec") or {})
    status = obj.get("status")
    if not status:
        return
    round_resource_list(status, "capacity")
    if "allocatable" not in status and status.get("capacity") is not None:
        status["allocatable"] = dict(status["capacity"])
    else:
        round_resource_list(status, "allocatable")


def _sync_pod_cidrs(spec: dict[str, Any]) -> None:
    """Makes ``podCIDR``, the older field, the first of ``podCIDRs``. If they differ, ``podCIDR`` is used."""
    cidr, cidrs = spec.get("podCIDR"), spec.get("podCIDRs")
    if cidr and cidr != (cidrs or [""])[0]:
        spec["podCIDRs"] = [cidr]
    elif cidrs:
        spec["podCIDR"] = cidrs[0]


def default_secret(obj: dict[str, Any]) -> None:
    """Sets the type, and moves the write-only ``stringData`` into ``data``."""
    obj["type"] = obj.get("type") or "Opaque"
    texts = obj.pop("stringData", None)
    if texts:
        data = obj.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def default_endpoints(obj: dict[str, Any]) -> None:
    for subset in obj.get("subsets", ()):
        for port in subset.get("ports", ()):
            port["protocol"] = port.get("protocol") or "TCP"


def default_limit_range(obj: dict[str, Any]) -> None:
    for item in obj.setdefault("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**item.get("max", {}), **item.get("default", {})}
            requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
            for name, amounts in (("default", limits), ("defaultRequest", requests)):
                if amounts:
                    item[name] = amounts
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            round_resource_list(item, name)


def default_resource_quota(obj: dict[str, Any]) -> None:
    round_resource_list(obj.get("spec"), "hard")
    round_resource_list(obj.get("status"), "hard")
    round_resource_list(obj.get("status"), "used")


def default_persistent_volume(obj: dict[str, Any]) -> None:
    status = obj.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    spec = obj.setdefault("spec", {})
    spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
    spec.setdefault("volumeMode", "Filesystem")
    round_resource_list(spec, "capacity")
    default_persistent_volume_source(spec)


def default_persistent_volume_claim(obj: dict[str, Any]) -> None:
    status = obj.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    round_resource_list(status, "capacity")
    round_resource_list(status, "allocatedResources")
    spec = obj.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    round_resource_list(spec.get("resources"), "limits")
    round_resource_list(spec.get("resources"), "requests")
