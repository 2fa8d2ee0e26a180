"""Rows for runtime classes, devices, storage, networking and leases."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import METADATA_LABELS, ServedKind
from headgate.apiserver.kinds.rows.row import STATUS, field, row

STORAGE: Final[tuple[ServedKind, ...]] = (
    row("storage.k8s.io/v1", "CSIDriver", "csidrivers", "Cluster"),
    row("storage.k8s.io/v1", "CSINode", "csinodes", "Cluster"),
    row("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", "Namespaced"),
    row("storage.k8s.io/v1", "StorageClass", "storageclasses", "Cluster", short_names=("sc",)),
    row("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", "Cluster", subresources=(STATUS,)),
    row(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "Cluster",
        short_names=("vac",),
        stored_as=("storage.k8s.io", "v1beta1", "volumeattributesclasses"),
    ),
)

NODE: Final[tuple[ServedKind, ...]] = (row("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", "Cluster"),)

COORDINATION: Final[tuple[ServedKind, ...]] = (row("coordination.k8s.io/v1", "Lease", "leases", "Namespaced"),)

DISCOVERY: Final[tuple[ServedKind, ...]] = (
    row("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "Namespaced"),
)

NETWORKING: Final[tuple[ServedKind, ...]] = (
    row("networking.k8s.io/v1", "IngressClass", "ingressclasses", "Cluster"),
    row("networking.k8s.io/v1", "Ingress", "ingresses", "Namespaced", short_names=("ing",), subresources=(STATUS,)),
    row("networking.k8s.io/v1", "IPAddress", "ipaddresses", "Cluster", short_names=("ip",)),
    row("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "Namespaced", short_names=("netpol",)),
    row("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", "Cluster", subresources=(STATUS,)),
)

RESOURCE: Final[tuple[ServedKind, ...]] = (
    row("resource.k8s.io/v1", "DeviceClass", "deviceclasses", "Cluster"),
    row("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", "Namespaced", subresources=(STATUS,)),
    row("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", "Namespaced"),
    row(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "resourceslices",
        "Cluster",
        field_labels=(METADATA_LABELS[0], field("spec.nodeName"), field("spec.driver")),
        field_label_refusal="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}",
    ),
)
