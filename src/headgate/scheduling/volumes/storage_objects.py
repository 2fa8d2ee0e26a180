"""Storage objects as frozen values with only the fields that the scheduler reads.

Each ``read_…`` takes the object as decoded JSON and raises if it cannot read it; ``storage_cache.py`` then ignores the
object. Amounts are integers: nano-units for volumes and claims, where comparisons must be exact, and bytes for
capacities. In-tree volumes that were migrated to CSI count as volumes of their drivers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube import quantity
from headgate.kube.labels import Requirement, Selector, from_label_selector
from headgate.kube.node_affinity import NodeSelector, NodeSelectorTerm, read_node_selector

Object = Mapping[str, Any]

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
ZONE_SEPARATOR: Final = "__"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"

MIGRATED_VOLUMES: Final[Mapping[str, tuple[str, str]]] = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("disk.csi.azure.com", "diskURI"),
    "cinder": ("cinder.csi.openstack.org", "volumeID"),
}
"""By in-tree volume kind: the CSI driver that serves it now, and the field that identifies the volume."""
_MIGRATED_PROVISIONERS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
}


class PersistentVolumeClaim(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str = ""
    revision: str = ""
    storage_class: str = ""
    attributes_class: str = ""
    request: int = 0
    """The requested size; 0 if there is no request."""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    selector: Selector | None = None
    volume_name: str = ""
    is_lost: bool = False
    is_deleting: bool = False
    is_completed: bool = False
    """Whether the volume controller has completed the binding."""
    selected_node: str | None = None
    controller_uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_bound(self) -> bool:
        return bool(self.volume_name) and self.is_completed


class ClaimRef(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str = ""


class PersistentVolume(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    revision: str = ""
    storage_class: str = ""
    attributes_class: str = ""
    capacity: int = 0
    access_modes: frozenset[str] = frozenset()
    mode: str = "Filesystem"
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    claim: ClaimRef | None = None
    is_bound_by_controller: bool = False
    is_available: bool = False
    is_deleting: bool = False
    affinity: NodeSelector | None = None
    driver: str = ""
    handle: str = ""
    is_csi: bool = False

    def __hash__(self) -> int:
        """Labels are not hashable; name and revision are enough, because every change has a new revision."""
        return hash((self.name, self.revision))

    @property
    def is_free(self) -> bool:
        return self.claim is None and self.is_available and not self.is_deleting

    @property
    def label_keys(self) -> frozenset[str]:
        """The node labels that its affinity reads."""
        terms = self.affinity.terms if self.affinity is not None else ()
        return frozenset(each.key for term in terms for each in term.labels.requirements)

    def is_for(self, claim: PersistentVolumeClaim) -> bool:
        """Whether its ``claimRef`` names this claim. A reference that a user wrote may have no uid."""
        ref = self.claim
        if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
            return False
        return ref.uid in ("", claim.uid)

    def is_reachable(self, labels: Mapping[str, str]) -> bool:
        return self.affinity is None or self.affinity.matches(labels, "")


class StorageClass(msgspec.Struct, frozen=True):
    name: str
    provisioner: str = ""
    delays_binding: bool = False
    """The binding mode is ``WaitForFirstConsumer``."""
    topologies: tuple[Selector, ...] | None = None
    """Alternatives, one of which a node must match; ``None``: every node matches."""

    @property
    def can_provision(self) -> bool:
        return self.provisioner not in ("", NO_PROVISIONER)

    @property
    def driver(self) -> str:
        return _MIGRATED_PROVISIONERS.get(self.provisioner, self.provisioner)


class CsiNode(msgspec.Struct, frozen=True):
    name: str
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The attach limits by driver."""


class CsiDriver(msgspec.Struct, frozen=True):
    name: str
    reports_capacity: bool = False


class CsiStorageCapacity(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    storage_class: str
    topology: Selector | None = None
    """``None``: not reachable from any node."""
    limit: int | None = None
    """The largest volume in bytes; ``None`` if the capacity is unknown."""


class VolumeAttachment(msgspec.Struct, frozen=True):
    name: str
    node_name: str = ""
    driver: str = ""
    volume_name: str = ""


def read_claim(obj: Object) -> PersistentVolumeClaim:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    owners = (each.get("uid") or "" for each in metadata.get("ownerReferences") or () if each.get("controller"))
    selector = spec.get("selector")
    return PersistentVolumeClaim(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        revision=metadata.get("resourceVersion") or "",
        storage_class=_class_of(annotations, spec),
        attributes_class=spec.get("volumeAttributesClassName") or "",
        request=_storage((spec.get("resources") or {}).get("requests")).nano,
        access_modes=tuple(spec.get("accessModes") or ()),
        mode=spec.get("volumeMode") or "Filesystem",
        selector=None if selector is None else from_label_selector(selector),
        volume_name=spec.get("volumeName") or "",
        is_lost=(obj.get("status") or {}).get("phase") == "Lost",
        is_deleting=metadata.get("deletionTimestamp") is not None,
        is_completed=BIND_COMPLETED in annotations,
        selected_node=annotations.get(SELECTED_NODE),
        controller_uid=next(owners, ""),
    )


def read_volume(obj: Object) -> PersistentVolume:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    ref, source = spec.get("claimRef"), spec.get("csi")
    driver, handle = (
        migrated_volume(spec, metadata.get("labels"))
        if source is None
        else (source.get("driver"), source.get("volumeHandle"))
    )
    return PersistentVolume(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        revision=metadata.get("resourceVersion") or "",
        storage_class=_class_of(annotations, spec),
        attributes_class=spec.get("volumeAttributesClassName") or "",
        capacity=_storage(spec.get("capacity")).nano,
        access_modes=frozenset(spec.get("accessModes") or ()),
        mode=spec.get("volumeMode") or "Filesystem",
        labels=metadata.get("labels") or {},
        claim=None if ref is None else ClaimRef(*(ref.get(each) or "" for each in ("namespace", "name", "uid"))),
        is_bound_by_controller=BOUND_BY_CONTROLLER in annotations,
        is_available=(obj.get("status") or {}).get("phase") == "Available",
        is_deleting=metadata.get("deletionTimestamp") is not None,
        affinity=None if required is None else _by_labels(read_node_selector(required)),
        driver=driver or "",
        handle=handle or "",
        is_csi=source is not None,
    )


def read_storage_class(obj: Object) -> StorageClass:
    topologies = obj.get("allowedTopologies") or ()
    return StorageClass(
        name=obj["metadata"]["name"],
        provisioner=obj.get("provisioner") or "",
        delays_binding=obj.get("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=tuple(map(_topology, topologies)) if topologies else None,
    )


def read_csi_node(obj: Object) -> CsiNode:
    counts = {
        each["name"]: (each.get("allocatable") or {}).get("count")
        for each in (obj.get("spec") or {}).get("drivers") or ()
    }
    return CsiNode(obj["metadata"]["name"], {name: count for name, count in counts.items() if count is not None})


def read_csi_driver(obj: Object) -> CsiDriver:
    return CsiDriver(obj["metadata"]["name"], bool((obj.get("spec") or {}).get("storageCapacity")))


def read_capacity(obj: Object) -> CsiStorageCapacity:
    metadata, topology = obj["metadata"], obj.get("nodeTopology")
    limit = obj.get("maximumVolumeSize") or obj.get("capacity")
    return CsiStorageCapacity(
        namespace=metadata["namespace"],
        name=metadata["name"],
        storage_class=obj.get("storageClassName") or "",
        topology=None if topology is None else from_label_selector(topology),
        limit=None if limit is None else quantity.amount(limit).value(),
    )


def read_attachment(obj: Object) -> VolumeAttachment:
    spec = obj.get("spec") or {}
    return VolumeAttachment(
        name=obj["metadata"]["name"],
        node_name=spec.get("nodeName") or "",
        driver=spec.get("attacher") or "",
        volume_name=(spec.get("source") or {}).get("persistentVolumeName") or "",
    )


def migrated_volume(source: Object, labels: Object | None = None) -> tuple[str, str]:
    """The CSI driver and the volume handle of a migrated in-tree volume; both are empty for other kinds.

    The handle of a GCE disk includes its zone or region, from the ``labels`` of the volume.
    """
    for kind, (driver, field) in MIGRATED_VOLUMES.items():
        if source.get(kind) is not None:
            identity = str(source[kind].get(field) or "")
            if kind == "gcePersistentDisk":
                location = _disk_location(labels or {})
                return ("", "") if location is None else (driver, f"{location}/{identity}")
            # An older form has the zone as a prefix.
            return driver, identity.rpartition("/")[2] if identity.startswith("aws://") else identity
    return "", ""


def _disk_location(labels: Object) -> str | None:
    """The zone of a disk, or the region of its zones; ``None`` if the names of the zones do not belong to one
    region."""
    zones = str(next(filter(None, map(labels.get, _ZONE_LABELS)), "")).split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return f"zones/{zones[0]}"
    regions = {zone.rpartition("-")[0] for zone in zones}
    is_region = len(regions) == 1 and all(zone.count("-") == 2 for zone in zones)
    return f"regions/{regions.pop()}" if is_region else None


def _class_of(annotations: Object, spec: Object) -> str:
    named = annotations.get(_CLASS_ANNOTATION)
    return (spec.get("storageClassName") or "") if named is None else str(named)


def _storage(amounts: Object | None) -> quantity.Quantity:
    return quantity.amount((amounts or {}).get("storage") or "0")


def _topology(term: Object) -> Selector:
    """A term without expressions selects nothing."""
    expressions: Sequence[Object] = term.get("matchLabelExpressions") or ()
    requirements = tuple(
        Requirement(each.get("key") or "", "in", tuple(each.get("values") or ())) for each in expressions
    )
    return Selector(requirements, nothing=not requirements)


def _by_labels(selector: NodeSelector) -> NodeSelector:
    """Volumes are matched with node labels only: requirements on node fields are dropped."""
    return NodeSelector(tuple(NodeSelectorTerm(term.labels) for term in selector.terms))
