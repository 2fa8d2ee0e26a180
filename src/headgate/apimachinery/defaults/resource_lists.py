"""Rounding of resource lists during defaulting: amounts finer than a thousandth are rounded up.

Every kind with a resource list uses it. ``kube/quantity.py`` parses and compares amounts.
"""

from __future__ import annotations

from typing import Any

from headgate.kube import quantity


def round_quantities(obj: dict[str, Any] | None, *fields: str) -> None:
    """Rounds the resource lists in ``fields`` in place. Validation reports invalid amounts."""
    if not obj:
        return
    for field in fields:
        amounts = obj.get(field)
        if not amounts:
            continue
        for name, value in amounts.items():
            parsed = quantity.parse(value)
            if not isinstance(parsed, str):
                amounts[name] = parsed.round_up_to_milli().canonical


def round_resource_list(obj: dict[str, Any] | None, field: str) -> None:
    """Rounds the amounts in ``owner[field]`` up to milli-units, in place. Validation reports invalid amounts."""
    amounts = obj.get(field) if obj else None
    if not amounts:
        return
    for name, text in amounts.items():
        parsed = quantity.parse(text)
        if isinstance(parsed, quantity.Quantity):
            amounts[name] = parsed.round_up_to_milli().canonical
