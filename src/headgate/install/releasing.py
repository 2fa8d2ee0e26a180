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
from headgate.jobs.names import MANAGED, OWN_GATES, QUEUE_NAME
from headgate.kube.api_resources import JOBS, PODS, APIResource
from headgate.quota.api.workload import read_workload
from headgate.quota.controller.activation_writes import ActivationWrite, activation_write
from headgate.quota.kinds.names import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.quota.names import RESOURCE_IN_USE

Object = dict[str, Any]

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


def release_waiting(*, dry_run: bool, definitions: Mapping[str, Object | None]) -> UninstallSteps[None]:
    """Removes Headgate's gates from all pods, and starts the jobs that wait for quota."""
    own_kueue = _is_own(definitions)
    gates = (GATE, *(OWN_GATES if own_kueue else ()))
    yield from perform_all([_release_pods(gates, dry_run), _start_jobs(own_kueue, dry_run)])


def _release_pods(gates: Sequence[str], dry_run: bool) -> UninstallSteps[None]:
    pods = yield from read_items(PODS.collection_path())
    yield from perform_all(_release_pod(pod, gates, dry_run) for pod in pods)


def _release_pod(pod: Object, gates: Sequence[str], dry_run: bool) -> UninstallSteps[None]:
    names = tuple(str(each.get("name")) for each in pod["spec"].get("schedulingGates") or ())
    for gate in gates:
        if gate in names:
            yield from _lift(gate, pod, names, dry_run)
            names = tuple(name for name in names if name != gate)


def _start_jobs(own_kueue: bool, dry_run: bool) -> UninstallSteps[None]:
    if not own_kueue:
        yield "jobs and pods in Kueue's queues kept: Kueue installed its definitions and manages them"
        return
    owners = {
        owner.get("uid")
        for each in (yield from read_items(WORKLOADS.collection_path()))
        for owner in each["metadata"].get("ownerReferences") or ()
    }
    writes: list[UninstallSteps[int]] = []
    for job in (yield from read_items(JOBS.collection_path(), labelSelector=QUEUE_NAME)):
        metadata = job["metadata"]
        if job["spec"].get("suspend") and metadata["uid"] in owners and not metadata.get("deletionTimestamp"):
            place = metadata["namespace"], metadata["name"]
            request = patch(JOBS, *place, metadata["uid"], {"spec": {"suspend": False}})
            writes.append(write(request, f"job.batch/{'/'.join(place)} started", dry_run))
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
