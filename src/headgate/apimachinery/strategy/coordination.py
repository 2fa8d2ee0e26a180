"""The strategy of ``coordination.k8s.io``: Lease."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.validation.lease import validate_lease_create, validate_lease_update


def _drop_coordinated_leader_election_fields(new: Object, old: Object | None) -> None:
    """Drops ``spec.strategy`` and ``spec.preferredHolder`` unless the stored Lease has them, because the feature gate
    CoordinatedLeaderElection is off by default in v1.35."""
    stored = (old or {}).get("spec") or {}
    for field in ("strategy", "preferredHolder"):
        if field not in stored:
            (new.get("spec") or {}).pop(field, None)


COORDINATION: Final[dict[str, Strategy]] = {
    "Lease": Strategy(
        allow_create_on_update=True,
        prepare_create=lambda obj, ctx: _drop_coordinated_leader_election_fields(obj, None),
        validate_create=validate_create_without_context(validate_lease_create),
        update=UpdateRules(
            prepare=lambda new, old, ctx: _drop_coordinated_leader_election_fields(new, old),
            validate=validate_update_without_context(validate_lease_update),
        ),
        unconditional_update=False,
    )
}
