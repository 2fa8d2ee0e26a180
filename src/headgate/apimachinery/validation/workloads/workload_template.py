"""Validation of a workload's pod template: its selector, the restrictions of the kind, and replica counters.

``apimachinery/validation/pod/`` validates the template itself; this module adds the rules that depend on the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery.validation.pod import validate_pod_template_spec
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.labels import from_label_selector
from headgate.kube.validation.labels import is_empty_selector, validate_label_selector
from headgate.kube.validation.values import validate_nonnegative

Object = dict[str, Any]

_OVER_REPLICAS: Final = "cannot be greater than status.replicas"


def validate_template(template: Object, path: str, features: FeatureGates, old: Object | None) -> FieldErrors:
    return validate_pod_template_spec(template, path, features, old)


def validate_selected_template(
    spec: Object, old: Object | None, features: FeatureGates, *, kind: str, bad_selector: str
) -> FieldErrors:
    """The selector is required and must match the template, which is then validated.

    ``kind`` and ``bad_selector`` are parts of error texts.
    """
    selector = spec.get("selector")
    broken = validate_label_selector(selector, "spec.selector")
    if selector is None:
        errors = [required("spec.selector")]
    else:
        errors = list(broken)
        if is_empty_selector(selector):
            errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    if broken:
        errors.append(invalid("spec.selector", selector, bad_selector))
        return errors
    template = spec.get("template", {})
    errors += _validate_selector_matches(selector, template)
    return errors + validate_template(template, "spec.template", features, old.get("template") if old else None)


def _validate_selector_matches(selector: Object | None, template: Object) -> FieldErrors:
    if selector is not None and is_empty_selector(selector):
        return []
    labels = template.get("metadata", {}).get("labels")
    if from_label_selector(selector).matches(labels):
        return []
    return [invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]


def validate_restart_policy_and_deadline(template: Object, path: str, kind: str) -> FieldErrors:
    """The pods of these controllers must have restart policy Always and no deadline."""
    errors: FieldErrors = []
    pod = template.get("spec", {})
    if pod.get("restartPolicy") != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", pod.get("restartPolicy", ""), ["Always"]))
    if pod.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", text))
    return errors


def validate_counters(status: Object, fields: Sequence[str], optional: Sequence[str] = ()) -> FieldErrors:
    errors: FieldErrors = []
    for name in fields:
        errors += validate_nonnegative(status.get(name) or 0, f"status.{name}")
    for name in optional:
        if name in status:
            errors += validate_nonnegative(status[name], f"status.{name}")
    return errors


def validate_within_replicas(status: Object, fields: Sequence[str], ready: str) -> FieldErrors:
    """No counter may exceed ``replicas``, and ``availableReplicas`` may not exceed ``readyReplicas``.

    ``ready`` is the name of ``readyReplicas`` in the error text.
    """
    errors: FieldErrors = []
    for name in fields:
        count = status.get(name) or 0
        if count > (status.get("replicas") or 0):
            errors.append(invalid(f"status.{name}", count, _OVER_REPLICAS))
    available = status.get("availableReplicas") or 0
    if available > (status.get("readyReplicas") or 0):
        errors.append(invalid("status.availableReplicas", available, f"cannot be greater than {ready}"))
    return errors


def validate_collision_count(status: Object, old: Object) -> FieldErrors:
    """The number of hash collisions must not decrease; an absent value counts as a decrease."""
    new_count, old_count = status.get("collisionCount"), old.get("collisionCount")
    if old_count is not None and (new_count is None or new_count < old_count):
        return [invalid("status.collisionCount", new_count or 0, "cannot be decremented")]
    return []
