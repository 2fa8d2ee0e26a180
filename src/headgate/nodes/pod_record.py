"""The state of one hollow pod: all that is needed to write its status, and no more, because there are many pods.

The containers' names and images are a :class:`ContainerSet`, shared by all equal pods. ``read`` builds a record from
the API object alone, so that a restarted kubelet continues where the last one stopped.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec

from headgate.kube.pod_resources import is_sidecar
from headgate.kube.timestamps import parse_time
from headgate.nodes.allocation import PENDING, Allocation, PendingResize, desired, reported, with_resources
from headgate.nodes.behaviour import PodBehaviour, pod_behaviour
from headgate.nodes.pod_admission import Counts, requests_of

Object = dict[str, Any]


class HollowPodStage(Enum):
    """``PARKED → STARTING → RUNNING ⇄ BACKOFF``, and from each of them to ``ENDED``, which is final."""

    PARKED = "bound, and not admitted yet: the node is not up"
    STARTING = "admitted, being created"
    RUNNING = "all containers run"
    BACKOFF = "the containers have exited and wait to be started again"
    ENDED = "Succeeded or Failed"


class Container(msgspec.Struct, frozen=True):
    name: str
    image: str
    sidecar: bool = False


class ContainerSet(msgspec.Struct, frozen=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    readiness_gates: tuple[str, ...]
    restart_policy: str
    host_network: bool


class ContainerExit(msgspec.Struct, frozen=True):
    """How containers ended."""

    started_s: float
    finished_s: float
    code: int


class HollowPod(msgspec.Struct, gc=False):
    """Mutable. Only ``nodes/pod_workers.py`` changes it."""

    namespace: str
    name: str
    uid: str
    node: str
    created_s: float
    generation: int
    container_set: ContainerSet
    behaviour: PodBehaviour
    desired: Allocation
    """The resources in the spec."""
    allocated: Allocation
    """The resources of its containers: equal to ``desired``, unless a resize is pending."""
    requests: Counts
    """The sum of ``allocated``."""
    priority: int
    ends_as_job: bool
    """Whether its owner is a batch Job and its restart policy allows it to end."""
    deadline_s: float | None
    """``activeDeadlineSeconds``."""
    delete_at_s: float | None
    """When its grace period ends, if it is being deleted."""
    desired_requests: Counts | None = None
    """The requests after the pending resize."""
    pending_resize: PendingResize | None = None
    """Why the kubelet has not applied the resources of the spec."""
    shows_pending_resize: bool = False
    """Whether its status has the condition ``PodResizePending``."""
    guaranteed: bool = False
    """Its QoS class: of pending resizes, those of Guaranteed pods come first."""
    observed_generation: int = 0
    """The generation for which its status was last written."""
    scheduled: bool = False
    """Whether its status has PodScheduled. A pod that was created with ``nodeName`` does not have it."""
    stage: HollowPodStage = HollowPodStage.PARKED
    rejected: bool = False
    """Whether the node rejected it."""
    counted: bool = False
    """Whether its requests are included in the usage of its node."""
    ip: str = ""
    admitted_s: float = 0.0
    """``status.startTime``."""
    admitted_offset_s: float = 0.0
    """By how much the clock had been changed when ``admitted_s`` was set. The other offsets below are alike."""
    started_s: float = 0.0
    """When its containers last started."""
    started_offset_s: float = 0.0
    ready_s: float = 0.0
    """When it became Ready; has no meaning while it is not."""
    restarts: int = 0
    previous_exit: ContainerExit | None = None
    """How the previous run ended, if the containers were restarted."""
    final_exit: ContainerExit | None = None
    """How the last run ended, if the pod has ended."""
    changed_s: float = 0.0
    """When it entered its stage."""
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    stopping_since_s: float | None = None
    stopping_offset_s: float = 0.0
    deleted: bool = False
    """The final delete has been sent."""
    failures: int = 0
    """Writes that failed in a row."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


def read(pod: Object) -> HollowPod:
    metadata, spec = pod["metadata"], pod["spec"]
    record = HollowPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec["nodeName"],
        created_s=_time(metadata.get("creationTimestamp")),
        generation=metadata.get("generation", 0),
        container_set=_container_set(spec),
        behaviour=pod_behaviour(metadata),
        desired=(requested := desired(spec)),
        allocated=requested,
        requests=requests_of(pod),
        priority=spec.get("priority") or 0,
        ends_as_job=_is_of_job(metadata) and spec.get("restartPolicy", "Always") != "Always",
        deadline_s=deadline_of(spec),
        delete_at_s=deletion_of(metadata),
    )
    status = pod.get("status") or {}
    _resume(record, status)
    if record.stage in (HollowPodStage.RUNNING, HollowPodStage.BACKOFF):
        _resume_allocation(record, spec, status)
    return record


def deletion_of(metadata: Object) -> float | None:
    timestamp = metadata.get("deletionTimestamp")
    return None if timestamp is None else _time(timestamp)


def deadline_of(spec: Object) -> float | None:
    seconds = spec.get("activeDeadlineSeconds")
    return None if seconds is None else float(seconds)


def is_scheduled(status: Object) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "PodScheduled" and each.get("status") == "True" for each in conditions)


def _is_of_job(metadata: Object) -> bool:
    """Whether the owner is a batch Job. For other kinds of jobs, the kind does not say whether a pod ends."""
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    return owner is not None and owner.get("kind") == "Job" and str(owner.get("apiVersion")).startswith("batch/")


def is_terminal(status: Object) -> bool:
    return status.get("phase") in ("Succeeded", "Failed")


def _resume(record: HollowPod, status: Object) -> None:
    """Sets the state that an earlier process wrote to the status of the pod."""
    record.ip = status.get("podIP", "") if not record.container_set.host_network else ""
    record.admitted_s = _time(status.get("startTime"))
    record.observed_generation = status.get("observedGeneration", 0)
    record.scheduled = is_scheduled(status)
    if is_terminal(status):
        record.stage = HollowPodStage.ENDED
        return
    record.changed_s = record.admitted_s
    if status.get("phase") != "Running" or not status.get("containerStatuses"):
        return
    first = status["containerStatuses"][0]
    record.restarts = first.get("restartCount", 0)
    ended = (first.get("lastState") or {}).get("terminated")
    if ended:
        record.previous_exit = ContainerExit(
            _time(ended.get("startedAt")), _time(ended.get("finishedAt")), ended.get("exitCode", 0)
        )
    running = (first.get("state") or {}).get("running")
    record.stage = HollowPodStage.RUNNING if running else HollowPodStage.BACKOFF
    record.started_s = record.ready_s = _time(running.get("startedAt")) if running else record.admitted_s


def _resume_allocation(record: HollowPod, spec: Object, status: Object) -> None:
    """Keeps the allocation that an earlier process wrote to the status. A status without an allocation is written
    again."""
    record.guaranteed = status.get("qosClass") == "Guaranteed"
    allocated = reported(spec, status)
    if allocated is None:
        record.observed_generation = 0
        return
    if allocated != record.desired:
        record.desired_requests = record.requests
        record.allocated = allocated
        record.requests = requests_of({"spec": with_resources(spec, allocated)})
    pending = next((each for each in status.get("conditions") or () if each.get("type") == PENDING), None)
    if pending is not None:
        record.shows_pending_resize = True
        since_s, probed_s = _time(pending.get("lastTransitionTime")), _time(pending.get("lastProbeTime"))
        record.pending_resize = PendingResize(pending.get("reason", ""), pending.get("message", ""), since_s, probed_s)


def shows_pending_resize(status: Object) -> bool:
    return any(each.get("type") == PENDING for each in status.get("conditions") or ())


def _container_set(spec: Object) -> ContainerSet:
    return _shared(
        ContainerSet(
            containers=tuple(Container(c["name"], c.get("image", "")) for c in spec["containers"]),
            init_containers=tuple(
                Container(c["name"], c.get("image", ""), is_sidecar(c)) for c in spec.get("initContainers") or ()
            ),
            readiness_gates=tuple(gate["conditionType"] for gate in spec.get("readinessGates") or ()),
            restart_policy=spec.get("restartPolicy", "Always"),
            host_network=bool(spec.get("hostNetwork")),
        )
    )


@lru_cache(maxsize=10_000)
def _shared(container_set: ContainerSet) -> ContainerSet:
    return container_set


def _time(text: str | None) -> float:
    value = parse_time(text) if text else 0
    return 0.0 if isinstance(value, str) else float(value)
