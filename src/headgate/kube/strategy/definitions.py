"""Writes of CustomResourceDefinitions. What follows from them (names, conditions) is ``apiserver/custom/``."""

from __future__ import annotations

from typing import Final

from headgate.kube.defaults.definitions import add_stored_version
from headgate.kube.strategy.contract import Context, Object, Strategy, UpdateRules
from headgate.kube.strategy.prepare import SPEC_AND_METADATA, STATUS, bump_generation, take


def _prepare_create(obj: Object, ctx: Context) -> None:
    obj["status"] = {}
    obj["metadata"]["generation"] = 1
    add_stored_version(obj)


def _prepare_update(new: Object, old: Object, ctx: Context) -> None:
    take("status", new, old)
    new["status"] = dict(new.get("status") or {})
    if new["spec"] != old["spec"]:
        bump_generation(new, old)
    add_stored_version(new)


def _prepare_status(new: Object, old: Object, ctx: Context) -> None:
    take("spec", new, old)


EXTENSIONS: Final[dict[str, Strategy]] = {
    "CustomResourceDefinition": Strategy(
        namespaced=False,
        prepare_create=_prepare_create,
        update=UpdateRules(prepare=_prepare_update, reset_fields=STATUS),
        subresources={"status": UpdateRules(prepare=_prepare_status, reset_fields=SPEC_AND_METADATA)},
        unconditional_update=False,
    )
}
