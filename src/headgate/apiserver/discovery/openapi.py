"""OpenAPI v3 for kubectl: an index of documents, and one document per group version.

Documents are pure functions of the schema tables and the kinds of a group version. They are built for the first request
and cached as bytes until one of those kinds changes. The index names each document by the hash of its bytes, so that
clients may cache it without a time limit.

OpenAPI v2 is served as an empty document; kubectl does not need it since v1.27.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from operator import is_
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from headgate.apiserver.discovery.documents import KUBERNETES_VERSION
from headgate.apiserver.discovery.openapi_custom import publish
from headgate.apiserver.discovery.openapi_paths import mentioned, paths
from headgate.apiserver.discovery.openapi_schemas import components
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.request import negotiation
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.kube.schema import GroupVersionKind, Schemas

Object = dict[str, Any]

_ROOT: Final = "/openapi/v3"
_V2: Final = "/openapi/v2"
_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# An empty OpenAPI v2 document: clients that do not find a kind in v3 look here next, and must not find it here either.
# In protobuf it is the message with the one field `swagger: "2.0"`.
_V2_DOCUMENTS: Final = {
    "application/json": b'{"swagger":"2.0","info":{"title":"Kubernetes","version":"unversioned"},"paths":{}}',
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": b"\x0a\x032.0",
    _V2_PROTOBUF: b"\x0a\x032.0",
}
_TEXT: Final = "text/plain; charset=utf-8"
_VARY: Final = ("Vary", "Accept")
_IMMUTABLE: Final = ("Cache-Control", "public, immutable, max-age=31536000")
_JSON_TYPES: Final = frozenset({"", "application/json", "application/*", "*/*"})


def respond(schemas: Schemas, kinds: KindTable, request: ServerRequest) -> ServerResponse | None:
    """The response for an OpenAPI path; None for any other path."""
    if request.info.path == _V2:
        return _v2(request.header("accept"))
    if not request.info.path.startswith(_ROOT):
        return None
    cache = _document_cache(schemas)
    names = cache.names(kinds)
    if request.info.path == _ROOT:
        return ServerResponse(200, cache.index(names), _TEXT)
    name = request.info.path.removeprefix(f"{_ROOT}/")
    if name not in names:
        return None
    if not _accepts_json(request.header("accept")):
        return ServerResponse(406, b"", _TEXT, (_VARY,))
    return _document_response(request, cache.document(name, names[name]))


def _v2(accept: str) -> ServerResponse:
    chosen = negotiation.choose(accept or "*/*", tuple(_V2_DOCUMENTS))
    if chosen is None:
        return ServerResponse(406, b"", "", (_VARY,))
    media_type = _V2_PROTOBUF if "protobuf" in chosen else chosen
    return ServerResponse(200, _V2_DOCUMENTS[chosen], media_type, (_VARY,))


def _accepts_json(accept: str) -> bool:
    return any(clause.partition(";")[0].strip() in _JSON_TYPES for clause in accept.split(","))


def _document_response(request: ServerRequest, document: _Document) -> ServerResponse:
    tag = f'"{document.digest}"'
    headers: tuple[tuple[str, str], ...] = (("ETag", tag), _VARY)
    requested_hash = parse_qs(request.query).get("hash", [""])[0]
    if requested_hash and requested_hash != document.digest:
        return ServerResponse(301, b"", "application/json", (*headers, ("Location", document.url)))
    if requested_hash:
        headers = (*headers, _IMMUTABLE)
    if request.header("if-none-match") == tag:
        return ServerResponse(304, b"", "application/json", headers)
    return ServerResponse(200, document.body, "application/json", headers)


class _Document(msgspec.Struct, frozen=True):
    url: str
    digest: str
    body: bytes


@lru_cache(maxsize=2)
def _document_cache(schemas: Schemas) -> _DocumentCache:
    return _DocumentCache(schemas)


class _DocumentCache:
    """The documents of all group versions, built for the first request, and again when one of their kinds changed."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._documents: dict[str, tuple[tuple[ServedKind, ...], _Document]] = {}
        self._gvks: dict[str, set[GroupVersionKind]] | None = None

    def names(self, kinds: KindTable) -> dict[str, tuple[ServedKind, ...]]:
        if self._gvks is None:
            self._gvks = _kinds_of_types(self._schemas, kinds)
        return {
            f"apis/{group.name}/{version}" if group.name else f"api/{version}": rows
            for group in kinds.groups()
            for version, rows in group.versions
        }

    def index(self, names: Mapping[str, tuple[ServedKind, ...]]) -> bytes:
        urls = {name: {"serverRelativeURL": self.document(name, names[name]).url} for name in sorted(names)}
        return msgspec.json.encode({"paths": urls})

    def document(self, name: str, rows: tuple[ServedKind, ...]) -> _Document:
        cached = self._documents.get(name)
        if cached is not None and len(cached[0]) == len(rows) and all(map(is_, cached[0], rows)):
            return cached[1]
        body = msgspec.json.encode(self._build(name, rows))
        digest = hashlib.sha512(body).hexdigest().upper()
        document = _Document(f"{_ROOT}/{name}?hash={digest}", digest, body)
        self._documents[name] = (rows, document)
        return document

    def _build(self, name: str, rows: tuple[ServedKind, ...]) -> Object:
        custom = [row for row in rows if row.is_custom_resource]
        schemas = components(self._schemas, mentioned(self._schemas, rows), self._gvks or {}) | publish(custom)
        shared: Object = {"schemas": schemas}
        if len(custom) == len(rows):
            info = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
        else:
            info = {"title": "Kubernetes", "version": ".".join(KUBERNETES_VERSION[1:].split(".")[:2])}
            shared["securitySchemes"] = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}
        found = paths(self._schemas, f"/{name}", rows)
        return {"openapi": "3.0.0", "info": info, "paths": found, "components": shared}


def _kinds_of_types(schemas: Schemas, kinds: KindTable) -> dict[str, set[GroupVersionKind]]:
    found: dict[str, set[GroupVersionKind]] = {}
    for gvk, name in schemas.kinds.items():
        found.setdefault(name, set()).add(gvk)
    for kind in kinds.kinds():
        if kind.scheme is None:
            found.setdefault(kind.type_name, set()).add(kind.gvk)
    return found
