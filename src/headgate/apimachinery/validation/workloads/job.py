"""Validation of a Job: its spec on create, and its updates.

``job_policies.py`` validates the policies of a job, ``job_status.py`` its status, ``apimachinery/validation/pod/`` the
pod template. ``validate_job_spec`` also validates the job template of a CronJob.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.validation.pod import validate_pod_template_spec
from headgate.apimachinery.validation.workloads.job_policies import (
    validate_pod_failure_policy,
    validate_pod_replacement_policy,
    validate_success_policy,
)
from headgate.apimachinery.validation.workloads.job_template import validate_job_template_update
from headgate.apimachinery.validation.workloads.job_values import pod_failure_policy, success_policy
from headgate.kube import names
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required, too_long
from headgate.kube.validation.labels import (
    has_invalid_selector_value,
    validate_label_selector,
    validate_selector_matches_template,
)
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import (
    IMMUTABLE,
    validate_domain_prefixed_path,
    validate_immutable,
    validate_label,
    validate_nonnegative_fields,
)

Object = dict[str, Any]

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
LEGACY_CONTROLLER_UID: Final = "controller-uid"
LEGACY_JOB_NAME: Final = "job-name"

_MAX_PARALLELISM: Final = 100_000
_MAX_FAILED_INDEXES: Final = 100_000
_MANY_COMPLETIONS: Final = 100_000
_MAX_PARALLELISM_IF_MANY: Final = 10_000
_MAX_FAILED_INDEXES_IF_MANY: Final = 10_000
_MAX_MANAGED_BY_BYTES: Final = 63
_NUMBERS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def validate_job_create(job: Object, features: FeatureGates) -> FieldErrors:
    return _validate_job(job, features)


def _validate_job(job: Object, features: FeatureGates, old: Object | None = None) -> FieldErrors:
    spec = job["spec"]
    old_spec = old["spec"] if old else None
    # Jobs from before the prefixed labels existed may lack them.
    old_labels = _template_labels(old_spec) if old_spec else None
    prefixed = old_labels is None or (JOB_NAME in old_labels and CONTROLLER_UID in old_labels)
    errors = validate_object_meta(job["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    errors += _validate_generated_selector(job, prefixed)
    errors += _validate_spec_with_selector(spec, "spec", features, old_spec)
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and completions:
        hostname = f"{job['metadata'].get('name', '')}-{completions - 1}"
        if names.is_dns1123_label(hostname):
            text = f"will not able to create pod with invalid DNS label: {hostname}"
            errors.append(invalid("metadata.name", job["metadata"].get("name", ""), text))
    return errors


def _template_labels(spec: Object) -> dict[str, str]:
    labels: dict[str, str] = spec.get("template", {}).get("metadata", {}).get("labels") or {}
    return labels


def _validate_generated_selector(job: Object, prefixed: bool) -> FieldErrors:
    """The generated labels and selector are required, unless ``manualSelector`` is set."""
    spec = job["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    errors: FieldErrors = []
    uid, name = job["metadata"].get("uid", ""), job["metadata"].get("name", "")
    if not uid:
        errors.append(required("metadata.uid"))
    expected = {LEGACY_CONTROLLER_UID: uid, LEGACY_JOB_NAME: name}
    if prefixed:
        expected |= {CONTROLLER_UID: uid, JOB_NAME: name}
    labels = _template_labels(spec)
    for key, value in expected.items():
        errors += validate_label(labels, "spec.template.metadata", key, value)
    if validate_selector_matches_template(spec["selector"], {"metadata": {"labels": expected}}, ""):
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _validate_spec_with_selector(spec: Object, path: str, features: FeatureGates, old: Object | None) -> FieldErrors:
    errors = validate_job_spec(spec, path, features, old)
    selector = spec.get("selector")
    if selector is None:
        errors.append(required(f"{path}.selector"))
    else:
        tolerated = has_invalid_selector_value(old.get("selector")) if old else False
        errors += validate_label_selector(selector, f"{path}.selector", any_value=tolerated)
    return errors + validate_selector_matches_template(selector, spec.get("template", {}), f"{path}.template")


def validate_job_spec(spec: Object, path: str, features: FeatureGates, old: Object | None = None) -> FieldErrors:
    """A job spec without its selector. ``old`` is the old spec of an update."""
    found = validate_nonnegative_fields(spec, path, _NUMBERS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        found.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        found += validate_domain_prefixed_path(spec["managedBy"], f"{path}.managedBy")
        if len(spec["managedBy"].encode()) > _MAX_MANAGED_BY_BYTES:
            found.append(too_long(f"{path}.managedBy", _MAX_MANAGED_BY_BYTES))
    found += _validate_completion_mode(spec, path)
    if "podFailurePolicy" in spec:
        found += validate_pod_failure_policy(spec, f"{path}.podFailurePolicy")
    if "successPolicy" in spec:
        if spec.get("completionMode") == "Indexed":
            found += validate_success_policy(spec, f"{path}.successPolicy")
        else:
            value = success_policy(spec["successPolicy"])
            found.append(invalid(f"{path}.successPolicy", value, "requires indexed completion mode"))
    found += validate_pod_replacement_policy(spec, f"{path}.podReplacementPolicy")
    template = spec.get("template", {})
    found += validate_pod_template_spec(template, f"{path}.template", features, old.get("template") if old else None)
    return found + _validate_restart_policy(spec, f"{path}.template.spec.restartPolicy")


def _validate_completion_mode(spec: Object, path: str) -> FieldErrors:
    mode = spec.get("completionMode", "NonIndexed")
    errors: FieldErrors = []
    if mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(f"{path}.completionMode", mode, ["NonIndexed", "Indexed"]))
    if mode == "Indexed":
        errors += _validate_indexed(spec, path)
    if mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if name in spec:
                errors.append(invalid(f"{path}.{name}", spec[name], "requires indexed completion mode"))
    return errors


def _validate_indexed(spec: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MAX_PARALLELISM:
        text = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, text))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MAX_FAILED_INDEXES:
        errors.append(
            invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_FAILED_INDEXES}")
        )
    if completions is None or completions <= _MANY_COMPLETIONS or "backoffLimitPerIndex" not in spec:
        return errors
    if failed is None:
        text = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.append(required(f"{path}.maxFailedIndexes", text))
    when = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
    if parallelism is not None and parallelism > _MAX_PARALLELISM_IF_MANY:
        text = f"must be less than or equal to {_MAX_PARALLELISM_IF_MANY} {when}"
        errors.append(invalid(f"{path}.parallelism", parallelism, text))
    if failed is not None and failed > _MAX_FAILED_INDEXES_IF_MANY:
        text = f"must be less than or equal to {_MAX_FAILED_INDEXES_IF_MANY} {when}"
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, text))
    return errors


def _validate_restart_policy(spec: Object, path: str) -> FieldErrors:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    # The default of pods is Always, so a job without a policy has it here.
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ["OnFailure", "Never"])]
    if "podFailurePolicy" in spec and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def validate_job_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    spec, old_spec = new["spec"], old["spec"]
    errors = _validate_job(new, features, old)
    errors += validate_object_meta_update(new["metadata"], old["metadata"])
    errors += _validate_spec_with_selector(spec, "spec", features, old_spec)
    errors += _validate_completions(spec, old_spec)
    errors += validate_immutable(spec.get("selector"), old_spec.get("selector"), "spec.selector")
    errors += validate_job_template_update(spec, old, features)
    errors += validate_immutable(spec.get("completionMode"), old_spec.get("completionMode"), "spec.completionMode")
    if spec.get("podFailurePolicy") != old_spec.get("podFailurePolicy"):
        errors.append(invalid("spec.podFailurePolicy", pod_failure_policy(spec.get("podFailurePolicy")), IMMUTABLE))
    for name in ("backoffLimitPerIndex", "managedBy"):
        errors += validate_immutable(spec.get(name), old_spec.get(name), f"spec.{name}")
    if spec.get("successPolicy") != old_spec.get("successPolicy"):
        errors.append(invalid("spec.successPolicy", success_policy(spec.get("successPolicy")), IMMUTABLE))
    return errors


def _validate_completions(spec: Object, old_spec: Object) -> FieldErrors:
    """An Indexed Job may change completions together with parallelism; other jobs cannot change completions."""
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        return validate_immutable(completions, old_spec.get("completions"), "spec.completions")
    if completions is None or completions in (old_spec.get("completions"), spec.get("parallelism")):
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]
