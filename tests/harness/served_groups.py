"""The API groups that both servers serve; discovery and schemas are compared for these groups only.

A real server has three more groups and the embedded one some of its own; clients of these groups see neither.
"""

from __future__ import annotations

from typing import Any

SERVED_VERSIONS = (
    "v1",
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
)
SERVED_GROUPS = frozenset(version.rpartition("/")[0] for version in SERVED_VERSIONS)
NOT_SERVED = frozenset({"apiregistration.k8s.io", "certificates.k8s.io", "flowcontrol.apiserver.k8s.io"})


def root_of(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def only_served_groups(body: Any) -> Any:
    """An APIGroupList or APIGroupDiscoveryList without the groups that only one of the servers has."""
    if body.get("kind") == "APIGroupList":
        return {**body, "groups": [each for each in body["groups"] if each["name"] in SERVED_GROUPS]}
    kept = [each for each in body.get("items", []) if each["metadata"].get("name", "") in SERVED_GROUPS]
    return {**body, "items": kept}


def only_served_kinds(schema: Any) -> Any:
    """A schema without prose, and with those of its group-version-kinds, sorted, that both servers serve."""
    if isinstance(schema, list):
        return [only_served_kinds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, value in schema.items():
        if key == "description" and isinstance(value, str):
            continue
        if key == "x-kubernetes-group-version-kind" and isinstance(value, list):
            named = {(each["group"], each["version"], each["kind"]) for each in value}
            kept[key] = sorted(gvk for gvk in named if "/".join(filter(None, gvk[:2])) in SERVED_VERSIONS)
        else:
            kept[key] = only_served_kinds(value)
    return kept
