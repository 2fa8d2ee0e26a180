"""A Workload as the engine reads it from the API: what it asks for, what it was given, and what its conditions say.

A frozen value; nothing is decided here. Who waits is ``queueing.py``'s, who holds what ``holdings.py``'s.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.kube.integers import read_natural
from headgate.quota import names
from headgate.quota.cohort import FlavorResource
from headgate.quota.pod_set import PodSet, read_pod_set
from headgate.quota.reading import Unreadable, Wire, amount, moment_s, part, parts, text, texts, truth, whole


class Condition(msgspec.Struct, frozen=True):
    is_true: bool
    reason: str = ""
    message: str = ""
    since_s: float = 0.0


class CheckState(msgspec.Struct, frozen=True):
    """The state of one admission check of one workload."""

    name: str
    state: str = names.CHECK_PENDING
    message: str = ""
    since_s: float = 0.0
    requeue_after_s: int | None = None
    retries: int = 0


class Assigned(msgspec.Struct, frozen=True):
    """What a pod set was given: flavors by resource, and the usage of ``count`` pods together."""

    name: str
    flavors: Mapping[str, str]
    usage: Mapping[str, int]
    count: int


class Admission(msgspec.Struct, frozen=True):
    cluster_queue: str
    pod_sets: tuple[Assigned, ...]


class Workload(msgspec.Struct, frozen=True):
    """``gates``: the annotation ``admission-gated-by``. ``revision`` is 0 where the server's cannot be compared.
    ``is_of_pods``: it was made from pods that exist, not from a template."""

    namespace: str
    name: str
    uid: str
    queue: str = ""
    priority: int = 0
    created_s: float = 0.0
    pod_sets: tuple[PodSet, ...] = ()
    is_active: bool = True
    gates: str = ""
    conditions: Mapping[str, Condition] = {}
    admission: Admission | None = None
    reclaimable: Mapping[str, int] = {}
    checks: tuple[CheckState, ...] = ()
    requeue_count: int = 0
    requeue_at_s: float | None = None
    max_execution_s: int | None = None
    past_execution_s: int = 0
    job_uid: str = ""
    revision: int = 0
    is_terminating: bool = False
    is_of_pods: bool = False

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
        """Whether it says that the condition is false, for this reason if one is named."""
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
        """Workloads of one shape that wait in one queue fit or do not fit together."""
        return self.priority, tuple((each.shape, self.count_of(each)) for each in self.pod_sets)

    def count_of(self, pod_set: PodSet) -> int:
        """Pods that still need room: those that were reclaimed do not."""
        return max(pod_set.count - max(self.reclaimable.get(pod_set.name, 0), 0), 0)


def usage_of(workload: Workload, admission: Admission) -> dict[FlavorResource, int]:
    """What the workload holds. Pods that were reclaimed since hold nothing any more."""
    found: dict[FlavorResource, int] = {}
    sets = {each.name: each for each in workload.pod_sets}
    for given in admission.pod_sets:
        pod_set = sets.get(given.name)
        left = given.count if pod_set is None else min(workload.count_of(pod_set), given.count)
        for resource, total in given.usage.items():
            flavor = given.flavors.get(resource)
            if flavor is None or not total:
                continue
            held = total if left == given.count else total // given.count * left
            if held:
                found[flavor, resource] = found.get((flavor, resource), 0) + held
    return found


def read_workload(wire: Wire) -> Workload | str:
    """The workload, or why it cannot be counted with."""
    try:
        return _read(wire)
    except Unreadable as problem:
        return str(problem)


def _read(wire: Wire) -> Workload:
    metadata, spec, status = (part(wire, each) for each in ("metadata", "spec", "status"))
    requeue = part(status, "requeueState", "status.")
    maximum = spec.get("maximumExecutionTimeSeconds")
    pod_sets = tuple(read_pod_set(each, path) for path, each in parts(spec, "podSets", "spec."))
    if len({each.name for each in pod_sets}) != len(pod_sets):
        raise Unreadable("spec.podSets: two have the same name")
    revision = text(metadata, "resourceVersion")
    return Workload(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        queue=text(spec, "queueName", path="spec."),
        priority=whole(spec, "priority", path="spec."),
        created_s=moment_s(metadata, "creationTimestamp") or 0.0,
        pod_sets=pod_sets,
        is_active=truth(spec, "active", True, "spec."),
        gates=texts(metadata, "annotations", "metadata.").get(names.ADMISSION_GATED_BY, ""),
        conditions=dict(_conditions(status)),
        admission=_admission(status, pod_sets),
        reclaimable={
            text(each, "name", path=path): whole(each, "count", path=path)
            for path, each in parts(status, "reclaimablePods", "status.")
        },
        checks=tuple(_check(each, path) for path, each in parts(status, "admissionChecks", "status.")),
        requeue_count=whole(requeue, "count", path="status.requeueState."),
        requeue_at_s=moment_s(requeue, "requeueAt"),
        max_execution_s=None if maximum is None else whole(spec, "maximumExecutionTimeSeconds", path="spec."),
        past_execution_s=whole(status, "accumulatedPastExecutionTimeSeconds", path="status."),
        job_uid=texts(metadata, "labels", "metadata.").get(names.JOB_UID_LABEL, ""),
        revision=read_natural(revision) or 0,
        is_terminating=bool(metadata.get("deletionTimestamp")),
        is_of_pods=any(
            (each.get("apiVersion"), each.get("kind")) == ("v1", "Pod")
            for _, each in parts(metadata, "ownerReferences", "metadata.")
        ),
    )


def _conditions(status: Wire) -> list[tuple[str, Condition]]:
    return [
        (
            text(each, "type", path=path),
            Condition(
                each.get("status") == "True",
                text(each, "reason", path=path),
                text(each, "message", path=path),
                moment_s(each, "lastTransitionTime") or 0.0,
            ),
        )
        for path, each in parts(status, "conditions", "status.")
    ]


def _admission(status: Wire, pod_sets: tuple[PodSet, ...]) -> Admission | None:
    if status.get("admission") is None:
        return None
    counts = {each.name: each.count for each in pod_sets}
    wire = part(status, "admission", "status.")
    given = []
    for path, each in parts(wire, "podSetAssignments", "status.admission."):
        name = text(each, "name", "main", path)
        usage = {
            resource: amount(resource, value, f"{path}resourceUsage.{resource}")
            for resource, value in part(each, "resourceUsage", path).items()
        }
        count = whole(each, "count", counts.get(name, 0), path)
        if count <= 0 and any(usage.values()):
            raise Unreadable(f"{path}count: no pods cannot use anything")
        given.append(Assigned(name, texts(each, "flavors", path), usage, count))
    return Admission(text(wire, "clusterQueue", path="status.admission."), tuple(given))


def _check(wire: Wire, path: str) -> CheckState:
    after = wire.get("requeueAfterSeconds")
    return CheckState(
        text(wire, "name", path=path),
        text(wire, "state", names.CHECK_PENDING, path),
        text(wire, "message", path=path),
        moment_s(wire, "lastTransitionTime") or 0.0,
        None if after is None else whole(wire, "requeueAfterSeconds", path=path),
        whole(wire, "retryCount", path=path),
    )
