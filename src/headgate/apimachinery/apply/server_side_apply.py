"""Server-side apply: makes an object from the configurations of its managers.

:func:`apply_config` merges a configuration into the live object, removes the fields that its manager applied before and
does not apply now, and returns a conflict if the configuration changes fields of other managers. The steps are in
``merge.py``, ``remove.py`` and ``conflicts.py``; ``last_applied.py`` handles client-side apply of ``kubectl``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apimachinery.api_errors import StatusError, bad_request
from headgate.apimachinery.apply import last_applied
from headgate.apimachinery.apply.compare import json_equal
from headgate.apimachinery.apply.conflicts import Conflict, conflict_error, contested_fields
from headgate.apimachinery.apply.field_sets import (
    FieldNames,
    FieldSet,
    difference,
    difference_below,
    from_names,
    has,
    in_wire_order,
    union,
)
from headgate.apimachinery.apply.managed_fields import (
    APPLY,
    UPDATE,
    ManagerIdentity,
    Managers,
    VersionedFieldSet,
    identify,
    read_entries,
)
from headgate.apimachinery.apply.manager_names import describe, format_kind, stated_kind
from headgate.apimachinery.apply.merge import merge
from headgate.apimachinery.apply.merge_schema import ParseableType
from headgate.apimachinery.apply.owned_fields import owned_fields
from headgate.apimachinery.apply.remove import add_back_dangling_items, add_back_owned_items, remove_previously_owned
from headgate.apimachinery.apply.update import (
    NEVER_OWNED,
    empty_object,
    reconcile_managers,
    record_update,
    release_changed_fields,
    with_entries,
)
from headgate.apimachinery.apply.validate import schema_errors
from headgate.apimachinery.apply.version_converter import (
    Convert,
    InconvertibleObject,
    Object,
    VersionConverter,
    VersionedComparison,
)

_PRUNE_ERROR = "failed to prune fields: failed to convert merged object to last applied version"
BEFORE_FIRST_APPLY = "before-first-apply"


class ApplyResult(msgspec.Struct, frozen=True):
    """``obj`` shares nothing with the live object or the configuration.

    It is not decoded yet: values are as in the configuration, with nulls. ``unchanged``: ``obj`` is the live object,
    except that ``managedFields`` may differ.
    """

    obj: Object
    unchanged: bool


class ApplyError(msgspec.Struct, frozen=True):
    error: StatusError


class _Apply(msgspec.Struct, frozen=True):
    """The arguments of one request, which may be tried twice. ``empty``: an object of the kind without any field."""

    converter: VersionConverter
    live: Object
    config: Object
    empty: Object
    manager: str
    subresource: str
    now: str
    reset: FieldSet

    @property
    def identity(self) -> ManagerIdentity:
        return identify(self.manager, APPLY, self.converter.api_version, self.subresource)


def apply_config(
    type_: ParseableType,
    live: Object | None,
    config: Object,
    *,
    manager: str,
    api_version: str,
    subresource: str = "",
    force: bool = False,
    now: str,
    reset: FieldNames = (),
    convert: Convert | None = None,
) -> ApplyResult | ApplyError:
    """``manager`` applies ``config``; ``live`` is ``None`` if the object does not exist yet."""
    managers = read_entries((live or {}).get("metadata", {}).get("managedFields"))
    if isinstance(managers, str):
        return _internal_error(f"failed to decode managed fields: {managers}")
    if stated_kind(config) != type_.gvk:
        return ApplyError(bad_request(f"invalid object type: {format_kind(stated_kind(config))}"))
    empty = empty_object(type_)
    request = _Apply(
        VersionConverter(type_.schema, api_version, convert),
        live if live is not None else empty,
        config,
        empty,
        manager,
        subresource,
        now,
        from_names(reset),
    )
    try:
        result = _apply_once(request, managers, force)
        if isinstance(result, list) and manager == last_applied.KUBECTL:
            result = _apply_over_client_side(request, managers, result)
    except InconvertibleObject as problem:
        return _internal_error(str(problem))
    if isinstance(result, list):
        return ApplyError(conflict_error(result))
    if isinstance(result, ApplyError):
        return result
    obj = last_applied.update_annotation(result.obj, config) if manager == last_applied.KUBECTL else result.obj
    return ApplyResult(_copy(obj), result.unchanged)


def _apply_over_client_side(
    request: _Apply, managers: Managers, conflicts: list[Conflict]
) -> ApplyResult | ApplyError | list[Conflict]:
    """Server-side apply of ``kubectl`` may take over the fields that its client-side apply has written before.

    Returns the conflicts on other fields, if there are any.
    """
    allowed = last_applied.last_applied_fields(request.converter, request.live)
    if allowed is None:
        return conflicts
    if difference(contested_fields(conflicts), allowed):
        return [conflict for conflict in conflicts if not has(allowed, conflict.path)]
    return _apply_once(request, managers, force=True)


def _internal_error(message: str) -> ApplyError:
    return ApplyError(StatusError(500, "", message))


def not_convertible(config: Object, problem: str) -> ApplyError:
    """The error for a merged object that cannot be decoded."""
    gvk = format_kind(stated_kind(config))
    text = f"failed to convert new object ({describe(config)}) to proper version"
    return _internal_error(f"{text}: unable to convert unstructured object to {gvk}: {problem}")


def _check_request(request: _Apply) -> ApplyError | None:
    """The error if the configuration, or the live object, does not match the schema."""
    config, schema = request.config, request.converter.schema
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        return ApplyError(bad_request("metadata.managedFields must be nil"))
    problem = schema_errors(schema, config)
    if problem is not None:
        return _internal_error(f"failed to create typed patch object ({describe(config)}): {problem}")
    if schema.needs_validation:
        problem = schema_errors(schema, request.live, allow_duplicates=True)
        if problem is not None:
            return _internal_error(f"failed to create typed live object ({describe(request.live)}): {problem}")
    return None


def _apply_once(request: _Apply, managers: Managers, force: bool) -> ApplyResult | ApplyError | list[Conflict]:
    """The new object, an error, or the list of conflicts with other managers."""
    converter, live, reset, identity = request.converter, request.live, request.reset, request.identity
    if not managers:
        # The object has no managed fields: its present fields get an owner of their own, as in kube-apiserver.
        first = identify(BEFORE_FIRST_APPLY, UPDATE, converter.api_version, request.subresource)
        existing = record_update(converter, request.empty, live, managers, first, request.now, reset)
        if isinstance(existing, str):
            return _internal_error(f"failed to create manager for existing fields: {existing}")
        managers = existing
    error = _check_request(request)
    if error is not None:
        return error
    reconciled = reconcile_managers(converter, live, managers)
    if isinstance(reconciled, str):
        return _internal_error(reconciled)
    last = reconciled.get(identity)
    applied = difference_below(owned_fields(converter.schema, request.config), reset)
    reconciled[identity] = VersionedFieldSet(applied, converter.api_version, last.time if last is not None else None)
    new = _prune(converter, merge(converter.schema, live, request.config), reconciled, last)
    after = release_changed_fields(reconciled, identity, VersionedComparison(converter, live, new, reset), force=force)
    if isinstance(after, list):
        return after
    unchanged = json_equal(live, new)
    _finish_applier(after, identity, None if unchanged else request.now)
    return ApplyResult(with_entries(live if unchanged else new, after), unchanged)


def _finish_applier(managers: Managers, identity: ManagerIdentity, now: str | None) -> None:
    """Removes the fields that no manager can own from the set of the applier ``identity``.

    Sets its time to ``now``, which is None if the object did not change.
    """
    applied = managers.pop(identity, None)
    if applied is None:
        return
    fields = in_wire_order(difference(applied.fields, NEVER_OWNED))
    if fields:
        managers[identity] = VersionedFieldSet(fields, applied.api_version, now or applied.time)


def _prune(converter: VersionConverter, merged: Object, managers: Managers, last: VersionedFieldSet | None) -> Object:
    """``merged`` without the fields that the applier applied last time (``last``) and no manager applies now.

    Each manager may have applied its fields in another version, so the object is converted to each of these versions.
    """
    if last is None or not last.fields:
        return merged
    base = converter.convert_to(converter.typed_value(merged), last.api_version, _PRUNE_ERROR)
    if base is None:
        return merged
    pruned = base._replace(obj=remove_previously_owned(base.schema, base.obj, last.fields))
    # This version is the first, because the conversion to another version may lose fields.
    owned_by_version: dict[str, FieldSet] = {last.api_version: {}}
    for owned in managers.values():
        owned_by_version[owned.api_version] = union(owned_by_version.get(owned.api_version, {}), owned.fields)
    for version, fields in owned_by_version.items():
        full, rest = converter.convert_to(base, version), converter.convert_to(pruned, version)
        if full is not None and rest is not None:
            pruned = full._replace(obj=add_back_owned_items(full.schema, full.obj, rest.obj, fields))
    back = converter.convert_to(pruned, last.api_version)
    if back is None:
        return merged
    kept = base._replace(obj=add_back_dangling_items(base.schema, base.obj, back.obj, last.fields))
    result = converter.convert_to(kept, converter.api_version)
    return merged if result is None else result.obj


def _copy(value: Any) -> Any:
    """A deep copy."""
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
