"""What the patch of a mutating webhook makes of the object: applied, decoded and defaulted as a body is."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver import bodies, records
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.webhooks.asking import Failure, body_kind, printed
from headgate.apiserver.webhooks.index import Match
from headgate.apiserver.webhooks.review import JSON_PATCH, Verdict
from headgate.apiserver.webhooks.write import Write
from headgate.kube import codec, errors, status
from headgate.kube.patch.go_text import json_word
from headgate.kube.patch.json_patch import apply_json_patch
from headgate.kube.patch.result import PatchProblem

Object = dict[str, Any]


class Mutated(msgspec.Struct, frozen=True):
    obj: Object | None
    changed: bool = False


def mutated(
    call: Call, write: Write, match: Match, new: Object | None, verdict: Verdict
) -> Mutated | Failure | status.ApiError:
    """``new`` (``None`` when an object is deleted) as this webhook leaves it."""
    if not verdict.patch:
        return Mutated(new)
    operations = _operations(verdict.patch)
    if isinstance(operations, str):
        return Failure(f"received undecodable patch in webhook response: {operations}")
    if not operations:
        return Mutated(new)
    if new is None:
        text = "attempted to modify the object, which is not supported for this operation"
        return status.internal_error(f"admission webhook {errors.quote(match.hook.name)} {text}")
    if verdict.patch_type != JSON_PATCH:
        return Failure(f"unsupported patch type {errors.quote(verdict.patch_type)}")
    return _applied(call, write, match.view, new, operations)


def _operations(patch: bytes) -> list[Any] | str:
    parsed = codec.decode_json(patch)
    if parsed.error is not None:
        return parsed.error
    if parsed.value is None:
        return []
    if not isinstance(parsed.value, list):
        return f"json: cannot unmarshal {json_word(parsed.value)} into Go value of type jsonpatch.Patch"
    return parsed.value


def _applied(call: Call, write: Write, view: Kind, new: Object, operations: list[Any]) -> Mutated | status.ApiError:
    before = printed(call, write, view, new)
    patched = apply_json_patch(before, operations, checked=False)
    if isinstance(patched, PatchProblem):
        return status.internal_error(patched.why or patched.message)
    body = body_kind(call, view, write.subresource)
    misnamed = bodies.type_problem(call, body.gvk, patched.value)
    if misnamed is not None:
        known = misnamed.startswith("converting ")
        return status.unknown_error(misnamed) if known else status.internal_error(misnamed)
    form = call.api.form(body)
    decoded = form.decode(patched.value)
    if decoded.error is not None:
        return status.internal_error(decoded.error)
    obj = decoded.obj
    obj.setdefault("metadata", {})
    changed = records.tidy(call.api, body, obj) != before
    form.default(obj)
    return Mutated(records.moved(view, write.kind, obj) if body is view else obj, changed)
