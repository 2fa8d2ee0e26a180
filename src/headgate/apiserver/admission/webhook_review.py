"""The AdmissionReview: the request to a webhook, and its response.

``v1`` and ``v1beta1`` have the same fields. A ``v1beta1`` response need not repeat the uid of the review nor name the
type of its patch. Error texts are those of kube-apiserver. ``apiserver/webhooks/call_errors.py`` reads the HTTP
response; ``webhook_dispatch.py`` decides what it does to the write.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.codec import codec
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import request_bodies
from headgate.apiserver.webhooks.configuration import REVIEW_VERSIONS
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite
from headgate.kube import field_errors
from headgate.kube.schema import Field, GroupVersionKind, Schemas, Type, TypeDef

Object = dict[str, Any]

JSON_PATCH: Final = "JSONPatch"

_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"
_LOWEST_REFUSAL: Final = 400
_HIGHEST_REFUSAL: Final = 599

_encoder: Final = msgspec.json.Encoder()

_STRING: Final = Type("string")
_RESPONSE_SCHEMAS: Final = Schemas(
    (
        TypeDef("AdmissionReview", (Field("response", Type("struct", ref="AdmissionResponse"), pointer=True),)),
        TypeDef(
            "AdmissionResponse",
            (
                Field("uid", Type("string", go="types.UID")),
                Field("allowed", Type("bool")),
                Field("status", Type("struct", ref="Status"), pointer=True),
                Field("patch", Type("bytes")),
                Field("patchType", Type("string", go="v1.PatchType"), pointer=True),
                Field("auditAnnotations", Type("map", items=_STRING)),
                Field("warnings", Type("list", items=_STRING)),
            ),
        ),
        TypeDef(
            "Status",
            (
                Field("status", _STRING),
                Field("message", _STRING),
                Field("reason", Type("string", go="v1.StatusReason")),
                Field("details", Type("struct", ref="StatusDetails"), pointer=True),
                Field("code", Type("int32")),
            ),
        ),
        TypeDef(
            "StatusDetails",
            (
                Field("name", _STRING),
                Field("group", _STRING),
                Field("kind", _STRING),
                Field("uid", Type("string", go="types.UID")),
                Field("causes", Type("list", items=Type("struct", ref="StatusCause"))),
                Field("retryAfterSeconds", Type("int32")),
            ),
        ),
        TypeDef(
            "StatusCause",
            (Field("reason", Type("string", go="v1.CauseType")), Field("message", _STRING), Field("field", _STRING)),
        ),
    ),
    {GroupVersionKind(_GROUP, version, _KIND): _KIND for version in REVIEW_VERSIONS},
)


class ReviewResult(msgspec.Struct, frozen=True):
    """``refusal`` is ``None`` if the webhook allows the write; ``patch`` are the bytes of its patch, if it has one."""

    refusal: api_errors.StatusError | None = None
    patch: bytes = b""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


def make_review(
    version: str,
    uid: str,
    write: ReviewedWrite,
    kind: ServedKind,
    body: ServedKind,
    new: Object | None,
    old: Object | None,
) -> bytes:
    """``kind``: the kind of the webhook's rule. ``body``: the kind of ``new`` and ``old``, such as Scale."""
    sub = write.kind.subresource(write.subresource) if write.subresource else None
    request: Object = {
        "uid": uid,
        "kind": _kind(body.gvk),
        "resource": _resource(kind),
        "requestKind": _kind(write.kind.gvk if sub is None else sub.gvk),
        "requestResource": _resource(write.kind),
    }
    if write.subresource:
        request["subResource"] = request["requestSubResource"] = write.subresource
    if write.name:
        request["name"] = write.name
    if write.namespace:
        request["namespace"] = write.namespace
    request |= {
        "operation": write.operation,
        "userInfo": write.user.info(),
        "object": new,
        "oldObject": old,
        "dryRun": write.dry_run,
        "options": write.options,
    }
    return _encoder.encode({"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request})


def _kind(gvk: GroupVersionKind) -> Object:
    return {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}


def _resource(kind: ServedKind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def decode_review(version: str, body: bytes) -> Object | str:
    """The AdmissionReview of the response body; a ``str`` says why the body is invalid."""
    parsed = codec.decode_json(body)
    named = codec.interpret(parsed)
    if isinstance(named, str):
        return named
    expected = GroupVersionKind(_GROUP, version, _KIND)
    group, named_version = (named.group, named.version) if named.version else (_GROUP, version)
    actual = GroupVersionKind(group, named_version, named.kind or _KIND)
    if actual not in _RESPONSE_SCHEMAS.kinds:
        return request_bodies.unregistered(actual)
    if actual != expected:
        return f"converting ({actual.version}.{_KIND}) to ({version}.{_KIND}): unknown conversion"
    decoded = codec.convert(_RESPONSE_SCHEMAS, _KIND, parsed.value)
    if decoded.error is not None:
        return decoded.error
    return {**decoded.obj, "kind": named.kind, "group": named.group, "version": named.version}


def review_result(review: Object, version: str, uid: str, hook: str, *, mutating: bool) -> ReviewResult | str:
    """The result of the webhook ``hook``; a ``str`` says why its response is invalid."""
    response: Object | None = review.get("response")
    if response is None:
        return "webhook response was absent"
    patch = base64.b64decode(response.get("patch", ""))
    patch_type: str | None = response.get("patchType")
    if version == "v1":
        problem = _identity_problem(review, response, uid) or _patch_problem(patch, patch_type, mutating)
        if problem:
            return problem
    elif patch and mutating:
        patch_type = JSON_PATCH
    return ReviewResult(
        refusal=None if response.get("allowed") else _refusal(hook, response.get("status") or {}),
        patch=patch if mutating else b"",
        patch_type=patch_type or "",
        warnings=tuple(response.get("warnings") or ()),
    )


def _identity_problem(review: Object, response: Object, uid: str) -> str:
    if response.get("uid", "") != uid:
        return f"expected response.uid={field_errors.quote(uid)}, got {field_errors.quote(response.get('uid', ''))}"
    named = (review["group"], review["version"], review["kind"])
    if named != (_GROUP, "v1", _KIND):
        group, version, kind = named
        return f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {group}/{version}, Kind={kind}"
    return ""


def _patch_problem(patch: bytes, patch_type: str | None, mutating: bool) -> str:
    """A patch needs a type, a type needs a patch, and only a mutating webhook may send them."""
    if not mutating:
        if patch:
            return "validating webhook may not return response.patch"
        return "" if patch_type is None else "validating webhook may not return response.patchType"
    if patch and patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not patch and patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if patch_type == "" else ""


def _refusal(hook: str, status: Object) -> api_errors.StatusError:
    denied = f"admission webhook {field_errors.quote(hook)} denied the request"
    explanation = status.get("message") or status.get("reason")
    details = status.get("details")
    code = max(status.get("code", 0), _LOWEST_REFUSAL)
    return api_errors.StatusError(
        code if code <= _HIGHEST_REFUSAL else 500,
        status.get("reason", ""),
        f"{denied}: {explanation}" if explanation else f"{denied} without explanation",
        None if details is None else _details(details),
    )


def _details(details: Object) -> api_errors.StatusDetails:
    return api_errors.StatusDetails(
        name=details.get("name", ""),
        group=details.get("group", ""),
        kind=details.get("kind", ""),
        uid=details.get("uid", ""),
        causes=tuple(api_errors.StatusCause(**cause) for cause in details.get("causes") or ()),
        retry_after_s=details.get("retryAfterSeconds", 0),
    )
