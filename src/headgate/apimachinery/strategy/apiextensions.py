"""Strategy of CustomResourceDefinitions. ``apiserver/custom/`` sets accepted names and conditions."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.defaults.apiextensions import add_stored_version
from headgate.apimachinery.strategy.cel_warnings import definition_warnings
from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    StrategyContext,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import SPEC_AND_METADATA, STATUS, bump_generation, keep_field
from headgate.apimachinery.validation.apiextensions.definition import (
    unknown_formats,
    validate_definition,
    validate_definition_status,
    validate_definition_update,
)
from headgate.kube.field_errors import quote


def _prepare_create(obj: Object, ctx: StrategyContext) -> None:
    obj["status"] = {}
    obj["metadata"]["generation"] = 1
    add_stored_version(obj)


def _prepare_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)
    new["status"] = dict(new.get("status") or {})
    if new["spec"] != old["spec"]:
        bump_generation(new, old)
    add_stored_version(new)


def _warnings(new: Object, old: Object | None) -> list[str]:
    """Unrecognized formats that the old object does not have already, and warnings about CEL rules."""
    known = set() if old is None else set(unknown_formats(old["spec"]))
    unknown = [f"unrecognized format {quote(each)}" for each in unknown_formats(new["spec"]) if each not in known]
    return [*unknown, *definition_warnings(new, old)]


def _prepare_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("spec", new, old)


EXTENSIONS: Final[dict[str, Strategy]] = {
    "CustomResourceDefinition": Strategy(
        namespaced=False,
        prepare_create=_prepare_create,
        validate_create=validate_create_without_context(validate_definition),
        warnings_create=lambda obj, ctx: _warnings(obj, None),
        update=UpdateRules(
            prepare=_prepare_update,
            validate=validate_update_without_context(validate_definition_update),
            warnings=lambda new, old, ctx: _warnings(new, old),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=_prepare_status,
                validate=validate_update_without_context(validate_definition_status),
                reset_fields=SPEC_AND_METADATA,
            )
        },
        unconditional_update=False,
    )
}
