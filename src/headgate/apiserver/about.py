"""What the server says of itself: health, version, discovery, schemas.

The documents are made by ``apiserver/discovery.py`` and ``apiserver/openapi.py``; here a path finds its document, and
each one is encoded once per table of kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from headgate.apiserver import discovery, negotiation, openapi, views
from headgate.apiserver.access.accounts import Accounts
from headgate.apiserver.access.jwt import ALGORITHM
from headgate.apiserver.api import Api
from headgate.apiserver.messages import Request, Response
from headgate.kube import status

_TEXT: Final = "text/plain; charset=utf-8"
_NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)
_OK: Final = Response(200, b"ok", _TEXT, _NO_SNIFF)
_PONG: Final = Response(200, b"ok", _TEXT)
NOT_FOUND: Final = Response(404, b"404 page not found\n", _TEXT, _NO_SNIFF)
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
# Version 2 of the schemas says nothing: clients that ask version 3 for a kind it does not know ask here next, and must
# learn that it is not known here either. It is the protobuf message with the one field `swagger: "2.0"`.
_OPENAPI_V2: Final = Response(200, b"\x0a\x032.0", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
# The server as a whole, and the one check of it that always exists.
_HEALTH_ANSWERS: Final = dict.fromkeys(_HEALTH, _OK) | {f"{each}/ping": _PONG for each in _HEALTH}
_ANY_METHOD: Final = frozenset({"/apis"})
_KEYS, _ISSUER = "/openid/v1/jwks", "/.well-known/openid-configuration"
_KEPT_AN_HOUR: Final = (("Cache-Control", "public, max-age=3600"),)
_OTHER_PATHS: Final = (_ISSUER, *_HEALTH, "/openapi/v3", "/openapi/v3/", _KEYS, "/version")


def _is_health(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in _HEALTH)


def answer(api: Api, request: Request) -> Response:
    path = request.path
    if _is_health(path):
        return _HEALTH_ANSWERS.get(path, NOT_FOUND)
    found = _find(api, request)
    if found is None:
        return _lost(api, path)
    if request.method != "GET" and path.rstrip("/") not in _ANY_METHOD:
        return views.refuse(status.method_not_allowed())
    return found()


def _find(api: Api, request: Request) -> Callable[[], Response] | None:
    path = request.path
    schemas = openapi.answer(api.schemas, api.kinds, request)
    if schemas is not None:
        return lambda: schemas
    match path.strip("/").split("/"):
        case [""]:
            return lambda: _json(discovery.root_paths(api.kinds, _OTHER_PATHS))
        case ["version"]:
            return lambda: _json(api.version)
        case [".well-known", "openid-configuration"] if api.accounts is not None and path == _ISSUER:
            issuer = _issuer(api.accounts, request.header("host"))
            return lambda: Response(200, msgspec.json.encode(issuer), headers=_KEPT_AN_HOUR)
        case ["openid", "v1", "jwks"] if api.accounts is not None and path == _KEYS:
            keys = msgspec.json.encode({"keys": [api.accounts.key.public()]})
            return lambda: Response(200, keys, "application/jwk-set+json", _KEPT_AN_HOUR)
        case ["openapi", "v2"]:
            return lambda: _OPENAPI_V2
        case ["api"]:
            legacy = discovery.api_versions(api.kinds, request.header("host"))
            return lambda: _aggregated(api, request, "/api") or _document(request, legacy)
        case ["apis"]:
            return lambda: _aggregated(api, request, "/apis") or _document(request, discovery.api_group_list(api.kinds))
        case ["apis", group]:
            return _maybe(request, discovery.api_group(api.kinds, group))
        case ["api", version]:
            return _maybe(request, discovery.api_resource_list(api.kinds, "", version))
        case ["apis", group, version]:
            return _maybe(request, discovery.api_resource_list(api.kinds, group, version))
    return None


def _issuer(accounts: Accounts, host: str) -> dict[str, Any]:
    """How others can check the tokens that this server signs."""
    return {
        "issuer": accounts.issuer,
        "jwks_uri": f"https://{host}{_KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }


def _maybe(request: Request, document: dict[str, Any] | None) -> Callable[[], Response] | None:
    return None if document is None else lambda: _document(request, document)


def _json(document: dict[str, Any]) -> Response:
    return Response(200, msgspec.json.encode(document) + b"\n")


def _document(request: Request, document: dict[str, Any]) -> Response:
    accept = request.header("accept")
    routed = document["kind"] in ("APIVersions", "APIResourceList")  # these two pass the router's own gate first
    output = (negotiation.representable(accept, streams=False) if routed else None) or negotiation.plain_output(accept)
    if isinstance(output, status.ApiError):
        return views.refuse(output)
    return Response(200, views.render(output, document), output.media_type)


def _aggregated(api: Api, request: Request, prefix: Literal["/api", "/apis"]) -> Response | None:
    """The newer dialect, if it is asked for; ``/apis/`` never speaks it."""
    if request.path == "/apis/" or not discovery.wants_aggregated(request.header("accept")):
        return None
    document = discovery.aggregated(api.kinds, prefix)
    tag = discovery.etag(document)
    headers = (("ETag", tag), *discovery.AGGREGATED_HEADERS)
    if request.header("if-none-match") == tag:
        return Response(304, b"", discovery.AGGREGATED_JSON, headers)
    return Response(200, msgspec.json.encode(document), discovery.AGGREGATED_JSON, headers)


def _has_builtin(api: Api, name: str) -> bool:
    group = api.kinds.group(name)
    return group is not None and any(kind.form is None for _, kinds in group.versions for kind in kinds)


def _lost(api: Api, path: str) -> Response:
    """Below a served group an unknown path gets a Status; elsewhere plain text, as from any web server."""
    match path.removeprefix("/").split("/"):
        case ["openapi", "v3", *_]:
            return Response(404, b"", "")
        case ["api", *_] | ["version", _, *_]:
            return views.refuse(status.unknown_path())
        case ["apis", group, *_] if _has_builtin(api, group):
            return views.refuse(status.unknown_path())
        case _:
            return NOT_FOUND
