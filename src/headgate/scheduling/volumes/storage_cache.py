"""The storage cache: the storage objects that volume plugins read.

An event handler of ``scheduling/cluster/cluster.py``. It receives volumes, claims, storage classes, CSI drivers,
capacities and attachments, and knows which volumes are free and which are reserved for a claim. When a node was chosen
for a pod, :meth:`StorageCache.assume_bound` and :meth:`StorageCache.assume_provisioned` record what is decided for its
claims. Version counters, one per storage class and one for all objects, let readers cache a result about a claim until
an object on which it depends changes. An object that cannot be decoded is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, APIResource
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.volumes import storage_objects
from headgate.scheduling.volumes.assume_cache import AssumeCache
from headgate.scheduling.volumes.storage_objects import (
    ClaimRef,
    CsiDriver,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from headgate.scheduling.volumes.unbound_volumes import UnboundVolumes

Object = Mapping[str, Any]

VOLUMES: Final = PERSISTENT_VOLUMES
CLAIMS: Final = PERSISTENT_VOLUME_CLAIMS
CLASSES: Final = STORAGE_CLASSES
CSI_NODES: Final = APIResource("storage.k8s.io", "v1", "csinodes", namespaced=False)
CSI_DRIVERS: Final = APIResource("storage.k8s.io", "v1", "csidrivers", namespaced=False)
CAPACITIES: Final = APIResource("storage.k8s.io", "v1", "csistoragecapacities", namespaced=True)
ATTACHMENTS: Final = APIResource("storage.k8s.io", "v1", "volumeattachments", namespaced=False)

_NO_VOLUMES: Final[Mapping[str, PersistentVolume]] = MappingProxyType({})
_NO_ATTACHMENTS: Final[Mapping[str, VolumeAttachment]] = MappingProxyType({})
_NO_UNBOUND_VOLUMES: Final = UnboundVolumes()


class StorageKind(msgspec.Struct, frozen=True):
    """``event``: the resource of its cluster events. ``fields``: the fields that ``read`` needs."""

    event: str
    read: Callable[[Object], Any]
    fields: tuple[str, ...]


_KINDS: Final[Mapping[APIResource, StorageKind]] = {
    VOLUMES: StorageKind(
        cluster_events.PERSISTENT_VOLUME,
        storage_objects.read_volume,
        ("metadata.labels", "metadata.annotations", "metadata.deletionTimestamp", "spec", "status.phase"),
    ),
    CLAIMS: StorageKind(
        cluster_events.PERSISTENT_VOLUME_CLAIM,
        storage_objects.read_claim,
        ("metadata.annotations", "metadata.deletionTimestamp", "metadata.ownerReferences", "spec", "status.phase"),
    ),
    CLASSES: StorageKind(
        cluster_events.STORAGE_CLASS,
        storage_objects.read_storage_class,
        ("provisioner", "volumeBindingMode", "allowedTopologies"),
    ),
    CSI_NODES: StorageKind(cluster_events.CSI_NODE, storage_objects.read_csi_node, ("spec.drivers",)),
    CSI_DRIVERS: StorageKind(cluster_events.CSI_DRIVER, storage_objects.read_csi_driver, ("spec.storageCapacity",)),
    CAPACITIES: StorageKind(
        cluster_events.CSI_STORAGE_CAPACITY,
        storage_objects.read_capacity,
        ("storageClassName", "nodeTopology", "capacity", "maximumVolumeSize"),
    ),
    ATTACHMENTS: StorageKind(
        cluster_events.VOLUME_ATTACHMENT,
        storage_objects.read_attachment,
        ("spec.attacher", "spec.nodeName", "spec.source"),
    ),
}


class StorageCache:
    watched: Final[Mapping[APIResource, tuple[str, ...]]] = {resource: kind.fields for resource, kind in _KINDS.items()}

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change."""
        self.ignored_objects: dict[str, str] = {}
        """Why an object is ignored, by ``<plural>/<key>``."""
        self.volumes: AssumeCache[PersistentVolume] = AssumeCache()
        self.claims: AssumeCache[PersistentVolumeClaim] = AssumeCache()
        self._other_objects: dict[APIResource, dict[str, Any]] = {
            each: {} for each in _KINDS if each not in (VOLUMES, CLAIMS)
        }
        self._unbound_volumes: dict[str, UnboundVolumes] = {}
        self._prebound: dict[str, dict[str, PersistentVolume]] = {}
        self._capacities: dict[str, dict[str, CsiStorageCapacity]] = {}
        self._attached: dict[str, dict[str, VolumeAttachment]] = {}
        self._limits: dict[str, dict[str, int]] = {}
        self._class_versions: dict[str, int] = {}
        self._drivers_version = 0

    # -- queries ------------------------------------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get(f"{namespace}/{name}")

    def storage_class(self, name: str) -> StorageClass | None:
        found: StorageClass | None = self._other_objects[CLASSES].get(name)
        return found

    def has_delayed_binding(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is unbound and its class has ``WaitForFirstConsumer``."""
        found = self.storage_class(claim.storage_class) if claim.storage_class else None
        return found is not None and found.delays_binding and not claim.volume_name

    def unbound_volumes(self, storage_class: str) -> UnboundVolumes:
        """The free volumes of a class."""
        return self._unbound_volumes.get(storage_class, _NO_UNBOUND_VOLUMES)

    def prebound_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """A volume of the claim's class whose ``claimRef`` already names the claim."""
        volumes = self._prebound.get(claim.key, _NO_VOLUMES)
        fitting = (each for _, each in sorted(volumes.items()) if each.storage_class == claim.storage_class)
        return next((each for each in fitting if each.is_for(claim) and _satisfies(each, claim)), None)

    def reports_capacity(self, driver: str) -> bool:
        found: CsiDriver | None = self._other_objects[CSI_DRIVERS].get(driver)
        return found is not None and found.reports_capacity

    def capacities(self, storage_class: str) -> Collection[CsiStorageCapacity]:
        return self._capacities.get(storage_class, {}).values()

    @property
    def has_limits(self) -> bool:
        return bool(self._limits)

    def limits(self, driver: str) -> Mapping[str, int]:
        """The attach limits of a driver by node name; nodes without a limit are left out."""
        return self._limits.get(driver, {})

    def attachments(self, node_name: str) -> Mapping[str, VolumeAttachment]:
        return self._attached.get(node_name, _NO_ATTACHMENTS)

    def attached_as(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        """Driver and volume handle of the claim's volume. An unbound claim has a generated handle; both are empty if
        the driver is unknown."""
        volume = self.volumes.stored(claim.volume_name) if claim.volume_name else None
        if volume is not None:
            return volume.driver, volume.handle
        found = self.storage_class(claim.storage_class) if claim.storage_class else None
        return ("", "") if found is None else (found.driver, f"unbound {claim.key}")

    def version_of(self, claim: PersistentVolumeClaim | None) -> Hashable:
        """A value that stays the same while results about the claim are valid."""
        if claim is None or claim.is_bound:
            return claim, claim and self.volumes.get(claim.volume_name)
        return claim, self._class_versions.get(claim.storage_class, 0), self._drivers_version

    # -- events from the API ------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, /) -> Iterable[ClusterEvent]:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        key = f"{namespace}/{name}" if resource.namespaced else name
        try:
            new = _KINDS[resource].read(obj)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            events = self.removed(resource, namespace, name)
            self.ignored_objects[f"{resource.plural}/{key}"] = f"cannot be read: {error!r}"
            return events
        self.ignored_objects.pop(f"{resource.plural}/{key}", None)
        old = self._stored(resource, key)
        if old == new:
            return ()
        self._store(resource, key, new)
        if old is not None and _without_revision(old) == _without_revision(new):
            return ()
        action = cluster_events.ADD if old is None else cluster_events.UPDATE
        return (ClusterEvent(_KINDS[resource].event, action, old, new, subjects=_subjects(key, new)),)

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        key = f"{namespace}/{name}" if resource.namespaced else name
        self.ignored_objects.pop(f"{resource.plural}/{key}", None)
        old = self._stored(resource, key)
        if old is None:
            return ()
        self._store(resource, key, None)
        return (ClusterEvent(_KINDS[resource].event, cluster_events.DELETE, old, subjects=_subjects(key, old)),)

    def _stored(self, resource: APIResource, key: str) -> Any:
        if resource == VOLUMES:
            return self.volumes.stored(key)
        return self.claims.stored(key) if resource == CLAIMS else self._other_objects[resource].get(key)

    def _store(self, resource: APIResource, key: str, new: Any) -> None:
        self.version += 1
        if resource == VOLUMES:
            before = self.volumes.get(key)
            _put_or_remove(self.volumes, key, new)
            self._index_volume(before, self.volumes.get(key))
        elif resource == CLAIMS:
            _put_or_remove(self.claims, key, new)
        else:
            objects = self._other_objects[resource]
            old = objects.pop(key, None)
            if new is not None:
                objects[key] = new
            self._index(resource, key, old, new)

    # -- assumed writes -----------------------------------------------------------------------------------------------

    def assume_bound(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Assume that the volume is bound to the claim; ``None`` if the volume changed."""
        ref = ClaimRef(claim.namespace, claim.name, claim.uid)
        by_controller = volume.is_bound_by_controller or not volume.is_for(claim)
        new = msgspec.structs.replace(volume, claim=ref, is_bound_by_controller=by_controller)
        if new == volume:
            return volume
        before = self.volumes.get(volume.name)
        if not self.volumes.assume(volume.name, new):
            return None
        self.version += 1
        self._index_volume(before, new)
        return new

    def assume_provisioned(self, claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim | None:
        """Assume that a volume is being provisioned for the claim on the node; ``None`` if the claim changed."""
        new = msgspec.structs.replace(claim, selected_node=node_name)
        if not self.claims.assume(claim.key, new):
            return None
        self.version += 1
        return new

    def forget_bound(self, assumed: PersistentVolume) -> None:
        before = self.volumes.get(assumed.name)
        self.volumes.restore(assumed.name, assumed)
        self._index_volume(before, self.volumes.get(assumed.name))
        self.version += 1

    def forget_provisioned(self, assumed: PersistentVolumeClaim) -> None:
        self.claims.restore(assumed.key, assumed)
        self.version += 1

    # -- indexes ------------------------------------------------------------------------------------------------------

    def _index_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        for volume, is_new in ((old, False), (new, True)):
            if volume is None:
                continue
            self._increment_class_version(volume.storage_class)
            if volume.claim is not None:
                key = f"{volume.claim.namespace}/{volume.claim.name}"
                _set(self._prebound, key, volume.name, volume if is_new else None)
            elif volume.is_free:
                unbound_volumes = self._unbound_volumes.setdefault(volume.storage_class, UnboundVolumes())
                (unbound_volumes.add if is_new else unbound_volumes.remove)(volume)
                if not unbound_volumes:
                    del self._unbound_volumes[volume.storage_class]

    def _index(self, resource: APIResource, key: str, old: Any, new: Any) -> None:
        if resource == CLASSES:
            self._increment_class_version(key)
        elif resource == CSI_DRIVERS:
            self._drivers_version += 1
        elif resource == CSI_NODES:
            for driver in {**(old.limits if old else {}), **(new.limits if new else {})}:
                _set(self._limits, driver, key, new.limits.get(driver) if new else None)
        elif resource == CAPACITIES:
            for each, now in ((old, None), (new, new)):
                if each is not None:
                    self._increment_class_version(each.storage_class)
                    _set(self._capacities, each.storage_class, key, now)
        else:
            for each, now in ((old, None), (new, new)):
                if each is not None:
                    _set(self._attached, each.node_name, key, now)

    def _increment_class_version(self, storage_class: str) -> None:
        self._class_versions[storage_class] = self._class_versions.get(storage_class, 0) + 1


def class_subject(name: str) -> str:
    """The text that names, in ``ClusterEvent.subjects``, all volumes and capacities of a storage class."""
    return f"of class {name}"


def _subjects(key: str, value: Any) -> tuple[str, ...]:
    return (
        (key, class_subject(value.storage_class))
        if isinstance(value, CsiStorageCapacity | PersistentVolume)
        else (key,)
    )


def _satisfies(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume whose ``claimRef`` names the claim can be bound to it. Other requirements of the claim, such as
    its selector, do not apply to such a volume."""
    return (
        volume.capacity >= claim.request
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.is_deleting
    )


def _put_or_remove(cache: AssumeCache[Any], key: str, new: Any) -> None:
    if new is None:
        cache.remove(key)
    else:
        cache.put(key, new)


def _set(index: dict[str, dict[str, Any]], outer: str, inner: str, value: Any) -> None:
    """Set a value in a nested index, or remove it (``None``); empty inner indexes are removed."""
    if value is not None:
        index.setdefault(outer, {})[inner] = value
        return
    inner_index = index.get(outer, {})
    inner_index.pop(inner, None)
    if not inner_index:
        index.pop(outer, None)


def _without_revision(value: Any) -> Any:
    """The same object without its resourceVersion, so that two versions can be compared."""
    return (
        msgspec.structs.replace(value, revision="")
        if isinstance(value, PersistentVolumeClaim | PersistentVolume)
        else value
    )
