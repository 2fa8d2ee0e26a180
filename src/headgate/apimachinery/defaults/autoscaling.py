"""Defaults of HorizontalPodAutoscaler in both served versions, and of its scaling behaviour."""

from __future__ import annotations

from typing import Any, Final

_OTHER_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_CPU_PERCENT: Final = 80


def default_horizontal_pod_autoscaler_v1(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    # This version has a field for one metric, and an annotation for all others.
    if _OTHER_METRICS not in (obj.get("metadata", {}).get("annotations") or {}):
        spec.setdefault("targetCPUUtilizationPercentage", _CPU_PERCENT)


def default_horizontal_pod_autoscaler_v2(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior["scaleUp"] = {**_scale_up(), **behavior.get("scaleUp", {})}
        behavior["scaleDown"] = {**_scale_down(), **behavior.get("scaleDown", {})}


def _scale_up() -> dict[str, Any]:
    return {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    }


def _scale_down() -> dict[str, Any]:
    return {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
