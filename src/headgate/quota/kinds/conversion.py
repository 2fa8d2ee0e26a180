"""Conversion between v1beta1 and v1beta2 of ``kueue.x-k8s.io``; a round trip is the identity.

Each kind has a plain conversion in both directions (``conversion_tables.py``) that may lose information: ``Borrow``
becomes ``MayStopSearch``, ``preemptionGates`` does not exist in v1beta1. Lost fields are kept in an annotation of the
converted object and restored from it, unless a client changed the same field in the other version. The module does no
I/O: the embedded API server calls ``convert``, a Kubernetes API server calls a webhook (``conversion_review.py``).
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.lenient_reader import find_object
from headgate.quota.kinds import conversion_loss
from headgate.quota.kinds.conversion_loss import LostField
from headgate.quota.kinds.conversion_tables import CONVERSIONS, LINKED_FIELDS, ConvertFields
from headgate.quota.kinds.names import API_VERSION, OLDER_API_VERSION

Object = dict[str, Any]

FROM_OLDER: Final = "headgate.dev/v1beta1"
"""On an object in v1beta2: the fields that exist only in v1beta1."""
FROM_STORED: Final = "headgate.dev/v1beta2"
"""On an object in v1beta1: the fields that exist only in v1beta2."""
_LOST_FIELDS_ANNOTATION: Final = {API_VERSION: FROM_OLDER, OLDER_API_VERSION: FROM_STORED}


def convert(obj: Object, api_version: str) -> Object:
    """``obj`` in another version; the argument is not changed. An unknown kind changes only its ``apiVersion``."""
    before = obj.get("apiVersion")
    if before == api_version:
        return obj
    conversion = CONVERSIONS.get(obj.get("kind") or "")
    if conversion is None or before not in _LOST_FIELDS_ANNOTATION or api_version not in _LOST_FIELDS_ANNOTATION:
        return {**obj, "apiVersion": api_version}
    forward, backward = (
        (conversion.to_v1beta2, conversion.to_v1beta1)
        if api_version == API_VERSION
        else (conversion.to_v1beta1, conversion.to_v1beta2)
    )
    return _convert(
        obj,
        api_version,
        forward,
        backward,
        read_annotation=_LOST_FIELDS_ANNOTATION[before],
        written_annotation=_LOST_FIELDS_ANNOTATION[api_version],
    )


def _convert(
    obj: Object,
    api_version: str,
    forward: ConvertFields,
    backward: ConvertFields,
    *,
    read_annotation: str,
    written_annotation: str,
) -> Object:
    lost_fields, stripped = _pop_lost_fields(obj, read_annotation)
    converted = forward(stripped)
    round_trip = {**backward(converted), "apiVersion": stripped["apiVersion"]}
    lost = conversion_loss.find_lost_fields(round_trip, stripped, LINKED_FIELDS)
    restored = {**conversion_loss.restore_lost_fields(converted, lost_fields, LINKED_FIELDS), "apiVersion": api_version}
    return _annotated(restored, written_annotation, conversion_loss.encode_lost_fields(lost)) if lost else restored


def _pop_lost_fields(obj: Object, key: str) -> tuple[tuple[LostField, ...], Object]:
    """The lost fields that the annotation ``key`` has, and the object without that annotation."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(key) if isinstance(annotations, dict) else None
    lost_fields = conversion_loss.decode_lost_fields(text) if isinstance(text, str) else None
    if lost_fields is None or not isinstance(metadata, dict) or not isinstance(annotations, dict):
        return (), obj  # written by another client: an ordinary annotation
    remaining = {name: value for name, value in annotations.items() if name != key}
    stripped = {name: value for name, value in metadata.items() if name != "annotations"}
    return lost_fields, {**obj, "metadata": {**stripped, "annotations": remaining} if remaining else stripped}


def _annotated(obj: Object, key: str, text: str) -> Object:
    metadata, annotations = find_object(obj, "metadata"), find_object(obj, "metadata", "annotations")
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, key: text}}}
