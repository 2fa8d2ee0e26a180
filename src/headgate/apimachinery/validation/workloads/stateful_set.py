"""Validation of StatefulSet, DaemonSet and their ControllerRevisions."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery.validation.pod.claim_template import validate_claim_spec
from headgate.apimachinery.validation.workloads.update_strategy_values import (
    stateful_rolling_update_value,
    stateful_set_strategy_value,
    surge_strategy_value,
)
from headgate.apimachinery.validation.workloads.workload_template import (
    validate_collision_count,
    validate_counters,
    validate_restart_policy_and_deadline,
    validate_template,
    validate_within_replicas,
)
from headgate.kube import names
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.validation.labels import (
    has_invalid_selector_value,
    is_empty_selector,
    validate_label_selector,
    validate_labels,
    validate_selector_matches_template,
)
from headgate.kube.validation.object_meta import validate_annotations, validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import (
    IMMUTABLE,
    int_or_percent_value,
    validate_at_most_100_percent,
    validate_immutable,
    validate_nonnegative,
    validate_nonnegative_fields,
    validate_nonnegative_int_or_percent,
    validate_text,
)

Object = dict[str, Any]

_MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_RETENTION: Final = ("Retain", "Delete")


def validate_stateful_set_create(obj: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_label)
    return errors + _validate_stateful_set_spec(obj["spec"], None, features, is_update=False)


def validate_stateful_set_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    # If the stored spec is invalid under the current rules, the template is not validated, so that the StatefulSet can
    # still be updated.
    skip_template_validation = bool(_validate_stateful_set_spec(old["spec"], old["spec"], features, is_update=True))
    errors += _validate_stateful_set_spec(
        new["spec"], old["spec"], features, is_update=True, skip_template_validation=skip_template_validation
    )
    if _immutable_part(new["spec"]) != _immutable_part(old["spec"]):
        listed = ", ".join(f"'{each}'" for each in _MUTABLE[:-1]) + f" and '{_MUTABLE[-1]}'"
        errors.append(forbidden("spec", f"updates to statefulset spec for fields other than {listed} are forbidden"))
    return errors


def _immutable_part(spec: Object) -> Object:
    return {name: value for name, value in spec.items() if name not in _MUTABLE}


def _validate_stateful_set_spec(
    spec: Object, old: Object | None, features: FeatureGates, *, is_update: bool, skip_template_validation: bool = False
) -> FieldErrors:
    errors: FieldErrors = []
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        path = "spec.podManagementPolicy"
        errors.append(invalid(path, policy, "must be 'OrderedReady' or 'Parallel'") if policy else required(path))
    errors += _validate_stateful_set_strategy(spec.get("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is not None:
        for field in ("whenDeleted", "whenScaled"):
            if retention.get(field) not in _RETENTION:
                path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
                errors.append(not_supported(path, retention.get(field, ""), _RETENTION))
    if not is_update:
        for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            errors += validate_claim_spec(claim.get("spec", {}), f"spec.volumeClaimTemplates[{i}].spec")
    errors += validate_nonnegative(spec.get("replicas", 0), "spec.replicas")
    errors += validate_nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    errors += validate_nonnegative((spec.get("ordinals") or {}).get("start", 0), "spec.ordinals.start")
    if spec.get("serviceName") and not is_update:
        errors += validate_text(names.is_dns1123_label, spec["serviceName"], "spec.serviceName")
    errors += _validate_stateful_set_template(spec, old, features, skip_template_validation)
    return errors + validate_restart_policy_and_deadline(spec.get("template", {}), "spec.template", "StatefulSet")


def _validate_stateful_set_strategy(strategy: Object) -> FieldErrors:
    path = "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        if rolling is None:
            return []
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid(f"{path}.rollingUpdate", stateful_rolling_update_value(rolling), text)]
    if kind != "RollingUpdate":
        return [invalid(path, stateful_set_strategy_value(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    found = validate_nonnegative(rolling.get("partition", 0), f"{path}.rollingUpdate.partition")
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        path = f"{path}.rollingUpdate.maxUnavailable"
        found += validate_nonnegative_int_or_percent(unavailable, path)
        if int_or_percent_value(unavailable) == 0:
            found.append(invalid(path, unavailable, "cannot be 0"))
        found += validate_at_most_100_percent(unavailable, path)
    return found


def _validate_stateful_set_template(
    spec: Object, old: Object | None, features: FeatureGates, skip_template_validation: bool
) -> FieldErrors:
    selector, template = spec.get("selector"), spec.get("template", {})
    selector_errors = validate_label_selector(selector, "spec.selector")
    if selector is None:
        errors = [required("spec.selector")]
    else:
        errors = list(selector_errors)
        if is_empty_selector(selector):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for statefulset"))
    if selector_errors:
        return [*errors, invalid("spec.selector", selector, "")]
    if selector is None or not is_empty_selector(selector):
        errors += validate_selector_matches_template(selector, template, "spec.template")
    if not skip_template_validation:
        effective = _with_controller_fields(template, spec.get("volumeClaimTemplates") or ())
        errors += validate_template(effective, "spec.template", features, old.get("template") if old else None)
    metadata = template.get("metadata", {})
    errors += validate_labels(metadata.get("labels"), "spec.template.labels")
    return errors + validate_annotations(metadata.get("annotations"), "spec.template.annotations")


def _with_controller_fields(template: Object, claims: Any) -> Object:
    """The template without hostname and subdomain, which the controller sets, and with volumes for claim templates."""
    pod = {name: value for name, value in template.get("spec", {}).items() if name not in ("hostname", "subdomain")}
    if claims:
        claim_names = [each.get("metadata", {}).get("name", "") for each in claims]
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claim_names)]
        pod["volumes"] = volumes + [each for each in pod.get("volumes") or () if each.get("name") not in claim_names]
    return {**template, "spec": pod}


def validate_stateful_set_status_update(new: Object, old: Object) -> FieldErrors:
    status = new.get("status") or {}
    bounded = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    errors = validate_counters(status, ("replicas", *bounded), ("observedGeneration", "collisionCount"))
    errors += validate_within_replicas(status, bounded, "status.readyReplicas")
    errors += validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + validate_collision_count(status, old.get("status") or {})


def validate_daemon_set_create(obj: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + _validate_daemon_set_spec(obj["spec"], None, features)


def validate_daemon_set_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += validate_immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")
    return errors + _validate_daemon_set_spec(new["spec"], old["spec"], features)


def _validate_daemon_set_spec(spec: Object, old: Object | None, features: FeatureGates) -> FieldErrors:
    selector, template = spec.get("selector"), spec.get("template", {})
    tolerated = has_invalid_selector_value(old.get("selector")) if old else False
    errors = validate_label_selector(selector, "spec.selector", any_value=tolerated)
    errors += validate_selector_matches_template(selector, template, "spec.template")
    if selector is not None and is_empty_selector(selector):
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    errors += validate_template(template, "spec.template", features, old.get("template") if old else None)
    errors += validate_restart_policy_and_deadline(template, "spec.template", "DaemonSet")
    errors += validate_nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    errors += _validate_daemon_set_strategy(spec.get("updateStrategy", {}))
    return errors + validate_nonnegative_fields(spec, "spec", ("revisionHistoryLimit",))


def _validate_daemon_set_strategy(strategy: Object) -> FieldErrors:
    path = "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(path, surge_strategy_value(strategy), ["RollingUpdate", "OnDelete"])]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    unavailable_path, surge_path = f"{path}.rollingUpdate.maxUnavailable", f"{path}.rollingUpdate.maxSurge"
    found = validate_nonnegative_int_or_percent(unavailable, unavailable_path) + validate_nonnegative_int_or_percent(
        surge, surge_path
    )
    found += validate_at_most_100_percent(unavailable, unavailable_path) + validate_at_most_100_percent(
        surge, surge_path
    )
    has_unavailable, has_surge = int_or_percent_value(unavailable) != 0, int_or_percent_value(surge) != 0
    if has_unavailable and has_surge:
        found.append(invalid(surge_path, surge, "may not be set when maxUnavailable is non-zero"))
    elif not has_unavailable and not has_surge:
        found.append(required(unavailable_path, "cannot be 0 when maxSurge is 0"))
    return found


def validate_daemon_set_status_update(new: Object, old: Object) -> FieldErrors:
    status = new.get("status") or {}
    counters = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    )
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += validate_counters(status, counters, ("collisionCount",))
    return errors + validate_collision_count(status, old.get("status") or {})


def validate_controller_revision_create(obj: Object) -> FieldErrors:
    errors = _validate_revision(obj)
    data = obj.get("data")
    if data is None:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors


def _validate_revision(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + validate_nonnegative(obj.get("revision", 0), "revision")


def validate_controller_revision_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"]) + _validate_revision(new)
    if new.get("data") == old.get("data"):
        return errors
    # `data` is a RawExtension: the error message shows its JSON with the fields in the client's order.
    return [*errors, invalid("data", msgspec.Raw(msgspec.json.encode(new.get("data"))), IMMUTABLE)]
