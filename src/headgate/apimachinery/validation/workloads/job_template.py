"""What of a Job's pod template may change: nothing, except where the pods may run while none of them ever did.

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
_LABELLING: Final = ("annotations", "labels")


def _may_move(old_job: Object, features: FeatureGates) -> bool:
    suspended = bool(old_job["spec"].get("suspend"))
    status = old_job.get("status") or {}
    if features.mutable_scheduling_directives_for_suspended_jobs:
        return suspended and _quiet(status)
    return suspended and status.get("startTime") is None


def _quiet(status: Object) -> bool:
    """The controller says that it suspended the job, and no pod of it is left."""
    suspended = any(
        each.get("type") == "Suspended" and each.get("status") == "True" for each in status.get("conditions") or ()
    )
    return suspended and not status.get("active")


def validate_job_template_update(spec: Object, old_job: Object, features: FeatureGates) -> FieldErrors:
    template = spec.get("template", {})
    expected = old_job["spec"].get("template", {})
    if _may_move(old_job, features):
        expected = _with_directives_of(template, expected)
    resizable = features.mutable_pod_resources_for_suspended_jobs and _quiet(old_job.get("status") or {})
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
    """The old template with everything that may move taken from the new one."""
    pod = _take(old.get("spec", {}), new.get("spec", {}), _DIRECTIVES)
    affinity = _with_node_affinity_of(new.get("spec", {}).get("affinity"), pod.get("affinity"))
    pod = {name: value for name, value in pod.items() if name != "affinity"}
    if affinity is not None:
        pod["affinity"] = affinity
    moved = {**old, "spec": pod}
    metadata = _take(old.get("metadata", {}), new.get("metadata", {}), _LABELLING)
    if metadata or "metadata" in new:
        moved["metadata"] = metadata
    else:
        moved.pop("metadata", None)
    return moved


def _take(old: Object, new: Object, fields: tuple[str, ...]) -> Object:
    kept = {name: value for name, value in old.items() if name not in fields}
    return kept | {name: new[name] for name in fields if name in new}


def _with_node_affinity_of(new: Object | None, old: Object | None) -> Object | None:
    if new is None:
        rest = {name: value for name, value in (old or {}).items() if name != "nodeAffinity"}
        return rest or None
    return _take(old or {}, new, ("nodeAffinity",))


def _with_resources_of(new: Object, old: Object) -> Object:
    moved = dict(old)
    for kind in ("containers", "initContainers"):
        ours, theirs = new.get(kind) or [], old.get(kind) or []
        if len(ours) == len(theirs) and theirs:
            moved[kind] = [
                _take(their, our, ("resources",)) if our.get("name") == their.get("name") else their
                for our, their in zip(ours, theirs, strict=True)
            ]
    return moved
