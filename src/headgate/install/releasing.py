"""Releases what waits for Headgate, so that nothing waits without end: gates of pods, jobs, held Workloads, finalizers.

Where Kueue installed the definition of Workloads, its kinds, gates and finalizers are left to Kueue.
``client/gate_lifting.py`` removes one gate from one pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headgate.capacity.names import GATE
from headgate.client.gate_lifting import GateLiftOutcome, lift
from headgate.client.gated_pods import GatedPod
from headgate.client.installer import DelayedRequest
from headgate.client.write_requests import patch
from headgate.install.uninstall_steps import (
    OmittedWrite,
    UninstallError,
    UninstallSteps,
    perform_all,
    read,
    read_items,
    write,
)
from headgate.jobs.framework.release_mark import is_released, release_mark
from headgate.jobs.framework.workload import queue_of
from headgate.jobs.kinds.batch_job import JOB
from headgate.jobs.kinds.job_kind import has_suspend_set
from headgate.jobs.names import MANAGED, OWN_GATES
from headgate.jobs.pods.pod_metadata import is_managed
from headgate.kube.api_resources import JOBS, PODS, APIResource
from headgate.quota.api.workload import read_workload
from headgate.quota.controller.activation_writes import ActivationWrite, activation_write
from headgate.quota.kinds.names import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.quota.names import RESOURCE_IN_USE

Object = dict[str, Any]

_MARKED: Final = "marked: a later installation does not stop it"
_ENDED: Final = ("Succeeded", "Failed")
_CONFLICT: Final = 409
_ATTEMPTS: Final = 5
_WORKLOADS: Final = f"{WORKLOADS.plural}.{WORKLOADS.group}"
_FINALIZERS: Final = (
    (WORKLOADS, RESOURCE_IN_USE),
    (CLUSTER_QUEUES, RESOURCE_IN_USE),
    (RESOURCE_FLAVORS, RESOURCE_IN_USE),
    (ADMISSION_CHECKS, RESOURCE_IN_USE),
    (PODS, MANAGED),
)


def release_waiting(
    *, lifts_gates: bool, dry_run: bool, definitions: Mapping[str, Object | None]
) -> UninstallSteps[None]:
    """Removes Headgate's gates from all pods, and starts the jobs that wait for quota; without ``lifts_gates`` they
    stay as they are. Jobs and pods in Kueue's queues are marked before they start, so that a later installation does
    not stop them."""
    own_kueue = _is_own(definitions)
    gates = (GATE, *(OWN_GATES if own_kueue else ())) if lifts_gates else ()
    yield from perform_all([_release_pods(gates, own_kueue, dry_run), _release_jobs(lifts_gates, own_kueue, dry_run)])


def _release_pods(gates: Sequence[str], own_kueue: bool, dry_run: bool) -> UninstallSteps[None]:
    if gates or own_kueue:
        pods = yield from read_items(PODS.collection_path())
        yield from perform_all(_release_pod(pod, gates, own_kueue, dry_run) for pod in pods)


def _release_pod(pod: Object, gates: Sequence[str], own_kueue: bool, dry_run: bool) -> UninstallSteps[None]:
    if own_kueue and is_managed(pod) and not is_released(pod) and not _has_ended(pod):
        yield from _mark_pod(pod, dry_run)
    names = tuple(str(each.get("name")) for each in pod["spec"].get("schedulingGates") or ())
    for gate in gates:
        if gate in names:
            yield from _lift(gate, pod, names, dry_run)
            names = tuple(name for name in names if name != gate)


def _has_ended(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp")) or (pod.get("status") or {}).get("phase") in _ENDED


def _mark_pod(pod: Object, dry_run: bool) -> UninstallSteps[int]:
    """Sets the mark, and removes the finalizer in the same write."""
    metadata = pod["metadata"]
    place = metadata["namespace"], metadata["name"]
    changed: Object = {"annotations": release_mark(pod)}
    if MANAGED in (metadata.get("finalizers") or ()):
        changed["$deleteFromPrimitiveList/finalizers"] = [MANAGED]
    request = patch(PODS, *place, metadata["uid"], {"metadata": changed}, "strategic")
    return (yield from write(request, f"pod/{'/'.join(place)} {_MARKED}", dry_run))


def _release_jobs(lifts_gates: bool, own_kueue: bool, dry_run: bool) -> UninstallSteps[None]:
    if not own_kueue:
        if lifts_gates:
            yield "jobs and pods in Kueue's queues kept: Kueue installed its definitions and manages them"
        return
    owners = {
        owner.get("uid")
        for each in (yield from read_items(WORKLOADS.collection_path()))
        for owner in each["metadata"].get("ownerReferences") or ()
    }
    writes: list[UninstallSteps[int]] = []
    for job in (yield from read_items(JOBS.collection_path())):
        metadata = job["metadata"]
        has_workload = metadata["uid"] in owners
        if not (has_workload or queue_of(job)) or metadata.get("deletionTimestamp") or JOB.outcome(job) is not None:
            continue
        place = metadata["namespace"], metadata["name"]
        starts = lifts_gates and has_workload and has_suspend_set(JOB, job)
        if starts or not is_released(job):
            body = {"metadata": {"annotations": release_mark(job)}, **({"spec": {"suspend": False}} if starts else {})}
            line = f"job.batch/{'/'.join(place)} {'started' if starts else _MARKED}"
            writes.append(write(patch(JOBS, *place, metadata["uid"], body), line, dry_run))
    yield from perform_all(writes)


def activate_workloads(*, dry_run: bool) -> UninstallSteps[None]:
    """Activates the Workloads that a label of their job deactivated (``quota/api/activation.py``): no other program
    reads these labels, not even Kueue."""
    writes: list[UninstallSteps[int]] = []
    for obj in (yield from read_items(WORKLOADS.collection_path())):
        workload = read_workload(obj)
        change = ActivationWrite() if isinstance(workload, str) else activation_write(obj, workload, is_enabled=False)
        if change.metadata:
            place, uid = (obj["metadata"]["namespace"], obj["metadata"]["name"]), obj["metadata"]["uid"]
            body = {"metadata": change.metadata, "spec": change.spec}
            request = patch(WORKLOADS, *place, uid, body)
            writes.append(write(request, f"workloads/{'/'.join(place)} is active again", dry_run))
    yield from perform_all(writes)


def _is_own(definitions: Mapping[str, Object | None]) -> bool:
    """Whether the kinds of Kueue are Headgate's, or not served at all."""
    return definitions.get(_WORKLOADS, {}) is not None


def _lift(gate: str, pod: Object, gates: tuple[str, ...], dry_run: bool) -> UninstallSteps[None]:
    metadata = pod["metadata"]
    named = f"pod/{metadata['namespace']}/{metadata['name']}"
    if dry_run:
        yield OmittedWrite(patch(PODS, metadata["namespace"], metadata["name"], "", {}), f"{named} loses gate {gate}")
        return
    steps = lift(gate, GatedPod(metadata["namespace"], metadata["name"], metadata["uid"], "", gates))
    try:
        delayed = next(steps)
        while True:
            delayed = steps.send((yield DelayedRequest(delayed.request, delayed.wait_s)))
    except StopIteration as done:
        result = done.value
    if result.outcome is GateLiftOutcome.FAILED:
        raise UninstallError(f"{named} keeps gate {gate}: {result.detail}")
    if result.outcome is GateLiftOutcome.LIFTED:
        yield f"{named} lost gate {gate}"


def remove_finalizers(*, dry_run: bool, definitions: Mapping[str, Object | None]) -> UninstallSteps[None]:
    """Removes the finalizers that no controller removes any more."""
    if not _is_own(definitions):
        return
    yield from perform_all(_remove_from_all(resource, finalizer, dry_run) for resource, finalizer in _FINALIZERS)


def _remove_from_all(resource: APIResource, finalizer: str, dry_run: bool) -> UninstallSteps[None]:
    found = yield from read_items(resource.collection_path())
    yield from perform_all(
        _remove_finalizer(resource, obj, finalizer, dry_run)
        for obj in found
        if finalizer in (obj["metadata"].get("finalizers") or ())
    )


def _remove_finalizer(resource: APIResource, obj: Object, finalizer: str, dry_run: bool) -> UninstallSteps[None]:
    place = obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
    named = f"{resource.plural}/{'/'.join(filter(None, place))}"
    found: Object | None = obj
    for _ in range(_ATTEMPTS):
        finalizers = [] if found is None else found["metadata"].get("finalizers") or []
        if found is None or finalizer not in finalizers:
            return
        rest = [each for each in finalizers if each != finalizer]
        body = {"metadata": {"finalizers": rest or None, "resourceVersion": found["metadata"]["resourceVersion"]}}
        request = patch(resource, *place, found["metadata"]["uid"], body)
        if (yield from write(request, f"{named} lost finalizer {finalizer}", dry_run, (_CONFLICT,))) != _CONFLICT:
            return
        found = yield from read(resource.object_path(*place))
    raise UninstallError(f"{named} is changed by another client all the time; run the command again")
