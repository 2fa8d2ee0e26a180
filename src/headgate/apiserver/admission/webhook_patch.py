"""Applies the patch of a mutating webhook: the result is decoded and defaulted like a request body."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.codec import codec
from headgate.apimachinery.patch.go_text import json_type_name
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchError
from headgate.apiserver.admission.webhook_request import WebhookFailure, body_kind, webhook_object
from headgate.apiserver.admission.webhook_review import JSON_PATCH, ReviewResult
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import request_bodies, stored_objects
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.webhooks.index import WebhookMatch
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite
from headgate.kube import field_errors

Object = dict[str, Any]


class WebhookPatchResult(msgspec.Struct, frozen=True):
    obj: Object | None
    changed: bool = False


def apply_webhook_patch(
    call: RequestContext, write: ReviewedWrite, match: WebhookMatch, new: Object | None, result: ReviewResult
) -> WebhookPatchResult | WebhookFailure | api_errors.StatusError:
    """``new`` (``None`` for a delete) with the patch of this webhook."""
    if not result.patch:
        return WebhookPatchResult(new)
    operations = _operations(result.patch)
    if isinstance(operations, str):
        return WebhookFailure(f"received undecodable patch in webhook response: {operations}")
    if not operations:
        return WebhookPatchResult(new)
    if new is None:
        text = "attempted to modify the object, which is not supported for this operation"
        return api_errors.internal_error(f"admission webhook {field_errors.quote(match.hook.name)} {text}")
    if result.patch_type != JSON_PATCH:
        return WebhookFailure(f"unsupported patch type {field_errors.quote(result.patch_type)}")
    return _apply(call, write, match.kind, new, operations)


def _operations(patch: bytes) -> list[Any] | str:
    parsed = codec.decode_json(patch)
    if parsed.error is not None:
        return parsed.error
    if parsed.value is None:
        return []
    if not isinstance(parsed.value, list):
        return f"json: cannot unmarshal {json_type_name(parsed.value)} into Go value of type jsonpatch.Patch"
    return parsed.value


def _apply(
    call: RequestContext, write: ReviewedWrite, kind: ServedKind, new: Object, operations: list[Any]
) -> WebhookPatchResult | api_errors.StatusError:
    before = webhook_object(call, write, kind, new)
    patched = apply_json_patch(before, operations, strict_decoding=False)
    if isinstance(patched, PatchError):
        return api_errors.internal_error(patched.detail or patched.message)
    body = body_kind(call, kind, write.subresource)
    type_problem = request_bodies.type_problem(call, body.gvk, patched.value)
    if type_problem is not None:
        known = type_problem.startswith("converting ")
        return api_errors.unknown_error(type_problem) if known else api_errors.internal_error(type_problem)
    scheme = call.api.scheme_of(body)
    decoded = scheme.decode(patched.value)
    if decoded.error is not None:
        return api_errors.internal_error(decoded.error)
    obj = decoded.obj
    obj.setdefault("metadata", {})
    changed = stored_objects.wire_form(call.api, body, obj) != before
    scheme.default(obj)
    return WebhookPatchResult(stored_objects.converted(kind, write.kind, obj) if body is kind else obj, changed)
