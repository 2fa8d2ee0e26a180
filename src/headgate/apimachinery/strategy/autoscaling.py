"""Strategies of ``autoscaling``: HorizontalPodAutoscaler and Scale."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import (
    SPEC,
    STATUS,
    drop_status,
    keep_spec,
    keep_status,
)
from headgate.apimachinery.validation.horizontal_pod_autoscaler import (
    validate_autoscaler_create,
    validate_autoscaler_status_update,
    validate_autoscaler_update,
    validate_scale,
)


def _as_v2(obj: Object) -> Object:
    """The autoscaler in version v2, which the validation functions expect. In v2, ``targetCPUUtilizationPercentage`` of
    v1 is a metric."""
    spec = obj.get("spec") or {}
    if not str(obj.get("apiVersion", "")).endswith("/v1"):
        return obj
    percent = spec.get("targetCPUUtilizationPercentage")
    metrics = []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    return {**obj, "spec": {**spec, "metrics": metrics}}


AUTOSCALING: Final[dict[str, Strategy]] = {
    "HorizontalPodAutoscaler": Strategy(
        prepare_create=drop_status,
        validate_create=lambda obj, ctx: validate_autoscaler_create(_as_v2(obj)),
        update=UpdateRules(
            prepare=keep_status,
            validate=lambda new, old, ctx: validate_autoscaler_update(_as_v2(new), _as_v2(old)),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_autoscaler_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "Scale": Strategy(validate_create=validate_create_without_context(validate_scale)),
}
