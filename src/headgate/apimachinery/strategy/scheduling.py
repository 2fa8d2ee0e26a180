"""The strategy of ``scheduling.k8s.io``: PriorityClass."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Strategy,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import (
    start_generation,
)
from headgate.apimachinery.validation.priority_class import (
    validate_priority_class_create,
    validate_priority_class_update,
)

SCHEDULING: Final[dict[str, Strategy]] = {
    "PriorityClass": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=validate_create_without_context(validate_priority_class_create),
        update=UpdateRules(validate=validate_update_without_context(validate_priority_class_update)),
    )
}
