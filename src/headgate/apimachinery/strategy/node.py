"""The strategy of ``node.k8s.io``: RuntimeClass."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Strategy,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.validation.runtime_class import validate_runtime_class, validate_runtime_class_update
from headgate.apimachinery.validation.warnings import runtime_class_warnings

NODE: Final[dict[str, Strategy]] = {
    "RuntimeClass": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=validate_create_without_context(validate_runtime_class),
        warnings_create=lambda obj, ctx: runtime_class_warnings(obj),
        update=UpdateRules(
            validate=validate_update_without_context(validate_runtime_class_update),
            warnings=lambda new, old, ctx: runtime_class_warnings(new),
        ),
        unconditional_update=False,
    )
}
