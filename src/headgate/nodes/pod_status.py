"""The status of a pod as a kubelet writes it: phase, conditions, container states, addresses.

One function of a record (``nodes/pod_record.py``) and its node's address returns a strategic merge patch: conditions
merge by type, so conditions of other writers survive, and a condition without a time keeps the one it has. The fields,
reasons and messages are those of the kubelet of Kubernetes v1.35. The actual resources of a container are the allocated
ones: a resize that the node has capacity for completes at once. Readiness gates become true at once, as with KWOK: no
other component would set them in a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.kube.backoff import ExponentialBackoff
from headgate.kube.timestamps import format_duration, format_time
from headgate.nodes.allocation import PENDING, decode
from headgate.nodes.pod_record import Container, ContainerExit, HollowPod, HollowPodStage

Object = dict[str, Any]

KILLED: Final = 137
_BACKOFF: Final = ExponentialBackoff(10.0, 300.0)
_BACKOFF_RESET_S: Final = 600.0


def pod_status(pod: HollowPod, host_ip: str) -> Object:
    """The status to write. Equal records give an equal status."""
    status: Object = {"startTime": format_time(pod.admitted_s)}
    if pod.generation:
        status["observedGeneration"] = pod.generation
    if pod.rejected:  # it has no container statuses
        return status | {"phase": "Failed", "reason": pod.reason, "message": pod.message}
    status |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    if pod.stage is HollowPodStage.ENDED:
        status |= _ended(pod, pod.changed_s)
    elif pod.stage is HollowPodStage.STARTING:
        status |= _starting(pod, pod.changed_s)
    else:
        status |= _running(pod, pod.changed_s)
    if pod.stage is not HollowPodStage.ENDED:
        status["conditions"] += _resize(pod)
    # A kubelet repeats that the pod is scheduled, for the generation that it sees.
    status["conditions"].append(_condition(pod, "PodScheduled", "True", None if pod.scheduled else pod.admitted_s))
    address = host_ip if pod.container_set.host_network else pod.ip
    if address and pod.stage is not HollowPodStage.STARTING:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    return status


def restarts_after(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def backoff_s(restarts: int, ran_s: float) -> float:
    """The first restart is immediate. The back-off starts anew if the container has run long enough."""
    return 0.0 if ran_s > _BACKOFF_RESET_S else _BACKOFF.delay_s(restarts)


def _starting(pod: HollowPod, now_s: float) -> Object:
    init_names = [container.name for container in pod.container_set.init_containers]
    initialized = _condition(pod, "Initialized", "True", now_s)
    if init_names:
        message = f"containers with incomplete status: [{' '.join(init_names)}]"
        initialized = _condition(pod, "Initialized", "False", now_s, "ContainersNotInitialized", message)
    state = {"waiting": {"reason": "PodInitializing" if init_names else "ContainerCreating"}}
    conditions = [_condition(pod, "PodReadyToStartContainers", "False", now_s), initialized, *_unready(pod, now_s)]
    return {"phase": "Pending", "conditions": conditions} | _containers(
        main=[_container(pod, c, state, allocated) for c, allocated in _main(pod)],
        init=[_container(pod, c, state, allocated) for c, allocated in _init(pod)],
    )


def _running(pod: HollowPod, now_s: float) -> Object:
    runs = pod.stage is HollowPodStage.RUNNING
    first_start_s = None if pod.restarts else pod.started_s
    conditions = [
        _condition(pod, "PodReadyToStartContainers", "True", first_start_s),
        _condition(pod, "Initialized", "True", first_start_s if pod.container_set.init_containers else pod.admitted_s),
    ]
    if runs:
        kinds = (*pod.container_set.readiness_gates, "Ready", "ContainersReady")
        conditions += [_condition(pod, kind, "True", pod.ready_s) for kind in kinds]
    else:
        conditions += _unready(pod, now_s)
    running = {"running": {"startedAt": format_time(pod.started_s)}}
    sidecar = {"running": {"startedAt": format_time(pod.admitted_s)}}
    done = ContainerExit(pod.admitted_s, pod.admitted_s, 0)
    return {"phase": "Running", "conditions": conditions} | _containers(
        main=[
            _container(
                pod,
                c,
                running if runs else _waiting(pod, c),
                allocated,
                ready=runs,
                started=runs,
                restarts=pod.restarts,
            )
            for c, allocated in _main(pod)
        ],
        init=[
            _container(
                pod, c, sidecar if c.sidecar else _terminated(pod, c, done), allocated, ready=True, started=c.sidecar
            )
            for c, allocated in _init(pod)
        ],
    )


def _ended(pod: HollowPod, now_s: float) -> Object:
    succeeded = pod.exit_code == 0 and not pod.reason
    why = "PodCompleted" if succeeded else "PodFailed"
    conditions = [
        _condition(pod, "PodReadyToStartContainers", "False", now_s),
        *(_condition(pod, kind, "False", now_s, why) for kind in ("Ready", "ContainersReady")),
    ]
    if succeeded:
        conditions.append(_condition(pod, "Initialized", "True", None, why))
    status: Object = {"phase": "Succeeded" if succeeded else "Failed", "conditions": conditions}
    if pod.reason:
        status |= {"reason": pod.reason, "message": pod.message}
    ended = pod.final_exit
    if ended is None:
        return status  # it never ran
    done = ContainerExit(pod.admitted_s, pod.admitted_s, 0)
    sidecar = ContainerExit(pod.admitted_s, ended.finished_s, 0)
    return status | _containers(
        main=[
            _container(pod, c, _terminated(pod, c, ended), allocated, restarts=pod.restarts)
            for c, allocated in _main(pod)
        ],
        init=[
            _container(pod, c, _terminated(pod, c, sidecar if c.sidecar else done), allocated, ready=not c.sidecar)
            for c, allocated in _init(pod)
        ],
    )


def _unready(pod: HollowPod, now_s: float) -> list[Object]:
    names = [c.name for c in pod.container_set.init_containers if c.sidecar and pod.stage is HollowPodStage.STARTING]
    names += [c.name for c in pod.container_set.containers]
    message = f"containers with unready status: [{' '.join(names)}]"
    kinds = ("Ready", "ContainersReady")
    return [_condition(pod, kind, "False", now_s, "ContainersNotReady", message) for kind in kinds]


def _condition(
    pod: HollowPod, kind: str, status: str, at_s: float | None, reason: str | None = None, message: str | None = None
) -> Object:
    """A null removes the value of an earlier state. Without ``at_s`` the present transition time is kept."""
    condition: Object = {"type": kind, "status": status, "reason": reason, "message": message, "lastProbeTime": None}
    if at_s is not None:
        condition["lastTransitionTime"] = format_time(at_s)
    if pod.generation:
        condition["observedGeneration"] = pod.generation
    return condition


def _resize(pod: HollowPod) -> list[Object]:
    """The condition of a pending resize, or the patch that removes a condition that no longer holds."""
    if pod.pending_resize is None:
        return [{"type": PENDING, "$patch": "delete"}] if pod.shows_pending_resize else []
    condition = _condition(
        pod, PENDING, "True", pod.pending_resize.since_s, pod.pending_resize.reason, pod.pending_resize.message
    )
    return [condition | {"lastProbeTime": format_time(pod.pending_resize.probed_s)}]


def _containers(*, main: list[Object], init: list[Object]) -> Object:
    return {"initContainerStatuses": init, "containerStatuses": main} if init else {"containerStatuses": main}


def _main(pod: HollowPod) -> Iterable[tuple[Container, bytes]]:
    return zip(pod.container_set.containers, pod.allocated[: len(pod.container_set.containers)], strict=True)


def _init(pod: HollowPod) -> Iterable[tuple[Container, bytes]]:
    return zip(pod.container_set.init_containers, pod.allocated[len(pod.container_set.containers) :], strict=True)


def _container(
    pod: HollowPod,
    container: Container,
    state: Object,
    allocated: bytes,
    *,
    ready: bool = False,
    started: bool = False,
    restarts: int = 0,
) -> Object:
    created = "waiting" not in state or restarts > 0
    status: Object = {
        "name": container.name,
        "image": container.image,
        "imageID": container.image if created else "",
        "ready": ready,
        "started": started,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }
    if created:
        status["containerID"] = _container_id(pod, container)
        status["resources"] = resources = decode(allocated)
        if "requests" in resources:
            status["allocatedResources"] = resources["requests"]
    if restarts and pod.previous_exit is not None:
        status["lastState"] = _terminated(pod, container, pod.previous_exit)
    return status


def _terminated(pod: HollowPod, container: Container, ended: ContainerExit) -> Object:
    return {
        "terminated": {
            "exitCode": ended.code,
            "reason": "Completed" if ended.code == 0 else "Error",
            "startedAt": format_time(ended.started_s),
            "finishedAt": format_time(ended.finished_s),
            "containerID": _container_id(pod, container),
        }
    }


def _waiting(pod: HollowPod, container: Container) -> Object:
    wait = format_duration(int(backoff_s(pod.restarts, 0.0) * 1e9))
    container_name = f"container={container.name} pod={pod.name}_{pod.namespace}({pod.uid})"
    return {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {wait} restarting failed {container_name}"}}


def _container_id(pod: HollowPod, container: Container) -> str:
    return f"hollow://{pod.uid}/{container.name}"
