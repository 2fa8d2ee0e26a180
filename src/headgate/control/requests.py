"""Effects as requests: which method, path and body an effect becomes, and what its answer says. Pure."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from headgate.client import picking
from headgate.client.transport import Request, Response
from headgate.client.writes import ACCEPT, JSON, PATCHES
from headgate.kube import wire_json
from headgate.kube.go_json import escaped
from headgate.owners import effects
from headgate.owners.effects import Answer

Object = dict[str, Any]

_APPLY: Final = {**ACCEPT, "content-type": "application/apply-patch+yaml"}
_DISCOVERY: Final = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


def request_of(effect: effects.Request) -> Request:
    match effect:
        case effects.Get(resource, namespace, name, subresource=subresource):
            return Request("GET", resource.object(namespace, name, subresource), "", ACCEPT)
        case effects.List(resource, namespace):
            return Request("GET", resource.collection(namespace or None), "", ACCEPT)
        case effects.Discover(prefix):
            return Request("GET", prefix, "", _DISCOVERY)
        case effects.Create(resource, namespace, obj):
            # A real server keeps a ControllerRevision's data as the bytes that came, and others compare those.
            return Request("POST", resource.collection(namespace), "", JSON, escaped(msgspec.json.encode(obj)))
        case effects.Replace(resource, namespace, name, obj, subresource):
            return Request("PUT", resource.object(namespace, name, subresource), "", JSON, msgspec.json.encode(obj))
        case effects.Patch(resource, namespace, name, body, how, subresource):
            path = resource.object(namespace, name, subresource)
            return Request("PATCH", path, "", PATCHES[how], msgspec.json.encode(body))
        case effects.Apply(resource, namespace, name, obj, manager):
            query = urlencode({"fieldManager": manager, "force": "true"})
            return Request("PATCH", resource.object(namespace, name), query, _APPLY, msgspec.json.encode(obj))
        case effects.Delete(resource, namespace, name, options):
            return Request("DELETE", resource.object(namespace, name), "", JSON, msgspec.json.encode(options))
        case effects.DeleteCollection(resource, namespace, options):
            return Request("DELETE", resource.collection(namespace), "", JSON, msgspec.json.encode(options))


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_decode_page: Final = wire_json.Decoder(_Page).decode
_decode_object: Final = wire_json.Decoder(Object).decode


def answer_of(effect: effects.Request, response: Response, now_s: float) -> Answer:
    try:
        return Answer(response.status, _body(effect, response), now_s)
    except msgspec.DecodeError:
        text = f"answered {response.status}: {response.body[:200].decode(errors='replace')}"
        return Answer(response.status if not response.ok else effects.UNREACHABLE, {"message": text}, now_s)


def _body(effect: effects.Request, response: Response) -> Object:
    if response.ok:
        match effect:
            case effects.Get(fields=fields):
                return picking.decoder(fields)(response.body)
            case effects.List(fields=fields):
                items = _decode_page(response.body).items or ()
                return {"items": list(map(picking.decoder(fields), items))}
            case effects.DeleteCollection():
                return {}
    return _decode_object(response.body)
