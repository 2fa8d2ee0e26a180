"""Validation of every job kind, on create and update: queue, priority, execution time, Workload and gates.

Messages are Kueue's. An update may keep a value that is already invalid. ``batch_job_validation.py``,
``jobs/validation/pod_validation.py`` and ``pod_owner_validation.py`` have the rules of single kinds.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.jobs import names
from headgate.jobs.framework.go_values import parse_go_int
from headgate.jobs.framework.scheduling_gated_by import (
    has_copied_annotations,
    validate_gated_by,
    validate_gated_by_update,
)
from headgate.jobs.framework.workload import queue_of
from headgate.jobs.kinds.job_fields import Object
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid
from headgate.kube.lenient_reader import get_path
from headgate.kube.names import is_dns1123_subdomain
from headgate.kube.validation.values import validate_immutable
from headgate.quota.kinds.admission_gated_by import gate_problems, gate_update_problems
from headgate.quota.names import ADMISSION_GATED_BY, GROUP

LABELS: Final = "metadata.labels"
ANNOTATIONS: Final = "metadata.annotations"
QUEUE_PATH: Final = f"{LABELS}[{names.QUEUE_NAME}]"
_PRIORITY_PATH: Final = f"{LABELS}[{names.PRIORITY_CLASS}]"
_TIME_PATH: Final = f"{LABELS}[{names.MAX_EXEC_TIME}]"
_RELEASED_PATH: Final = f"{ANNOTATIONS}[{names.RELEASED}]"
_ELASTIC_PATH: Final = f"{ANNOTATIONS}[{names.ELASTIC}]"
_TOPOLOGY: Final = tuple(f"{GROUP}/podset-{each}-topology" for each in ("required", "preferred", "unconstrained"))


def label(obj: Object, name: str) -> str | None:
    found = get_path(obj, ("metadata", "labels", name))
    return found if isinstance(found, str) else None


def annotation(obj: Object, name: str) -> str | None:
    found = get_path(obj, ("metadata", "annotations", name))
    return found if isinstance(found, str) else None


def validate_new(job: Object, features: FeatureGates) -> FieldErrors:
    return [
        *validate_queue_name(job),
        *_prebuilt_problems(job),
        *_time_problems(job),
        *validate_elastic(job),
        *validate_gated_by_annotations(job, features),
    ]


def validate_update(
    new: Object, old: Object, features: FeatureGates, *, was_waiting: bool, is_waiting: bool, has_default: bool
) -> FieldErrors:
    """``was_waiting`` and ``is_waiting``: the old and the new object are suspended or gated. ``has_default``: the
    namespace has a default queue."""
    found = validate_queue_name(new, old) + validate_elastic(new, old)
    if not is_waiting:
        found += validate_immutable(queue_of(new), queue_of(old), QUEUE_PATH)
    if not queue_of(new) and queue_of(old) and has_default:
        found.append(invalid(QUEUE_PATH, "", "queue-name must not be empty in namespace with default queue"))
    if is_waiting:
        found += _prebuilt_problems(new, old)
    else:
        found += validate_immutable(prebuilt_workload(new), prebuilt_workload(old), prebuilt_path(new))
    if is_waiting and was_waiting:
        found += _time_problems(new, old)
    else:
        found += validate_immutable(
            label(new, names.MAX_EXEC_TIME) or "", label(old, names.MAX_EXEC_TIME) or "", _TIME_PATH
        )
    found += validate_priority_update(new, old, is_waiting=is_waiting)
    if annotation(new, names.RELEASED) not in (None, annotation(old, names.RELEASED)):
        found.append(forbidden(_RELEASED_PATH, "only an uninstallation of Headgate sets it"))
    return found + validate_gated_by_annotations_update(new, old, features)


def validate_queue_name(job: Object, old: Object | None = None) -> FieldErrors:
    value = label(job, names.QUEUE_NAME)
    if value is None or (old is not None and value == label(old, names.QUEUE_NAME)):
        return []
    return validate_name(value, QUEUE_PATH)


def validate_name(value: str, path: str) -> FieldErrors:
    """All problems of the name as one error."""
    problems = is_dns1123_subdomain(value)
    return [invalid(path, value, ",".join(problems))] if problems else []


def validate_elastic(job: Object, old: Object | None = None) -> FieldErrors:
    value = annotation(job, names.ELASTIC)
    if value != "true" or (old is not None and annotation(old, names.ELASTIC) == value):
        return []
    return [forbidden(_ELASTIC_PATH, "elastic jobs are not supported by Headgate")]


def validate_topology(metadata: Object, path: str, old: Object | None = None) -> FieldErrors:
    """Rejects topology annotations of a pod or a pod template."""
    annotations, known = metadata.get("annotations") or {}, (old or {}).get("annotations") or {}
    text = "topology-aware scheduling is not supported by Headgate"
    return [forbidden(f"{path}.annotations[{each}]", text) for each in _TOPOLOGY if each in annotations.keys() - known]


def validate_gated_by_annotations(job: Object, features: FeatureGates) -> FieldErrors:
    if has_copied_annotations(job):
        return []
    found = gate_problems(job) if features.admission_gated_by else []
    return found + (validate_gated_by(job) if features.scheduling_gated_by else [])


def validate_template_gated_by_annotations(
    template: Object, path: str, features: FeatureGates, old: Object | None = None
) -> FieldErrors:
    """Validates these annotations of a pod template, because each pod with an invalid value would be rejected at
    creation."""
    found = validate_gated_by_annotations(_without_owner(template), features)
    known = (
        {str(each) for each in validate_gated_by_annotations(_without_owner(old), features)}
        if old is not None
        else set()
    )
    return [msgspec.structs.replace(each, path=f"{path}.{each.path}") for each in found if str(each) not in known]


def _without_owner(template: Object) -> Object:
    return {"metadata": {"annotations": (template.get("metadata") or {}).get("annotations")}}


def validate_gated_by_annotations_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    if has_copied_annotations(new):
        return []
    found: FieldErrors = []
    if features.admission_gated_by and annotation(new, ADMISSION_GATED_BY) != annotation(old, ADMISSION_GATED_BY):
        found += gate_update_problems(new, old) + gate_problems(new)
    return found + (validate_gated_by_update(new, old) if features.scheduling_gated_by else [])


def validate_priority_update(new: Object, old: Object, *, is_waiting: bool) -> FieldErrors:
    after, before = label(new, names.PRIORITY_CLASS) or "", label(old, names.PRIORITY_CLASS) or ""
    if after and not before and not is_waiting:
        return [invalid(_PRIORITY_PATH, after, "WorkloadPriorityClass cannot be added to a non-suspended workload")]
    if before and not after:
        return [invalid(_PRIORITY_PATH, after, "WorkloadPriorityClass cannot be removed from a workload")]
    return []


def prebuilt_workload(job: Object) -> str:
    """The annotation has precedence: it holds names that are too long for a label."""
    return annotation(job, names.PREBUILT_WORKLOAD) or label(job, names.PREBUILT_WORKLOAD) or ""


def prebuilt_path(job: Object) -> str:
    where = ANNOTATIONS if annotation(job, names.PREBUILT_WORKLOAD) else LABELS
    return f"{where}[{names.PREBUILT_WORKLOAD}]"


def _prebuilt_problems(job: Object, old: Object | None = None) -> FieldErrors:
    value = annotation(job, names.PREBUILT_WORKLOAD) or label(job, names.PREBUILT_WORKLOAD)
    if value is None or (old is not None and value == prebuilt_workload(old)):
        return []
    return validate_name(value, prebuilt_path(job))


def _time_problems(job: Object, old: Object | None = None) -> FieldErrors:
    value = label(job, names.MAX_EXEC_TIME)
    if value is None or (old is not None and value == label(old, names.MAX_EXEC_TIME)):
        return []
    seconds = parse_go_int(value)
    if isinstance(seconds, str):
        return [invalid(_TIME_PATH, value, seconds)]
    return [invalid(_TIME_PATH, seconds, "should be greater than 0")] if seconds <= 0 else []
