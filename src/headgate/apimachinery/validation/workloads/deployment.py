"""Validation of Deployment, ReplicaSet and ReplicationController."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.validation.workloads.update_strategy_values import surge_strategy_value
from headgate.apimachinery.validation.workloads.workload_template import (
    validate_collision_count,
    validate_counters,
    validate_restart_policy_and_deadline,
    validate_selected_template,
    validate_template,
    validate_within_replicas,
)
from headgate.kube import names
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import (
    int_or_percent_value,
    validate_at_most_100_percent,
    validate_immutable,
    validate_nonnegative,
    validate_nonnegative_fields,
    validate_nonnegative_int_or_percent,
)

Object = dict[str, Any]

_BAD_SELECTOR: Final = "invalid label selector"


def validate_deployment_create(obj: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + _validate_deployment_spec(obj["spec"], None, features)


def validate_deployment_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += _validate_deployment_spec(new["spec"], old["spec"], features)
    return errors + validate_immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _validate_deployment_spec(spec: Object, old: Object | None, features: FeatureGates) -> FieldErrors:
    found = validate_nonnegative(spec.get("replicas", 0), "spec.replicas")
    found += _validate_replica_template(spec, old, features)
    found += _validate_strategy(spec.get("strategy", {}))
    found += validate_nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    found += validate_nonnegative_fields(spec, "spec", ("revisionHistoryLimit", "progressDeadlineSeconds"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        found.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return found


def _validate_replica_template(spec: Object, old: Object | None, features: FeatureGates) -> FieldErrors:
    """Messages for a ReplicaSet contain "deployment" too, as in Kubernetes."""
    errors = validate_selected_template(spec, old, features, kind="deployment", bad_selector=_BAD_SELECTOR)
    if any(error.detail == _BAD_SELECTOR for error in errors):
        return errors
    return errors + validate_restart_policy_and_deadline(spec.get("template", {}), "spec.template", "ReplicaSet")


def _validate_strategy(strategy: Object) -> FieldErrors:
    path = "spec.strategy"
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        return [forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        return [not_supported(path, surge_strategy_value(strategy), ["Recreate", "RollingUpdate"])]
    if rolling is None:
        return [required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    found = validate_nonnegative_int_or_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")
    found += validate_nonnegative_int_or_percent(surge, f"{path}.rollingUpdate.maxSurge")
    if int_or_percent_value(unavailable) == 0 and int_or_percent_value(surge) == 0:
        text = "may not be 0 when `maxSurge` is 0"
        found.append(invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, text))
    return found + validate_at_most_100_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")


def validate_deployment_status_update(new: Object, old: Object) -> FieldErrors:
    status = new.get("status") or {}
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    counters = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    )
    errors += validate_counters(status, counters, ("terminatingReplicas", "collisionCount"))
    bounded = ("updatedReplicas", "readyReplicas", "availableReplicas")
    errors += validate_within_replicas(status, bounded, "readyReplicas")
    return errors + validate_collision_count(status, old.get("status") or {})


def validate_replica_set_create(obj: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + _validate_replica_set_spec(obj["spec"], None, features)


def validate_replica_set_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += _validate_replica_set_spec(new["spec"], old["spec"], features)
    return errors + validate_immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _validate_replica_set_spec(spec: Object, old: Object | None, features: FeatureGates) -> FieldErrors:
    found = validate_nonnegative(spec.get("replicas", 0), "spec.replicas")
    found += validate_nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    return found + _validate_replica_template(spec, old, features)


_REPLICA_COUNTERS: Final = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
)


def validate_replica_set_status_update(new: Object, old: Object) -> FieldErrors:
    """For ReplicaSet and ReplicationController."""
    status = new.get("status") or {}
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += validate_counters(status, _REPLICA_COUNTERS, ("terminatingReplicas",))
    bounded = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return errors + validate_within_replicas(status, bounded, "readyReplicas")


def validate_replication_controller_create(obj: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_long_name)
    return errors + _validate_controller_spec(obj["spec"], None, features)


def validate_replication_controller_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + _validate_controller_spec(new["spec"], old["spec"], features)


def _validate_controller_spec(spec: Object, old: Object | None, features: FeatureGates) -> FieldErrors:
    found = validate_nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    selector = spec.get("selector") or {}
    if not selector:
        found.append(required("spec.selector"))
    replicas = spec.get("replicas")
    found += [required("spec.replicas")] if replicas is None else validate_nonnegative(replicas, "spec.replicas")
    template = spec.get("template")
    if template is None:
        return [*found, required("spec.template")]
    labels = template.get("metadata", {}).get("labels")
    if any((labels or {}).get(key) != value for key, value in selector.items()):
        text = "`selector` does not match template `labels`"
        found.append(invalid("spec.template.metadata.labels", labels, text))
    found += validate_template(template, "spec.template", features, old.get("template") if old else None)
    return found + validate_restart_policy_and_deadline(template, "spec.template", "ReplicationController")
