"""The annotation in which ``kubectl`` keeps what it applied on the client side.

When ``kubectl`` starts to apply on the server side, what it applied before is no conflict (:func:`fields_of`), and
the annotation follows what it applies now (:func:`refresh`), so that going back works too. Other managers opt out by
their name.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.compare import compare
from headgate.apimachinery.apply.field_sets import FieldSet, difference
from headgate.apimachinery.apply.owned_fields import owned_fields
from headgate.apimachinery.apply.path_elements import json_text
from headgate.apimachinery.apply.validate import check
from headgate.apimachinery.apply.version_converter import Object, VersionConverter
from headgate.kube.serializer.json_decoder import decode_json

KUBECTL: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES: Final = 256 * (1 << 10)


def _annotations(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def fields_of(versions: VersionConverter, live: Object) -> FieldSet | None:
    """What the annotation of ``live`` says was applied and still is so; None if there is nothing to go by."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return None
    applied = decode_json(text.encode("utf-8", "surrogatepass")).value
    if not isinstance(applied, dict) or applied.get("apiVersion") != versions.api_version or not applied.get("kind"):
        return None
    shape = versions.shape
    if check(shape, applied) is not None or check(shape, live) is not None:
        return None
    fields = owned_fields(shape, applied)
    changes = compare(shape, applied, live)
    return difference(difference(difference(fields, changes.modified), changes.added), changes.removed)


def refresh(obj: Object, config: Object) -> Object:
    """``obj`` with the annotation, if it has one, telling what was just applied."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return obj
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    text = _configuration(config)
    renewed = {**others, ANNOTATION: text}
    size = sum(len(str(name).encode()) + len(str(value).encode()) for name, value in renewed.items())
    kept = renewed if size <= MAX_ANNOTATIONS_BYTES else others
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}


def _configuration(config: Object) -> str:
    """``config`` without the annotation, as Go's JSON encoder writes it: sorted, and with a line end."""
    metadata = config.get("metadata")
    if isinstance(metadata, dict):
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            rest = {name: value for name, value in annotations.items() if name != ANNOTATION}
            metadata = {**metadata, "annotations": rest}
        else:
            metadata = {name: value for name, value in metadata.items() if name != "annotations"}
        config = {**config, "metadata": metadata}
    return json_text(config) + "\n"
