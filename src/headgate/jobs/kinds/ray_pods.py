"""The pods that KubeRay adds to those of a RayCluster's templates, and that use quota, too.

They are containers of the head pod (autoscaler, submitter of a RayJob), the submitter Job of a RayJob, and a clean-up
Job that runs when the head pod has ended. Amounts are those of KubeRay. A table of paths cannot say this, because the
containers are not in the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.jobs.kinds.job_fields import Object, Path, value_at
from headgate.jobs.kinds.job_kind import JobPodSet, JobPodSets
from headgate.kube.field_errors import FieldErrors, forbidden, too_many
from headgate.kube.lenient_reader import find_items
from headgate.kube.quantity import Quantity, parse

HEAD: Final = "head"
SUBMITTER: Final = "submitter"
_MAX_GROUPS: Final = 17
"""The worker groups beside the head group in the pod sets of a Workload."""
_AUTOSCALER: Final = {
    "requests": {"cpu": "500m", "memory": "512Mi"},
    "limits": {"cpu": "500m", "memory": "512Mi"},
}
_SUBMITTER: Final = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
_CLEAN_UP: Final = {"cpu": "200m", "memory": "256Mi"}
_FAULT_TOLERANCE: Final = "ray.io/ft-enabled"


def with_ray_containers(pod_sets: Callable[[Object], JobPodSets], cluster_spec: Path) -> Callable[[Object], JobPodSets]:
    """The pod sets with the containers that KubeRay adds to the head pod. ``cluster_spec``: the path of the spec of the
    RayCluster."""

    def read(job: Object) -> JobPodSets:
        found = pod_sets(job)
        spec = value_at(job, cluster_spec)
        changed = [_charged(each, job, spec if isinstance(spec, dict) else {}) for each in found.found]
        return msgspec.structs.replace(found, found=tuple(changed))

    return read


def with_submitter(pod_sets: Callable[[Object], JobPodSets]) -> Callable[[Object], JobPodSets]:
    """The pod sets of a RayJob with its submitter Job. If the RayJob has no template for it, the start writes one,
    because KubeRay's own would not get the node selector of the flavor."""

    def read(job: Object) -> JobPodSets:
        found = pod_sets(job)
        head = next((each for each in found.found if each.name == HEAD), None)
        if not _has_submitter_job(job) or head is None or any(each.name == SUBMITTER for each in found.found):
            return found
        container = {"name": "ray-job-submitter", **_image_of(head.charged), "resources": _SUBMITTER}
        template: Object = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        default = JobPodSet(SUBMITTER, ("spec", "submitterPodTemplate"), template, 1, is_default=True)
        return msgspec.structs.replace(found, found=(*found.found, default))

    return read


def ray_refusals(refusals: Callable[[Object], FieldErrors], cluster_spec: Path) -> Callable[[Object], FieldErrors]:
    """What a RayJob or a RayCluster in a queue must not contain: too many worker groups, or one with the name of the
    head group."""

    def read(job: Object) -> FieldErrors:
        path = f"{'.'.join(cluster_spec)}.workerGroupSpecs"
        groups = find_items(job, *cluster_spec, "workerGroupSpecs")
        reserved = [
            forbidden(f"{path}[{index}].groupName", '"head" is reserved for the head group')
            for index, each in enumerate(groups)
            if str(each.get("groupName", "")).lower() == HEAD
        ]
        many = [too_many(path, len(groups), _MAX_GROUPS)] if len(groups) > _MAX_GROUPS else []
        return [*refusals(job), *many, *reserved]

    return read


def _has_submitter_job(job: Object) -> bool:
    return value_at(job, ("spec", "submissionMode")) in (None, "", "K8sJobMode")


def _charged(pod_set: JobPodSet, job: Object, spec: Object) -> JobPodSet:
    if pod_set.name != HEAD:
        return pod_set
    added: list[Object] = []
    if spec.get("enableInTreeAutoscaling") is True:
        resources = value_at(spec, ("autoscalerOptions", "resources"))
        added.append({"name": "autoscaler", **_image_of(pod_set.charged), "resources": resources or _AUTOSCALER})
    if value_at(job, ("spec", "submissionMode")) == "SidecarMode":
        added.append({"name": "ray-job-submitter", **_image_of(pod_set.charged), "resources": _SUBMITTER})
    charged = _with_clean_up(pod_set.charged) if _is_fault_tolerant(job, spec) else pod_set.charged
    if added:
        pod_spec = charged["spec"]
        charged = {**charged, "spec": {**pod_spec, "containers": [*pod_spec["containers"], *added]}}
    return msgspec.structs.replace(pod_set, charged=charged)


def _is_fault_tolerant(job: Object, spec: Object) -> bool:
    annotation = value_at(job, ("metadata", "annotations", _FAULT_TOLERANCE))
    return annotation == "true" or spec.get("gcsFaultToleranceOptions") is not None


def _with_clean_up(template: Object) -> Object:
    """The template with at least the requests of the clean-up Job, which runs after the head pod on the same quota."""
    containers = value_at(template, ("spec", "containers"))
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        return template
    first = containers[0]
    resources = first.get("resources") or {}
    requests = dict(resources.get("requests") or {})
    for name, least in _CLEAN_UP.items():
        if _is_less(requests.get(name, (resources.get("limits") or {}).get(name)), least):
            requests[name] = least
    raised = {**first, "resources": {**resources, "requests": requests}}
    return {**template, "spec": {**template["spec"], "containers": [raised, *containers[1:]]}}


def _is_less(amount: Any, least: str) -> bool:
    if amount is None:
        return True
    found, wanted = parse(amount), parse(least)
    return isinstance(found, Quantity) and isinstance(wanted, Quantity) and found.nano < wanted.nano


def _image_of(template: Object) -> Object:
    """The image of the first container, as a field; nothing if it has none."""
    containers = value_at(template, ("spec", "containers"))
    image = value_at(containers[0], ("image",)) if isinstance(containers, list) and containers else None
    return {"image": image} if image else {}
