"""PATCH: JSON patch, merge patch, strategic merge patch, and server-side apply.

The first three make a new object from the stored one and continue like an update. Apply merges the configurations of
all managers (``apimachinery/apply/``), and creates the object if it does not exist. The patch algorithms are in
``apimachinery/patch/``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import ApplyResult, apply_config, not_convertible
from headgate.apimachinery.codec import codec
from headgate.apimachinery.codec.scalars import json_kind
from headgate.apimachinery.patch.go_text import go_text
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.merge_patch import apply_merge_patch
from headgate.apimachinery.patch.result import PatchError, PatchResult
from headgate.apimachinery.patch.strategic_merge_patch import apply_strategic
from headgate.apimachinery.strategy import UpdateRules
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.verbs import updating, writing
from headgate.kube import field_errors
from headgate.kube.serializer.json_decoder import TOO_MANY_NODES

Object = dict[str, Any]
Maker = Callable[["Object | None"], "Object | api_errors.StatusError"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_CUSTOM_PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


def patch(call: Call) -> Generator[Effect, Any, ServerResponse]:
    wanted = read_options(call)
    if isinstance(wanted, api_errors.StatusError):
        return responses.refused(call, wanted)
    rules = updating.rules_of(call)
    make = maker(call, call.kind, wanted, rules)

    def transform(old: Object | None) -> admission_chain.AdmitSteps:
        made = make(old)
        return made if isinstance(made, api_errors.StatusError) else (yield from updating.admit(call, made, old))

    written = yield from writing.update(
        call,
        transform,
        rules,
        dry_run=wanted.dry_run,
        allow_create=wanted.how == APPLY_PATCH and not call.info.subresource,
    )
    if isinstance(written, api_errors.StatusError):
        return responses.refused(call, written)
    return responses.written_answer(call, 201 if written.created else 200, written.obj, written.item)


class PatchOptions(options.WriteOptions, frozen=True, kw_only=True):
    how: str


def read_options(call: Call) -> PatchOptions | api_errors.StatusError:
    """Case and parameters are as strict here as in the real server: an exact match of what stands before ``;``."""
    how = call.request.header("content-type").partition(";")[0]
    if call.kind.scheme is not None and how not in _CUSTOM_PATCH_TYPES:
        return api_errors.unsupported_media_type(_CUSTOM_PATCH_TYPES)
    if how not in PATCH_TYPES:
        return api_errors.unsupported_patch_type()
    wanted = options.write_options(call.query, "PatchOptions", apply=how == APPLY_PATCH)
    if isinstance(wanted, api_errors.StatusError):
        return wanted
    return PatchOptions(wanted.dry_run, wanted.field_manager, wanted.field_validation, wanted.force, how=how)


def maker(call: Call, kind: ServedKind, wanted: PatchOptions, rules: UpdateRules) -> Maker:
    """From the old object of ``kind`` to the new one, tracked; the identity of the result is checked."""
    make = _applied if wanted.how == APPLY_PATCH else _patched

    def made(old: Object | None) -> Object | api_errors.StatusError:
        new = make(call, kind, wanted, rules, old)
        if isinstance(new, api_errors.StatusError):
            return new
        return _check_identity(call, new, old) or new

    return made


def _check_identity(call: Call, new: Object, old: Object | None) -> api_errors.StatusError | None:
    metadata = new["metadata"]
    if old is None and metadata.get("uid"):
        text = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
        return api_errors.conflict(call.resource, call.info.name, text)
    return writing.match_namespace(call.namespace, metadata) or updating.check_name(call, metadata)


def _patched(
    call: Call, kind: ServedKind, wanted: PatchOptions, rules: UpdateRules, old: Object | None
) -> Object | api_errors.StatusError:
    if old is None:
        return api_errors.not_found(call.resource, call.info.name)
    parsed = codec.decode_json(call.request.body)
    if parsed.error == TOO_MANY_NODES:
        return api_errors.entity_too_large(parsed.error)
    if parsed.error is not None:
        text = parsed.error if wanted.how == STRATEGIC_PATCH else f"error decoding patch: {parsed.error}"
        return api_errors.bad_request(text)
    result = _run(call, kind, wanted, old, parsed.value)
    if isinstance(result, PatchError):
        return result.error
    new = _typed(call, kind, wanted, parsed.value, result.value, (*result.strict_errors, *parsed.duplicates))
    if isinstance(new, api_errors.StatusError):
        return new
    return updating.track(call, new, old, rules, wanted.field_manager, kind)


def _run(call: Call, kind: ServedKind, wanted: PatchOptions, old: Object, patch: Any) -> PatchResult | PatchError:
    if wanted.how == JSON_PATCH:
        return apply_json_patch(old, patch, checked=wanted.field_validation != "Ignore")
    if wanted.how == MERGE_PATCH:
        return apply_merge_patch(old, patch, checked=wanted.field_validation != "Ignore")
    return apply_strategic(call.api.schemas, kind.type_name, old, patch)


def _typed(
    call: Call, kind: ServedKind, wanted: PatchOptions, patch: Any, patched: Any, duplicates: Sequence[str]
) -> Object | api_errors.StatusError:
    """What came out of the patch must still be an object of the kind; what the kind does not know is dropped."""
    strict_type = wanted.how != STRATEGIC_PATCH and not call.api.scheme_of(kind).custom
    if strict_type and (problem := request_bodies.type_problem(call, kind.gvk, patched)):
        return _unfit(patched, problem)
    decoded = call.api.scheme_of(kind).decode(patched)
    if decoded.error is not None:
        return _unfit(_go_text(patch) if wanted.how == STRATEGIC_PATCH else patched, decoded.error)
    strict = [*duplicates, *_ordered(call, kind, wanted.how, patched, decoded.strict_errors)]
    if strict and wanted.field_validation == "Strict":
        shown = _go_text(patch) if wanted.how == STRATEGIC_PATCH else patched
        return _unfit(shown, "strict decoding error: " + ", ".join(strict))
    if wanted.field_validation == "Warn":
        call.warn(*strict)
    request_bodies.complete(call.api.scheme_of(kind), decoded.obj)
    request_bodies.keep_reset(patched, decoded.obj)
    return decoded.obj


def _ordered(call: Call, kind: ServedKind, how: str, patched: Any, unknown: list[str]) -> list[str]:
    """Unknown fields in the real server's order: by text, or as they stand in the document that it decodes."""
    if not unknown or how == JSON_PATCH:
        return unknown
    if how == STRATEGIC_PATCH:
        return sorted(unknown)
    # A merge patch sorts all that it brings along; nothing else can be unknown.
    return call.api.scheme_of(kind).decode(_sorted(patched)).strict_errors


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _go_text(patch: Any) -> str:
    return go_text(_without_replace(patch))


def _without_replace(patch: Any) -> Any:
    """Merging takes this directive off the patch itself, so it is gone when the patch is shown."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    return {key: _without_replace(value) for key, value in patch.items()}


def _unfit(patched: Any, problem: str) -> api_errors.StatusError:
    """The real server shows the whole document, whose outermost fields its patch library has sorted."""
    match patched:
        case str():
            shown = patched
        case dict():
            shown = stored_objects.text(dict(sorted(patched.items())))
        case _:
            shown = stored_objects.text(patched)
    return api_errors.invalid(api_errors.GroupResource("", ""), "", [field_errors.invalid("patch", shown, problem)])


def _applied(
    call: Call, kind: ServedKind, wanted: PatchOptions, rules: UpdateRules, old: Object | None
) -> Object | api_errors.StatusError:
    parsed = codec.decode_yaml(call.request.body)
    if parsed.error == TOO_MANY_NODES:
        return api_errors.entity_too_large(parsed.error)
    if parsed.error is not None:
        return api_errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {parsed.error}")
    if parsed.value is not None and not isinstance(parsed.value, dict):
        problem = f"json: cannot unmarshal {json_kind(parsed.value)} into Go value of type map[string]interface {{}}"
        prefix = "error decoding YAML: error unmarshaling JSON: while decoding JSON"
        return api_errors.bad_request(f"{prefix}: {problem}")
    config: Object = parsed.value or {}
    result = apply_config(
        call.api.scheme_of(kind).typed,
        old,
        config,
        manager=wanted.field_manager,
        api_version=kind.api_version,
        subresource=call.info.subresource,
        force=bool(wanted.force),
        now=call.now,
        reset=rules.reset_fields,
        convert=stored_objects.converter(call.api, kind),
    )
    if not isinstance(result, ApplyResult):
        return result.error
    if parsed.duplicates and wanted.field_validation == "Strict":
        lines = "".join(f"\n  {line}" for line in parsed.duplicates)
        prefix = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:"
        return api_errors.bad_request(prefix + lines)
    if wanted.field_validation == "Warn":
        call.warn(*parsed.duplicates)
    decoded = call.api.scheme_of(kind).decode(result.obj)
    if decoded.error is not None:
        return not_convertible(config, decoded.error).error
    form = call.api.scheme_of(kind)
    request_bodies.complete(form, decoded.obj)
    return form.normalize(stored_objects.canonical(call.api, kind, decoded.obj))
