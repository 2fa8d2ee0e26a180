"""Requests for non-resource paths: health, version, discovery, OpenAPI.

``apiserver/discovery/documents.py`` and ``apiserver/discovery/openapi.py`` build the documents; this module maps a path
to its document, and encodes each one once per table of kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver import health_checks
from headgate.apiserver.authn.jwt import ALGORITHM
from headgate.apiserver.authn.service_account_tokens import ServiceAccountTokens
from headgate.apiserver.discovery import documents, openapi
from headgate.apiserver.registry import responses
from headgate.apiserver.request import negotiation
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.state import ServerState
from headgate.kube.field_errors import quote

_TEXT: Final = "text/plain; charset=utf-8"
_NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)
NOT_FOUND: Final = ServerResponse(404, b"404 page not found\n", _TEXT, _NO_SNIFF)
_KEYS, _ISSUER = "/openid/v1/jwks", "/.well-known/openid-configuration"
_CACHE_ONE_HOUR: Final = (("Cache-Control", "public, max-age=3600"),)
_OTHER_PATHS: Final = (_ISSUER, *health_checks.PATHS, "/openapi/v3", "/openapi/v3/", _KEYS, "/version")


SERVER_OPTIONS: Final = ServerResponse(200, b"", "", (("Cache-Control", ""),))
"""The response to ``OPTIONS *``, which Go's HTTP server returns without authentication."""


def incomplete_path(request: ServerRequest) -> ServerResponse:
    """The response to a path without a resource. kube-apiserver returns it before authentication."""
    uri = f"{request.path}?{request.query}" if request.query else request.path
    text = f"Internal Server Error: {quote(uri)}: failed to create RequestInfo: {request.info.problem}\n"
    return ServerResponse(500, text.translate(api_errors.HTML_SAFE).encode(), _TEXT, _NO_SNIFF)


def respond(api: ServerState, request: ServerRequest) -> ServerResponse:
    path = request.info.path
    if health_checks.is_health(path):
        return api.health.respond(path, request.query) or NOT_FOUND
    found = _find(api, request) if request.info.has_route else None
    if found is None:
        return _not_found(api, path)
    if request.info.method != "GET" and _is_routed(api, path):
        return responses.refuse(api_errors.method_not_allowed())
    return found()


def _is_routed(api: ServerState, path: str) -> bool:
    """Whether kube-apiserver checks the method for this path; its other handlers accept any method."""
    match path.strip("/").split("/"):
        case ["version"] | ["api"] | ["api", _] | [".well-known" | "openid", *_]:
            return True
        case ["apis", group, _]:
            return _has_builtin(api, group)
    return False


def _find(api: ServerState, request: ServerRequest) -> Callable[[], ServerResponse] | None:
    path = request.info.path
    schemas = openapi.respond(api.schemas, api.kinds, request)
    if schemas is not None:
        return lambda: schemas
    match path.strip("/").split("/"):
        case [""]:
            return lambda: _json(documents.root_paths(api.kinds, _OTHER_PATHS))
        case ["version"]:
            return lambda: _json(api.version)
        case [".well-known", "openid-configuration"] if api.accounts is not None and path == _ISSUER:
            issuer = _issuer(api.accounts, request.header("host"))
            return lambda: ServerResponse(200, msgspec.json.encode(issuer), headers=_CACHE_ONE_HOUR)
        case ["openid", "v1", "jwks"] if api.accounts is not None and path == _KEYS:
            keys = msgspec.json.encode({"keys": [api.accounts.key.public()]})
            return lambda: ServerResponse(200, keys, "application/jwk-set+json", _CACHE_ONE_HOUR)
        case ["api"]:
            legacy = documents.api_versions(api.kinds, request.header("host"))
            return lambda: _aggregated(api, request, "/api") or _document(request, legacy)
        case ["apis"]:
            return lambda: _aggregated(api, request, "/apis") or _document(request, documents.api_group_list(api.kinds))
        case ["apis", group]:
            return _document_or_none(request, documents.api_group(api.kinds, group))
        case ["api", version]:
            return _document_or_none(request, documents.api_resource_list(api.kinds, "", version))
        case ["apis", group, version]:
            return _document_or_none(request, documents.api_resource_list(api.kinds, group, version))
    return None


def _issuer(accounts: ServiceAccountTokens, host: str) -> dict[str, Any]:
    """The OpenID configuration, with which others verify tokens of this server."""
    return {
        "issuer": accounts.issuer,
        "jwks_uri": f"https://{host}{_KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }


def _document_or_none(request: ServerRequest, document: dict[str, Any] | None) -> Callable[[], ServerResponse] | None:
    return None if document is None else lambda: _document(request, document)


def _json(document: dict[str, Any]) -> ServerResponse:
    return ServerResponse(200, msgspec.json.encode(document) + b"\n")


def _document(request: ServerRequest, document: dict[str, Any]) -> ServerResponse:
    accept = request.header("accept")
    routed = document["kind"] in (
        "APIVersions",
        "APIResourceList",
    )  # for these two, kube-apiserver's router checks the Accept header first
    output = (negotiation.check_accept(accept, streams=False) if routed else None) or negotiation.plain_output(accept)
    if isinstance(output, api_errors.StatusError):
        return responses.refuse(output)
    return ServerResponse(200, responses.render(output, document), output.media_type)


def _aggregated(api: ServerState, request: ServerRequest, prefix: Literal["/api", "/apis"]) -> ServerResponse | None:
    """Aggregated discovery, if the client accepts it; ``/apis/`` does not have it."""
    if request.info.path == "/apis/" or not documents.wants_aggregated(request.header("accept")):
        return None
    document = documents.aggregated(api.kinds, prefix)
    tag = documents.etag(document)
    headers = (("ETag", tag), *documents.AGGREGATED_HEADERS)
    if request.header("if-none-match") == tag:
        return ServerResponse(304, b"", documents.AGGREGATED_JSON, headers)
    return ServerResponse(200, msgspec.json.encode(document), documents.AGGREGATED_JSON, headers)


def _has_builtin(api: ServerState, name: str) -> bool:
    group = api.kinds.group(name)
    return group is not None and any(kind.scheme is None for _, kinds in group.versions for kind in kinds)


def _not_found(api: ServerState, path: str) -> ServerResponse:
    """The 404 for an unknown path: a Status below a served group, plain text for any other path."""
    match path.removeprefix("/").split("/"):
        case ["openapi", "v3", *_]:
            return ServerResponse(404, b"", "")
        case ["api", *_] | ["version", _, *_]:
            return responses.refuse(api_errors.unknown_path())
        case ["apis", group, *_] if _has_builtin(api, group):
            return responses.refuse(api_errors.unknown_path())
        case _:
            return NOT_FOUND
