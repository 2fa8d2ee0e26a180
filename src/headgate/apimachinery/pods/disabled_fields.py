"""Removes fields from a pod whose feature gate is off.

A field that the stored object already uses stays: switching a feature off must not change existing objects. For gates
of Kubernetes that are off in v1.35 no stored object can have the field, so those are always removed.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.feature_gates import FeatureGates

Object = dict[str, Any]

_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_PROJECTIONS: Final = ("clusterTrustBundle", "podCertificate")
# Pod-level fields; the resources and allocatedResources of containers are enabled since 1.33.
_STATUS_FIELDS: Final = ("resources", "allocatedResources", "extendedResourceClaimStatus")


def drop_disabled_spec_fields(spec: Object, old_spec: Object | None, features: FeatureGates) -> None:
    """For a pod, or for the template of a workload."""
    spec.pop("workloadRef", None)
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            for field in _PROJECTIONS:
                source.pop(field, None)
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            lifecycle = container.get("lifecycle")
            if lifecycle is not None and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
                del container["lifecycle"]
    if not features.pod_scheduling_readiness and not (old_spec or {}).get("schedulingGates"):
        spec.pop("schedulingGates", None)


def drop_disabled_status_fields(status: Object) -> None:
    for field in _STATUS_FIELDS:
        status.pop(field, None)
    for field in _STATUSES:
        for container in status.get(field) or ():
            container.pop("allocatedResourcesStatus", None)
