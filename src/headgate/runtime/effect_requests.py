"""Converts effects of controllers to HTTP requests, and HTTP responses to the responses of effects.

Pure; ``controller_manager.py`` sends the requests.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.client import field_decoder, write_requests
from headgate.client.write_requests import ACCEPT
from headgate.controllers.framework import effects
from headgate.controllers.framework.effects import EffectResponse
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.serializer import wire_json
from headgate.kube.serializer.go_json import html_escaped

Object = dict[str, Any]

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
            # Controllers compare the bytes of a ControllerRevision's data, which kube-apiserver stores unchanged.
            # kube-controller-manager sends them with HTML characters escaped.
            request = write_requests.create(resource, namespace, obj)
            return msgspec.structs.replace(request, body=html_escaped(request.body))
        case effects.Replace(resource, namespace, name, obj, subresource):
            return write_requests.update(resource, namespace, name, obj, subresource)
        case effects.Patch(resource, namespace, name, body, how, subresource):
            return write_requests.patch(resource, namespace, name, "", body, how, subresource)
        case effects.Apply(resource, namespace, name, obj, manager):
            return write_requests.apply(resource, namespace, name, obj, manager)
        case effects.Delete(resource, namespace, name, options):
            return write_requests.delete(resource, namespace, name, "", options)
        case effects.DeleteCollection(resource, namespace, options):
            return write_requests.delete_collection(resource, namespace, options)


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_decode_page: Final = wire_json.WireDecoder(_Page).decode
_decode_object: Final = wire_json.WireDecoder(Object).decode


def response_of(effect: effects.RequestEffect, response: HTTPResponse, now_s: float) -> EffectResponse:
    try:
        return EffectResponse(response.status, _body(effect, response), now_s)
    except msgspec.DecodeError:
        start = response.body[:200].decode(errors="replace")
        text = f"the response with status {response.status} is not a JSON object: {start}"
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
