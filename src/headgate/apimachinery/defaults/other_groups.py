"""Defaults of the remaining groups: networking, discovery, storage, RBAC, scheduling, resource claims, tokens."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.defaults.persistent_volume_sources import default_persistent_volume_source

_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_TOKEN_SECONDS: Final = 3600


def default_network_policy(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


def default_ingress_class(obj: dict[str, Any]) -> None:
    parameters = obj.get("spec", {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def default_endpoint_slice(obj: dict[str, Any]) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def default_storage_class(obj: dict[str, Any]) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


def default_volume_attachment(obj: dict[str, Any]) -> None:
    inline = obj.get("spec", {}).get("source", {}).get("inlineVolumeSpec")
    if inline is not None:
        default_persistent_volume_source(inline)


def default_role_binding(obj: dict[str, Any]) -> None:
    """RoleBinding and ClusterRoleBinding alike."""
    role = obj.setdefault("roleRef", {})
    role["apiGroup"] = role.get("apiGroup") or _RBAC_GROUP
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC_GROUP


def default_priority_class(obj: dict[str, Any]) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_token_request(obj: dict[str, Any]) -> None:
    obj.setdefault("spec", {}).setdefault("expirationSeconds", _TOKEN_SECONDS)


def _default_devices(spec: dict[str, Any]) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        alternatives = list(request.get("firstAvailable") or ())
        if (exactly := request.get("exactly")) is not None:
            alternatives.append(exactly)
        for device in alternatives:
            device["allocationMode"] = device.get("allocationMode") or "ExactCount"
            if device["allocationMode"] == "ExactCount":
                device["count"] = device.get("count") or 1
            _default_tolerations(device)


def _default_tolerations(obj: dict[str, Any]) -> None:
    for toleration in obj.get("tolerations") or ():
        toleration["operator"] = toleration.get("operator") or "Equal"


def default_resource_claim(obj: dict[str, Any]) -> None:
    _default_devices(obj.setdefault("spec", {}))
    allocation = obj.get("status", {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        _default_tolerations(result)


def default_resource_claim_template(obj: dict[str, Any]) -> None:
    _default_devices(obj.setdefault("spec", {}).setdefault("spec", {}))
