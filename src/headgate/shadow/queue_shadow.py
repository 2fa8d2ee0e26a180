"""Compares the admissions of Volcano with those of the queue engine (``capacity/engine.py``) in the same state.

The other system has *admitted* a pod when the pod has a node, or, if it opted in to the queue gate, when that gate is
gone. Such pods are facts for the engine. The grants of the engine stay planned; how a decision of the other is looked
up in the plan, and when the plan is made again, is described in ``quota_shadow.py``. Which node a pod gets and which
pods are preempted is not compared.

A pod that the engine would admit and that has no node may wait for a node, which is no decision of its queue. So it is
reported only if it keeps the queue gate, or if its PodGroup is not in the queue either (phase Pending).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.stamp import Stamp
from headgate.capacity.api.task import ANNOTATIONS, TaskInfo
from headgate.capacity.conf import SchedulerConf
from headgate.capacity.engine import QueueEngine
from headgate.capacity.names import GATE, OPT_IN, POD_GROUPS, QUEUES
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import WatchSpec
from headgate.kube.api_resources import NAMESPACES, PODS, APIResource
from headgate.kube.timestamps import format_micro_time
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.gates.capacity_objects import CapacityObjectHandler, counts_in_queue, task_of
from headgate.shadow.comparison import Compared, DecisionComparison, Outcome
from headgate.shadow.open_decisions import OpenDecisions

Object = dict[str, Any]

_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
        "metadata.resourceVersion",
        "spec",
        "status.phase",
        "status.startTime",
        "status.conditions",
        "status.containerStatuses",
        "status.initContainerStatuses",
    }
)
_ENQUEUED: Final = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
_MAX_PODS: Final = 1_000_000
_MAX_INSTEAD: Final = 5


class QueueShadowSettings(msgspec.Struct, frozen=True):
    """``component``: the one that would decide. ``scheduler_names``: the schedulers whose pods are in queues.
    ``only_gated``: pods without a node count only if they take part in the queue gate (component ``gates``).
    ``enabled``: the feature gate QueueAllocationGate."""

    component: str
    scheduler_names: frozenset[str]
    conf: SchedulerConf
    only_gated: bool = False
    enabled: bool = True
    patience_s: float = 30.0


class QueueShadow:
    """``compared`` is called for each decision that was compared. Nothing is compared before :meth:`begin`."""

    def __init__(self, settings: QueueShadowSettings, compared: Compared) -> None:
        self.name: Final = settings.component
        self.engine: Final = QueueEngine(settings.conf)
        self._settings = settings
        self._compared: Final = compared
        self._objects: Final = CapacityObjectHandler(self.engine)
        self._served: Collection[APIResource] = frozenset()
        self._shapes: Final = ShapeTable()
        self._is_comparing = False
        self._pods: Final[dict[str, PodInfo]] = {}
        self._groups: Final[dict[tuple[str, str], Object]] = {}
        self._planned: Final[dict[str, str]] = {}  # uid: the queue that would admit the pod
        self._open: Final[OpenDecisions[str]] = OpenDecisions(settings.patience_s)

    def discovered(self, served: DiscoveredKinds) -> None:
        self._served = frozenset(row.resource for row in served.by_name.values())

    def watches(self) -> Iterable[WatchSpec]:
        kinds = [each for each in (QUEUES, POD_GROUPS) if each in self._served]
        found = [WatchSpec(each, frozenset(self._objects.watched[each])) for each in (*kinds, NAMESPACES)]
        return [*found, WatchSpec(PODS, _POD_FIELDS)]

    def open_decisions(self) -> Mapping[str, int]:
        return {"admission": len(self._open)}

    # -- the world -------------------------------------------------------------------------------------------------

    def begin(self, now_s: float) -> None:
        """All objects are known: from now on decisions are planned and compared."""
        self._is_comparing = True
        self._plan(now_s)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> None:
        if resource == PODS:
            self._pod_applied(obj, now_s)
        else:
            if resource == POD_GROUPS:
                self._groups[obj["metadata"]["namespace"], obj["metadata"]["name"]] = obj
            self._objects.applied(resource, obj)
        self._plan(now_s)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> None:
        if resource == PODS:
            self._forget(uid)
        else:
            if resource == POD_GROUPS:
                self._groups.pop((namespace, name), None)
            self._objects.removed(resource, namespace, name)
        self._plan(now_s)

    def _pod_applied(self, obj: Object, now_s: float) -> None:
        pod = read_pod(obj, self._shapes, ANNOTATIONS)
        if isinstance(pod, str) or pod.scheduler_name not in self._settings.scheduler_names:
            return
        enabled = self._settings.enabled
        is_out = self._settings.only_gated and not counts_in_queue(pod, enabled=enabled)
        if pod.terminal or is_out or (pod.deleting and not pod.node_name):
            self._forget(pod.uid)
            task = task_of(pod, enabled=enabled)
            if pod.succeeded and task.group:
                self.engine.task_applied(task)  # it counts for the minimum of its gang as long as it exists
            return
        known, is_difference = self._pods.get(pod.uid), False
        if known is not None and self._is_comparing and self._is_admitted(pod) and not self._is_admitted(known):
            is_difference = self._compare_admission(pod, now_s)
        self._pods[pod.uid] = pod
        task = self._task_of(pod, now_s)
        if task.stamp is not None and not pod.node_name:
            self.engine.task_removed(pod.uid)  # a promise of the plan is replaced by what the other promised
        self.engine.task_applied(task)
        if task.stamp is not None:
            self.engine.commit(pod.uid)
        if is_difference:
            self._plan_again(now_s)

    def _task_of(self, pod: PodInfo, now_s: float) -> TaskInfo:
        """A pod without a node whose gate the other has removed holds capacity, as if it had Headgate's stamp."""
        task = task_of(pod, enabled=self._settings.enabled)
        if pod.node_name or not self._is_admitted(pod) or task.stamp is not None:
            return task
        if not self.engine.queue_of(pod.uid):
            self.engine.task_applied(task)  # its PodGroup or its namespace may name the queue
        queue = self.engine.queue_of(pod.uid)
        return msgspec.structs.replace(
            task, stamp=Stamp(pod.uid, queue, pod.shape.requests, format_micro_time(pod.created_s or now_s))
        )

    def _is_admitted(self, pod: PodInfo) -> bool:
        """Whether the other system has admitted the pod."""
        is_gated = self._settings.enabled and pod.annotations.get(OPT_IN) == "true"
        return bool(pod.node_name) or (is_gated and not pod.gates)

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._planned.pop(uid, None)
        self._open.close(uid)
        self.engine.task_removed(uid)

    # -- the plan --------------------------------------------------------------------------------------------------

    def step(self, now_s: float) -> float | None:
        """Does what is due. Returns when it has to be called again without an event."""
        self._plan(now_s)
        if self._open.overdue(now_s):
            self._plan_again(now_s)
        for uid in self._open.overdue(now_s):
            if self._is_kept_out(self._pods[uid]):
                self._report(uid)
            else:
                self._open.postpone(uid, now_s)
        deadlines = (self.engine.next_deadline_s(), self._open.next_deadline_s())
        return min((each for each in deadlines if each is not None), default=None)

    def _plan(self, now_s: float) -> None:
        if not self._is_comparing:
            return
        for grant in self.engine.admit(now_s, _MAX_PODS, now_s):
            for uid in grant.uids:
                pod = self._pods.get(uid)
                if pod is not None and not self._is_admitted(pod):
                    self._planned[uid] = grant.queue
                    self._open.add(uid, now_s)
        for uid in self.engine.revoked_pods():
            if self.engine.peek_wait_reason(uid) is not None:  # otherwise it got another grant in the same step
                self._planned.pop(uid, None)
                self._open.close(uid)
        self.engine.pods_to_retry()
        self.engine.pods_to_reassign()
        self.engine.changed_holds()

    def _plan_again(self, now_s: float) -> None:
        """Drops all grants of the plan and makes it again from the present state."""
        before = list(self._planned)
        groups: dict[tuple[str, str], None] = {}
        for uid in before:
            self.engine.task_removed(uid)
        for uid in before:
            pod = self._pods[uid]
            task = self._task_of(pod, now_s)
            self.engine.task_applied(task)
            if task.group:
                groups[pod.namespace, task.group] = None
        for namespace, name in groups:
            if (namespace, name) in self._groups:
                self.engine.group_removed(namespace, name)
                self.engine.group_applied(self._groups[namespace, name])
        self._planned.clear()
        self._plan(now_s)
        self._open.keep_only(self._planned, before)

    def _is_kept_out(self, pod: PodInfo) -> bool:
        """Whether the other keeps the pod out of its queue, as far as the API shows it."""
        if GATE in pod.gates:
            return True
        group = task_of(pod).group
        obj = self._groups.get((pod.namespace, group)) if group else None
        phase = "" if obj is None else str((obj.get("status") or {}).get("phase", ""))
        return phase not in _ENQUEUED

    # -- comparisons -----------------------------------------------------------------------------------------------

    def _compare_admission(self, pod: PodInfo, now_s: float) -> bool:
        """The other admitted the pod. Returns whether Headgate would decide otherwise."""
        if pod.uid not in self._planned:
            self._plan_again(now_s)
        planned = self._planned.pop(pod.uid, None)
        open_decision = self._open.close(pod.uid)
        other = f"bound to {pod.node_name}" if pod.node_name else "gate removed"
        if planned is not None:
            is_late = open_decision is not None and open_decision.is_reported
            self._compare("late" if is_late else "same", pod, other, other, planned)
            return False
        waits = self.engine.peek_wait_reason(pod.uid)
        instead = sorted(f"{each.namespace}/{each.name}" for each in map(self._pods.__getitem__, self._planned))
        self._compare(
            "only_other",
            pod,
            other,
            "waits",
            self.engine.queue_of(pod.uid),
            "" if waits is None else waits.why.value,
            "" if waits is None else waits.message,
            tuple(instead[:_MAX_INSTEAD]),
        )
        return True

    def _report(self, uid: str) -> None:
        self._open.report(uid)
        pod = self._pods[uid]
        other = "keeps its gate" if GATE in pod.gates else "waits"
        reason, message = ("", "") if pod.scheduled is None else (pod.scheduled.reason, pod.scheduled.message)
        self._compare("only_headgate", pod, other, "admitted", self._planned[uid], reason, message)

    def _compare(
        self,
        outcome: Outcome,
        pod: PodInfo,
        other: str,
        headgate: str,
        queue: str,
        reason: str = "",
        message: str = "",
        instead: tuple[str, ...] = (),
    ) -> None:
        self._compared(
            DecisionComparison(
                outcome=outcome,
                component=self.name,
                decision="admission",
                kind="Pod",
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                queue=queue,
                other=other,
                headgate=headgate,
                reason=reason,
                message=message,
                instead=instead,
            )
        )
