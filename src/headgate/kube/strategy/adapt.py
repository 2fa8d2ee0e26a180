"""Turns plain rules into the shapes that a :class:`Strategy` holds: rules that need no context, or its features."""

from __future__ import annotations

from collections.abc import Callable

from headgate.kube.errors import FieldErrors
from headgate.kube.features import Features
from headgate.kube.strategy.contract import CheckCreate, CheckUpdate, Object


def checks(rule: Callable[[Object], FieldErrors]) -> CheckCreate:
    return lambda obj, ctx: rule(obj)


def checks_update(rule: Callable[[Object, Object], FieldErrors]) -> CheckUpdate:
    return lambda new, old, ctx: rule(new, old)


def with_features(rule: Callable[[Object, Features], FieldErrors]) -> CheckCreate:
    return lambda obj, ctx: rule(obj, ctx.features)


def update_with_features(rule: Callable[[Object, Object, Features], FieldErrors]) -> CheckUpdate:
    return lambda new, old, ctx: rule(new, old, ctx.features)
