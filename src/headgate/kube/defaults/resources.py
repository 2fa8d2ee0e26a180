"""Resource lists as defaulting leaves them: no amount finer than a thousandth.

Used by every kind that carries a resource list. Reading and comparing amounts is ``kube/quantity.py``.
"""

from __future__ import annotations

from typing import Any

from headgate.kube import quantity


def round_resource_list(owner: dict[str, Any] | None, field: str) -> None:
    """Round the amounts in ``owner[field]`` up to milli-units, in place. What does not parse is left for validation."""
    amounts = owner.get(field) if owner else None
    if not amounts:
        return
    for name, text in amounts.items():
        parsed = quantity.parse(text)
        if isinstance(parsed, quantity.Quantity):
            amounts[name] = parsed.round_up_to_milli().canonical
