"""PersistentVolumeClaimResize: a claim may grow only if it is bound and its class has ``allowVolumeExpansion``."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister
from headgate.apiserver.admission_plugins.default_classes import CLAIM_ANNOTATION, STORAGE_CLASSES
from headgate.kube import quantity
from headgate.kube.quantity import Quantity

_UNBOUND: Final = "Only bound persistent volume claims can be expanded"
_FIXED: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def validate_claim(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    if old is None or _size(new) <= _size(old):
        return None
    if (old.get("status") or {}).get("phase") != "Bound":
        return attributes.forbidden(new, _UNBOUND)
    name = _class_name(new)
    found = lister.get(STORAGE_CLASSES, "", name) if name and name == _class_name(old) else None
    if found is None or not found.get("allowVolumeExpansion"):
        return attributes.forbidden(new, _FIXED)
    return None


def _size(claim: Object) -> Quantity:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return quantity.amount((resources.get("requests") or {}).get("storage", "0"))


def _class_name(claim: Object) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    if CLAIM_ANNOTATION in annotations:
        return str(annotations[CLAIM_ANNOTATION])
    return str((claim.get("spec") or {}).get("storageClassName") or "")
