"""One write as an audit event of ``audit.k8s.io/v1``.

Reads are not recorded. The content of Secrets, and tokens that are requested or reviewed, are never recorded, at any
level. ``apiserver/io/audit_log.py`` adds the time of the response and writes the event.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery import protobuf
from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apimachinery.codec import codec
from headgate.apiserver.access_control import AccessResult
from headgate.apiserver.authz.attributes import attributes_of
from headgate.apiserver.request import negotiation
from headgate.apiserver.request.messages import AuditLevel, ServerRequest, ServerResponse
from headgate.apiserver.state import ServerState
from headgate.kube import timestamps
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

_CONFIDENTIAL: Final = frozenset({("", "secrets"), ("authentication.k8s.io", "tokenreviews")})
_MAX_URI: Final = 8192


class _Identity(msgspec.Struct):
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""  # the name of the field in JSON


class _ResponseFields(msgspec.Struct):
    """The fields of a response that an event needs."""

    kind: str = ""
    metadata: _Identity = msgspec.field(default_factory=_Identity)
    status: Any = None
    message: str = ""
    reason: str = ""


_decoder: Final = msgspec.json.Decoder(_ResponseFields)


def is_recorded(request: ServerRequest) -> bool:
    return request.info.is_write


def make_event(
    api: ServerState,
    level: AuditLevel,
    request: ServerRequest,
    access: AccessResult,
    response: ServerResponse,
    *,
    audit_id: str,
    received_s: float,
) -> Object:
    attributes = attributes_of(request.info, access.user.name)
    if _is_confidential(attributes):
        level = "Metadata"
    decoded = _read(response)
    event: Object = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "requestURI": (f"{request.path}?{request.query}" if request.query else request.path)[:_MAX_URI],
        "verb": attributes.verb,
        "user": access.login.info(),
    }
    if access.user is not access.login:
        event["impersonatedUser"] = access.user.info()
    if request.source:
        event["sourceIPs"] = [request.source]
    if agent := request.header("user-agent"):
        event["userAgent"] = agent
    if attributes.path is None:
        event["objectRef"] = _reference(attributes, decoded)
    event["responseStatus"] = _status(response, decoded)
    # With status 400 the body may not have been decoded. It is not recorded, because it may contain a Secret.
    if level != "Metadata" and request.body and response.status != 400:
        event |= _object("requestObject", _document(api, request))
    if level == "RequestResponse":
        event |= _object("responseObject", _json(response.body) if response.content_type == negotiation.JSON else None)
    event["requestReceivedTimestamp"] = timestamps.format_micro_time(received_s)
    if response.status != 401:
        event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if access.refusal is None else "forbid",
            "authorization.k8s.io/reason": "" if access.decision is None else access.decision.reason,
        }
    return event


def _is_confidential(attributes: AuthorizationAttributes) -> bool:
    if (attributes.group, attributes.resource) in _CONFIDENTIAL:
        return True
    return attributes.resource == "serviceaccounts" and attributes.subresource == "token"


def _read(response: ServerResponse) -> _ResponseFields:
    try:
        return _decoder.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _ResponseFields()


def _reference(attributes: AuthorizationAttributes, decoded: _ResponseFields) -> Object:
    """The reference to the object; the name of a created object is in the response."""
    identity = decoded.metadata if decoded.kind != "Status" else _Identity()
    fields = {
        "resource": attributes.resource,
        "namespace": attributes.namespace,
        "name": attributes.name or identity.name,
        "uid": identity.uid,
        "apiGroup": attributes.group,
        "apiVersion": attributes.version,
        "resourceVersion": identity.resourceVersion,
        "subresource": attributes.subresource,
    }
    return {field: value for field, value in fields.items() if value}


def _status(response: ServerResponse, decoded: _ResponseFields) -> Object:
    status: Object = {"metadata": {}}
    if decoded.kind == "Status" and isinstance(decoded.status, str):
        pairs = (("status", decoded.status), ("message", decoded.message), ("reason", decoded.reason))
        status |= {field: value for field, value in pairs if value}
    return {**status, "code": response.status}


def _object(field: str, value: Any) -> Object:
    return {field: value} if isinstance(value, (dict, list)) else {}


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _document(api: ServerState, request: ServerRequest) -> Any:
    """The decoded body, from any supported format; None if it is invalid."""
    media_type = request.header("content-type").partition(";")[0].strip().lower()
    if media_type == negotiation.PROTOBUF:
        envelope = protobuf.open_envelope(request.body)
        type_name = (
            "" if isinstance(envelope, str) else api.schemas.kinds.get(GroupVersionKind(*envelope.type_meta), "")
        )
        return None if isinstance(envelope, str) or not type_name else api.messages.decode(type_name, envelope.raw)
    if media_type.endswith("yaml"):
        return codec.decode_yaml(request.body).value
    return _json(request.body)
