"""Content negotiation: the media types of the request body and of the response.

``Accept`` selects the encoding (JSON or YAML) and the view (the object, a Table, or its metadata only);
``Content-Type`` selects the decoder. Protobuf is decoded but never sent: requested alone it is refused, requested
beside JSON it is ignored. ``apiserver/registry/responses.py`` builds the views.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from headgate.apimachinery import api_errors

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

# The types in kube-apiserver's texts; the third one is read but not written.
_SUPPORTED: Final = (JSON, YAML, PROTOBUF)
_WRITTEN_TYPES: Final = (JSON, YAML)
_STREAMED: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")

_MALFORMED_PARAMETER: Final = re.compile(r";(?!\s*$)(?!\s*[\w!#$&^.+-]+=)")

View = Literal["object", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]
_VIEWS: Final[dict[str, View]] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}


class Output(msgspec.Struct, frozen=True):
    """The chosen encoding and view; ``version`` is the meta.k8s.io version of a converted view."""

    media_type: str = JSON
    view: View = "object"
    version: str = "v1"
    pretty: bool = False
    error_media_type: str = JSON  # errors are never converted, so their encoding is negotiated separately


class _Clause(msgspec.Struct, frozen=True):
    """One media type of an ``Accept`` header: ``kind/subtype;params;q=quality``."""

    kind: str
    subtype: str
    params: dict[str, str]
    quality: float


def _clauses(header: str) -> list[_Clause]:
    clauses = []
    for text in header.split(","):
        head, *params = text.strip().split(";")
        kind, _, subtype = head.strip().partition("/")
        if kind == "*" and not subtype:
            subtype = "*"
        if not kind or not subtype:
            continue
        values = {}
        for param in params:
            key, _, value = param.strip().partition("=")
            values[key] = value.strip('"')
        try:
            quality = float(values.pop("q", "1"))
        except ValueError:
            quality = 0.0
        clauses.append(_Clause(kind, subtype, values, quality))
    # A specific type comes before a wildcard. The sort is stable: equal clauses stay in the order of the header.
    clauses.sort(key=lambda each: (-each.quality, each.kind == "*", each.subtype == "*"))
    return clauses


def _matches(clause: _Clause, media_type: str) -> bool:
    kind, _, subtype = media_type.partition("/")
    return clause.kind in ("*", kind) and clause.subtype in ("*", subtype)


def choose(accept: str, offered: tuple[str, ...]) -> str | None:
    """The offered type that the client prefers; ``None`` if it accepts none of them. Parameters are ignored."""
    for clause in _clauses(accept):
        for media_type in offered:
            if _matches(clause, media_type):
                return media_type
    return None


def _accept(clause: _Clause, media_type: str, pretty: bool, tables: bool) -> Output | None:
    """The output that the clause requests; None if its parameters are not supported."""
    params = clause.params
    if params.get("stream", "watch") not in ("", "watch") or params.get("sv", "v1") not in ("", "v1"):
        return None
    if not any(key in params for key in ("as", "g", "v")):
        return Output(media_type, pretty=pretty or params.get("pretty") == "1")
    view = _VIEWS.get(params.get("as", ""))
    if (
        view is None
        or (view == "Table" and not tables)
        or params.get("g") != "meta.k8s.io"
        or params.get("v") not in ("v1", "v1beta1")
    ):
        return None
    return Output(media_type, view, params["v"], pretty)


def output(accept: str, *, pretty: bool = False, tables: bool = True) -> Output | api_errors.StatusError:
    """The encoding and view that ``accept`` requests, or a 406 that lists the supported types.

    ``tables``: whether the response may be a Table.
    """
    if not accept:
        return Output(pretty=pretty)
    clauses = _clauses(accept)
    for clause in clauses:
        for media_type in _WRITTEN_TYPES:
            if _matches(clause, media_type) and (chosen := _accept(clause, media_type, pretty, tables)) is not None:
                return msgspec.structs.replace(chosen, error_media_type=_error_media_type(clauses))
    return api_errors.not_acceptable(_SUPPORTED)


def _error_media_type(clauses: list[_Clause]) -> str:
    return _plain_media_type(clauses) or JSON


def _plain_media_type(clauses: list[_Clause]) -> str | None:
    """The first accepted type without a conversion."""
    plain = (clause for clause in clauses if not any(key in clause.params for key in ("as", "g", "v")))
    for clause in plain:
        for media_type in _WRITTEN_TYPES:
            if _matches(clause, media_type):
                return media_type
    return None


def plain_output(accept: str) -> Output | api_errors.StatusError:
    """The output of discovery documents, which cannot be converted."""
    if not accept:
        return Output()
    media_type = _plain_media_type(_clauses(accept))
    return api_errors.not_acceptable(_SUPPORTED) if media_type is None else Output(media_type)


def check_accept(accept: str, *, streams: bool) -> api_errors.StatusError | None:
    """The error if no accepted type is an offered type or ``*/*``. ``streams``: the endpoint also offers watches.

    The router of kube-apiserver does this check before all others, and does not know ``application/*``.
    """
    if not accept:
        return None
    offered = _SUPPORTED + _STREAMED if streams else _SUPPORTED
    accepted = {clause.partition(";")[0].strip() for clause in accept.split(",")}
    if "*/*" in accepted or not accepted.isdisjoint(offered):
        return None
    text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    return api_errors.StatusError(406, "NotAcceptable", text, api_errors.StatusDetails())


def not_streamable() -> api_errors.StatusError:
    """The error for a watch in YAML: a watch is a stream of JSON documents."""
    return api_errors.not_acceptable(_STREAMED)


def wants_pretty(pretty_param: str | None, user_agent: str) -> bool:
    """Whether the response is indented: as the parameter ``pretty`` says; by default only for curl and browsers."""
    if pretty_param:
        return pretty_param in ("1", "t", "T", "true", "TRUE", "True")
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def input_type(content_type: str) -> str | api_errors.StatusError:
    """The type of a request body if it is supported, or a 415. An absent header means JSON."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    if media_type in _SUPPORTED and not _MALFORMED_PARAMETER.search(content_type):
        return media_type
    return api_errors.unsupported_media_type(_SUPPORTED)


def no_protobuf() -> api_errors.StatusError:
    """The error for a custom object in protobuf. (kube-apiserver closes the connection.)"""
    return api_errors.unsupported_media_type(_WRITTEN_TYPES)
