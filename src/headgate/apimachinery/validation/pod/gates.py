"""Validation of scheduling gates (KEP-3521), which an update may only remove, and of readiness gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid
from headgate.kube.names import is_qualified_name

Object = dict[str, Any]


def validate_readiness_gates(gates: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, gate in enumerate(gates):
        kind, field_path = gate.get("conditionType", ""), f"{path}[{index}].conditionType"
        errors += [invalid(field_path, kind, message) for message in is_qualified_name(kind)]
    return errors


def validate_scheduling_gates(gates: Sequence[Object], path: str) -> FieldErrors:
    """The error path ends at the gate, without ``name``."""
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name, field_path = gate.get("name", ""), f"{path}[{index}]"
        errors += [invalid(field_path, name, message) for message in is_qualified_name(name)]
        if name in seen:
            errors.append(duplicate(field_path, name))
        seen.add(name)
    return errors


def validate_only_removed_gates(new: Sequence[Object], old: Sequence[Object], path: str) -> FieldErrors:
    known = {gate.get("name", "") for gate in old}
    added = {gate.get("name", ""): index for index, gate in enumerate(new) if gate.get("name", "") not in known}
    return [
        forbidden(f"{path}[{index}].name", f"only deletion is allowed, but found new scheduling gate '{name}'")
        for name, index in added.items()
    ]
