"""Converts objects to items of the store, and items to objects.

An object is stored as the JSON of a GET response, with ``kind`` and ``apiVersion`` first, so that a list can remove
them without decoding. Some clients keep parts of an object as text and compare it with Go's output (kubectl does with a
ControllerRevision's data), so characters are escaped as in Go. A kind with several versions is stored in one of them
and converted on write and on read (``apiserver/kinds/conversion.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery.apply import Convert, ConvertedObject
from headgate.apimachinery.apply.validate import schema_errors
from headgate.apiserver.kinds.conversion import from_stored, to_stored
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.state import ServerState
from headgate.apiserver.webhooks.conversion import ConversionRequired
from headgate.kube.serializer.go_json import html_escaped
from headgate.kube.serializer.json_decoder import has_floats, with_go_numbers
from headgate.store import Item, Revision

Object = dict[str, Any]

_encoder: Final = msgspec.json.Encoder()
_sorted_json: Final = msgspec.json.Encoder(order="sorted").encode
_decoder: Final = msgspec.json.Decoder()


def type_prefix(kind: ServedKind) -> bytes:
    """The first bytes of every stored object of ``kind``."""
    return b'{"kind":"%s","apiVersion":"%s",' % (kind.kind.encode(), kind.api_version.encode())


def encode(kind: ServedKind, obj: Mapping[str, Any]) -> bytes:
    """``obj`` with its type first; custom objects have sorted keys.

    Every stored object has metadata, so the prefix is always followed by a field.
    """
    if kind.scheme is not None:
        parts = {name: _sorted_json(value) for name, value in obj.items() if name != "metadata"}
        # Managed fields have the keys of all other fields again.
        metadata = {name: _sorted_json(value) for name, value in obj["metadata"].items()}
        return html_escaped(_join(parts | {"metadata": _join(metadata)}))
    body = _encoder.encode({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})
    return type_prefix(kind) + html_escaped(body[1:])


def _join(encoded: Mapping[str, bytes]) -> bytes:
    """The JSON of a map with encoded values. Values are encoded one by one because encoding one keeps the interpreter
    lock, and sorting takes long."""
    return b"{%s}" % b",".join(b"%s:%s" % (_sorted_json(name), encoded[name]) for name in sorted(encoded))


def json_text(obj: Mapping[str, Any] | list[Any]) -> str:
    """JSON for an error text."""
    return _encoder.encode(obj).decode()


def decode(data: bytes) -> Object:
    obj: Object = _decoder.decode(data)
    return obj


def wire_form(api: ServerState, kind: ServedKind, obj: Object) -> Object:
    """``obj`` as the server sends it: with ``kind`` and ``apiVersion``, Go's order of fields, and required fields that
    are empty."""
    if kind.scheme is not None:
        return kind.scheme.wire_form(obj)
    if not _is_stored_version(api, kind):
        # Fields that this version does not have become annotations in the conversion from the stored version.
        obj = from_stored(kind, to_stored(kind, obj))
    wire = api.scheme_of(kind).wire_form(obj)
    wire["kind"], wire["apiVersion"] = kind.kind, kind.api_version
    return wire


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
        return obj if item.revision > scheme.converts_up_to or scheme.from_stored is None else scheme.from_stored(obj)
    # The versions differ in their required fields, so the converted object gets the wire form of its own version.
    return obj if _is_stored_version(api, kind) else wire_form(api, kind, from_stored(kind, obj))


def selectable_fields(api: ServerState, kind: ServedKind, item: Item) -> Mapping[str, str]:
    """The values of the selectable fields of a custom object.

    ``item.fields`` has those of the CustomResourceDefinition at the time of the write, in the stored version. If the
    object is older than the present definition, or stored in another version, the values are read from the object,
    unless that needs a conversion webhook.
    """
    scheme = kind.scheme
    if scheme is None or item.revision > scheme.converts_up_to or scheme.webhook is not None:
        return item.fields
    obj = load(api, kind, item)
    return {each.label: each.value(obj) for each in kind.field_labels}


def converted(source: ServedKind, target: ServedKind, obj: Object) -> Object:
    """``obj`` of the version ``source`` converted to the version ``target`` of the same resource.

    A custom object is converted from the version in its ``apiVersion``; ``source`` then provides only the conversion.
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
    versions = api.kinds.kinds_stored_as(kind.resource)
    if len(versions) == 1:
        return None
    by_version = {each.api_version: each for each in versions}
    if len(by_version) == 1:
        return None

    def convert(obj: Object, api_version: str) -> ConvertedObject | str | None:
        source, target = by_version.get(obj.get("apiVersion", "")), by_version.get(api_version)
        if source is None or target is None:
            return None
        if kind.scheme is not None:
            return _checked_object(api, target, converted(kind, target, obj))
        return ConvertedObject(
            api.scheme_of(target).typed.schema, wire_form(api, target, converted(source, target, obj))
        )

    return convert


def _checked_object(api: ServerState, kind: ServedKind, obj: Object) -> ConvertedObject | str:
    """The custom object with the schema of ``kind``, or the text of the errors if it does not match the schema."""
    schema = api.scheme_of(kind).typed.schema
    return schema_errors(schema, obj, allow_duplicates=True) or ConvertedObject(schema, obj)


def read_back(kind: ServedKind, obj: Object) -> Object:
    """``obj`` as it will be read from the store: fields that the stored version does not have are lost, and numbers of
    a custom object are as JSON has them (``2`` for a float that is 2)."""
    scheme = kind.scheme
    if scheme is None:
        return obj
    if scheme.to_stored is None or scheme.from_stored is None:
        return {name: with_go_numbers(value) for name, value in obj.items()} if has_floats(obj) else obj
    return scheme.from_stored(scheme.to_stored(obj))


def request_conversions(api: ServerState, kind: ServedKind, items: Sequence[Item]) -> None:
    """Raises :class:`ConversionRequired` with all of these objects that a webhook must convert and has not converted.

    ``load`` raises it for one object; one request for all of them saves calls of the webhook.
    """
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
    """Whether the custom object is converted when it is read, because of another version or a later schema."""
    return kind.scheme is not None and item.revision <= kind.scheme.converts_up_to


def serve(api: ServerState, kind: ServedKind, item: Item) -> bytes:
    """The response body to a GET of ``item`` in the version of ``kind``."""
    if kind.scheme is not None:
        return (
            item.data
            if item.revision > kind.scheme.converts_up_to
            else encode(kind, wire_form(api, kind, load(api, kind, item)))
        )
    return item.data if _is_stored_version(api, kind) else encode(kind, load(api, kind, item))


def with_revision(obj: Object, revision: Revision) -> Object:
    """``obj`` with its ``resourceVersion``, which follows the uid, as in Go's order of fields."""
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
        # The versions differ in their required fields, so the object gets the wire form of the stored version.
        obj, labels = wire_form(api, stored_kind, to_stored(kind, obj)), stored_kind.field_labels
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
