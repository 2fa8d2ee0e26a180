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
    resourceVersion: str = ""  # the wire's name


class _Answered(msgspec.Struct):
    """What an event needs of an answer."""

    kind: str = ""
    metadata: _Identity = msgspec.field(default_factory=_Identity)
    status: Any = None
    message: str = ""
    reason: str = ""


_answered: Final = msgspec.json.Decoder(_Answered)


def is_recorded(request: ServerRequest) -> bool:
    return request.info.is_write


def make_event(
    api: ServerState,
    level: AuditLevel,
    request: ServerRequest,
    caller: AccessResult,
    answer: ServerResponse,
    *,
    audit_id: str,
    received_s: float,
) -> Object:
    about = attributes_of(request.info, caller.user.name)
    if _is_confidential(about):
        level = "Metadata"
    answered = _read(answer)
    event: Object = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "requestURI": (f"{request.path}?{request.query}" if request.query else request.path)[:_MAX_URI],
        "verb": about.verb,
        "user": caller.login.info(),
    }
    if caller.user is not caller.login:
        event["impersonatedUser"] = caller.user.info()
    if request.source:
        event["sourceIPs"] = [request.source]
    if agent := request.header("user-agent"):
        event["userAgent"] = agent
    if about.path is None:
        event["objectRef"] = _reference(about, answered)
    event["responseStatus"] = _status(answer, answered)
    # A body that could not be read as what the path names may be anything, a Secret too.
    if level != "Metadata" and request.body and answer.status != 400:
        event |= _object("requestObject", _document(api, request))
    if level == "RequestResponse":
        event |= _object("responseObject", _json(answer.body) if answer.content_type == negotiation.JSON else None)
    event["requestReceivedTimestamp"] = timestamps.format_micro_time(received_s)
    if answer.status != 401:
        event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if caller.refusal is None else "forbid",
            "authorization.k8s.io/reason": "" if caller.decision is None else caller.decision.reason,
        }
    return event


def _is_confidential(about: AuthorizationAttributes) -> bool:
    if (about.group, about.resource) in _CONFIDENTIAL:
        return True
    return about.resource == "serviceaccounts" and about.subresource == "token"


def _read(answer: ServerResponse) -> _Answered:
    try:
        return _answered.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Answered()


def _reference(about: AuthorizationAttributes, answered: _Answered) -> Object:
    """What was written; of an object that was created, under which name."""
    made = answered.metadata if answered.kind != "Status" else _Identity()
    fields = {
        "resource": about.resource,
        "namespace": about.namespace,
        "name": about.name or made.name,
        "uid": made.uid,
        "apiGroup": about.group,
        "apiVersion": about.version,
        "resourceVersion": made.resourceVersion,
        "subresource": about.subresource,
    }
    return {field: value for field, value in fields.items() if value}


def _status(answer: ServerResponse, answered: _Answered) -> Object:
    told: Object = {"metadata": {}}
    if answered.kind == "Status" and isinstance(answered.status, str):
        pairs = (("status", answered.status), ("message", answered.message), ("reason", answered.reason))
        told |= {field: value for field, value in pairs if value}
    return {**told, "code": answer.status}


def _object(field: str, value: Any) -> Object:
    return {field: value} if isinstance(value, (dict, list)) else {}


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _document(api: ServerState, request: ServerRequest) -> Any:
    """The body as a value, whatever it was written in; nothing if it cannot be read."""
    media_type = request.header("content-type").partition(";")[0].strip().lower()
    if media_type == negotiation.PROTOBUF:
        envelope = protobuf.open_envelope(request.body)
        type_name = "" if isinstance(envelope, str) else api.schemas.kinds.get(GroupVersionKind(*envelope.named), "")
        return None if isinstance(envelope, str) or not type_name else api.messages.decode(type_name, envelope.raw)
    if media_type.endswith("yaml"):
        return codec.decode_yaml(request.body).value
    return _json(request.body)
