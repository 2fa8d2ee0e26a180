"""Records which manager changed which fields, for every write except server-side apply.

:func:`track_update` compares the object before and after the write. The manager that wrote it owns the added and
changed fields from then on; no other manager owns them any more, and no manager owns a removed field. The function
never fails: if the owners cannot be computed, the object loses its ``managedFields``.

``server_side_apply.py`` implements server-side apply and uses functions of this module.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.conflicts import Conflict, conflicts_of
from headgate.apimachinery.apply.field_sets import (
    FieldNames,
    FieldSet,
    difference,
    from_names,
    in_wire_order,
    intersection,
    union,
)
from headgate.apimachinery.apply.managed_fields import (
    UPDATE,
    ManagerIdentity,
    Managers,
    VersionedFieldSet,
    cap_update_managers,
    identify,
    read_entries,
    write_entries,
)
from headgate.apimachinery.apply.manager_names import describe
from headgate.apimachinery.apply.merge_schema import ParseableType
from headgate.apimachinery.apply.owned_fields import reconcile_with_schema
from headgate.apimachinery.apply.validate import schema_errors
from headgate.apimachinery.apply.version_converter import (
    Convert,
    InconvertibleObject,
    Object,
    VersionConverter,
    VersionedComparison,
)

# Fields that identify an object or belong to the server: no manager owns them.
NEVER_OWNED: Final = from_names(
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
    type_: ParseableType,
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

    ``reset``: the names of fields that a client cannot change at this endpoint.
    """
    managers = _current_managers(live, new, subresource)
    untracked = with_entries(new, {})
    if not managers and live is not None and live["metadata"].get("uid"):
        # A client has removed all managed fields. Then no owners are recorded until the next server-side apply.
        return untracked
    converter = VersionConverter(type_.schema, api_version, convert)
    identity = identify(manager, UPDATE, api_version, subresource)
    before = live if live is not None else empty_object(type_)
    try:
        after = record_update(converter, before, untracked, managers, identity, now, from_names(reset))
    except InconvertibleObject:
        return untracked
    return untracked if isinstance(after, str) else with_entries(untracked, after)  # a str is an error text


def empty_object(type_: ParseableType) -> Object:
    """The wire form of an object without fields. A create is recorded as an update of this object."""
    return {**type_.empty, "apiVersion": type_.gvk.api_version, "kind": type_.gvk.kind}


def with_entries(obj: Object, managers: Managers) -> Object:
    """A copy of ``obj`` whose ``managedFields`` have exactly these managers."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    if not managers and "managedFields" not in metadata:
        return obj
    metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
    if managers:
        metadata["managedFields"] = write_entries(managers)
    return {**obj, "metadata": metadata}


def _current_managers(live: Object | None, new: Object, subresource: str) -> Managers:
    """The managers before this write. A client may replace them, except in a write to a subresource."""
    if not subresource:
        client_entries = (new.get("metadata") or {}).get("managedFields")
        if client_entries is not None and (not client_entries or client_entries == [{}]):
            return {}  # both notations mean: remove all managed fields
        managers = read_entries(client_entries)
        # A str is an error text: the client's entries are invalid, so the stored managers are used.
        if managers and not isinstance(managers, str):
            return managers
    stored = read_entries((live or {}).get("metadata", {}).get("managedFields"))
    return {} if isinstance(stored, str) else stored


def record_update(
    converter: VersionConverter,
    old: Object,
    new: Object,
    managers: Managers,
    identity: ManagerIdentity,
    now: str,
    reset: FieldSet,
) -> Managers | str:
    """The managers after ``identity`` changed ``old`` to ``new``; a ``str`` says why they cannot be computed."""
    schema = converter.schema
    if schema.needs_validation:
        for role, obj in (("new", new), ("live", old)):
            problem = schema_errors(schema, obj, allow_duplicates=True)
            if problem is not None:
                return f"failed to convert {role} object ({describe(obj)}) to smd typed: {problem}"
    reconciled = reconcile_managers(converter, old, managers)
    if isinstance(reconciled, str):
        return reconciled
    changes = VersionedComparison(converter, old, new, reset)
    out = release_changed_fields(reconciled, None, changes, force=True)
    if isinstance(out, list):  # only for the type checker: with force=True there are no conflicts
        return "conflicts"
    own_changes = changes.in_version(converter.api_version)
    gained = difference(union(own_changes.modified, own_changes.added), NEVER_OWNED) if own_changes is not None else {}
    if gained:
        previous = out.get(identity)
        fields = union(gained, previous.fields) if previous is not None else gained
        out[identity] = VersionedFieldSet(in_wire_order(fields), converter.api_version, now)
    return cap_update_managers(out)


def reconcile_managers(converter: VersionConverter, live: Object, managers: Managers) -> Managers | str:
    """The managers with their sets adapted to the current schema, without managers of versions that do not exist any
    more. A ``str`` is an error text."""
    out: Managers = {}
    typed_live = converter.typed_value(live)
    for identity, owned in managers.items():
        if owned.api_version.count("/") > 1:
            return f"unexpected GroupVersion string: {owned.api_version}"
        converted = converter.convert_to(typed_live, owned.api_version)
        if converted is not None:
            fields = reconcile_with_schema(converted.schema, owned.fields)
            out[identity] = owned if fields is owned.fields else owned._replace(fields=fields)
    return out


def release_changed_fields(
    managers: Managers, writer: ManagerIdentity | None, changes: VersionedComparison, *, force: bool
) -> Managers | list[Conflict]:
    """The managers after all except ``writer`` have lost the fields that changed.

    Without ``force``, the result is a list of conflicts if another manager owns a field that was changed or added.
    """
    out: Managers = {}
    contested: list[tuple[ManagerIdentity, FieldSet]] = []
    for identity, owned in managers.items():
        if identity == writer:
            if owned.fields:
                out[identity] = owned
            continue
        change = changes.in_version(owned.api_version)
        if change is None:
            continue  # the version of this manager does not exist any more
        lost = intersection(owned.fields, union(change.modified, change.added))
        if lost:
            contested.append((identity, lost))
        fields = difference(difference(owned.fields, lost), change.removed)
        if fields:
            out[identity] = owned if fields is owned.fields else owned._replace(fields=fields)
    if contested and not force:
        return conflicts_of(contested)
    return out
