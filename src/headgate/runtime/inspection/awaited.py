"""What ``headgate wait`` reads and decides: whether a pod, a job or a Workload has reached a state, and if not, why.

A generator that yields lists and is sent responses; ``watched_lists.py`` answers them from watches. An object that has
succeeded has passed all states before that. An object that has failed reaches none of them any more.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.client.permissions import NOT_FOUND, refusal_text
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.framework.scheduling_gated_by import gated_by
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set
from headgate.jobs.names import ADMISSION_GATE, MANAGED, POD_GROUP_NAME, QUEUE_NAME
from headgate.kube import conditions
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.object_meta import owner_references
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.serializer import wire_json
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.explain.workload_list import state_of, state_reason
from headgate.quota.kinds.names import WORKLOADS

Wire = dict[str, Any]
Condition = Literal["gate-lifted", "admitted", "scheduled", "running", "finished"]

CONDITIONS: Final[tuple[Condition, ...]] = ("gate-lifted", "admitted", "scheduled", "running", "finished")
OF_WORKLOADS: Final[tuple[Condition, ...]] = ("gate-lifted", "admitted", "finished")
"""The states of a Workload; its pods have the others."""
_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"

_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


class AwaitedState(msgspec.Struct, frozen=True):
    """``text``: why the state is not reached yet, or that it is. ``outcome``: impossible if it cannot be reached any
    more."""

    outcome: Literal["reached", "pending", "impossible"]
    text: str


class AwaitedObject(msgspec.Struct, frozen=True):
    """``uid``: of the object; empty if it does not exist, and then there is no state."""

    uid: str = ""
    state: AwaitedState | None = None


def read_awaited(
    kind: JobKind | str, namespace: str, name: str, condition: Condition, gate: str = ""
) -> Generator[HTTPRequest, HTTPResponse, AwaitedObject | ListRefused]:
    """``kind``: a kind of jobs, ``pod`` or ``workload``. ``gate``: for gate-lifted, one gate; empty for all."""
    resource = kind.resource if isinstance(kind, JobKind) else PODS if kind == "pod" else WORKLOADS
    found = yield from _list(resource, namespace, {"fieldSelector": f"metadata.name={name}"})
    if isinstance(found, ListRefused):
        return found
    if not found:
        return AwaitedObject()
    obj, uid = found[0], str(found[0]["metadata"].get("uid", ""))
    if kind == "workload":
        return AwaitedObject(uid, workload_state(obj, condition, gate))
    workloads: list[Wire] = []
    if condition in ("admitted", "gate-lifted") and _may_have_workload(obj, kind):
        listed = yield from _list(WORKLOADS, namespace, {})
        if isinstance(listed, ListRefused):
            return listed
        workloads = [each for each in listed if _is_of(each, obj)]
    if not isinstance(kind, JobKind):
        return AwaitedObject(uid, pod_state(obj, workloads, condition, gate))
    pods: list[Wire] = []
    if condition == "scheduled":
        listed = yield from _list(PODS, namespace, {"labelSelector": f"{_CONTROLLER_UID}={uid}"})
        if isinstance(listed, ListRefused):
            return listed
        pods = listed
    return AwaitedObject(uid, job_state(kind, obj, workloads, pods, condition, gate))


def _list(
    resource: APIResource, namespace: str, query: Mapping[str, str]
) -> Generator[HTTPRequest, HTTPResponse, list[Wire] | ListRefused]:
    """A kind that is not served has no objects, unless the awaited object is of that kind."""
    listed = yield from list_all(resource.collection_path(namespace), _decode, query)
    if not isinstance(listed, ListRefused):
        return listed.items
    if listed.status == NOT_FOUND and not query:
        return []
    return ListRefused(refusal_text("list", resource, namespace, listed), listed.status)


def _may_have_workload(obj: Wire, kind: JobKind | str) -> bool:
    return isinstance(kind, JobKind) or _is_managed(obj)


def _is_managed(pod: Wire) -> bool:
    return ADMISSION_GATE in gate_names(pod) or _labels(pod).get(MANAGED) == "true"


def _labels(obj: Wire) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _is_of(workload: Wire, obj: Wire) -> bool:
    """Whether the Workload is that of the job or the pod, or of the pod's group or owner."""
    uids = {obj["metadata"].get("uid"), *(each.get("uid") for each in owner_references(obj))}
    group = _labels(obj).get(POD_GROUP_NAME)
    is_owned = any(each.get("uid") in uids for each in owner_references(workload))
    return is_owned or bool(group and workload["metadata"]["name"] == group)


def workload_state(obj: Wire, condition: Condition, gate: str = "") -> AwaitedState:
    workload = read_workload(obj)
    if isinstance(workload, str):
        return AwaitedState("pending", f"its Workload is not valid: {workload}")
    state = state_of(workload)
    reason, message = state_reason(workload, state)
    said = f"{reason}: {message}".strip(": ") or "no controller has processed it yet"
    if state == "finished":
        failed = reason not in ("", "Succeeded", "JobFinished")
        return (
            AwaitedState("impossible", f"it has failed: {said}")
            if failed
            else AwaitedState("reached", f"it has finished: {said}")
        )
    if condition == "gate-lifted":
        gates = [each.strip() for each in workload.gates.split(",") if each.strip()]
        return _gates_state(gates, gate)
    if condition == "admitted" and state in ("admitted", "waitingtostart"):
        queue = "" if workload.admission is None else workload.admission.cluster_queue
        return AwaitedState("reached", f"it is admitted by ClusterQueue {queue}")
    if condition == "finished" and state in ("admitted", "waitingtostart"):
        return AwaitedState("pending", "it is admitted, and has not finished")
    if state == "quotareserved":
        return AwaitedState("pending", f"it has quota, and waits for its admission checks: {said}")
    return AwaitedState("pending", f"it waits for quota: {said}" if workload.is_active else "it is deactivated")


def _gates_state(gates: Sequence[str], gate: str) -> AwaitedState:
    """``gate``: the only one that counts; empty for all."""
    holding = [each for each in gates if gate in ("", each)]
    if holding:
        return AwaitedState("pending", f"held by {', '.join(holding)}")
    return AwaitedState("reached", f"gate {gate} is gone" if gate else "it has no gates")


def pod_state(pod: Wire, workloads: Iterable[Wire], condition: Condition, gate: str = "") -> AwaitedState:
    """``workloads``: those that the pod belongs to."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase, node = status.get("phase") or "Pending", spec.get("nodeName") or ""
    if phase == "Succeeded":
        return AwaitedState("reached", "it has succeeded")
    if phase == "Failed":
        said = f"{status.get('reason') or ''}: {status.get('message') or ''}".strip(": ")
        return AwaitedState("impossible", f"it has failed: {said}".rstrip(": "))
    gates = gate_names(pod)
    if condition == "gate-lifted":
        return _gates_state(gates, gate)
    if condition == "admitted":
        return _admission_of_pod(pod, list(workloads), node)
    if pod["metadata"].get("deletionTimestamp"):
        return AwaitedState("pending", "it is being deleted")
    if condition == "scheduled" and node:
        return AwaitedState("reached", f"it is on node {node}")
    if condition == "running" and phase == "Running":
        return AwaitedState("reached", f"it runs on node {node}")
    if node:
        return AwaitedState("pending", f"it is on node {node} ({phase})")
    return AwaitedState("pending", _waiting_text(pod, gates))


def _waiting_text(pod: Wire, gates: Sequence[str]) -> str:
    scheduled = conditions.find((pod.get("status") or {}).get("conditions"), conditions.POD_SCHEDULED) or {}
    said = f"{scheduled.get('reason') or ''}: {scheduled.get('message') or ''}".strip(": ")
    return f"held by {', '.join(gates)}" if gates else said or "no scheduler has tried it yet"


def _admission_of_pod(pod: Wire, workloads: list[Wire], node: str) -> AwaitedState:
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    if _is_managed(pod):
        return _admission_of(workloads) or AwaitedState("pending", "it has no Workload yet")
    stamp = read_stamp(annotations.get(STAMP), str(metadata.get("uid", "")))
    if stamp is not None:
        return AwaitedState("reached", f"it is admitted by queue {stamp.queue}")
    if node:
        return AwaitedState("reached", f"it is on node {node}")
    waiting = _waiting_text(pod, gate_names(pod))
    if GATE in gate_names(pod) or annotations.get(OPT_IN) == "true":
        return AwaitedState("pending", waiting)
    return AwaitedState("pending", f"it did not opt in to a queue, so it counts as admitted with a node: {waiting}")


def _admission_of(workloads: Iterable[Wire]) -> AwaitedState | None:
    """Of the Workload that has come furthest."""
    states = [workload_state(each, "admitted") for each in workloads]
    return min(states, key=lambda each: ("reached", "pending", "impossible").index(each.outcome), default=None)


def job_state(
    kind: JobKind, job: Wire, workloads: Iterable[Wire], pods: Iterable[Wire], condition: Condition, gate: str = ""
) -> AwaitedState:
    """``pods``: those of the job; only for ``scheduled``."""
    outcome = kind.outcome(job)
    if outcome is not None:
        text = f": {outcome.message}" if outcome.message else ""
        if outcome.succeeded:
            return AwaitedState("reached", f"it has succeeded{text}")
        return AwaitedState("impossible", f"it has failed{text}")
    own = list(workloads)
    if condition == "gate-lifted":
        return _gates_state([*filter(None, [gated_by(job)]), *_workload_gates(own)], gate)
    is_suspended = has_suspend_set(kind, job)
    if condition == "admitted":
        if not _labels(job).get(QUEUE_NAME) and not own and not is_suspended:
            return AwaitedState("reached", "it is in no queue, and is not suspended")
        holder = gated_by(job)
        waiting = f"held by {holder}" if holder else "it has no Workload yet"
        return _admission_of(own) or AwaitedState("pending", waiting)
    if is_suspended:
        return AwaitedState("pending", "it is suspended: its queue has not admitted it")
    if condition == "scheduled":
        return _scheduled_state(job, list(pods))
    ready = kind.ready(job)
    if condition == "running" and ready:
        return AwaitedState("reached", f"{ready} of its pods are ready or have succeeded")
    return AwaitedState("pending", f"it is not suspended; {ready} of its pods are ready or have succeeded")


def _workload_gates(workloads: Iterable[Wire]) -> list[str]:
    found = [each for each in map(read_workload, workloads) if isinstance(each, Workload)]
    return [gate.strip() for each in found for gate in each.gates.split(",") if gate.strip()]


def _scheduled_state(job: Wire, pods: list[Wire]) -> AwaitedState:
    """All pods that the job wants at a time have nodes."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    parallelism = int(1 if spec.get("parallelism") is None else spec["parallelism"])
    left = parallelism
    if spec.get("completions") is not None:
        left = min(parallelism, int(spec["completions"]) - int(status.get("succeeded") or 0))
    alive = [each for each in pods if not each["metadata"].get("deletionTimestamp")]
    active = [each for each in alive if (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    placed = [each for each in active if (each.get("spec") or {}).get("nodeName")]
    if len(placed) >= left:
        return AwaitedState("reached", f"{len(placed)} pods are on nodes")
    waiting = next((each for each in active if not (each.get("spec") or {}).get("nodeName")), None)
    why = "" if waiting is None else f": {_waiting_text(waiting, gate_names(waiting))}"
    return AwaitedState("pending", f"{len(placed)} of {left} pods are on nodes{why}")
