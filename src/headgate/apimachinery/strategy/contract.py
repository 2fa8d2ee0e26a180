"""The interface between the API server's write pipeline and the kinds.

A :class:`Strategy` has the steps of a write that are specific to a kind; its default values are for the simplest kind
(namespaced, no status, no rules). The functions at the end of this module adapt validation functions that need no
context, or only the feature gates, to the signatures of a :class:`Strategy`. ``apiserver/verbs/writing.py`` calls the
steps; ``STRATEGIES`` in ``apimachinery/strategy/__init__.py`` is the table of all strategies; the rules are in
``apimachinery/validation/`` and ``apimachinery/defaults/``.

The order of a create: defaults, admission, system metadata, ``allocate``, ``early_warnings``, ``prepare_create``,
``validate_create``, the common metadata rules (only if ``validate_create`` found no error), ``warnings_create``. The
order of an update: namespace check, ``allocate``, ``metadata.generation`` taken from the old object, ``prepare``, old
uid, creationTimestamp and deletionTimestamp restored, common metadata rules *plus* ``validate`` in one list,
``warnings``. All objects are dictionaries as ``apimachinery/codec/decoder.py`` returns them (absent in place of zero
values, canonical quantities and times), in the version of the request. ``prepare_create`` and ``prepare`` change the
new object in place; it may then share parts with the old object.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import Any

import msgspec

from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors

Object = dict[str, Any]


class StrategyContext(msgspec.Struct, frozen=True):
    """The context of a write: the time, the feature gates, and the user."""

    now: str  # RFC 3339, whole seconds
    now_micro: str  # RFC 3339, six digits
    features: FeatureGates
    user: str = ""
    time_zones: frozenset[str] | None = None  # the names of all time zones; None: names are not checked
    namespace_labels: Mapping[str, str] = {}  # of the object's namespace


class AllocationPool(msgspec.Struct, frozen=True):
    """The values that :attr:`Strategy.allocate` may not use, and its random source; for example node ports of
    Services."""

    taken: Container[Hashable]  # allocations of the stored objects of this kind, in all namespaces
    random_below: Callable[[int], int]  # a random number from 0 up to, not including, the argument
    dry_run: bool = False


# Returns field errors, or a text for an error that is not about a field.
Allocate = Callable[[Object, "Object | None", AllocationPool], "FieldErrors | str"]
Create = Callable[[Object, StrategyContext], None]
Update = Callable[[Object, Object, StrategyContext], None]
CheckCreate = Callable[[Object, StrategyContext], FieldErrors]
CheckUpdate = Callable[[Object, Object, StrategyContext], FieldErrors]
WarnCreate = Callable[[Object, StrategyContext], list[str]]
WarnUpdate = Callable[[Object, Object, StrategyContext], list[str]]
GracefulDelete = Callable[[Object, "int | None"], "int | None"]


def no_preparation(obj: Object, ctx: StrategyContext) -> None:
    """Prepare nothing on create."""


def no_update_preparation(new: Object, old: Object, ctx: StrategyContext) -> None:
    """Prepare nothing on update."""


def no_errors(obj: Object, ctx: StrategyContext) -> FieldErrors:
    return []


def no_update_errors(new: Object, old: Object, ctx: StrategyContext) -> FieldErrors:
    return []


def no_warnings(obj: Object, ctx: StrategyContext) -> list[str]:
    return []


def no_update_warnings(new: Object, old: Object, ctx: StrategyContext) -> list[str]:
    return []


class UpdateRules(msgspec.Struct, frozen=True, kw_only=True):
    """How one endpoint (the object itself, or one subresource such as ``status``) changes an existing object.

    ``reset_fields`` are the paths that a client cannot change at the endpoint: managed fields do not record them.
    """

    prepare: Update = no_update_preparation
    validate: CheckUpdate = no_update_errors
    warnings: WarnUpdate = no_update_warnings
    reset_fields: tuple[tuple[str, ...], ...] = ()


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    namespaced: bool = True
    prepare_create: Create = no_preparation
    validate_create: CheckCreate = no_errors
    # Warnings about fields that the preparation removes.
    early_warnings: WarnCreate = no_warnings
    warnings_create: WarnCreate = no_warnings
    update: UpdateRules = UpdateRules()
    subresources: Mapping[str, UpdateRules] = {}  # "status", "finalize", "resize", ...
    # Whether a PUT creates an object that does not exist; otherwise it returns 404.
    allow_create_on_update: bool = False
    # Whether a PUT without resourceVersion overwrites; otherwise it is 422 "must be specified for an update".
    unconditional_update: bool = True
    # The grace period of a delete in seconds, from the object and the request; None: no graceful deletion.
    graceful_delete: GracefulDelete | None = None
    # Allocates values from a finite pool, on create and on update, before ``prepare``. ``allocations`` returns the
    # values of the pool that an object uses.
    allocate: Allocate | None = None
    allocations: Callable[[Object], Iterable[Hashable]] = lambda obj: ()


def validate_create_without_context(rule: Callable[[Object], FieldErrors]) -> CheckCreate:
    return lambda obj, ctx: rule(obj)


def validate_update_without_context(rule: Callable[[Object, Object], FieldErrors]) -> CheckUpdate:
    return lambda new, old, ctx: rule(new, old)


def validate_create_with_features(rule: Callable[[Object, FeatureGates], FieldErrors]) -> CheckCreate:
    return lambda obj, ctx: rule(obj, ctx.features)


def validate_update_with_features(rule: Callable[[Object, Object, FeatureGates], FieldErrors]) -> CheckUpdate:
    return lambda new, old, ctx: rule(new, old, ctx.features)
