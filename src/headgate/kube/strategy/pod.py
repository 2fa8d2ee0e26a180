"""The strategy of pods: which function prepares, checks and warns at which endpoint.

The functions themselves are in ``kube/pods/`` and ``kube/validation/pod/``; here they meet the contract.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.addresses import warnings_for_ip
from headgate.kube.errors import FieldErrors
from headgate.kube.pods import strategy
from headgate.kube.pods.app_armor import app_armor_warnings
from headgate.kube.pods.warnings import pod_warnings
from headgate.kube.strategy.contract import Context, Object, Strategy, UpdateRules
from headgate.kube.validation.pod import (
    validate_pod_create,
    validate_pod_ephemeral_containers,
    validate_pod_resize,
    validate_pod_status_update,
    validate_pod_update,
)


def _prepare_create(obj: Object, ctx: Context) -> None:
    strategy.prepare_pod_create(obj, ctx.features, ctx.now)


def _validate_create(obj: Object, ctx: Context) -> FieldErrors:
    return validate_pod_create(obj, ctx.features)


def _early_warnings(obj: Object, ctx: Context) -> list[str]:
    return app_armor_warnings(obj)


def _warnings_create(obj: Object, ctx: Context) -> list[str]:
    return pod_warnings(obj)


def _prepare_update(new: Object, old: Object, ctx: Context) -> None:
    strategy.prepare_pod_update(new, old, ctx.features)


def _validate_update(new: Object, old: Object, ctx: Context) -> FieldErrors:
    return validate_pod_update(new, old, ctx.features)


def _prepare_status(new: Object, old: Object, ctx: Context) -> None:
    strategy.prepare_pod_status_update(new, old)


def _validate_status(new: Object, old: Object, ctx: Context) -> FieldErrors:
    return validate_pod_status_update(new, old, ctx.features)


def _warnings_status(new: Object, old: Object, ctx: Context) -> list[str]:
    status = new.get("status") or {}
    return [
        warning
        for field in ("podIPs", "hostIPs")
        for index, address in enumerate(status.get(field) or ())
        for warning in warnings_for_ip(f"status.{field}[{index}].ip", address.get("ip", ""))
    ]


def _prepare_resize(new: Object, old: Object, ctx: Context) -> None:
    strategy.prepare_pod_resize(new, old, ctx.features)


def _validate_resize(new: Object, old: Object, ctx: Context) -> FieldErrors:
    return validate_pod_resize(new, old, ctx.features)


def _prepare_ephemeral(new: Object, old: Object, ctx: Context) -> None:
    strategy.prepare_pod_ephemeral_containers(new, old, ctx.features)


def _validate_ephemeral(new: Object, old: Object, ctx: Context) -> FieldErrors:
    return validate_pod_ephemeral_containers(new, old, ctx.features)


POD: Final = Strategy(
    prepare_create=_prepare_create,
    validate_create=_validate_create,
    early_warnings=_early_warnings,
    warnings_create=_warnings_create,
    update=UpdateRules(prepare=_prepare_update, validate=_validate_update, reset_fields=(("status",),)),
    subresources={
        "status": UpdateRules(
            prepare=_prepare_status,
            validate=_validate_status,
            warnings=_warnings_status,
            reset_fields=(("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
        ),
        "resize": UpdateRules(prepare=_prepare_resize, validate=_validate_resize),
        "ephemeralcontainers": UpdateRules(prepare=_prepare_ephemeral, validate=_validate_ephemeral),
    },
    graceful_delete=strategy.grace_period_s,
)
