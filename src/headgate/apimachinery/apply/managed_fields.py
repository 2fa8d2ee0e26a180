"""The entries of ``metadata.managedFields``: which manager owns which fields, and since when.

:func:`read_entries` and :func:`write_entries` convert between the wire form and :data:`Managers`, which identifies a
manager by name, operation, version (of an update) and subresource. :func:`cap_update_managers` limits the number of
entries.

:func:`keep_unchanged_times` is the last step before storing: a write that changes nothing must not change the time of a
manager, because then each repeated apply would be a new revision. ``update.py`` and ``server_side_apply.py`` decide
which manager gains and loses fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from headgate.apimachinery.apply.field_sets import FieldSet, add, in_wire_order, read, union_of
from headgate.apimachinery.apply.path_elements import json_text
from headgate.apimachinery.apply.version_converter import Object

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MAX_UPDATERS: Final = 10
MERGED_MANAGER: Final = "ancient-changes"  # the manager of merged entries, as in Kubernetes
_EPOCH: Final = "1970-01-01T00:00:00Z"


class ManagerIdentity(NamedTuple):
    """``api_version`` is empty for an applier: a manager has one entry for apply, whatever the version."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    def text(self) -> str:
        """The JSON text by which Kubernetes sorts managers."""
        names = ("manager", "operation", "apiVersion", "subresource")
        return (
            "{" + ",".join(f'"{name}":{json_text(text)}' for name, text in zip(names, self, strict=True) if text) + "}"
        )


class VersionedFieldSet(NamedTuple):
    """The fields that a manager owns, in a version and in wire order, and the time of its last change."""

    fields: FieldSet
    api_version: str
    time: str | None


Managers: TypeAlias = "dict[ManagerIdentity, VersionedFieldSet]"


def identify(manager: str, operation: str, api_version: str, subresource: str) -> ManagerIdentity:
    return ManagerIdentity(manager or "unknown", operation, "" if operation == APPLY else api_version, subresource)


def read_entries(entries: Sequence[Any] | None) -> Managers | str:
    """The managers of an object; a ``str`` is the error in the list."""
    out: Managers = {}
    for index, entry in enumerate(entries or ()):
        if not isinstance(entry, dict):
            return f"managed fields entry {index} is not an object"
        operation, version = entry.get("operation", ""), entry.get("apiVersion", "")
        if operation not in (APPLY, UPDATE):
            return "operation must be `Apply` or `Update`"
        if not version:
            return "apiVersion must not be empty"
        fields_type = entry.get("fieldsType", "")
        if fields_type != "FieldsV1":
            problem = f'invalid fieldsType "{fields_type}"' if fields_type else "missing fieldsType"
            return f"{problem} in managed fields entry {index}"
        fields = read(entry.get("fieldsV1"))
        if fields is None:
            return f"error decoding the field set of managed fields entry {index}"
        manager = entry.get("manager", "")
        identity = ManagerIdentity(
            manager, operation, "" if operation == APPLY else version, entry.get("subresource", "")
        )
        out[identity] = VersionedFieldSet(fields, version, entry.get("time"))
    return out


def write_entries(managers: Managers) -> list[dict[str, Any]]:
    """Appliers first, then by time, name, version and subresource."""
    return [_entry(identity, owned) for identity, owned in sorted(managers.items(), key=_sort_key)]


def _sort_key(item: tuple[ManagerIdentity, VersionedFieldSet]) -> tuple[str, str, str, str, str]:
    identity, owned = item
    return (identity.operation, owned.time or _EPOCH, identity.manager, owned.api_version, identity.subresource)


def _entry(identity: ManagerIdentity, owned: VersionedFieldSet) -> dict[str, Any]:
    out: dict[str, Any] = {"manager": identity.manager} if identity.manager else {}
    out["operation"] = identity.operation
    out["apiVersion"] = owned.api_version
    if owned.time is not None:
        out["time"] = owned.time
    out["fieldsType"] = "FieldsV1"
    out["fieldsV1"] = owned.fields
    if identity.subresource:
        out["subresource"] = identity.subresource
    return out


def cap_update_managers(managers: Managers) -> Managers:
    """The managers with at most ``MAX_UPDATERS`` entries of updates.

    The oldest entries of each version are merged into one entry of the manager ``MERGED_MANAGER``.
    """
    updaters = [identity for identity in managers if identity.operation == UPDATE]
    surplus = len(updaters) - MAX_UPDATERS
    if surplus <= 0:
        return managers
    out = dict(managers)
    updaters.sort(key=lambda identity: (managers[identity].time or _EPOCH, identity.text()))
    first_of: dict[str, ManagerIdentity] = {}
    merged_fields: dict[ManagerIdentity, FieldSet] = {}
    for identity in updaters:
        if surplus <= 0:
            break
        owned = managers[identity]
        version = owned.api_version
        first = first_of.setdefault(version, identity)
        if first is identity:
            continue
        bucket = ManagerIdentity(MERGED_MANAGER, UPDATE, version, "")
        if bucket not in out:
            out[bucket] = out.pop(first)
            merged_fields.pop(bucket, None)
        if bucket not in merged_fields:
            merged_fields[bucket] = union_of((out[bucket].fields,))
        add(merged_fields[bucket], owned.fields)
        out[bucket] = VersionedFieldSet(merged_fields[bucket], version, owned.time)
        del out[identity]
        surplus -= 1
    for bucket, fields in merged_fields.items():
        if bucket in out:
            out[bucket] = out[bucket]._replace(fields=in_wire_order(fields))
    return out


def keep_unchanged_times(new: Object, old: Object) -> Object:
    """``new``, with the times of ``old`` if nothing else differs. Both must be in wire form."""
    entries, before = _entries(new), _entries(old)
    if not entries or len(entries) != len(before) or entries == before:
        return new
    if any(_without_time(entry) != _without_time(past) for entry, past in zip(entries, before, strict=True)):
        return new
    kept = {**new, "metadata": {**new["metadata"], "managedFields": before}}
    return kept if kept == old else new


def _entries(obj: Object) -> list[dict[str, Any]]:
    return obj["metadata"].get("managedFields") or []


def _without_time(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "time"}
