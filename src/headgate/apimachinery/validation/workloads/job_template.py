"""Validation of changes to the pod template of a Job: only scheduling directives, and only before its pods start.

*Scheduling directives* are node selector, node affinity, tolerations, scheduling gates, labels and annotations. A
queueing controller sets them on a suspended job, then unsuspends it (KEP-2926). Two feature gates allow more: with
``MutableSchedulingDirectivesForSuspendedJobs``, a job that was started and suspended again may change them, too; with
``MutablePodResourcesForSuspendedJobs``, a suspended job may also change the resources of its containers.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, invalid
from headgate.kube.pods.equality import semantically_equal
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
    """Whether the job controller has reported the suspension and the job has no active pods."""
    suspended = any(
        each.get("type") == "Suspended" and each.get("status") == "True" for each in status.get("conditions") or ()
    )
    return suspended and not status.get("active")


def _may_change_resources(old_job: Object, features: FeatureGates) -> bool:
    if not features.mutable_pod_resources_for_suspended_jobs or not old_job["spec"].get("suspend"):
        return False
    return _is_suspended_without_pods(old_job.get("status") or {})


def validate_job_template_update(spec: Object, old_job: Object, features: FeatureGates) -> FieldErrors:
    """The error if the new template differs from the old one in more than the fields that may change now."""
    template = spec.get("template", {})
    expected = old_job["spec"].get("template", {})
    if _may_change_directives(old_job, features):
        expected = _with_directives_of(template, expected)
    if _may_change_resources(old_job, features):
        # In this case only the pod spec is compared, as in kube-apiserver: the error is at spec.template.spec, and the
        # metadata of the template may have any value.
        pod = template.get("spec", {})
        if not semantically_equal(pod, _with_resources_of(pod, expected.get("spec", {}))):
            return [invalid("spec.template.spec", pod, IMMUTABLE)]
        return []
    same_metadata = (template.get("metadata") or {}) == (expected.get("metadata") or {})
    if not same_metadata or not semantically_equal(template.get("spec"), expected.get("spec")):
        return [invalid("spec.template", template, IMMUTABLE)]
    return []


def _with_directives_of(new: Object, old: Object) -> Object:
    """The old template with the scheduling directives of the new one."""
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
    """``old`` with ``fields`` of ``new``; a field that ``new`` does not have is removed."""
    kept = {name: value for name, value in old.items() if name not in fields}
    return kept | {name: new[name] for name in fields if name in new}


def _with_node_affinity_of(new: Object | None, old: Object | None) -> Object | None:
    if new is None:
        rest = {name: value for name, value in (old or {}).items() if name != "nodeAffinity"}
        return rest or None
    return _copy_fields(old or {}, new, ("nodeAffinity",))


def _with_resources_of(new: Object, old: Object) -> Object:
    """The old pod spec with the resources of the containers of the new one."""
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
