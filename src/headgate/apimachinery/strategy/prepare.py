"""Common ways to prepare a write: which endpoint changes ``spec`` and ``status``, and when ``generation`` increases.

Kinds with more steps have their own module in this package; ``apimachinery/validation/`` validates.
"""

from __future__ import annotations

from headgate.apimachinery.strategy.contract import Object, StrategyContext, Update, UpdateRules


def drop_status(obj: Object, ctx: StrategyContext) -> None:
    obj.pop("status", None)


def start_generation(obj: Object, ctx: StrategyContext) -> None:
    obj["metadata"]["generation"] = 1


def drop_status_start_generation(obj: Object, ctx: StrategyContext) -> None:
    obj.pop("status", None)
    obj["metadata"]["generation"] = 1


def keep_field(field: str, new: Object, old: Object) -> None:
    """Sets ``field`` of the new object to its old value, or removes it."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def keep_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)


def keep_spec(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("spec", new, old)


def keep_spec_and_metadata(new: Object, old: Object, ctx: StrategyContext) -> None:
    """Undoes all changes of a status write outside the status, except those of managedFields."""
    keep_field("spec", new, old)
    managed_fields = new["metadata"].get("managedFields")
    version = new["metadata"].get("resourceVersion")
    metadata = dict(old["metadata"])
    metadata.pop("managedFields", None)
    if managed_fields is not None:
        metadata["managedFields"] = managed_fields
    if version is not None:
        metadata["resourceVersion"] = version
    new["metadata"] = metadata


def bump_generation(new: Object, old: Object) -> None:
    new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def has_changed(new: Object, old: Object) -> bool:
    """Whether the preparation has increased the generation, because the spec changed."""
    return bool(new["metadata"].get("generation") != old["metadata"].get("generation"))


def bump_generation_on_change(*fields: str) -> Update:
    """Increases ``generation`` if one of ``fields`` differs; the status is not changed."""

    def prepare(new: Object, old: Object, ctx: StrategyContext) -> None:
        if any(new.get(field) != old.get(field) for field in fields):
            bump_generation(new, old)

    return prepare


def keep_status_bump_generation(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)
    if new.get("spec") != old.get("spec"):
        bump_generation(new, old)


STATUS: tuple[tuple[str, ...], ...] = (("status",),)
SPEC: tuple[tuple[str, ...], ...] = (("spec",),)
SPEC_AND_METADATA: tuple[tuple[str, ...], ...] = (("spec",), ("metadata",))

PLAIN_STATUS = {"status": UpdateRules(prepare=keep_spec, reset_fields=SPEC)}
ISOLATED_STATUS = {"status": UpdateRules(prepare=keep_spec_and_metadata, reset_fields=SPEC_AND_METADATA)}
