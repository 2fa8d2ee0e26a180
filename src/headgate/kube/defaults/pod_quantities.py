"""Resource amounts that the API server rounds up while defaulting: nothing finer than a thousandth is kept."""

from __future__ import annotations

from typing import Any

from headgate.kube import quantity


def round_quantities(holder: dict[str, Any] | None, *fields: str) -> None:
    """Round the resource lists found under ``fields``. What does not parse is left for validation."""
    if not holder:
        return
    for field in fields:
        amounts = holder.get(field)
        if not amounts:
            continue
        for name, value in amounts.items():
            parsed = quantity.parse(value)
            if not isinstance(parsed, str):
                amounts[name] = parsed.round_up_to_milli().canonical
