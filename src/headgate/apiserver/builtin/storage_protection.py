"""StorageObjectInUseProtection: claims, volumes and their attribute classes are born with a finalizer.

A controller takes it off once nothing uses the object; until then a delete only marks it.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.builtin.attributes import Attributes, Object, View
from headgate.kube import status

_FINALIZERS: Final = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
    "VolumeAttributesClass": "kubernetes.io/vac-protection",
}


def admit_new(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    metadata = new["metadata"]
    finalizer, present = _FINALIZERS[attributes.kind], metadata.get("finalizers") or ()
    if finalizer not in present:
        new["metadata"] = {**metadata, "finalizers": [*present, finalizer]}
    return None
