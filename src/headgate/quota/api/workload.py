"""A Workload as the quota engine reads it from the API: its pod sets, its admission, and its conditions.

A frozen value that decides nothing. ``quota/queues/queue_manager.py`` holds pending workloads;
``quota/cache/quota_ledger.py`` counts the quota that workloads hold.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.kube.integers import read_natural
from headgate.quota import names
from headgate.quota.api.pod_set import PodSet, read_pod_set
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.api.wire_reader import (
    InvalidObject,
    JSONObject,
    read_amount,
    read_bool,
    read_integer,
    read_object,
    read_objects,
    read_text,
    read_texts,
    read_time_s,
)


class WorkloadCondition(msgspec.Struct, frozen=True):
    is_true: bool
    reason: str = ""
    message: str = ""
    since_s: float = 0.0


class AdmissionCheckState(msgspec.Struct, frozen=True):
    """The state of one admission check of one workload."""

    name: str
    state: str = names.CHECK_PENDING
    message: str = ""
    since_s: float = 0.0
    requeue_after_s: int | None = None
    retries: int = 0


class AdmittedPodSet(msgspec.Struct, frozen=True):
    """The assignment of a pod set: ``flavors``: the flavor of each resource; ``usage``: the sum of the requests of
    ``count`` pods."""

    name: str
    flavors: Mapping[str, str]
    usage: Mapping[str, int]
    count: int


class Admission(msgspec.Struct, frozen=True):
    cluster_queue: str
    pod_sets: tuple[AdmittedPodSet, ...]


class Workload(msgspec.Struct, frozen=True):
    """``queue``: the LocalQueue that it names. ``gates``: the annotation ``admission-gated-by``. ``reclaimable``: the
    number of pods of each pod set that no longer need quota. ``requeue_at_s``: the end of its back-off.
    ``past_execution_s``: how long it ran before its last admission. ``revision``: its resourceVersion as a number; 0 if
    the server's versions cannot be compared. ``is_of_pods``: it was made from existing pods, not from a template.
    ``activation_labels``: its labels ``activate`` and ``deactivate``; ``is_marked``: it has the annotation of a
    deactivation by label (``activation.py``)."""

    namespace: str
    name: str
    uid: str
    queue: str = ""
    priority: int = 0
    created_s: float = 0.0
    pod_sets: tuple[PodSet, ...] = ()
    is_active: bool = True
    gates: str = ""
    conditions: Mapping[str, WorkloadCondition] = {}
    admission: Admission | None = None
    reclaimable: Mapping[str, int] = {}
    checks: tuple[AdmissionCheckState, ...] = ()
    requeue_count: int = 0
    requeue_at_s: float | None = None
    max_execution_s: int | None = None
    past_execution_s: int = 0
    job_uid: str = ""
    revision: int = 0
    is_terminating: bool = False
    is_of_pods: bool = False
    activation_labels: Mapping[str, str] = {}
    is_marked: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def queue_key(self) -> str:
        return f"{self.namespace}/{self.queue}"

    def has(self, condition: str) -> bool:
        found = self.conditions.get(condition)
        return found is not None and found.is_true

    def lacks(self, condition: str, reason: str = "") -> bool:
        """Whether the condition is present and false, with this reason if one is given."""
        found = self.conditions.get(condition)
        return found is not None and not found.is_true and (not reason or found.reason == reason)

    @property
    def is_finished(self) -> bool:
        return self.has(names.FINISHED)

    @property
    def holds_quota(self) -> bool:
        return self.admission is not None and self.has(names.QUOTA_RESERVED) and not self.is_finished

    @property
    def is_evicted(self) -> bool:
        return self.has(names.EVICTED)

    @property
    def shape(self) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """A key with all that decides whether the workload fits: of the workloads of one queue with an equal shape,
        either all fit or none does."""
        return self.priority, tuple((each.shape, self.count_of(each)) for each in self.pod_sets)

    @property
    def grace_s(self) -> int:
        """How long its pods may still run when they are stopped."""
        return max((each.grace_s for each in self.pod_sets), default=0)

    def count_of(self, pod_set: PodSet) -> int:
        """The number of pods that still need quota: reclaimable pods do not."""
        return max(pod_set.count - max(self.reclaimable.get(pod_set.name, 0), 0), 0)


def usage_of(workload: Workload, admission: Admission) -> dict[FlavorResource, int]:
    """The quota that the workload holds. Pods that became reclaimable hold none."""
    found: dict[FlavorResource, int] = {}
    sets = {each.name: each for each in workload.pod_sets}
    for assigned in admission.pod_sets:
        pod_set = sets.get(assigned.name)
        left = assigned.count if pod_set is None else min(workload.count_of(pod_set), assigned.count)
        for resource, total in assigned.usage.items():
            flavor = assigned.flavors.get(resource)
            if flavor is None or not total:
                continue
            held = total if left == assigned.count else total // assigned.count * left
            if held:
                found[flavor, resource] = found.get((flavor, resource), 0) + held
    return found


def read_workload(obj: JSONObject) -> Workload | str:
    """The workload, or a text that says why it is invalid."""
    try:
        return _read(obj)
    except InvalidObject as problem:
        return str(problem)


def _read(obj: JSONObject) -> Workload:
    metadata, spec, status = (read_object(obj, each) for each in ("metadata", "spec", "status"))
    requeue = read_object(status, "requeueState", "status.")
    maximum = spec.get("maximumExecutionTimeSeconds")
    pod_sets = tuple(read_pod_set(each, path) for path, each in read_objects(spec, "podSets", "spec."))
    if len({each.name for each in pod_sets}) != len(pod_sets):
        raise InvalidObject("spec.podSets: two have the same name")
    revision = read_text(metadata, "resourceVersion")
    annotations, labels = (read_texts(metadata, each, "metadata.") for each in ("annotations", "labels"))
    return Workload(
        namespace=read_text(metadata, "namespace"),
        name=read_text(metadata, "name"),
        uid=read_text(metadata, "uid"),
        queue=read_text(spec, "queueName", path="spec."),
        priority=read_integer(spec, "priority", path="spec."),
        created_s=read_time_s(metadata, "creationTimestamp") or 0.0,
        pod_sets=pod_sets,
        is_active=read_bool(spec, "active", True, "spec."),
        gates=annotations.get(names.ADMISSION_GATED_BY, ""),
        conditions=dict(_conditions(status)),
        admission=_admission(status, pod_sets),
        reclaimable={
            read_text(each, "name", path=path): read_integer(each, "count", path=path)
            for path, each in read_objects(status, "reclaimablePods", "status.")
        },
        checks=tuple(_check(each, path) for path, each in read_objects(status, "admissionChecks", "status.")),
        requeue_count=read_integer(requeue, "count", path="status.requeueState."),
        requeue_at_s=read_time_s(requeue, "requeueAt"),
        max_execution_s=None if maximum is None else read_integer(spec, "maximumExecutionTimeSeconds", path="spec."),
        past_execution_s=read_integer(status, "accumulatedPastExecutionTimeSeconds", path="status."),
        job_uid=labels.get(names.JOB_UID_LABEL, ""),
        revision=read_natural(revision) or 0,
        is_terminating=bool(metadata.get("deletionTimestamp")),
        is_of_pods=any(
            (each.get("apiVersion"), each.get("kind")) == ("v1", "Pod")
            for _, each in read_objects(metadata, "ownerReferences", "metadata.")
        ),
        activation_labels={key: labels[key] for key in (names.ACTIVATE, names.DEACTIVATE) if key in labels},
        is_marked=names.DEACTIVATED_BY_LABEL in annotations,
    )


def _conditions(status: JSONObject) -> list[tuple[str, WorkloadCondition]]:
    return [
        (
            read_text(each, "type", path=path),
            WorkloadCondition(
                each.get("status") == "True",
                read_text(each, "reason", path=path),
                read_text(each, "message", path=path),
                read_time_s(each, "lastTransitionTime") or 0.0,
            ),
        )
        for path, each in read_objects(status, "conditions", "status.")
    ]


def _admission(status: JSONObject, pod_sets: tuple[PodSet, ...]) -> Admission | None:
    if status.get("admission") is None:
        return None
    counts = {each.name: each.count for each in pod_sets}
    obj = read_object(status, "admission", "status.")
    assigned = []
    for path, each in read_objects(obj, "podSetAssignments", "status.admission."):
        name = read_text(each, "name", "main", path)
        usage = {
            resource: read_amount(resource, value, f"{path}resourceUsage.{resource}")
            for resource, value in read_object(each, "resourceUsage", path).items()
        }
        count = read_integer(each, "count", counts.get(name, 0), path)
        if count <= 0 and any(usage.values()):
            raise InvalidObject(f"{path}count: must be positive if resourceUsage is not zero")
        assigned.append(AdmittedPodSet(name, read_texts(each, "flavors", path), usage, count))
    return Admission(read_text(obj, "clusterQueue", path="status.admission."), tuple(assigned))


def _check(obj: JSONObject, path: str) -> AdmissionCheckState:
    after = obj.get("requeueAfterSeconds")
    return AdmissionCheckState(
        read_text(obj, "name", path=path),
        read_text(obj, "state", names.CHECK_PENDING, path),
        read_text(obj, "message", path=path),
        read_time_s(obj, "lastTransitionTime") or 0.0,
        None if after is None else read_integer(obj, "requeueAfterSeconds", path=path),
        read_integer(obj, "retryCount", path=path),
    )
