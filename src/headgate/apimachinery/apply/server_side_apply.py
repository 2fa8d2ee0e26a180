"""Server-side apply: an object from the configurations of its managers.

:func:`apply_config` merges a configuration into the live object, removes what its manager applied before and does not
apply now, and reports a conflict for fields of other managers. The parts: ``merge.py``, ``remove.py``,
``conflicts.py``; ``last_applied.py`` handles client-side apply of ``kubectl``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apimachinery.api_errors import StatusError, bad_request
from headgate.apimachinery.apply import last_applied
from headgate.apimachinery.apply.compare import same
from headgate.apimachinery.apply.conflicts import Conflict, contested_fields, refusal
from headgate.apimachinery.apply.field_sets import (
    FieldNames,
    FieldSet,
    difference,
    difference_below,
    has,
    of_fields,
    ordered,
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
from headgate.apimachinery.apply.manager_names import describe, show_kind, stated_kind
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
from headgate.apimachinery.apply.validate import check
from headgate.apimachinery.apply.version_converter import (
    Convert,
    InconvertibleObject,
    Object,
    VersionConverter,
    VersionedComparison,
)

_UNAPPLIED = "failed to prune fields: failed to convert merged object to last applied version"
BEFORE_FIRST_APPLY = "before-first-apply"


class ApplyResult(msgspec.Struct, frozen=True):
    """``obj`` is the caller's own: it shares nothing with the live object or the configuration.

    It is not yet decoded: values are as the configuration wrote them, nulls included. ``unchanged``: it is the live
    object, at most with other ``managedFields``.
    """

    obj: Object
    unchanged: bool


class ApplyError(msgspec.Struct, frozen=True):
    error: StatusError


class _Apply(msgspec.Struct, frozen=True):
    """One request: the same for each try."""

    versions: VersionConverter
    live: Object
    config: Object
    empty: Object
    manager: str
    subresource: str
    now: str
    reset: FieldSet

    @property
    def identity(self) -> ManagerIdentity:
        return identify(self.manager, APPLY, self.versions.api_version, self.subresource)


def apply_config(
    typed: ParseableType,
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
    """``config`` applied by ``manager``; ``live`` is None if the object does not exist yet."""
    managers = read_entries((live or {}).get("metadata", {}).get("managedFields"))
    if isinstance(managers, str):
        return _broken(f"failed to decode managed fields: {managers}")
    if stated_kind(config) != typed.gvk:
        return ApplyError(bad_request(f"invalid object type: {show_kind(stated_kind(config))}"))
    empty = empty_object(typed)
    request = _Apply(
        VersionConverter(typed.shape, api_version, convert),
        live if live is not None else empty,
        config,
        empty,
        manager,
        subresource,
        now,
        of_fields(reset),
    )
    try:
        result = _try(request, managers, force)
        if isinstance(result, list) and manager == last_applied.KUBECTL:
            result = _upgrade(request, managers, result)
    except InconvertibleObject as problem:
        return _broken(str(problem))
    if isinstance(result, list):
        return ApplyError(refusal(result))
    if isinstance(result, ApplyError):
        return result
    obj = last_applied.refresh(result.obj, config) if manager == last_applied.KUBECTL else result.obj
    return ApplyResult(_own(obj), result.unchanged)


def _upgrade(
    request: _Apply, managers: Managers, conflicts: list[Conflict]
) -> ApplyResult | ApplyError | list[Conflict]:
    """Client-side apply owned what it applied as an update: server-side apply by the same tool may take it over."""
    allowed = last_applied.fields_of(request.versions, request.live)
    if allowed is None:
        return conflicts
    if difference(contested_fields(conflicts), allowed):
        return [conflict for conflict in conflicts if not has(allowed, conflict.path)]
    return _try(request, managers, force=True)


def _broken(message: str) -> ApplyError:
    return ApplyError(StatusError(500, "", message))


def not_convertible(config: Object, problem: str) -> ApplyError:
    """The answer when the merged object does not decode."""
    gvk = show_kind(stated_kind(config))
    text = f"failed to convert new object ({describe(config)}) to proper version"
    return _broken(f"{text}: unable to convert unstructured object to {gvk}: {problem}")


def _refuse(request: _Apply) -> ApplyError | None:
    config, shape = request.config, request.versions.shape
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        return ApplyError(bad_request("metadata.managedFields must be nil"))
    problem = check(shape, config)
    if problem is not None:
        return _broken(f"failed to create typed patch object ({describe(config)}): {problem}")
    if shape.unnameable:
        problem = check(shape, request.live, duplicates=True)
        if problem is not None:
            return _broken(f"failed to create typed live object ({describe(request.live)}): {problem}")
    return None


def _try(request: _Apply, managers: Managers, force: bool) -> ApplyResult | ApplyError | list[Conflict]:
    versions, live, reset, identity = request.versions, request.live, request.reset, request.identity
    if not managers:
        first = identify(BEFORE_FIRST_APPLY, UPDATE, versions.api_version, request.subresource)
        existing = record_update(versions, request.empty, live, managers, first, request.now, reset)
        if isinstance(existing, str):
            return _broken(f"failed to create manager for existing fields: {existing}")
        managers = existing
    refused = _refuse(request)
    if refused is not None:
        return refused
    settled = reconcile_managers(versions, live, managers)
    if isinstance(settled, str):
        return _broken(settled)
    last = settled.get(identity)
    mine = difference_below(owned_fields(versions.shape, request.config), reset)
    settled[identity] = VersionedFieldSet(mine, versions.api_version, last.time if last is not None else None)
    new = _prune(versions, merge(versions.shape, live, request.config), settled, last)
    after = release_changed_fields(settled, identity, VersionedComparison(versions, live, new, reset), force=force)
    if isinstance(after, list):
        return after
    unchanged = same(live, new)
    _finish(after, identity, None if unchanged else request.now)
    return ApplyResult(with_entries(live if unchanged else new, after), unchanged)


def _finish(managers: Managers, identity: ManagerIdentity, now: str | None) -> None:
    """What is never owned leaves the applier's set; a change of the object, or none, decides about its time."""
    mine = managers.pop(identity, None)
    if mine is None:
        return
    fields = ordered(difference(mine.fields, NEVER_OWNED))
    if fields:
        managers[identity] = VersionedFieldSet(fields, mine.api_version, now or mine.time)


def _prune(versions: VersionConverter, merged: Object, managers: Managers, last: VersionedFieldSet | None) -> Object:
    """``merged`` without what the applier applied last time and no manager applies now."""
    if last is None or not last.fields:
        return merged
    base = versions.move(versions.here(merged), last.api_version, _UNAPPLIED)
    if base is None:
        return merged
    pruned = base._replace(obj=remove_previously_owned(base.shape, base.obj, last.fields))
    wanted: dict[str, FieldSet] = {last.api_version: {}}  # first, so that less is missing when others are converted to
    for owned in managers.values():
        wanted[owned.api_version] = union(wanted.get(owned.api_version, {}), owned.fields)
    for version, fields in wanted.items():
        full, rest = versions.move(base, version), versions.move(pruned, version)
        if full is not None and rest is not None:
            pruned = full._replace(obj=add_back_owned_items(full.shape, full.obj, rest.obj, fields))
    back = versions.move(pruned, last.api_version)
    if back is None:
        return merged
    kept = base._replace(obj=add_back_dangling_items(base.shape, base.obj, back.obj, last.fields))
    result = versions.move(kept, versions.api_version)
    return merged if result is None else result.obj


def _own(value: Any) -> Any:
    """A copy of all containers."""
    if isinstance(value, dict):
        return {name: _own(item) for name, item in value.items()}
    return [_own(item) for item in value] if isinstance(value, list) else value
