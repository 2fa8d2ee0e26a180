"""Objects to stored items, and back.

An object is stored once, as the JSON of a GET response: ``kind`` and ``apiVersion`` first, so that a list can cut them
off without decoding. Some clients keep parts of an object as text and compare it with Go's output (kubectl does with a
ControllerRevision's data), so characters are escaped as in Go. A kind with several versions is stored in one of them
and converted on write and on read (``apiserver/kinds/conversion.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery.apply import Convert, ConvertedObject
from headgate.apimachinery.apply.validate import check
from headgate.apiserver.kinds.conversion import from_stored, to_stored
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.state import ServerState
from headgate.apiserver.webhooks.conversion import ConversionRequired
from headgate.kube.serializer.go_json import html_escaped
from headgate.store import Item, Revision

Object = dict[str, Any]

_encoder: Final = msgspec.json.Encoder()
_sorting_encoder: Final = msgspec.json.Encoder(order="sorted")
_decoder: Final = msgspec.json.Decoder()


def type_prefix(kind: ServedKind) -> bytes:
    """The first bytes of every stored object of ``kind``."""
    return b'{"kind":"%s","apiVersion":"%s",' % (kind.kind.encode(), kind.api_version.encode())


def encode(kind: ServedKind, obj: Mapping[str, Any]) -> bytes:
    """``obj`` with its type first; custom objects have sorted keys.

    Every stored object has metadata, so the prefix is always followed by a field.
    """
    if kind.scheme is not None:
        return html_escaped(_sorting_encoder.encode(obj))
    body = _encoder.encode({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})
    return type_prefix(kind) + html_escaped(body[1:])


def text(obj: Mapping[str, Any] | list[Any]) -> str:
    """JSON for a message."""
    return _encoder.encode(obj).decode()


def decode(data: bytes) -> Object:
    obj: Object = _decoder.decode(data)
    return obj


def canonical(api: ServerState, kind: ServedKind, obj: Object) -> Object:
    """``obj`` as the server prints it, with its type."""
    if kind.scheme is not None:
        return kind.scheme.emit(obj)
    if not _is_stored_version(api, kind):
        # Fields that this version does not have become annotations in the conversion from the stored version.
        obj = from_stored(kind, to_stored(kind, obj))
    printed = api.scheme_of(kind).emit(obj)
    printed["kind"], printed["apiVersion"] = kind.kind, kind.api_version
    return printed


def _is_stored_version(api: ServerState, kind: ServedKind) -> bool:
    """Whether objects of ``kind`` are stored in its own version."""
    return kind.is_stored_version or api.kinds.stored_kind(kind) is kind


def is_served_as_stored(api: ServerState, kind: ServedKind) -> bool:
    """Whether clients get the stored bytes unchanged."""
    return kind.scheme is None and _is_stored_version(api, kind)


def load(api: ServerState, kind: ServedKind, item: Item) -> Object:
    """A new copy of a stored object, in the version of ``kind``."""
    obj, scheme = decode(item.data), kind.scheme
    if scheme is not None:
        return obj if item.revision > scheme.since or scheme.from_stored is None else scheme.from_stored(obj)
    # The versions differ in the empty fields that they print, so it is printed again.
    return obj if _is_stored_version(api, kind) else canonical(api, kind, from_stored(kind, obj))


def selectable_fields(api: ServerState, kind: ServedKind, item: Item) -> Mapping[str, str]:
    """The selectable fields of an object of a custom kind.

    The fields that are stored with it are those of the former definition, in the stored version; others are read from
    the object, unless that needs a conversion webhook.
    """
    scheme = kind.scheme
    if scheme is None or item.revision > scheme.since or scheme.webhook is not None:
        return item.fields
    obj = load(api, kind, item)
    return {each.label: each.value(obj) for each in kind.field_labels}


def converted(source: ServedKind, target: ServedKind, obj: Object) -> Object:
    """``obj`` of the version of ``source`` in the version of ``target``; both share one storage.

    A custom object has its version in ``apiVersion``; ``source`` provides the conversion and may be another version.
    """
    if source.scheme is not None:
        if obj.get("apiVersion") == target.api_version:
            return obj
        convert = source.scheme.convert
        return {**obj, "apiVersion": target.api_version} if convert is None else convert(obj, target.api_version)
    if source is target:
        return obj
    return from_stored(target, to_stored(source, obj))


def converter(api: ServerState, kind: ServedKind) -> Convert | None:
    """The conversion of ``kind`` to its other versions; ``None`` for a kind with one version."""
    stored = api.kinds.by_storage(kind.resource)
    if len(stored) == 1:
        return None
    by_version = {view.api_version: view for view in stored}
    if len(by_version) == 1:
        return None

    def convert(obj: Object, api_version: str) -> ConvertedObject | str | None:
        source, target = by_version.get(obj.get("apiVersion", "")), by_version.get(api_version)
        if source is None or target is None:
            return None
        if kind.scheme is not None:
            return _checked_object(api, target, converted(kind, target, obj))
        return ConvertedObject(
            api.scheme_of(target).typed.schema, canonical(api, target, converted(source, target, obj))
        )

    return convert


def _checked_object(api: ServerState, kind: ServedKind, obj: Object) -> ConvertedObject | str:
    """The custom object as an object of ``kind``, or the fields that this version does not have."""
    shape = api.scheme_of(kind).typed.schema
    return check(shape, obj, duplicates=True) or ConvertedObject(shape, obj)


def read_back(kind: ServedKind, obj: Object) -> Object:
    """``obj`` as it will be read from the store: fields that the stored version does not have are lost."""
    scheme = kind.scheme
    if scheme is None or scheme.to_stored is None or scheme.from_stored is None:
        return obj
    return scheme.from_stored(scheme.to_stored(obj))


def request_conversions(api: ServerState, kind: ServedKind, items: Sequence[Item]) -> None:
    """Requests the conversion of all these objects at once, if a webhook must convert them: raises
    :class:`ConversionRequired` with those that are missing."""
    if kind.scheme is None or kind.scheme.webhook is None:
        return
    missing: list[Object] = []
    for item in items:
        try:
            load(api, kind, item)
        except ConversionRequired as need:
            missing += need.objects
    if missing:
        raise ConversionRequired(missing, kind.api_version)


def is_converted_on_read(kind: ServedKind, item: Item) -> bool:
    """Whether the object is not served as stored, because of another version or a later schema."""
    return kind.scheme is not None and item.revision <= kind.scheme.since


def serve(api: ServerState, kind: ServedKind, item: Item) -> bytes:
    """The response body to a GET of ``item`` in the version of ``kind``."""
    if kind.scheme is not None:
        return (
            item.data
            if item.revision > kind.scheme.since
            else encode(kind, canonical(api, kind, load(api, kind, item)))
        )
    return item.data if _is_stored_version(api, kind) else encode(kind, load(api, kind, item))


def with_revision(obj: Object, revision: Revision) -> Object:
    """``obj`` with its revision, which is printed after the uid."""
    metadata: Object = {}
    for field, value in obj["metadata"].items():
        if field != "resourceVersion":
            metadata[field] = value
        if field == "uid":
            metadata["resourceVersion"] = str(revision)
    metadata.setdefault("resourceVersion", str(revision))
    return {**obj, "metadata": metadata}


def make_item(api: ServerState, kind: ServedKind, obj: Object, revision: Revision) -> Item:
    """The item to store for ``obj`` at this revision. ``obj`` is not changed."""
    stored_kind, labels = kind if kind.is_stored_version else api.kinds.stored_kind(kind), kind.field_labels
    if kind.scheme is not None:
        stored_kind, labels = kind, kind.scheme.stored_labels
        obj = obj if kind.scheme.to_stored is None else kind.scheme.to_stored(obj)
    elif stored_kind is not kind:
        # The versions differ in the empty fields that they print, so it is printed again in the stored version.
        obj, labels = canonical(api, stored_kind, to_stored(kind, obj)), stored_kind.field_labels
    obj = with_revision(obj, revision)
    metadata = obj["metadata"]
    return Item(
        resource=stored_kind.resource,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        revision=revision,
        labels=metadata.get("labels") or {},
        fields={each.label: each.value(obj) for each in labels},
        data=encode(stored_kind, obj),
    )
