"""OpenAPI v3, as kubectl asks for it: an index of documents, and one document per group version.

Documents are pure functions of the schema tables and the table of kinds; they are made when first asked for and kept
as bytes. The index names each document by the hash of its bytes, so that clients may keep it for ever.

OpenAPI v2 is not served: no path below ``/openapi/v2`` is known here, and kubectl since v1.27 does without.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from headgate.apiserver.discovery import KUBERNETES_VERSION
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.messages import Request, Response
from headgate.apiserver.openapi_paths import mentioned, paths
from headgate.apiserver.openapi_schemas import components
from headgate.kube.schema import GroupVersionKind, Schemas

Object = dict[str, Any]

_ROOT: Final = "/openapi/v3"
_TEXT: Final = "text/plain; charset=utf-8"
_VARY: Final = ("Vary", "Accept")
_FOR_EVER: Final = ("Cache-Control", "public, immutable, max-age=31536000")
_JSON_TYPES: Final = frozenset({"", "application/json", "application/*", "*/*"})


def answer(schemas: Schemas, kinds: KindTable, request: Request) -> Response | None:
    """The answer to a request for a path of OpenAPI v3; None for every other path."""
    if not request.path.startswith(_ROOT):
        return None
    documents = _documents(schemas, kinds)
    if request.path == _ROOT:
        return Response(200, documents.index(), _TEXT)
    name = request.path.removeprefix(f"{_ROOT}/")
    if name not in documents.names:
        return None
    if not _accepts_json(request.header("accept")):
        return Response(406, b"", _TEXT, (_VARY,))
    return _document_answer(request, documents.document(name))


def _accepts_json(accept: str) -> bool:
    return any(clause.partition(";")[0].strip() in _JSON_TYPES for clause in accept.split(","))


def _document_answer(request: Request, document: _Document) -> Response:
    tag = f'"{document.digest}"'
    headers: tuple[tuple[str, str], ...] = (("ETag", tag), _VARY)
    asked = parse_qs(request.query).get("hash", [""])[0]
    if asked and asked != document.digest:
        return Response(301, b"", "application/json", (*headers, ("Location", document.url)))
    if asked:
        headers = (*headers, _FOR_EVER)
    if request.header("if-none-match") == tag:
        return Response(304, b"", "application/json", headers)
    return Response(200, document.body, "application/json", headers)


class _Document(msgspec.Struct, frozen=True):
    url: str
    digest: str
    body: bytes


@lru_cache(maxsize=2)
def _documents(schemas: Schemas, kinds: KindTable) -> _Documents:
    """Both tables are immutable; a change of kinds is a new table and so new documents."""
    return _Documents(schemas, kinds)


class _Documents:
    def __init__(self, schemas: Schemas, kinds: KindTable) -> None:
        self._schemas = schemas
        self._made: dict[str, _Document] = {}
        self._gvks = _kinds_of_types(schemas, kinds)
        self.names: Final[dict[str, tuple[Kind, ...]]] = {
            f"apis/{group.name}/{version}" if group.name else f"api/{version}": rows
            for group in kinds.groups()
            for version, rows in group.versions
        }

    def index(self) -> bytes:
        urls = {name: {"serverRelativeURL": self.document(name).url} for name in sorted(self.names)}
        return msgspec.json.encode({"paths": urls})

    def document(self, name: str) -> _Document:
        if name not in self._made:
            body = msgspec.json.encode(self._document(name))
            digest = hashlib.sha512(body).hexdigest().upper()
            self._made[name] = _Document(f"{_ROOT}/{name}?hash={digest}", digest, body)
        return self._made[name]

    def _document(self, name: str) -> Object:
        rows = self.names[name]
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": ".".join(KUBERNETES_VERSION[1:].split(".")[:2])},
            "paths": paths(self._schemas, f"/{name}", rows),
            "components": {
                "schemas": components(self._schemas, mentioned(self._schemas, rows), self._gvks),
                "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
            },
        }


def _kinds_of_types(schemas: Schemas, kinds: KindTable) -> dict[str, set[GroupVersionKind]]:
    found: dict[str, set[GroupVersionKind]] = {}
    for gvk, name in schemas.kinds.items():
        found.setdefault(name, set()).add(gvk)
    for kind in kinds.kinds():
        found.setdefault(kind.type_name, set()).add(kind.gvk)
    return found
