"""The life cycle of pods on hollow nodes: admitted, running, restarted, ended, deleted.

It receives pod events and timers, and emits writes to pods. After every change, ``_sync_pod`` decides the next step of
a pod from the present state of the pod and its node, not from the event. ``nodes/hollow_nodes.py`` changes the nodes;
this module only reads them. ``nodes/pod_record.py`` has the stages of a pod; ``nodes/pod_status.py`` builds the status.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.kube.backoff import ExponentialBackoff
from headgate.nodes.address_pool import POD_POOL, AddressPool
from headgate.nodes.allocation import DEFERRED, PendingResize, check_resize, desired
from headgate.nodes.behaviour import pod_behaviour
from headgate.nodes.effects import DeletePod, Effect, PatchPodStatus
from headgate.nodes.node_record import HollowNode
from headgate.nodes.options import HollowOptions
from headgate.nodes.pod_admission import check, requests_of
from headgate.nodes.pod_record import (
    ContainerExit,
    HollowPod,
    HollowPodStage,
    deadline_of,
    deletion_of,
    is_scheduled,
    is_terminal,
    read,
    shows_pending_resize,
)
from headgate.nodes.pod_status import KILLED, backoff_s, pod_status, restarts_after
from headgate.nodes.timer_heap import TimerHeap

Object = dict[str, Any]
Key = tuple[str, str]

_RETRY_BACKOFF: Final = ExponentialBackoff(2.0, 60.0)
_ADMITTED_STAGES: Final = frozenset({HollowPodStage.STARTING, HollowPodStage.RUNNING, HollowPodStage.BACKOFF})


class NodeUsage(msgspec.Struct):
    """What the pods of one node have allocated. Mutable: a running sum, so that the admission of a pod has constant
    cost.
    """

    used: dict[str, int]
    pods: int = 0


class PodWorkers:
    def __init__(
        self,
        options: HollowOptions,
        timers: TimerHeap[tuple[str, str]],
        emit: Callable[[Effect], None],
        nodes: Mapping[str, HollowNode],
    ) -> None:
        self._options = options
        self._timers = timers
        self._emit = emit
        self._nodes = nodes
        self._pods: dict[Key, HollowPod] = {}
        self._by_uid: dict[str, HollowPod] = {}
        self._on_node: dict[str, dict[Key, HollowPod]] = {}
        self._usage: dict[str, NodeUsage] = {}
        # By node: pods whose resize waits until other pods release capacity.
        self._deferred: dict[str, dict[Key, HollowPod]] = {}
        # The nodes of these pods on which other pods have released capacity since the last retry.
        self._released: set[str] = set()
        self._shared_pool = AddressPool(POD_POOL)
        self._started = False
        self._clock_offset_s = 0.0  # the sum of all changes of the clock (``clock_moved``)
        self._timer_handlers: Final[dict[str, Callable[[HollowPod, float], None]]] = {
            "start": self._run,
            "finish": self._finish,
            "restart": self._restart,
            "deadline": self._exceed_deadline,
            "stop": self._sync_pod,
            "retry": self._retry,
        }

    # -- events ----------------------------------------------------------------------------------------------------

    def start(self, now_s: float) -> None:
        """All pods and nodes are known now. Pods are admitted from now on, when the running pods are counted."""
        self._started = True
        for pod in self._pods.values():
            self._claim_address(pod)
        for pod in sorted(self._pods.values(), key=_age):
            self._sync_pod(pod, now_s)
        self._retry_resizes(now_s)

    def applied(self, obj: Object, now_s: float) -> None:
        metadata = obj["metadata"]
        pod = self._pods.get((metadata["namespace"], metadata["name"]))
        if pod is not None and pod.uid != metadata["uid"]:
            self._drop(pod)
            pod = None
        if pod is None:
            pod = self._add(read(obj))
        else:
            self._update(pod, obj)
        if self._started:
            self._sync_pod(pod, now_s)
            self._retry_resizes(now_s)

    def removed(self, namespace: str, name: str, uid: str, now_s: float) -> None:
        pod = self._pods.get((namespace, name))
        if pod is not None and pod.uid == uid:
            self._drop(pod)
            self._retry_resizes(now_s)

    def node_changed(self, name: str, now_s: float) -> None:
        """The node was added or removed, or changed its readiness or size."""
        if not self._started:
            return
        pods = self._on_node.get(name, {}).values()
        for pod in pods:
            self._claim_address(pod)
        if name in self._deferred:  # deferred resizes have an order of their own, and come before the other pods
            self._released.add(name)
            self._retry_resizes(now_s)
        for pod in sorted(pods, key=_age):
            self._sync_pod(pod, now_s)
        self._retry_resizes(now_s)

    def report_running(self, name: str) -> None:
        """Writes the status of the node's running pods again."""
        for pod in sorted(self._on_node.get(name, {}).values(), key=_age):
            if pod.stage is HollowPodStage.RUNNING:
                self._report(pod)

    def timer_fired(self, timer: str, uid: str, now_s: float) -> bool:
        """A timer is due. False if it is not a timer of pods."""
        if timer not in self._timer_handlers:
            return False
        self._timer_handlers[timer](self._by_uid[uid], now_s)
        self._retry_resizes(now_s)
        return True

    def failed(self, effect: PatchPodStatus | DeletePod, now_s: float) -> None:
        """A write failed and may be retried."""
        pod = self._pods.get((effect.namespace, effect.name))
        if pod is not None and pod.uid == effect.uid:
            pod.failures += 1
            self._timers.set(("retry", pod.uid), now_s + _RETRY_BACKOFF.delay_s(pod.failures))

    def clock_moved(self, by_s: float) -> None:
        """The clock was changed by ``by_s``. The caller has moved the running timers; timers that are set later are
        moved by the same time."""
        self._clock_offset_s += by_s

    # -- decisions -------------------------------------------------------------------------------------------------

    def _sync_pod(self, pod: HollowPod, now_s: float) -> None:
        """Decides the next step of the pod from its state and the state of its node."""
        node = self._nodes.get(pod.node)
        if node is None:
            self._cancel_timers(pod)  # the pod garbage collector deletes the pod of a missing node
            return
        if not node.alive:
            if node.silent:
                self._cancel_timers(pod)
        elif pod.delete_at_s is not None:
            self._stop(pod, node, pod.delete_at_s, now_s)
        elif pod.stage is HollowPodStage.PARKED and node.up:
            self._admit(pod, node, now_s)
        elif pod.stage in _ADMITTED_STAGES:
            self._continue(pod, node, now_s)

    def _continue(self, pod: HollowPod, node: HollowNode, now_s: float) -> None:
        """The pod is admitted. Applies changes of its annotations, deadline and resources, and writes its status."""
        if pod.stage is HollowPodStage.RUNNING:
            self._set_timers(pod)
        else:
            self._set_deadline_timer(pod)
        if pod.stage is HollowPodStage.BACKOFF and ("restart", pod.uid) not in self._timers:
            self._timers.set(("restart", pod.uid), now_s + backoff_s(pod.restarts, 0.0))
        status_changed = self._resize(pod, node, now_s)
        if status_changed or pod.generation != pod.observed_generation:
            self._report(pod)

    def _resize(self, pod: HollowPod, node: HollowNode, now_s: float) -> bool:
        """Applies the requests of the spec, if the node has the capacity. True if the status changes."""
        if pod.desired_requests is None:
            self._end_resize(pod)
            return pod.shows_pending_resize
        usage = self._usage_of(pod.node)
        others = {name: amount - pod.requests.get(name, 0) for name, amount in usage.used.items()}
        rejection = check_resize(pod.desired_requests, others, usage.pods - 1, node.allocatable)
        if rejection is None:
            self._change_usage(pod, -1)
            pod.requests, pod.allocated = pod.desired_requests, pod.desired
            self._change_usage(pod, 1)
            self._end_resize(pod)
            if pod.node in self._deferred:
                self._released.add(pod.node)
            return True
        earlier = pod.pending_resize
        if rejection.reason == DEFERRED:
            self._deferred.setdefault(pod.node, {})[pod.key] = pod
        else:
            self._forget_deferred(pod)
        if earlier is not None and (earlier.reason, earlier.message) == (rejection.reason, rejection.message):
            return False
        since_s = earlier.since_s if earlier is not None and earlier.reason == rejection.reason else now_s
        pod.pending_resize = PendingResize(rejection.reason, rejection.message, since_s, now_s)
        return True

    def _retry_resizes(self, now_s: float) -> None:
        """Retries deferred resizes on nodes with released capacity, in the kubelet's order."""
        while self._released:
            name = self._released.pop()
            node = self._nodes.get(name)
            if node is None or not node.alive:
                continue  # all its pods are synced when the node is ready again
            for pod in sorted(self._deferred.get(name, {}).values(), key=_resize_order):
                if pod.delete_at_s is None and self._resize(pod, node, now_s):
                    self._report(pod)

    def _end_resize(self, pod: HollowPod) -> None:
        pod.pending_resize = pod.desired_requests = None
        self._forget_deferred(pod)

    def _forget_deferred(self, pod: HollowPod) -> None:
        waiting = self._deferred.get(pod.node, {})
        if waiting.pop(pod.key, None) is not None and not waiting:
            del self._deferred[pod.node]

    def _admit(self, pod: HollowPod, node: HollowNode, now_s: float) -> None:
        usage = self._usage_of(pod.node)
        rejection = check(pod.requests, usage.used, usage.pods, node.allocatable)
        if not pod.admitted_s:
            pod.admitted_s, pod.admitted_offset_s = now_s, self._clock_offset_s
        if rejection is not None:
            pod.rejected, pod.reason, pod.message = True, rejection.reason, f"Pod was rejected: {rejection.message}"
            self._enter(pod, HollowPodStage.ENDED, now_s)
            return
        self._add_usage(pod)
        start_s = _or_default(pod.behaviour.start_s, self._options.start_s)
        if start_s > 0:
            self._enter(pod, HollowPodStage.STARTING, now_s)
            self._set_deadline_timer(pod)
            self._timers.set(("start", pod.uid), now_s + start_s)
        else:
            self._run(pod, now_s)

    def _run(self, pod: HollowPod, now_s: float) -> None:
        pod.started_s = pod.ready_s = now_s
        pod.started_offset_s = self._clock_offset_s
        self._enter(pod, HollowPodStage.RUNNING, now_s)
        self._set_timers(pod)

    def _set_timers(self, pod: HollowPod) -> None:
        run_s = pod.behaviour.run_s
        if run_s is None and pod.ends_as_job:
            run_s = self._options.job_run_s
        if run_s is None or math.isinf(run_s):
            self._timers.cancel(("finish", pod.uid))
        else:
            self._timers.set(("finish", pod.uid), pod.started_s + run_s + self._clock_offset_s - pod.started_offset_s)
        self._set_deadline_timer(pod)

    def _set_deadline_timer(self, pod: HollowPod) -> None:
        """The deadline counts from the start time, also if it was added or shortened later."""
        if pod.deadline_s is None:
            self._timers.cancel(("deadline", pod.uid))
        else:
            offset_s = self._clock_offset_s - pod.admitted_offset_s
            self._timers.set(("deadline", pod.uid), pod.admitted_s + pod.deadline_s + offset_s)

    def _finish(self, pod: HollowPod, now_s: float) -> None:
        """The containers exit by themselves."""
        code = pod.behaviour.exit_code
        if pod.delete_at_s is not None or not restarts_after(pod.container_set.restart_policy, code):
            self._end(pod, now_s, code)
            return
        pod.previous_exit = ContainerExit(pod.started_s, now_s, code)
        wait_s = backoff_s(pod.restarts, now_s - pod.started_s)
        if wait_s > 0:
            self._enter(pod, HollowPodStage.BACKOFF, now_s)
            self._set_deadline_timer(pod)
            self._timers.set(("restart", pod.uid), now_s + wait_s)
            return
        pod.restarts += 1
        # The pod stays ready, because the restart takes no time: ``ready_s`` does not change.
        pod.started_s, pod.started_offset_s = now_s, self._clock_offset_s
        self._enter(pod, HollowPodStage.RUNNING, now_s)
        self._set_timers(pod)

    def _restart(self, pod: HollowPod, now_s: float) -> None:
        pod.restarts += 1
        self._run(pod, now_s)

    def _exceed_deadline(self, pod: HollowPod, now_s: float) -> None:
        message = "Pod was active on the node longer than the specified deadline"
        self._end(pod, now_s, KILLED, "DeadlineExceeded", message)

    def _stop(self, pod: HollowPod, node: HollowNode, delete_at_s: float, now_s: float) -> None:
        """Stops a pod that is being deleted, at the latest at the end of its grace period. A second deletion may
        shorten the period."""
        if pod.stage is HollowPodStage.RUNNING:
            if pod.stopping_since_s is None:
                pod.stopping_since_s, pod.stopping_offset_s = now_s, self._clock_offset_s
            wanted_s = _or_default(pod.behaviour.stop_s, _or_default(node.behaviour.stop_s, self._options.stop_s))
            stopped_s = pod.stopping_since_s + wanted_s + self._clock_offset_s - pod.stopping_offset_s
            if min(stopped_s, delete_at_s) > now_s:
                self._timers.set(("stop", pod.uid), min(stopped_s, delete_at_s))
                if pod.generation != pod.observed_generation:
                    self._report(pod)
                return
            self._end(pod, now_s, 0 if stopped_s <= delete_at_s else KILLED)
        elif pod.stage is not HollowPodStage.ENDED:
            self._end(pod, now_s, KILLED)
        elif not pod.deleted:
            pod.deleted = True
            self._emit(DeletePod(pod.namespace, pod.name, pod.uid))

    def _end(self, pod: HollowPod, now_s: float, code: int, reason: str = "", message: str = "") -> None:
        if pod.stage is HollowPodStage.RUNNING:
            pod.final_exit = ContainerExit(pod.started_s, now_s, code)
        elif pod.stage is HollowPodStage.BACKOFF:
            pod.final_exit = pod.previous_exit
        pod.exit_code, pod.reason, pod.message = code, reason, message
        self._enter(pod, HollowPodStage.ENDED, now_s)
        self._sync_pod(pod, now_s)

    def _retry(self, pod: HollowPod, now_s: float) -> None:
        if pod.node not in self._nodes:
            return
        if pod.stage is not HollowPodStage.PARKED:
            self._report(pod)
        if pod.deleted:
            self._emit(DeletePod(pod.namespace, pod.name, pod.uid))

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    def _enter(self, pod: HollowPod, stage: HollowPodStage, now_s: float) -> None:
        pod.stage = stage
        pod.changed_s = now_s
        self._cancel_timers(pod)
        if stage is HollowPodStage.ENDED:
            self._remove_usage(pod)
        self._report(pod)

    def _report(self, pod: HollowPod) -> None:
        status = pod_status(pod, self._nodes[pod.node].ip)
        pod.observed_generation = pod.generation
        pod.shows_pending_resize = pod.pending_resize is not None
        self._emit(PatchPodStatus(pod.namespace, pod.name, pod.uid, status))

    def _update(self, pod: HollowPod, obj: Object) -> None:
        """Copies the fields that other components changed."""
        metadata = obj["metadata"]
        pod.failures = 0
        if not pod.generation or pod.generation != metadata.get("generation"):
            self._update_resources(pod, obj)
        pod.generation = metadata.get("generation", 0)
        pod.behaviour = pod_behaviour(metadata)
        pod.delete_at_s = deletion_of(metadata)
        pod.deadline_s = deadline_of(obj["spec"])
        status = obj.get("status") or {}
        pod.scheduled = is_scheduled(status)
        pod.shows_pending_resize = shows_pending_resize(status)
        pod.guaranteed = status.get("qosClass") == "Guaranteed"
        if is_terminal(status) and pod.stage is not HollowPodStage.ENDED:
            pod.stage = HollowPodStage.ENDED
            self._cancel_timers(pod)
            self._remove_usage(pod)

    def _update_resources(self, pod: HollowPod, obj: Object) -> None:
        """A pod that is not admitted yet gets the new allocation at once; otherwise its node must have the capacity."""
        pod.desired = desired(obj["spec"])
        if pod.desired == pod.allocated:
            pod.desired_requests = None
        elif pod.stage is HollowPodStage.PARKED:
            pod.allocated, pod.requests = pod.desired, requests_of(obj)
        else:
            pod.desired_requests = requests_of(obj)

    def _add(self, pod: HollowPod) -> HollowPod:
        pod.admitted_offset_s = pod.started_offset_s = self._clock_offset_s
        self._pods[pod.key] = pod
        self._by_uid[pod.uid] = pod
        self._on_node.setdefault(pod.node, {})[pod.key] = pod
        if pod.stage in _ADMITTED_STAGES:
            self._add_usage(pod)
        return pod

    def _drop(self, pod: HollowPod) -> None:
        self._cancel_timers(pod)
        self._timers.cancel(("retry", pod.uid))
        self._remove_usage(pod)
        del self._pods[pod.key]
        del self._by_uid[pod.uid]
        on_node = self._on_node[pod.node]
        del on_node[pod.key]
        if not on_node:
            del self._on_node[pod.node]
            self._usage.pop(pod.node, None)

    def _cancel_timers(self, pod: HollowPod) -> None:
        for timer in ("start", "finish", "restart", "deadline", "stop"):
            self._timers.cancel((timer, pod.uid))

    def _usage_of(self, node: str) -> NodeUsage:
        return self._usage.setdefault(node, NodeUsage({}))

    def _add_usage(self, pod: HollowPod) -> None:
        self._usage_of(pod.node).pods += 1
        self._change_usage(pod, 1)
        pod.counted = True
        if pod.ip:
            self._claim_address(pod)
        elif not pod.container_set.host_network:
            pod.ip = next((ip for pool in self._pools(pod) if (ip := pool.take()) is not None), "")

    def _change_usage(self, pod: HollowPod, sign: int) -> None:
        used = self._usage_of(pod.node).used
        for name, amount in pod.requests.items():
            used[name] = used.get(name, 0) + sign * amount

    def _claim_address(self, pod: HollowPod) -> None:
        """Reserves the address of a running pod, also in the pool of a node that became known later."""
        if pod.counted and pod.ip:
            for pool in self._pools(pod):
                pool.claim(pod.ip)

    def _pools(self, pod: HollowPod) -> list[AddressPool]:
        node = self._nodes.get(pod.node)
        return [self._shared_pool] if node is None or node.pool is None else [node.pool, self._shared_pool]

    def _remove_usage(self, pod: HollowPod) -> None:
        if not pod.counted:
            return
        pod.counted = False
        self._usage_of(pod.node).pods -= 1
        self._change_usage(pod, -1)
        self._forget_deferred(pod)
        if pod.node in self._deferred:
            self._released.add(pod.node)
        for pool in self._pools(pod):
            pool.release(pod.ip)


def _age(pod: HollowPod) -> tuple[float, Key]:
    """Older pods first."""
    return pod.created_s, pod.key


def _resize_order(pod: HollowPod) -> tuple[bool, int, bool, float, Key]:
    """First resizes that do not grow, then by priority, then Guaranteed pods, then by waiting time."""
    requested = pod.desired_requests or {}
    grows = any(requested.get(name, 0) > pod.requests.get(name, 0) for name in ("cpu", "memory"))
    since_s = pod.pending_resize.since_s if pod.pending_resize is not None else 0.0
    return grows, -pod.priority, not pod.guaranteed, since_s, pod.key


def _or_default(value_s: float | None, default_s: float) -> float:
    return default_s if value_s is None else value_s
