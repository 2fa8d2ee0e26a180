"""The strategies of Pod and PodTemplate: which function prepares, validates and warns at which endpoint.

The functions are in ``apimachinery/pods/`` and ``apimachinery/validation/pod/``. Kinds that contain a pod template are
in ``workloads.py``.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.ip_addresses import warnings_for_ip
from headgate.apimachinery.pods import preparation
from headgate.apimachinery.pods.app_armor import app_armor_warnings
from headgate.apimachinery.pods.preparation import prepare_pod_template
from headgate.apimachinery.pods.warnings import pod_template_warnings, pod_warnings
from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    StrategyContext,
    UpdateRules,
    validate_create_with_features,
    validate_update_with_features,
)
from headgate.apimachinery.strategy.prepare import bump_generation, has_changed
from headgate.apimachinery.validation.pod import (
    validate_pod_create,
    validate_pod_ephemeral_containers,
    validate_pod_resize,
    validate_pod_status_update,
    validate_pod_update,
)
from headgate.apimachinery.validation.workloads.pod_template import (
    validate_pod_template_create,
    validate_pod_template_update,
)
from headgate.kube.field_errors import FieldErrors


def _prepare_create(obj: Object, ctx: StrategyContext) -> None:
    preparation.prepare_pod_create(obj, ctx.features, ctx.now)


def _validate_create(obj: Object, ctx: StrategyContext) -> FieldErrors:
    return validate_pod_create(obj, ctx.features)


def _early_warnings(obj: Object, ctx: StrategyContext) -> list[str]:
    return app_armor_warnings(obj)


def _warnings_create(obj: Object, ctx: StrategyContext) -> list[str]:
    return pod_warnings(obj)


def _prepare_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    preparation.prepare_pod_update(new, old, ctx.features)


def _validate_update(new: Object, old: Object, ctx: StrategyContext) -> FieldErrors:
    return validate_pod_update(new, old, ctx.features)


def _prepare_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    preparation.prepare_pod_status_update(new, old)


def _validate_status(new: Object, old: Object, ctx: StrategyContext) -> FieldErrors:
    return validate_pod_status_update(new, old, ctx.features)


def _warnings_status(new: Object, old: Object, ctx: StrategyContext) -> list[str]:
    status = new.get("status") or {}
    return [
        warning
        for field in ("podIPs", "hostIPs")
        for index, address in enumerate(status.get(field) or ())
        for warning in warnings_for_ip(f"status.{field}[{index}].ip", address.get("ip", ""))
    ]


def _prepare_resize(new: Object, old: Object, ctx: StrategyContext) -> None:
    preparation.prepare_pod_resize(new, old, ctx.features)


def _validate_resize(new: Object, old: Object, ctx: StrategyContext) -> FieldErrors:
    return validate_pod_resize(new, old, ctx.features)


def _prepare_ephemeral(new: Object, old: Object, ctx: StrategyContext) -> None:
    preparation.prepare_pod_ephemeral_containers(new, old, ctx.features)


def _validate_ephemeral(new: Object, old: Object, ctx: StrategyContext) -> FieldErrors:
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
    graceful_delete=preparation.grace_period_s,
)


def _prepare_pod_template_create(obj: Object, ctx: StrategyContext) -> None:
    obj["metadata"]["generation"] = 1
    prepare_pod_template(obj.get("template") or {}, None, ctx.features)


def _prepare_pod_template_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    prepare_pod_template(new.get("template") or {}, old.get("template") or {}, ctx.features)
    if new.get("template") != old.get("template"):
        bump_generation(new, old)


def _pod_template_update_warnings(new: Object, old: Object, ctx: StrategyContext) -> list[str]:
    return pod_template_warnings(new.get("template") or {}, "template") if has_changed(new, old) else []


TEMPLATES: Final[dict[str, Strategy]] = {
    "PodTemplate": Strategy(
        prepare_create=_prepare_pod_template_create,
        validate_create=validate_create_with_features(validate_pod_template_create),
        warnings_create=lambda obj, ctx: pod_template_warnings(obj.get("template") or {}, "template"),
        update=UpdateRules(
            prepare=_prepare_pod_template_update,
            validate=validate_update_with_features(validate_pod_template_update),
            warnings=_pod_template_update_warnings,
        ),
    ),
}
