"""The annotation with the last configuration of client-side apply (``kubectl apply``).

When ``kubectl`` starts to use server-side apply, the fields that its client-side apply has written are no conflict
(:func:`last_applied_fields`), and the annotation is kept up to date (:func:`update_annotation`), so that ``kubectl``
can return to client-side apply. Both apply only to the manager name ``kubectl``.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.compare import compare
from headgate.apimachinery.apply.field_sets import FieldSet, difference
from headgate.apimachinery.apply.owned_fields import owned_fields
from headgate.apimachinery.apply.path_elements import json_text
from headgate.apimachinery.apply.validate import schema_errors
from headgate.apimachinery.apply.version_converter import Object, VersionConverter
from headgate.kube.serializer.json_decoder import decode_json

KUBECTL: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES: Final = 256 * (1 << 10)


def _annotations(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def last_applied_fields(converter: VersionConverter, live: Object) -> FieldSet | None:
    """The fields in the annotation of ``live`` that have not changed since; ``None`` without a usable annotation."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return None
    applied = decode_json(text.encode("utf-8", "surrogatepass")).value
    if not isinstance(applied, dict) or applied.get("apiVersion") != converter.api_version or not applied.get("kind"):
        return None
    schema = converter.schema
    if schema_errors(schema, applied) is not None or schema_errors(schema, live) is not None:
        return None
    fields = owned_fields(schema, applied)
    changes = compare(schema, applied, live)
    return difference(difference(difference(fields, changes.modified), changes.added), changes.removed)


def update_annotation(obj: Object, config: Object) -> Object:
    """``obj`` with the annotation set to ``config``, if ``obj`` has the annotation. It is removed if all annotations
    together would be too large."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return obj
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    text = _configuration(config)
    updated = {**others, ANNOTATION: text}
    size = sum(len(str(name).encode()) + len(str(value).encode()) for name, value in updated.items())
    kept = updated if size <= MAX_ANNOTATIONS_BYTES else others
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}


def _configuration(config: Object) -> str:
    """``config`` without the annotation, as Go's JSON encoder writes it: sorted, with a newline at the end."""
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
