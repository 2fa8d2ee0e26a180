"""Validation of a HorizontalPodAutoscaler in the form of ``autoscaling/v2``, and of a Scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.apimachinery.validation.pod.resources import validate_container_resource_name
from headgate.kube import names, quantity
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import NEGATIVE, NOT_POSITIVE, validate_nonnegative, validate_text

Object = dict[str, Any]

_MAX_STABILIZATION_S: Final = 3600
_MAX_PERIOD_S: Final = 1800
_SELECT: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")


def _validate_path_segment(value: str, path: str) -> FieldErrors:
    return validate_text(lambda text: names.name_is_path_segment(text, False), value, path)


def validate_autoscaler_create(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + _validate_spec(obj.get("spec") or {}, None)


def validate_autoscaler_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + _validate_spec(new.get("spec") or {}, old.get("spec") or {})


def validate_autoscaler_status_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    status = new.get("status") or {}
    for field in ("currentReplicas", "desiredReplicas"):
        errors += validate_nonnegative(status.get(field) or 0, f"status.{field}")
    return errors


def _validate_spec(spec: Object, old: Object | None) -> FieldErrors:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    least = 0 if old is not None and old.get("minReplicas") == 0 else 1
    errors: FieldErrors = []
    if low is not None and low < least:
        errors.append(invalid("spec.minReplicas", low, f"must be greater than or equal to {least}"))
    if high < 1:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than 0"))
    if low is not None and high < low:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    target, old_target = spec.get("scaleTargetRef") or {}, (old or {}).get("scaleTargetRef") or {}
    same_kind = old is not None and all(target.get(each) == old_target.get(each) for each in ("apiVersion", "kind"))
    errors += _validate_reference(
        target,
        "spec.scaleTargetRef",
        # The only scalable kind without a group.
        any_group=target.get("kind") == "ReplicationController",
        any_version=same_kind,
    )
    errors += _validate_metrics(spec, low)
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            errors += _validate_rules(rules, f"spec.behavior.{direction}")
    return errors


def _version_error(version: str, *, any_group: bool) -> str:
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    if not any_group and "/" not in version:
        return "apiVersion must specify API group"
    return ""


def _validate_reference(reference: Object, path: str, *, any_group: bool, any_version: bool = False) -> FieldErrors:
    errors: FieldErrors = []
    for field in ("kind", "name"):
        value = reference.get(field, "")
        errors += _validate_path_segment(value, f"{path}.{field}") if value else [required(f"{path}.{field}")]
    version = reference.get("apiVersion", "")
    message = "" if any_version else _version_error(version, any_group=any_group)
    return [*errors, invalid(f"{path}.apiVersion", version, message)] if message else errors


def _validate_metrics(spec: Object, low: int | None) -> FieldErrors:
    errors: FieldErrors = []
    metrics = spec.get("metrics") or []
    for i, metric in enumerate(metrics):
        errors += _validate_metric(metric, f"spec.metrics[{i}]")
    if low == 0 and not any(each.get("type") in ("Object", "External") for each in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    return errors


def _validate_metric(metric: Object, path: str) -> FieldErrors:
    kind = metric.get("type", "")
    errors: FieldErrors = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    unknown = not_supported(f"{path}.type", kind, sorted(_FIELD_OF_TYPE))
    if kind not in _FIELD_OF_TYPE:
        errors.append(unknown)
    given = [name for name in _SOURCES if metric.get(name) is not None]
    if given:
        errors += _SOURCES[given[0]](metric[given[0]], f"{path}.{given[0]}")
    expected = _FIELD_OF_TYPE.get(kind)
    if expected is None:
        errors.append(unknown)
    elif expected not in given:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        text = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{name}", text) for name in given if name != expected]
    return errors


def _validate_target(target: Object, path: str) -> FieldErrors:
    kind = target.get("type", "")
    errors: FieldErrors = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in _TARGETS:
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if field in target and quantity.amount(target[field]).nano <= 0:
            errors.append(invalid(f"{path}.{field}", target[field], "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _validate_identifier(metric: Object, path: str) -> FieldErrors:
    name = metric.get("name", "")
    return (
        _validate_path_segment(name, f"{path}.name")
        if name
        else [required(f"{path}.name", "must specify a metric name")]
    )


def _validate_object(source: Object, path: str) -> FieldErrors:
    target = source.get("target") or {}
    errors = _validate_reference(source.get("describedObject") or {}, f"{path}.describedObject", any_group=True)
    errors += _validate_identifier(source.get("metric") or {}, f"{path}.metric")
    errors += _validate_target(target, f"{path}.target")
    if "value" not in target and "averageValue" not in target:
        errors.append(required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    return errors


def _validate_external(source: Object, path: str) -> FieldErrors:
    target = source.get("target") or {}
    errors = _validate_identifier(source.get("metric") or {}, f"{path}.metric")
    errors += _validate_target(target, f"{path}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{path}.target.averageValue", text))
    if "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", text))
    return errors


def _validate_pods(source: Object, path: str) -> FieldErrors:
    target = source.get("target") or {}
    errors = _validate_identifier(source.get("metric") or {}, f"{path}.metric")
    errors += _validate_target(target, f"{path}.target")
    if "averageValue" not in target:
        errors.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    return errors


def _validate_resource(source: Object, path: str) -> FieldErrors:
    errors = [] if source.get("name") else [required(f"{path}.name", "must specify a resource name")]
    return errors + _validate_resource_target(source.get("target") or {}, f"{path}.target")


def _validate_resource_target(target: Object, path: str) -> FieldErrors:
    errors = _validate_target(target, path)
    if "averageUtilization" not in target and "averageValue" not in target:
        text = "must set either a target raw value or a target utilization"
        errors.append(required(f"{path}.averageUtilization", text))
    if "averageUtilization" in target and "averageValue" in target:
        text = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{path}.averageValue", text))
    return errors


def _validate_container_resource(source: Object, path: str) -> FieldErrors:
    name, container = source.get("name", ""), source.get("container", "")
    errors: FieldErrors = []
    if name:
        errors += validate_container_resource_name(name, f"{path}.name")
    else:
        errors.append(required(f"{path}.name", "must specify a resource name"))
    if container:
        errors += validate_text(names.is_dns1123_label, container, f"{path}.container")
    else:
        errors.append(required(f"{path}.container", "must specify a container"))
    return errors + _validate_resource_target(source.get("target") or {}, f"{path}.target")


_SOURCES: Final[dict[str, Callable[[Object, str], FieldErrors]]] = {
    "object": _validate_object,
    "external": _validate_external,
    "pods": _validate_pods,
    "resource": _validate_resource,
    "containerResource": _validate_container_resource,
}
_FIELD_OF_TYPE: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "External": "external",
    "ContainerResource": "containerResource",
}


def _validate_rules(rules: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    window, policies = rules.get("stabilizationWindowSeconds"), rules.get("policies") or []
    field_path = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(field_path, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_STABILIZATION_S:
        errors.append(invalid(field_path, window, f"must be less than or equal to {_MAX_STABILIZATION_S}"))
    select = rules.get("selectPolicy")
    if select is not None and select not in _SELECT:
        errors.append(not_supported(f"{path}.selectPolicy", select, _SELECT))
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for i, policy in enumerate(policies):
        field_path, period = f"{path}.policies[{i}]", policy.get("periodSeconds", 0)
        if policy.get("type", "") not in _POLICIES:
            errors.append(not_supported(f"{field_path}.type", policy.get("type", ""), _POLICIES))
        for field in ("value", "periodSeconds"):
            if policy.get(field, 0) <= 0:
                errors.append(invalid(f"{field_path}.{field}", policy.get(field, 0), NOT_POSITIVE))
        if period > _MAX_PERIOD_S:
            errors.append(
                invalid(f"{field_path}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD_S}")
            )
    if "tolerance" in rules and quantity.amount(rules["tolerance"]).nano < 0:
        errors.append(invalid(f"{path}.tolerance", rules["tolerance"], NEGATIVE))
    return errors


def validate_scale(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + validate_nonnegative((obj.get("spec") or {}).get("replicas") or 0, "spec.replicas")
