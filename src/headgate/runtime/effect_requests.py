"""Effects as requests: the method, path and body of an effect, and the meaning of its response. Pure."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from headgate.client import field_decoder
from headgate.client.write_requests import ACCEPT, JSON, PATCH_HEADERS
from headgate.controllers.framework import effects
from headgate.controllers.framework.effects import EffectResponse
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.serializer import wire_json
from headgate.kube.serializer.go_json import html_escaped

Object = dict[str, Any]

_APPLY: Final = {**ACCEPT, "content-type": "application/apply-patch+yaml"}
_DISCOVERY: Final = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


def request_of(effect: effects.RequestEffect) -> HTTPRequest:
    match effect:
        case effects.Get(resource, namespace, name, subresource=subresource):
            return HTTPRequest("GET", resource.object_path(namespace, name, subresource), "", ACCEPT)
        case effects.List(resource, namespace):
            return HTTPRequest("GET", resource.collection_path(namespace or None), "", ACCEPT)
        case effects.Discover(prefix):
            return HTTPRequest("GET", prefix, "", _DISCOVERY)
        case effects.Create(resource, namespace, obj):
            # A real server keeps a ControllerRevision's data as the bytes that came, and others compare those.
            return HTTPRequest(
                "POST", resource.collection_path(namespace), "", JSON, html_escaped(msgspec.json.encode(obj))
            )
        case effects.Replace(resource, namespace, name, obj, subresource):
            return HTTPRequest(
                "PUT", resource.object_path(namespace, name, subresource), "", JSON, msgspec.json.encode(obj)
            )
        case effects.Patch(resource, namespace, name, body, how, subresource):
            path = resource.object_path(namespace, name, subresource)
            return HTTPRequest("PATCH", path, "", PATCH_HEADERS[how], msgspec.json.encode(body))
        case effects.Apply(resource, namespace, name, obj, manager):
            query = urlencode({"fieldManager": manager, "force": "true"})
            return HTTPRequest("PATCH", resource.object_path(namespace, name), query, _APPLY, msgspec.json.encode(obj))
        case effects.Delete(resource, namespace, name, options):
            return HTTPRequest("DELETE", resource.object_path(namespace, name), "", JSON, msgspec.json.encode(options))
        case effects.DeleteCollection(resource, namespace, options):
            return HTTPRequest("DELETE", resource.collection_path(namespace), "", JSON, msgspec.json.encode(options))


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_decode_page: Final = wire_json.WireDecoder(_Page).decode
_decode_object: Final = wire_json.WireDecoder(Object).decode


def response_of(effect: effects.RequestEffect, response: HTTPResponse, now_s: float) -> EffectResponse:
    try:
        return EffectResponse(response.status, _body(effect, response), now_s)
    except msgspec.DecodeError:
        text = f"answered {response.status}: {response.body[:200].decode(errors='replace')}"
        return EffectResponse(response.status if not response.ok else effects.UNREACHABLE, {"message": text}, now_s)


def _body(effect: effects.RequestEffect, response: HTTPResponse) -> Object:
    if response.ok:
        match effect:
            case effects.Get(fields=fields):
                return field_decoder.decoder(fields)(response.body)
            case effects.List(fields=fields):
                items = _decode_page(response.body).items or ()
                return {"items": list(map(field_decoder.decoder(fields), items))}
            case effects.DeleteCollection():
                return {}
    return _decode_object(response.body)
