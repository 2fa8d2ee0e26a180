"""Strategies of ``policy``: Eviction and PodDisruptionBudget."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Strategy,
    UpdateRules,
    validate_create_without_context,
)
from headgate.apimachinery.strategy.prepare import (
    SPEC,
    STATUS,
    drop_status_start_generation,
    keep_spec,
    keep_status_bump_generation,
)
from headgate.apimachinery.validation.pod_disruption_budget import (
    validate_disruption_budget,
    validate_disruption_budget_status,
)

POLICY: Final[dict[str, Strategy]] = {
    "Eviction": Strategy(),
    "PodDisruptionBudget": Strategy(
        prepare_create=drop_status_start_generation,
        validate_create=validate_create_without_context(validate_disruption_budget),
        update=UpdateRules(
            prepare=keep_status_bump_generation,
            validate=lambda new, old, ctx: validate_disruption_budget(new, old),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=lambda new, old, ctx: validate_disruption_budget_status(new),
                reset_fields=SPEC,
            )
        },
        unconditional_update=False,
    ),
}
