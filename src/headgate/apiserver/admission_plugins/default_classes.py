"""DefaultStorageClass and DefaultIngressClass: a claim or an ingress that names no class gets the default one.

The default is the class with the annotation for it. If several classes have it, the newest is the default, and of
equally old ones the first by name. An object with the older annotation that names its class gets no default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister

STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
_INGRESS_CLASSES: Final = "ingressclasses.networking.k8s.io"

CLAIM_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_INGRESS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_DEFAULT_STORAGE: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS: Final = ("ingressclass.kubernetes.io/is-default-class",)


def admit_claim(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    _set_default(new, "storageClassName", CLAIM_ANNOTATION, lister.list(STORAGE_CLASSES, None), _DEFAULT_STORAGE)
    return None


def admit_ingress(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    _set_default(new, "ingressClassName", _INGRESS_ANNOTATION, lister.list(_INGRESS_CLASSES, None), _DEFAULT_INGRESS)
    return None


def _set_default(
    new: Object, field: str, annotation: str, classes: Iterable[Object], default_annotations: tuple[str, ...]
) -> None:
    spec = new.get("spec") or {}
    if spec.get(field) is not None or annotation in _annotations(new):
        return
    defaults = [each["metadata"] for each in classes if _is_default(each, default_annotations)]
    if not defaults:
        return
    defaults.sort(key=_name)
    newest = max(defaults, key=_created)
    new["spec"] = {**spec, field: newest["name"]}


def _annotations(obj: Object) -> dict[str, Any]:
    found: dict[str, Any] = obj["metadata"].get("annotations") or {}
    return found


def _is_default(obj: Object, default_annotations: tuple[str, ...]) -> bool:
    annotations = _annotations(obj)
    return any(annotations.get(mark) == "true" for mark in default_annotations)


def _name(metadata: Object) -> str:
    return str(metadata["name"])


def _created(metadata: Object) -> str:
    return str(metadata.get("creationTimestamp") or "")
