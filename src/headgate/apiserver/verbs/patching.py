"""PATCH: JSON patch, merge patch, strategic merge patch, and server-side apply.

The first three make a new object from the stored one and continue like an update. Apply merges the configurations of
all field managers (``apimachinery/apply/``), and creates the object if it does not exist. The patch algorithms are in
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
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import updating, writing
from headgate.kube import field_errors
from headgate.kube.serializer.json_decoder import TOO_MANY_JSON_VALUES

Object = dict[str, Any]
MakeObject = Callable[["Object | None"], "Object | api_errors.StatusError"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_CUSTOM_RESOURCE_PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


def patch(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    patch_options = read_options(call)
    if isinstance(patch_options, api_errors.StatusError):
        return responses.refused(call, patch_options)
    rules = updating.rules_of(call)
    make = object_maker(call, call.kind, patch_options, rules)

    def transform(old: Object | None) -> admission_chain.AdmitSteps:
        new = make(old)
        return new if isinstance(new, api_errors.StatusError) else (yield from updating.admit(call, new, old))

    written = yield from writing.update(
        call,
        transform,
        rules,
        dry_run=patch_options.dry_run,
        allow_create=patch_options.patch_type == APPLY_PATCH and not call.info.subresource,
    )
    if isinstance(written, api_errors.StatusError):
        return responses.refused(call, written)
    return responses.written_response(call, 201 if written.created else 200, written.obj, written.item)


class PatchOptions(options.WriteOptions, frozen=True, kw_only=True):
    patch_type: str


def read_options(call: RequestContext) -> PatchOptions | api_errors.StatusError:
    """Reads the query options and the patch type. As in kube-apiserver, parameters of the media type are ignored; the
    rest must be equal, including case and spaces."""
    patch_type = call.request.header("content-type").partition(";")[0]
    if call.kind.is_custom_resource and patch_type not in _CUSTOM_RESOURCE_PATCH_TYPES:
        return api_errors.unsupported_media_type(_CUSTOM_RESOURCE_PATCH_TYPES)
    if patch_type not in PATCH_TYPES:
        return api_errors.unsupported_patch_type()
    write_options = options.write_options(call.query, "PatchOptions", apply=patch_type == APPLY_PATCH)
    if isinstance(write_options, api_errors.StatusError):
        return write_options
    return PatchOptions(
        write_options.dry_run,
        write_options.field_manager,
        write_options.field_validation,
        write_options.force,
        patch_type=patch_type,
    )


def object_maker(call: RequestContext, kind: ServedKind, patch_options: PatchOptions, rules: UpdateRules) -> MakeObject:
    """A function that applies the patch of the request to an object of ``kind``.

    It also records the managed fields, and refuses a patch that changes the name or the namespace.
    """
    make = _apply if patch_options.patch_type == APPLY_PATCH else _patch

    def make_object(old: Object | None) -> Object | api_errors.StatusError:
        new = make(call, kind, patch_options, rules, old)
        if isinstance(new, api_errors.StatusError):
            return new
        return _check_identity(call, new, old) or new

    return make_object


def _check_identity(call: RequestContext, new: Object, old: Object | None) -> api_errors.StatusError | None:
    metadata = new["metadata"]
    if old is None and metadata.get("uid"):
        text = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
        return api_errors.conflict(call.resource, call.info.name, text)
    return writing.match_namespace(call.namespace, metadata) or updating.name_mismatch(call, metadata)


def _patch(
    call: RequestContext, kind: ServedKind, patch_options: PatchOptions, rules: UpdateRules, old: Object | None
) -> Object | api_errors.StatusError:
    if old is None:
        return api_errors.not_found(call.resource, call.info.name)
    parsed = codec.decode_json(call.request.body)
    if parsed.error == TOO_MANY_JSON_VALUES:
        return api_errors.entity_too_large(parsed.error)
    if parsed.error is not None:
        text = parsed.error if patch_options.patch_type == STRATEGIC_PATCH else f"error decoding patch: {parsed.error}"
        return api_errors.bad_request(text)
    result = _run_patch(call, kind, patch_options, old, parsed.value)
    if isinstance(result, PatchError):
        return result.error
    new = _decode_patched(
        call, kind, patch_options, parsed.value, result.value, (*result.strict_errors, *parsed.duplicate_errors)
    )
    if isinstance(new, api_errors.StatusError):
        return new
    return updating.record_managed_fields(call, new, old, rules, patch_options.field_manager, kind)


def _run_patch(
    call: RequestContext, kind: ServedKind, patch_options: PatchOptions, old: Object, patch: Any
) -> PatchResult | PatchError:
    if patch_options.patch_type == JSON_PATCH:
        return apply_json_patch(old, patch, strict_decoding=patch_options.field_validation != "Ignore")
    if patch_options.patch_type == MERGE_PATCH:
        return apply_merge_patch(old, patch, strict_decoding=patch_options.field_validation != "Ignore")
    return apply_strategic(call.api.schemas, kind.type_name, old, patch)


def _decode_patched(
    call: RequestContext,
    kind: ServedKind,
    patch_options: PatchOptions,
    patch: Any,
    patched: Any,
    patch_errors: Sequence[str],
) -> Object | api_errors.StatusError:
    """The patched value as an object of the kind, without unknown fields.

    ``patch_errors``: messages about duplicate and unknown fields of the patch itself. These, and messages about unknown
    fields of the patched value, are an error or a warning, as ``fieldValidation`` says.
    """
    checks_type = patch_options.patch_type != STRATEGIC_PATCH and not kind.is_custom_resource
    if checks_type and (problem := request_bodies.type_problem(call, kind.gvk, patched)):
        return _invalid_patch(patched, problem)
    decoded = call.api.scheme_of(kind).decode(patched)
    if decoded.error is not None:
        return _invalid_patch(
            _go_text(patch) if patch_options.patch_type == STRATEGIC_PATCH else patched, decoded.error
        )
    problems = [*patch_errors, *_unknown_in_order(call, kind, patch_options.patch_type, patched, decoded.strict_errors)]
    if problems and patch_options.field_validation == "Strict":
        shown = _go_text(patch) if patch_options.patch_type == STRATEGIC_PATCH else patched
        return _invalid_patch(shown, "strict decoding error: " + ", ".join(problems))
    if patch_options.field_validation == "Warn":
        call.warn(*problems)
    request_bodies.set_defaults(call.api.scheme_of(kind), decoded.obj)
    request_bodies.keep_empty_managed_fields(patched, decoded.obj)
    return decoded.obj


def _unknown_in_order(
    call: RequestContext, kind: ServedKind, patch_type: str, patched: Any, unknown: list[str]
) -> list[str]:
    """The errors for unknown fields in kube-apiserver's order, which depends on the patch type."""
    if not unknown or patch_type == JSON_PATCH:
        return unknown
    if patch_type == STRATEGIC_PATCH:
        return sorted(unknown)
    # kube-apiserver sorts the fields of a merge patch. Only the patch can contain unknown fields, because the stored
    # object has none.
    return call.api.scheme_of(kind).decode(_with_sorted_keys(patched)).strict_errors


def _with_sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_sorted_keys(value[key]) for key in sorted(value)}
    return [_with_sorted_keys(each) for each in value] if isinstance(value, list) else value


def _go_text(patch: Any) -> str:
    """The patch as Go prints a map (``map[a:1 b:2]``). Error texts show it in this form."""
    return go_text(_without_replace(patch))


def _without_replace(patch: Any) -> Any:
    """The patch without ``$patch: replace``: the merge removes this directive, so error texts do not show it."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    return {key: _without_replace(value) for key, value in patch.items()}


def _invalid_patch(patched: Any, problem: str) -> api_errors.StatusError:
    """The error for a patch with an invalid result. As in kube-apiserver, it shows the whole patched object, with
    sorted top-level fields; a text is shown as it is."""
    match patched:
        case str():
            shown = patched
        case dict():
            shown = stored_objects.json_text(dict(sorted(patched.items())))
        case _:
            shown = stored_objects.json_text(patched)
    return api_errors.invalid(api_errors.GroupResource("", ""), "", [field_errors.invalid("patch", shown, problem)])


def _apply(
    call: RequestContext, kind: ServedKind, patch_options: PatchOptions, rules: UpdateRules, old: Object | None
) -> Object | api_errors.StatusError:
    parsed = codec.decode_yaml(call.request.body)
    if parsed.error == TOO_MANY_JSON_VALUES:
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
        manager=patch_options.field_manager,
        api_version=kind.api_version,
        subresource=call.info.subresource,
        force=bool(patch_options.force),
        now=call.now,
        reset=rules.reset_fields,
        convert=stored_objects.converter(call.api, kind),
    )
    if not isinstance(result, ApplyResult):
        return result.error
    if parsed.duplicate_errors and patch_options.field_validation == "Strict":
        lines = "".join(f"\n  {line}" for line in parsed.duplicate_errors)
        prefix = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:"
        return api_errors.bad_request(prefix + lines)
    if patch_options.field_validation == "Warn":
        call.warn(*parsed.duplicate_errors)
    decoded = call.api.scheme_of(kind).decode(result.obj)
    if decoded.error is not None:
        return not_convertible(config, decoded.error).error
    scheme = call.api.scheme_of(kind)
    request_bodies.set_defaults(scheme, decoded.obj)
    return scheme.drop_fields_not_stored(stored_objects.wire_form(call.api, kind, decoded.obj))
