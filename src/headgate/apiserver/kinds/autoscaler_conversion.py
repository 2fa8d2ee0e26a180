"""HorizontalPodAutoscalers: ``autoscaling/v2`` is stored, and ``autoscaling/v1`` is converted from and to it.

``v1`` has one target, the CPU utilization. All other fields of ``v2`` (other metrics, behaviour, conditions, current
metric values) are annotations in ``v1``, so that an old client can read an autoscaler, change its size and write it
back without loss. On write, a valid annotation becomes the field of ``v2``, and an invalid one is removed without an
error. These annotations are never stored.

``autoscaler_metrics.py`` maps the fields of one metric between the versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apiserver.kinds.autoscaler_metrics import (
    METRIC_SOURCES,
    METRIC_STATUSES,
    MetricRow,
    QuantityText,
    checked,
    metric_to_v1,
    metric_to_v2,
)
from headgate.kube.serializer.json_decoder import decode_json

Object = dict[str, Any]

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT_METRICS: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_RESERVED: Final = frozenset(
    {
        _METRICS,
        _CURRENT_METRICS,
        _CONDITIONS,
        _BEHAVIOR,
        f"{_PREFIX}scale-down-tolerance",
        f"{_PREFIX}scale-up-tolerance",
    }
)

_DEFAULT_UTILIZATION: Final = 80

_SHARED_SPEC: Final = ("scaleTargetRef", "minReplicas", "maxReplicas")
_SHARED_STATUS: Final = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")

# The annotation has these fields capitalised, and always has all of them.
_RULE_FIELDS: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY_FIELDS: Final = ("type", "value", "periodSeconds")
_RULES_SHAPE: Final = dict.fromkeys(_RULE_FIELDS) | {"policies": [dict.fromkeys(_POLICY_FIELDS)]}
_BEHAVIOR_SHAPE: Final = {"scaleUp": _RULES_SHAPE, "scaleDown": _RULES_SHAPE}
_CONDITION_FIELDS: Final = ("type", "status", "lastTransitionTime", "reason", "message")


class _Policy(msgspec.Struct):
    type: str = ""
    value: int = 0
    periodSeconds: int = 0


class _Rules(msgspec.Struct, omit_defaults=True):
    stabilizationWindowSeconds: int | None = None
    selectPolicy: str | None = None
    policies: list[_Policy] | None = None
    tolerance: str | None = None


class _Behavior(msgspec.Struct, omit_defaults=True):
    scaleUp: _Rules | None = None
    scaleDown: _Rules | None = None


def v2_to_v1(stored: Object) -> Object:
    spec, status = stored.get("spec") or {}, stored.get("status") or {}
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    extra: dict[str, Any] = {
        _METRICS: [metric_to_v1(METRIC_SOURCES, each) for each in metrics if _cpu_utilization(each) is None],
        _CURRENT_METRICS: [metric_to_v1(METRIC_STATUSES, each) for each in current],
        _CONDITIONS: [_condition(each) for each in status.get("conditions") or []],
        _BEHAVIOR: _behavior_to_annotation(spec["behavior"]) if spec.get("behavior") is not None else None,
    }
    v1_spec = {name: spec[name] for name in _SHARED_SPEC if name in spec}
    target = next((value for each in metrics if (value := _cpu_utilization(each)) is not None), None)
    if target is not None:
        v1_spec["targetCPUUtilizationPercentage"] = target
    v1_status = {name: status[name] for name in _SHARED_STATUS if name in status}
    utilization = [value for each in current if (value := _current_cpu_utilization(each)) is not None]
    if utilization:
        v1_status["currentCPUUtilizationPercentage"] = utilization[-1]
    annotations = {key: _annotation(value) for key, value in extra.items() if value}
    return _rebuilt(stored, "autoscaling/v1", annotations, v1_spec, v1_status)


def v1_to_v2(obj: Object) -> Object:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    v2_spec = {name: spec[name] for name in _SHARED_SPEC if name in spec}
    metrics = _metrics(annotations.get(_METRICS), METRIC_SOURCES) or []
    target = spec.get("targetCPUUtilizationPercentage")
    if target is None and not metrics:
        target = _DEFAULT_UTILIZATION
    if target is not None:
        goal = {"type": "Utilization", "averageUtilization": target}
        metrics = [*metrics, {"type": "Resource", "resource": {"name": "cpu", "target": goal}}]
    v2_spec["metrics"] = metrics
    behavior = _behavior_from_annotation(annotations.get(_BEHAVIOR))
    if behavior:
        v2_spec["behavior"] = behavior
    v2_status = {name: status[name] for name in _SHARED_STATUS if name in status}
    current = _metrics(annotations.get(_CURRENT_METRICS), METRIC_STATUSES)
    utilization = status.get("currentCPUUtilizationPercentage")
    if current is None and utilization is not None:
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": utilization}}}]
    if current:
        v2_status["currentMetrics"] = current
    conditions = _conditions(annotations.get(_CONDITIONS))
    if conditions:
        v2_status["conditions"] = conditions
    return _rebuilt(obj, "autoscaling/v2", {}, v2_spec, v2_status)


def without_v1_annotations(obj: Object) -> Object:
    """Removes the annotations of ``v1``, which would contradict the fields of ``v2``."""
    metadata = obj.get("metadata") or {}
    if not _RESERVED.intersection(metadata.get("annotations") or ()):
        return obj
    return obj | {"metadata": _metadata(metadata, {})}


def _rebuilt(obj: Object, api_version: str, annotations: dict[str, str], spec: Object, status: Object) -> Object:
    head = {name: obj[name] for name in ("kind", "apiVersion") if name in obj}
    if "apiVersion" in head:
        head["apiVersion"] = api_version
    return head | {"metadata": _metadata(obj.get("metadata") or {}, annotations), "spec": spec, "status": status}


def _metadata(metadata: Object, added: dict[str, str]) -> Object:
    kept = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _RESERVED}
    annotations = dict(sorted((kept | added).items()))
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return rest | {"annotations": annotations} if annotations else rest


def _cpu_utilization(metric: Object) -> int | None:
    """The CPU utilization target of a metric, which has a field in ``v1``; None for any other metric."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    value: int | None = (resource.get("target") or {}).get("averageUtilization")
    return value


def _current_cpu_utilization(metric: Object) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    value: int | None = (resource.get("current") or {}).get("averageUtilization")
    return value


def _annotation(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    # Go escapes these three for HTML; a round trip should return the same bytes.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    return decode_json(text.encode("utf-8", "surrogatepass")).value


def _list_of_objects(text: str | None) -> list[Object] | None:
    value = _parsed(text)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return None
    return value


def _metrics(text: str | None, table: Mapping[str, MetricRow]) -> list[Object] | None:
    """The metrics of an annotation as ``v2`` metrics; None if there are none or one of them is invalid."""
    found = _list_of_objects(text)
    if found is None:
        return None
    converted = [metric_to_v2(table, each) for each in found]
    valid = [each for each in converted if each is not None]
    return valid if len(valid) == len(converted) else None


def _condition(condition: Object) -> Object:
    shown = {name: condition[name] for name in _CONDITION_FIELDS if condition.get(name)}
    shown.setdefault("lastTransitionTime", None)
    return {name: shown[name] for name in _CONDITION_FIELDS if name in shown}


def _conditions(text: str | None) -> list[Object] | None:
    found = _list_of_objects(text)
    if found is None:
        return None
    return [{name: each[name] for name in _CONDITION_FIELDS if isinstance(each.get(name), str)} for each in found]


def _capitalised(name: str) -> str:
    return name[0].upper() + name[1:]


def _behavior_to_annotation(behavior: Object) -> Object:
    return {_capitalised(name): _rules_to_annotation(behavior.get(name)) for name in ("scaleUp", "scaleDown")}


def _rules_to_annotation(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    shown = {_capitalised(name): rules.get(name) for name in _RULE_FIELDS}
    if rules.get("policies") is not None:
        shown["Policies"] = [
            {_capitalised(name): policy.get(name) for name in _POLICY_FIELDS} for policy in rules["policies"]
        ]
    return shown


def _behavior_from_annotation(text: str | None) -> Object | None:
    value = _with_field_case(_parsed(text), _BEHAVIOR_SHAPE)
    for rules in value.values() if isinstance(value, dict) else ():
        if isinstance(rules, dict) and "tolerance" in rules:
            rules["tolerance"] = checked(rules["tolerance"], QuantityText)
    behavior: Object | None = checked(value, _Behavior)
    return behavior


def _with_field_case(value: Any, shape: Any) -> Any:
    """``value`` with the names of its fields spelled as in ``shape``, because Go's JSON decoder ignores case."""
    if isinstance(shape, list):
        return [_with_field_case(each, shape[0]) for each in value] if isinstance(value, list) else value
    if not isinstance(shape, dict) or not isinstance(value, dict):
        return value
    found = {str(key).lower(): each for key, each in value.items() if each is not None}
    return {
        name: _with_field_case(found[name.lower()], inner) for name, inner in shape.items() if name.lower() in found
    }
