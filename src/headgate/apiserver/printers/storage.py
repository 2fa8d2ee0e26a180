"""Printers of volumes, claims, classes and drivers, and of devices and device claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.apiserver.printers.printer import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Cells,
    Object,
    Printer,
    TableColumn,
    age_of,
    boolean,
    integer,
    name_of,
    part,
    text,
    wide,
)

# In the order of the output.
_ACCESS_MODES: Final = (
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
)
_OLD_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _access_modes(modes: Iterable[str] | None) -> str:
    present = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES if mode in present)


def _class(obj: Object) -> str:
    annotations = part(obj, "metadata", "annotations")
    if _OLD_CLASS_ANNOTATION in annotations:
        return str(annotations[_OLD_CLASS_ANNOTATION])
    return part(obj, "spec").get("storageClassName") or ""


def _phase(obj: Object) -> str:
    if part(obj, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return part(obj, "status").get("phase") or ""


def _volume_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    claim = spec.get("claimRef")
    attributes = spec.get("volumeAttributesClassName")
    return [
        name_of(obj),
        part(spec, "capacity").get("storage") or "0",
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        "" if claim is None else f"{claim.get('namespace') or ''}/{claim.get('name') or ''}",
        _class(obj),
        UNSET if attributes is None else attributes,
        part(obj, "status").get("reason") or "",
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _claim_cells(obj: Object, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    bound = spec.get("volumeName") or ""
    attributes = spec.get("volumeAttributesClassName")
    return [
        name_of(obj),
        _phase(obj),
        bound,
        part(status, "capacity").get("storage") or "0" if bound else "",
        _access_modes(status.get("accessModes")) if bound else "",
        _class(obj),
        UNSET if attributes is None else attributes,
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _storage_class_cells(obj: Object, now: float) -> Cells:
    annotations = part(obj, "metadata", "annotations")
    default = any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS)
    return [
        f"{name_of(obj)} (default)" if default else name_of(obj),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


def _attributes_class_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), obj.get("driverName") or "", age_of(obj, now)]


def _attachment_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        name_of(obj),
        spec.get("attacher") or "",
        part(spec, "source").get("persistentVolumeName") or "",
        spec.get("nodeName") or "",
        bool(part(obj, "status").get("attached")),
        age_of(obj, now),
    ]


def _csi_node_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), len(part(obj, "spec").get("drivers") or ()), age_of(obj, now)]


def _csi_driver_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    attach, tokens = spec.get("attachRequired"), spec.get("tokenRequests")
    return [
        name_of(obj),
        True if attach is None else bool(attach),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(each.get("audience") or "" for each in tokens) if tokens else UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_of(obj, now),
    ]


def _resource_claim_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), resource_claim_state(obj), age_of(obj, now)]


def resource_claim_state(claim: Object) -> str:
    deleted, status = bool(part(claim, "metadata").get("deletionTimestamp")), part(claim, "status")
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _resource_slice_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        name_of(obj),
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        part(spec, "pool").get("name") or "",
        age_of(obj, now),
    ]


_STORAGE_CLASS: Final = text("StorageClass", "Its storage class.")
_ATTRIBUTES_CLASS: Final = text("VolumeAttributesClass", "Its class of volume attributes.")
_VOLUME_MODE: Final = wide("VolumeMode", "Filesystem or Block.")

PERSISTENT_VOLUME: Final = Printer(
    (
        NAME,
        text("Capacity", "How large it is."),
        text("Access Modes", "How it may be mounted."),
        text("Reclaim Policy", "What happens to it when it is released."),
        text("Status", "Whether it is bound."),
        text("Claim", "The claim that it is bound to."),
        _STORAGE_CLASS,
        _ATTRIBUTES_CLASS,
        text("Reason", "Why it failed."),
        AGE,
        _VOLUME_MODE,
    ),
    _volume_cells,
)
PERSISTENT_VOLUME_CLAIM: Final = Printer(
    (
        NAME,
        text("Status", "Whether it is bound."),
        text("Volume", "The volume it is bound to."),
        text("Capacity", "How large that is."),
        text("Access Modes", "How it may be mounted."),
        _STORAGE_CLASS,
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    _claim_cells,
)
STORAGE_CLASS: Final = Printer(
    (
        NAME,
        text("Provisioner", "The driver that creates its volumes."),
        text("ReclaimPolicy", "What happens to released volumes."),
        text("VolumeBindingMode", "When volumes are created and bound."),
        text("AllowVolumeExpansion", "Whether volumes may grow."),
        AGE,
    ),
    _storage_class_cells,
)
VOLUME_ATTRIBUTES_CLASS: Final = Printer((NAME, text("DriverName", "Its driver."), AGE), _attributes_class_cells)
VOLUME_ATTACHMENT: Final = Printer(
    (
        NAME,
        TableColumn("Attacher", "string", "name", "The driver that attaches it.", 0),
        text("PV", "The volume."),
        text("Node", "The node."),
        boolean("Attached", "Whether it is attached."),
        AGE,
    ),
    _attachment_cells,
)
CSI_NODE: Final = Printer((NAME, integer("Drivers", "How many drivers the node has."), AGE), _csi_node_cells)
CSI_DRIVER: Final = Printer(
    (
        NAME,
        boolean("AttachRequired", "Whether volumes must be attached first."),
        boolean("PodInfoOnMount", "Whether it needs information about the pod."),
        boolean("StorageCapacity", "Whether it reports capacity."),
        text("TokenRequests", "Audiences of the tokens it wants."),
        boolean("RequiresRepublish", "Whether it must be called periodically."),
        text("Modes", "Kinds of volumes it serves."),
        AGE,
    ),
    _csi_driver_cells,
)
RESOURCE_CLAIM: Final = Printer((NAME, text("State", "The state of the claim."), AGE), _resource_claim_cells)
RESOURCE_SLICE: Final = Printer(
    (
        NAME,
        text("Node", "The node that has the devices."),
        text("Driver", "Their driver."),
        text("Pool", "The pool they belong to."),
        AGE,
    ),
    _resource_slice_cells,
)
