"""Conflicts: fields of other managers that an applied configuration would change, and their messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from headgate.apimachinery.api_errors import StatusCause, StatusError, apply_conflict
from headgate.apimachinery.apply.field_sets import FieldSet, Path, from_paths, paths_of
from headgate.apimachinery.apply.managed_fields import UPDATE, ManagerIdentity
from headgate.apimachinery.apply.path_elements import format_path
from headgate.kube.field_errors import quote


class Conflict(NamedTuple):
    owner: ManagerIdentity
    path: Path


def conflicts_of(contested: Iterable[tuple[ManagerIdentity, FieldSet]]) -> list[Conflict]:
    """Sorted by owner, then in the order of the fields."""
    return [
        Conflict(owner, path)
        for owner, fields in sorted(contested, key=lambda pair: pair[0].text())
        for path in paths_of(fields)
    ]


def contested_fields(conflicts: Iterable[Conflict]) -> FieldSet:
    return from_paths(conflict.path for conflict in conflicts)


def _name(owner: ManagerIdentity) -> str:
    name = quote(owner.manager)
    if owner.subresource:
        name += f" with subresource {quote(owner.subresource)}"
    return f"{name} using {owner.api_version}" if owner.operation == UPDATE else name


def conflict_error(conflicts: list[Conflict]) -> StatusError:
    causes = [
        StatusCause("FieldManagerConflict", f"conflict with {_name(owner)}", format_path(path))
        for owner, path in conflicts
    ]
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return apply_conflict(
            causes, f"Apply failed with 1 conflict: conflict with {_name(owner)}: {format_path(path)}"
        )
    lines = []
    for owner, group in groupby(conflicts, key=lambda conflict: conflict.owner):
        lines.append(f"conflicts with {_name(owner)}:")
        lines += [f"- {format_path(conflict.path)}" for conflict in group]
    return apply_conflict(causes, f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines))
