"""The finalizers that protect storage in use: the finalizer of each kind, and the write that changes it."""

from __future__ import annotations

from typing import Final

from headgate.controllers.framework.effects import Patch
from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.object_fields import Object
from headgate.controllers.volumes.volume_cache import WriteSteps
from headgate.kube.api_resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTRIBUTES_CLASSES,
    APIResource,
)

FINALIZER_FIELDS: Final = frozenset({"metadata.deletionTimestamp", "metadata.finalizers"})
_FINALIZERS: Final = {
    PERSISTENT_VOLUME_CLAIMS: "kubernetes.io/pvc-protection",
    PERSISTENT_VOLUMES: "kubernetes.io/pv-protection",
    VOLUME_ATTRIBUTES_CLASSES: "kubernetes.io/vac-protection",
}


def is_protected(resource: APIResource, obj: Object) -> bool:
    return _FINALIZERS[resource] in (obj["metadata"].get("finalizers") or ())


def change_protection(resource: APIResource, obj: Object) -> WriteSteps:
    """Removes the finalizer from a terminating object, and adds it to another one."""
    finalizer, metadata = _FINALIZERS[resource], obj["metadata"]
    others = [each for each in metadata.get("finalizers") or () if each != finalizer]
    desired = others if object_fields.is_being_deleted(obj) else [*others, finalizer]
    known = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    body = {"metadata": {**known, "finalizers": desired or None}}
    response = yield Patch(resource, metadata.get("namespace") or "", metadata["name"], body, how="merge")
    # After a conflict the watch delivers the change, which enqueues the object again.
    return None if response.ok or response.missing or response.conflict else response.message
