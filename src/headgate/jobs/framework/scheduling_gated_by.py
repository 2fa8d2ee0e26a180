"""The annotation ``kueue.x-k8s.io/scheduling-gated-by`` (Kueue's KEP-6915): a job that has it gets no Workload.

It is set at creation to one name and can only be removed. This module reads and validates it; ``job_plan.py`` handles
gated jobs. ``quota/kinds/admission_gated_by.py`` has the annotation that delays the admission of an existing Workload.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.deployments.replica_sets import DESIRED_REPLICAS
from headgate.jobs.names import SCHEDULING_GATED_BY
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required, too_long
from headgate.kube.object_meta import controller_of, group_kind_of
from headgate.kube.validation.values import validate_domain_prefixed_path

Object = dict[str, Any]

_PATH: Final = f"metadata.annotations[{SCHEDULING_GATED_BY}]"
_MAX_BYTES: Final = 63


def has_copied_annotations(obj: Object) -> bool:
    """Whether the annotations are copies of those of a Deployment. The Deployment controller copies its annotations to
    its ReplicaSets and never removes them, not even from an orphaned ReplicaSet."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    controller = controller_of(obj)
    is_of_deployment = controller is not None and group_kind_of(controller) == ("apps", "Deployment")
    return is_of_deployment or DESIRED_REPLICAS in annotations


def gated_by(job: Object) -> str | None:
    """The name in the annotation; None if the job has no such annotation. A copy on a ReplicaSet of a Deployment does
    not count, because the annotation may have been removed from the Deployment."""
    if has_copied_annotations(job):
        return None
    found = ((job.get("metadata") or {}).get("annotations") or {}).get(SCHEDULING_GATED_BY)
    return found if isinstance(found, str) else None


def validate_gated_by(job: Object) -> FieldErrors:
    """Problems of the gate of a new job."""
    value = gated_by(job)
    if value is None:
        return []
    if not value:
        return [
            required(
                _PATH, "name the controller that gates the job, such as example.com/mygate, or leave the annotation out"
            )
        ]
    if "," in value:
        return [invalid(_PATH, value, "takes one name; a list belongs in kueue.x-k8s.io/admission-gated-by")]
    found = validate_domain_prefixed_path(value, _PATH)
    return found + ([too_long(_PATH, _MAX_BYTES)] if len(value.encode()) > _MAX_BYTES else [])


def validate_gated_by_update(new: Object, old: Object) -> FieldErrors:
    after, before = gated_by(new), gated_by(old)
    if after is None or after == before:
        return []
    if before is None:
        return [forbidden(_PATH, "cannot be added after creation")]
    return [forbidden(_PATH, "cannot be changed, only removed")]
