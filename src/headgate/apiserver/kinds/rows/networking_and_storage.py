"""The built-in kinds for runtime classes, devices, storage, networking and leases."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import METADATA_LABELS, ServedKind
from headgate.apiserver.kinds.rows.row import STATUS, builtin_kind, field

STORAGE: Final[tuple[ServedKind, ...]] = (
    builtin_kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", "Cluster"),
    builtin_kind("storage.k8s.io/v1", "CSINode", "csinodes", "Cluster"),
    builtin_kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", "Namespaced"),
    builtin_kind("storage.k8s.io/v1", "StorageClass", "storageclasses", "Cluster", short_names=("sc",)),
    builtin_kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", "Cluster", subresources=(STATUS,)),
    builtin_kind(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "Cluster",
        short_names=("vac",),
        stored_as=("storage.k8s.io", "v1beta1", "volumeattributesclasses"),
    ),
)

NODE: Final[tuple[ServedKind, ...]] = (builtin_kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", "Cluster"),)

COORDINATION: Final[tuple[ServedKind, ...]] = (builtin_kind("coordination.k8s.io/v1", "Lease", "leases", "Namespaced"),)

DISCOVERY: Final[tuple[ServedKind, ...]] = (
    builtin_kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "Namespaced"),
)

NETWORKING: Final[tuple[ServedKind, ...]] = (
    builtin_kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", "Cluster"),
    builtin_kind(
        "networking.k8s.io/v1", "Ingress", "ingresses", "Namespaced", short_names=("ing",), subresources=(STATUS,)
    ),
    builtin_kind("networking.k8s.io/v1", "IPAddress", "ipaddresses", "Cluster", short_names=("ip",)),
    builtin_kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "Namespaced", short_names=("netpol",)),
    builtin_kind("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", "Cluster", subresources=(STATUS,)),
)

RESOURCE: Final[tuple[ServedKind, ...]] = (
    builtin_kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", "Cluster"),
    builtin_kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", "Namespaced", subresources=(STATUS,)),
    builtin_kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", "Namespaced"),
    builtin_kind(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "resourceslices",
        "Cluster",
        field_labels=(METADATA_LABELS[0], field("spec.nodeName"), field("spec.driver")),
        field_label_refusal="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}",
    ),
)
