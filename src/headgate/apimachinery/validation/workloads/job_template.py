"""Validation of changes to a Job's pod template: only scheduling directives, and only before its pods start.

A queueing controller relies on this: it sets node selectors, affinity, tolerations, labels and scheduling gates on a
suspended job, then unsuspends it (KEP-2926). Two feature gates widen the rule.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, invalid
from headgate.kube.pods.equality import same_spec
from headgate.kube.validation.values import IMMUTABLE

Object = dict[str, Any]

_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")
_METADATA_FIELDS: Final = ("annotations", "labels")


def _may_change_directives(old_job: Object, features: FeatureGates) -> bool:
    suspended = bool(old_job["spec"].get("suspend"))
    status = old_job.get("status") or {}
    if features.mutable_scheduling_directives_for_suspended_jobs:
        return suspended and _is_suspended_without_pods(status)
    return suspended and status.get("startTime") is None


def _is_suspended_without_pods(status: Object) -> bool:
    """The controller has reported the suspension, and the job has no active pods."""
    suspended = any(
        each.get("type") == "Suspended" and each.get("status") == "True" for each in status.get("conditions") or ()
    )
    return suspended and not status.get("active")


def validate_job_template_update(spec: Object, old_job: Object, features: FeatureGates) -> FieldErrors:
    template = spec.get("template", {})
    expected = old_job["spec"].get("template", {})
    if _may_change_directives(old_job, features):
        expected = _with_directives_of(template, expected)
    resizable = features.mutable_pod_resources_for_suspended_jobs and _is_suspended_without_pods(
        old_job.get("status") or {}
    )
    if resizable and old_job["spec"].get("suspend"):
        pod = template.get("spec", {})
        if not same_spec(pod, _with_resources_of(pod, expected.get("spec", {}))):
            return [invalid("spec.template.spec", pod, IMMUTABLE)]
        return []
    same_metadata = (template.get("metadata") or {}) == (expected.get("metadata") or {})
    if not same_metadata or not same_spec(template.get("spec"), expected.get("spec")):
        return [invalid("spec.template", template, IMMUTABLE)]
    return []


def _with_directives_of(new: Object, old: Object) -> Object:
    """The old template with the new values of all fields that may change."""
    pod = _copy_fields(old.get("spec", {}), new.get("spec", {}), _DIRECTIVES)
    affinity = _with_node_affinity_of(new.get("spec", {}).get("affinity"), pod.get("affinity"))
    pod = {name: value for name, value in pod.items() if name != "affinity"}
    if affinity is not None:
        pod["affinity"] = affinity
    updated = {**old, "spec": pod}
    metadata = _copy_fields(old.get("metadata", {}), new.get("metadata", {}), _METADATA_FIELDS)
    if metadata or "metadata" in new:
        updated["metadata"] = metadata
    else:
        updated.pop("metadata", None)
    return updated


def _copy_fields(old: Object, new: Object, fields: tuple[str, ...]) -> Object:
    kept = {name: value for name, value in old.items() if name not in fields}
    return kept | {name: new[name] for name in fields if name in new}


def _with_node_affinity_of(new: Object | None, old: Object | None) -> Object | None:
    if new is None:
        rest = {name: value for name, value in (old or {}).items() if name != "nodeAffinity"}
        return rest or None
    return _copy_fields(old or {}, new, ("nodeAffinity",))


def _with_resources_of(new: Object, old: Object) -> Object:
    updated = dict(old)
    for kind in ("containers", "initContainers"):
        new_containers, old_containers = new.get(kind) or [], old.get(kind) or []
        if len(new_containers) == len(old_containers) and old_containers:
            updated[kind] = [
                _copy_fields(old_container, new_container, ("resources",))
                if new_container.get("name") == old_container.get("name")
                else old_container
                for new_container, old_container in zip(new_containers, old_containers, strict=True)
            ]
    return updated
