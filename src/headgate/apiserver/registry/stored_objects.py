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
    """``obj`` with its type first; custom objects, which are maps, in the order of their keys.

    Every stored object has metadata, so the prefix never stands alone.
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
    """``obj`` as the server prints it, type included."""
    if kind.scheme is not None:
        return kind.scheme.emit(obj)
    if not _keeps(api, kind):
        # What this version cannot say is said in annotations; going through the stored form writes them.
        obj = from_stored(kind, to_stored(kind, obj))
    printed = api.scheme_of(kind).emit(obj)
    printed["kind"], printed["apiVersion"] = kind.kind, kind.api_version
    return printed


def _keeps(api: ServerState, kind: ServedKind) -> bool:
    """Whether objects of ``kind`` are stored in its own version."""
    return kind.is_stored_version or api.kinds.stored_kind(kind) is kind


def is_kept(api: ServerState, kind: ServedKind) -> bool:
    """Whether the bytes that are stored are those that a client gets."""
    return kind.scheme is None and _keeps(api, kind)


def load(api: ServerState, kind: ServedKind, item: Item) -> Object:
    """A fresh copy of a stored object, in the version of ``kind``."""
    obj, form = decode(item.data), kind.scheme
    if form is not None:
        return obj if item.revision > form.since or form.from_stored is None else form.from_stored(obj)
    # What one version leaves out the other may have to show, so it is printed anew.
    return obj if _keeps(api, kind) else canonical(api, kind, from_stored(kind, obj))


def selectable_fields(api: ServerState, kind: ServedKind, item: Item) -> Mapping[str, str]:
    """What field selectors may ask of an object of a custom kind.

    The fields that were kept with it are those of the definition as it was then, in the stored version: others are
    read from the object. What only a webhook could tell is not asked for.
    """
    form = kind.scheme
    if form is None or item.revision > form.since or form.webhook is not None:
        return item.fields
    obj = load(api, kind, item)
    return {each.label: each.value(obj) for each in kind.field_labels}


def converted(here: ServedKind, there: ServedKind, obj: Object) -> Object:
    """``obj`` of the version of ``here`` in the version of ``there``, which is stored in the same place.

    A custom object says its version itself; ``here`` only knows how to convert, and may be another version than that.
    """
    if here.scheme is not None:
        if obj.get("apiVersion") == there.api_version:
            return obj
        convert = here.scheme.convert
        return {**obj, "apiVersion": there.api_version} if convert is None else convert(obj, there.api_version)
    if here is there:
        return obj
    return from_stored(there, to_stored(here, obj))


def converter(api: ServerState, kind: ServedKind) -> Convert | None:
    """How to see objects of ``kind`` in its other versions; ``None`` for the many kinds that have but one."""
    stored = api.kinds.by_storage(kind.resource)
    if len(stored) == 1:
        return None
    views = {view.api_version: view for view in stored}
    if len(views) == 1:
        return None

    def convert(obj: Object, api_version: str) -> ConvertedObject | str | None:
        here, there = views.get(obj.get("apiVersion", "")), views.get(api_version)
        if here is None or there is None:
            return None
        if kind.scheme is not None:
            return _as_if(api, there, converted(kind, there, obj))
        return ConvertedObject(api.scheme_of(there).typed.schema, canonical(api, there, converted(here, there, obj)))

    return convert


def _as_if(api: ServerState, kind: ServedKind, obj: Object) -> ConvertedObject | str:
    """A custom object that says it is of ``kind``: what it is then, or what that version has not heard of."""
    shape = api.scheme_of(kind).typed.schema
    return check(shape, obj, duplicates=True) or ConvertedObject(shape, obj)


def read_back(kind: ServedKind, obj: Object) -> Object:
    """``obj`` as the store will give it back: what the version that is stored cannot say is lost."""
    form = kind.scheme
    if form is None or form.to_stored is None or form.from_stored is None:
        return obj
    return form.from_stored(form.to_stored(obj))


def gather(api: ServerState, kind: ServedKind, items: Sequence[Item]) -> None:
    """Ask for all these objects at once, if a webhook must convert them: :class:`ConversionRequired` names the
    others."""
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
    """Whether the object is served otherwise than it is stored: in another version, or by a later schema."""
    return kind.scheme is not None and item.revision <= kind.scheme.since


def serve(api: ServerState, kind: ServedKind, item: Item) -> bytes:
    """What a GET of ``item`` answers in the version of ``kind``."""
    if kind.scheme is not None:
        return (
            item.data
            if item.revision > kind.scheme.since
            else encode(kind, canonical(api, kind, load(api, kind, item)))
        )
    return item.data if _keeps(api, kind) else encode(kind, load(api, kind, item))


def stamped(obj: Object, revision: Revision) -> Object:
    """``obj`` with its revision, in the place where the server prints it: after the uid."""
    metadata: Object = {}
    for field, value in obj["metadata"].items():
        if field != "resourceVersion":
            metadata[field] = value
        if field == "uid":
            metadata["resourceVersion"] = str(revision)
    metadata.setdefault("resourceVersion", str(revision))
    return {**obj, "metadata": metadata}


def make_item(api: ServerState, kind: ServedKind, obj: Object, revision: Revision) -> Item:
    """``obj`` as the write with this revision stores it. The caller's object is not changed."""
    stored_kind, labels = kind if kind.is_stored_version else api.kinds.stored_kind(kind), kind.field_labels
    if kind.scheme is not None:
        stored_kind, labels = kind, kind.scheme.stored_labels
        obj = obj if kind.scheme.to_stored is None else kind.scheme.to_stored(obj)
    elif stored_kind is not kind:
        # What one version leaves out the other may have to show: printed anew, as the stored version shows it.
        obj, labels = canonical(api, stored_kind, to_stored(kind, obj)), stored_kind.field_labels
    obj = stamped(obj, revision)
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
