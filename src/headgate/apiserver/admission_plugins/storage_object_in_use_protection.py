"""StorageObjectInUseProtection: claims, volumes and VolumeAttributesClasses are created with a finalizer.

A controller removes it once nothing uses the object; until then a delete only sets the deletion timestamp.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister

_FINALIZERS: Final = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
    "VolumeAttributesClass": "kubernetes.io/vac-protection",
}


def admit_new(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    metadata = new["metadata"]
    finalizer, present = _FINALIZERS[attributes.kind], metadata.get("finalizers") or ()
    if finalizer not in present:
        new["metadata"] = {**metadata, "finalizers": [*present, finalizer]}
    return None
