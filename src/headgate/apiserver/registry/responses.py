"""Builds responses: an object, a list, a Table, or metadata only; as JSON or YAML.

An object without a requested view (Table, PartialObjectMetadata) is sent as its stored bytes; the views decode it.
``apiserver/printers/`` defines the columns of a Table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml

from headgate.apimachinery import api_errors
from headgate.apimachinery.jsonpath import VisitBudget
from headgate.apiserver.kinds import size_limits
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.printers import table, visible_metadata
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.request.messages import ServerResponse
from headgate.apiserver.request.negotiation import YAML, Output
from headgate.apiserver.request.warning_headers import warning_headers
from headgate.apiserver.request_context import RequestContext
from headgate.store import Item

Object = dict[str, Any]

_encoder: Final = msgspec.json.Encoder()
_INCLUDE_OBJECT: Final = ("", "Metadata", "Object", "None")


Body = Mapping[str, Any] | bytes | list[bytes]
"""An object, or encoded JSON, whole or in pieces: the pieces of a long list are joined once, at the end."""


def render(output: Output, body: Body) -> bytes:
    """Encodes the body in the negotiated media type."""
    if isinstance(body, list):
        if output.media_type != YAML and not output.pretty:
            return b"".join((*body, b"\n"))
        body = b"".join(body)
    if output.media_type == YAML:
        value = msgspec.json.decode(body) if isinstance(body, bytes) else body
        return yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True).encode()
    data = body if isinstance(body, bytes) else _encoder.encode(body)
    return msgspec.json.format(data, indent=2) if output.pretty else data + b"\n"


def respond(call: RequestContext, code: int, body: Body) -> ServerResponse:
    headers = warning_headers(call.warnings)
    return ServerResponse(code, render(call.output, body), call.output.media_type, headers)


def refuse(error: api_errors.StatusError, output: Output | None = None, warnings: Iterable[str] = ()) -> ServerResponse:
    """The response for ``error``. It uses the negotiated encoding, but is never converted to a Table."""
    output = Output() if output is None else Output(output.error_media_type, pretty=output.pretty)
    headers = warning_headers(warnings)
    if error.details is not None and error.details.retry_after_s:
        headers = (*headers, ("Retry-After", str(error.details.retry_after_s)))
    try:
        body = render(output, error.body())
    except UnicodeEncodeError:  # the request had a name that is not valid UTF-8
        details = error.details
        if details is not None:
            details = msgspec.structs.replace(details, name=_text(details.name))
        body = render(output, msgspec.structs.replace(error, message=_text(error.message), details=details).body())
    media_type = "text/plain; charset=utf-8" if error.untyped else output.media_type
    return ServerResponse(error.code, body, media_type, headers)


def _text(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def object_response(call: RequestContext, code: int, obj: Object) -> ServerResponse:
    """One object in the requested view. A Status is never converted."""
    view = call.output.view
    if view == "object" or obj.get("kind") == "Status":
        is_own_kind = call.kind.scheme is not None and obj.get("kind") == call.kind.kind
        return respond(call, code, stored_objects.encode(call.kind, obj) if is_own_kind else obj)
    converted = _converted_view(call, [obj], list_meta_of(obj), single=True)
    if isinstance(converted, api_errors.StatusError):
        return refused(call, converted)
    return respond(call, code, converted)


def written_response(call: RequestContext, code: int, obj: Object, item: Item | None) -> ServerResponse:
    """The response to a write: the stored bytes, if a GET would return them."""
    if item is not None and call.output.view == "object" and stored_objects.is_served_as_stored(call.api, call.kind):
        return respond(call, code, item.data)
    return object_response(call, code, obj)


def refused(call: RequestContext, error: api_errors.StatusError) -> ServerResponse:
    """The response for ``error`` in the negotiated format, with the warnings of the request."""
    return refuse(error, call.output, call.warnings)


def list_meta_of(obj: Mapping[str, Any]) -> Object:
    """The list metadata of a Table of one object: its revision, if it was ever stored."""
    version = obj["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


def item_response(call: RequestContext, code: int, item: Item) -> ServerResponse:
    if call.output.view == "object":
        return respond(call, code, stored_objects.serve(call.api, call.kind, item))
    return object_response(call, code, stored_objects.load(call.api, call.kind, item))


def list_response(call: RequestContext, items: Sequence[Item], list_meta: Object) -> ServerResponse:
    stored_objects.request_conversions(call.api, call.kind, items)
    if call.output.view == "object":
        plain = _plain_list(call, items, list_meta)
        return refused(call, plain) if isinstance(plain, api_errors.StatusError) else respond(call, 200, plain)
    objects = _loaded(call, items)
    if isinstance(objects, api_errors.StatusError):
        return refused(call, objects)
    converted = _converted_view(call, objects, list_meta, single=False)
    if isinstance(converted, api_errors.StatusError):
        return refused(call, converted)
    return respond(call, 200, converted)


def _loaded(call: RequestContext, items: Sequence[Item]) -> list[Object] | api_errors.StatusError:
    """The objects of ``items``; an error if defaults and conversion make them too large in total."""
    objects: list[Object] = []
    grown_bytes = 0
    for item in items:
        objects.append(stored_objects.load(call.api, call.kind, item))
        if stored_objects.is_converted_on_read(call.kind, item):
            grown_bytes += max(len(_encoder.encode(objects[-1])) - len(item.data), 0)
            if grown_bytes > size_limits.MAX_GROWN_BYTES:
                return size_limits.list_too_large()
    return objects


def _plain_list(call: RequestContext, items: Sequence[Item], list_meta: Object) -> list[bytes] | api_errors.StatusError:
    """Items of a typed list have no ``kind`` and ``apiVersion``, so these are cut off the stored bytes."""
    if call.kind.scheme is not None:
        return _custom_list(call, items, list_meta)
    api, kind = call.api, call.kind
    cut = len(stored_objects.type_prefix(kind))
    head = b'{"kind":"%s","apiVersion":"%s","metadata":' % (kind.list_kind.encode(), kind.api_version.encode())
    pieces = [b",{"] * (2 * len(items))
    if stored_objects.is_served_as_stored(api, kind):
        pieces[1::2] = [item.data[cut:] for item in items]
    else:
        pieces[1::2] = [stored_objects.serve(api, kind, item)[cut:] for item in items]
    if pieces:
        pieces[0] = b"{"
    return [head, _encoder.encode(list_meta), b',"items":[', *pieces, b"]}"]


def _custom_list(
    call: RequestContext, items: Sequence[Item], list_meta: Object
) -> list[bytes] | api_errors.StatusError:
    """Custom objects in a list have ``kind`` and ``apiVersion``; the list has sorted keys."""
    served: list[bytes] = []
    grown_bytes = 0
    for item in items:
        served.append(stored_objects.serve(call.api, call.kind, item))
        grown_bytes += max(len(served[-1]) - len(item.data), 0)
        if grown_bytes > size_limits.MAX_GROWN_BYTES:
            return size_limits.list_too_large()
    return [
        b'{"apiVersion":"%s","items":[' % call.kind.api_version.encode(),
        b",".join(served),
        b'],"kind":"%s","metadata":' % call.kind.list_kind.encode(),
        _encoder.encode({"continue": "", **list_meta}),
        b"}",
    ]


def include_object(call: RequestContext) -> str | api_errors.StatusError:
    """The value of ``includeObject``: which part of each object is in the rows of a Table."""
    included = (call.query.get("includeObject") or [""])[0]
    if included not in _INCLUDE_OBJECT:
        text = f"includeObject: Invalid value: \"{included}\": must be 'Metadata', 'Object', 'None', or empty"
        return api_errors.bad_request(f"Unable to convert to Table as requested: {text}")
    return included or "Metadata"


def partial_metadata(kind: ServedKind, obj: Object, version: str) -> Object:
    metadata = visible_metadata(kind, obj)
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata}


def as_table(
    call: RequestContext,
    objects: Sequence[Object],
    list_meta: Object,
    *,
    headers: bool = True,
    visits: VisitBudget | None = None,
) -> Object | api_errors.StatusError:
    included = include_object(call)
    if isinstance(included, api_errors.StatusError):
        return included
    return table(
        call.kind,
        objects,
        call.moment.epoch_s,
        include_object=included,
        list_meta=list_meta,
        columns=headers,
        version=call.output.version,
        visits=visits,
    )


def _converted_view(
    call: RequestContext, objects: Sequence[Object], list_meta: Object, *, single: bool
) -> Object | api_errors.StatusError:
    view, version = call.output.view, call.output.version
    if view == "Table":
        return as_table(call, objects, list_meta)
    if view == "PartialObjectMetadata":
        if single:
            return partial_metadata(call.kind, objects[0], version)
        text = f"you requested PartialObjectMetadata, but the requested object is a list (*{_go_type(call)}List)"
        return api_errors.StatusError(406, "NotAcceptable", text)
    if single:
        text = f"you requested PartialObjectMetadataList, but the requested object is not a list (*{_go_type(call)})"
        return api_errors.StatusError(406, "NotAcceptable", text)
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_meta,
        "items": [partial_metadata(call.kind, obj, version) for obj in objects] or None,
    }


def _go_type(call: RequestContext) -> str:
    """The name of the type in kube-apiserver's text: its internal package and kind."""
    if call.kind.scheme is not None:
        return "unstructured.Unstructured"
    package = (call.kind.group or "core").partition(".")[0]
    return f"{package}.{call.kind.kind}"
