"""Records which manager changed which fields, for every write except apply.

:func:`track_update` compares the object before and after and assigns added and changed fields to the manager that wrote
them; all other managers lose those, and the removed fields. It never fails: an object whose ownership cannot be
computed loses its ``managedFields``. Apply is ``server_side_apply.py``; the steps that it shares with updates are here.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.conflicts import Conflict, conflicts_of
from headgate.apimachinery.apply.field_sets import (
    FieldNames,
    FieldSet,
    difference,
    intersection,
    of_fields,
    ordered,
    union,
)
from headgate.apimachinery.apply.managed_fields import (
    UPDATE,
    ManagerIdentity,
    Managers,
    VersionedFieldSet,
    identify,
    limit_updaters,
    read_entries,
    write_entries,
)
from headgate.apimachinery.apply.manager_names import describe
from headgate.apimachinery.apply.merge_schema import ParseableType
from headgate.apimachinery.apply.owned_fields import reconcile_with_schema
from headgate.apimachinery.apply.validate import check
from headgate.apimachinery.apply.version_converter import (
    Convert,
    InconvertibleObject,
    Object,
    VersionConverter,
    VersionedComparison,
)

# Fields that identify an object or belong to the server: no manager owns them.
NEVER_OWNED: Final = of_fields(
    (
        ("apiVersion",),
        ("kind",),
        ("metadata",),
        *(
            ("metadata", name)
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    )
)


def track_update(
    typed: ParseableType,
    live: Object | None,
    new: Object,
    *,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: str,
    reset: FieldNames = (),
    convert: Convert | None = None,
) -> Object:
    """``new`` with its ``metadata.managedFields``; ``live`` is None for a create.

    ``reset``: fields that this endpoint does not let the client change, by name.
    """
    managers = _starting_point(live, new, subresource)
    bare = with_entries(new, {})
    if not managers and live is not None and live["metadata"].get("uid"):
        # Nobody has been tracked so far, by choice of a client: that goes on until somebody applies.
        return bare
    versions = VersionConverter(typed.shape, api_version, convert)
    identity = identify(manager, UPDATE, api_version, subresource)
    before = live if live is not None else empty_object(typed)
    try:
        tracked = record_update(versions, before, bare, managers, identity, now, of_fields(reset))
    except InconvertibleObject:
        return bare
    return bare if isinstance(tracked, str) else with_entries(bare, tracked)


def empty_object(typed: ParseableType) -> Object:
    return {**typed.zero, "apiVersion": typed.gvk.api_version, "kind": typed.gvk.kind}


def with_entries(obj: Object, managers: Managers) -> Object:
    """``obj`` with these managers and no others. The caller's object is not changed."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    if not managers and "managedFields" not in metadata:
        return obj
    metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
    if managers:
        metadata["managedFields"] = write_entries(managers)
    return {**obj, "metadata": metadata}


def _starting_point(live: Object | None, new: Object, subresource: str) -> Managers:
    """The managers before this write. A client may rewrite them, on the object itself but not on a subresource."""
    if not subresource:
        given = (new.get("metadata") or {}).get("managedFields")
        if given is not None and (not given or given == [{}]):
            return {}
        managers = read_entries(given)
        if managers and not isinstance(managers, str):
            return managers
    stored = read_entries((live or {}).get("metadata", {}).get("managedFields"))
    return {} if isinstance(stored, str) else stored


def record_update(
    versions: VersionConverter,
    old: Object,
    new: Object,
    managers: Managers,
    identity: ManagerIdentity,
    now: str,
    reset: FieldSet,
) -> Managers | str:
    """The managers after ``identity`` turned ``old`` into ``new``, or why they cannot be told."""
    shape = versions.shape
    if shape.unnameable:
        for role, obj in (("new", new), ("live", old)):
            problem = check(shape, obj, duplicates=True)
            if problem is not None:
                return f"failed to convert {role} object ({describe(obj)}) to smd typed: {problem}"
    settled = reconcile_managers(versions, old, managers)
    if isinstance(settled, str):
        return settled
    changes = VersionedComparison(versions, old, new, reset)
    out = release_changed_fields(settled, None, changes, force=True)
    if isinstance(out, list):  # cannot be: an update wins every conflict
        return "conflicts"
    mine = changes.in_version(versions.api_version)
    gained = difference(union(mine.modified, mine.added), NEVER_OWNED) if mine is not None else {}
    if gained:
        previous = out.get(identity)
        fields = union(gained, previous.fields) if previous is not None else gained
        out[identity] = VersionedFieldSet(ordered(fields), versions.api_version, now)
    return limit_updaters(out)


def reconcile_managers(versions: VersionConverter, live: Object, managers: Managers) -> Managers | str:
    """The managers with their sets fitted to the schema of today; those of versions that are gone fall out."""
    out: Managers = {}
    here = versions.here(live)
    for identity, owned in managers.items():
        if owned.api_version.count("/") > 1:
            return f"unexpected GroupVersion string: {owned.api_version}"
        seen = versions.move(here, owned.api_version)
        if seen is not None:
            fields = reconcile_with_schema(seen.shape, owned.fields)
            out[identity] = owned if fields is owned.fields else owned._replace(fields=fields)
    return out


def release_changed_fields(
    managers: Managers, writer: ManagerIdentity | None, changes: VersionedComparison, *, force: bool
) -> Managers | list[Conflict]:
    """All managers but ``writer`` lose what changed. Without ``force`` that is a list of conflicts instead."""
    out: Managers = {}
    contested: list[tuple[ManagerIdentity, FieldSet]] = []
    for identity, owned in managers.items():
        if identity == writer:
            if owned.fields:
                out[identity] = owned
            continue
        change = changes.in_version(owned.api_version)
        if change is None:
            continue
        lost = intersection(owned.fields, union(change.modified, change.added))
        if lost:
            contested.append((identity, lost))
        fields = difference(difference(owned.fields, lost), change.removed)
        if fields:
            out[identity] = owned if fields is owned.fields else owned._replace(fields=fields)
    if contested and not force:
        return conflicts_of(contested)
    return out
