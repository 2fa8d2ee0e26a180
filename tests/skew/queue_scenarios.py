"""Options that concern Volcano-style queues, gates and their policies: what becomes of pods."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headgate.capacity.names import GATE, LAPSED, LEASE
from headgate.kube.feature_gates import FeatureGates
from skew import objects
from skew.cluster import POD_GROUPS, PODS, POLICIES, Object, SkewedCluster, gates_of, is_bound
from skew.replica import GATES, Replica
from skew.scenario import Scenario

FOREIGN = "example.com/wait"
ON = Replica(components=frozenset({"scheduler", "webhooks"}))
GATES_ON = Replica(components=GATES, gated_scheduler_names=("default-scheduler",))


def without(replica: Replica, **features: bool) -> Replica:
    return replace(replica, features=FeatureGates(**features))


class QueueScenario(Scenario):
    """One pod runs, one was promised capacity and fits on no node, and one waits. ``name``: of their scheduler."""

    name = "headgate"

    def before(self, cluster: SkewedCluster) -> None:
        self.add(cluster, "running")
        self.add(cluster, "promised", nodeSelector=objects.ABSENT)
        self.add(cluster, "waiting")
        cluster.advance(3)

    def add(self, cluster: SkewedCluster, name: str, **spec: Any) -> None:
        cluster.created(PODS, objects.queue_pod(name, scheduler=self.name, **spec))

    def during(self, cluster: SkewedCluster) -> None:
        self.add(cluster, "new")
        cluster.advance(3)

    def outcome(self, cluster: SkewedCluster) -> str:
        return f"the next pod {self.fate(cluster, 'waiting')}; a new pod {self.fate(cluster, 'new')}"

    def fate(self, cluster: SkewedCluster, name: str) -> str:
        pod = cluster.get(PODS, name)
        if is_bound(pod):
            return "runs" + (", above the limit of its queue" if cluster.is_above_limit() else "")
        if GATE in gates_of(pod):
            return "waits behind its gate"
        return f"waits without a gate ({_reason(pod)})"

    def release(self, cluster: SkewedCluster) -> None:
        cluster.add_node()

    def whole(self, cluster: SkewedCluster) -> tuple[str, Object]:
        return PODS, objects.queue_pod("whole", "2", self.name)


class QueueAllocationGate(QueueScenario):
    title = "`QueueAllocationGate`"
    on, off = ON, without(ON, queue_allocation_gate=False)

    def has_trace(self, cluster: SkewedCluster) -> bool:
        return any(GATE in gates_of(pod) or objects.is_promised(pod) for pod in cluster.items(PODS).values())


class QueueAllocationGateOfOthers(QueueScenario):
    title, name = "`QueueAllocationGate`, component `gates`", "default-scheduler"
    on, off = GATES_ON, without(GATES_ON, queue_allocation_gate=False)

    def release(self, cluster: SkewedCluster) -> None:
        """Its scheduler binds the promised pod to any node."""


class PodSchedulingReadiness(QueueScenario):
    title = "`PodSchedulingReadiness`"
    on, off = ON, without(ON, pod_scheduling_readiness=False, queue_allocation_gate=False)

    def before(self, cluster: SkewedCluster) -> None:
        cluster.created(PODS, _foreign("old"))
        cluster.advance(3)

    def during(self, cluster: SkewedCluster) -> None:
        cluster.created(PODS, _foreign("new"))
        cluster.advance(30)

    def outcome(self, cluster: SkewedCluster) -> str:
        waits = [FOREIGN in gates_of(pod) and not is_bound(pod) for pod in cluster.items(PODS).values()]
        return "pods wait behind gates of other controllers" if all(waits) else "pods do not wait"

    def release(self, cluster: SkewedCluster) -> None:
        for name in ("old", "new"):
            cluster.changed(PODS, name, {"spec": {"schedulingGates": [{"$patch": "delete", "name": FOREIGN}]}})


class GangAtomicUngate(QueueScenario):
    title = "`GangAtomicUngate`"
    on, off = ON, without(ON, gang_atomic_ungate=False)
    revokes = True

    def before(self, cluster: SkewedCluster) -> None:
        self.add(cluster, "running")
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"}}
        cluster.created(POD_GROUPS, {**group, "spec": {"minMember": 2, "queue": "q"}})
        cluster.advance(3)
        for name in ("member-0", "member-1"):
            self.add(cluster, name, group="gang")
        cluster.advance(3)

    def during(self, cluster: SkewedCluster) -> None:
        cluster.advance(3)

    def outcome(self, cluster: SkewedCluster) -> str:
        members = [cluster.get(PODS, name) for name in ("member-0", "member-1")]
        if any(map(objects.is_promised, members)):
            return "a part of a gang that does not fit has a promise"
        if all(GATE in gates_of(each) for each in members):
            return "a gang that does not fit has no promise"
        return "the promise to a part of a gang is revoked"


class ReservationLease(QueueScenario):
    title = "`ReservationLease`"
    on, off = without(ON, reservation_lease=True), ON
    revokes = True

    def before(self, cluster: SkewedCluster) -> None:
        self.add(cluster, "running")
        self.add(cluster, "promised", nodeSelector=objects.ABSENT, annotations={LEASE: "5m"})
        self.add(cluster, "waiting")
        cluster.advance(3)

    def during(self, cluster: SkewedCluster) -> None:
        cluster.advance(900)

    def outcome(self, cluster: SkewedCluster) -> str:
        is_kept = objects.is_promised(cluster.get(PODS, "promised"))
        promise = "a promise stays" if is_kept else "a promise ends with its lease"
        return f"{promise}; the next pod {self.fate(cluster, 'waiting')}"

    def has_trace(self, cluster: SkewedCluster) -> bool:
        return any(LAPSED in pod["metadata"]["annotations"] for pod in cluster.items(PODS).values())


class GateAllPods(QueueScenario):
    title = "`--gate-all-pods`"
    on, off = replace(ON, gates_all_pods=True), ON

    def add(self, cluster: SkewedCluster, name: str, **spec: Any) -> None:
        cluster.created(PODS, _without_annotation(objects.queue_pod(name, **spec)))

    def whole(self, cluster: SkewedCluster) -> tuple[str, Object]:
        path, pod = super().whole(cluster)
        return path, _without_annotation(pod)


class NamedSchedulerScenario(QueueScenario):
    remedy = "pods of that scheduler keep their gate: `headgate gates lift NAME -l SELECTOR`"

    def clean_up(self, cluster: SkewedCluster) -> None:
        """What ``headgate gates lift`` writes."""
        for name, pod in cluster.items(PODS).items():
            if GATE in gates_of(pod):
                cluster.changed(PODS, name, {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}})


class SchedulerName(NamedSchedulerScenario):
    title, name = "`--scheduler-name`", "volcano"
    on, off = replace(ON, scheduler_names=("headgate", "volcano")), ON


class GatedSchedulerName(NamedSchedulerScenario):
    title, name = "`--gated-scheduler-name`", "other"
    on, off = replace(GATES_ON, gated_scheduler_names=("default-scheduler", "other")), GATES_ON

    def release(self, cluster: SkewedCluster) -> None:
        """Its scheduler binds the promised pod to any node."""


class TrustedUser(QueueScenario):
    """The webhooks are served under another account than that of the leader."""

    title = "`--trusted-user`, with a leader of another account"
    on, off = replace(ON, user="standby", trusted_users=("admin",)), replace(ON, user="standby")
    remedy = "name the account of the leader"

    def during(self, cluster: SkewedCluster) -> None:
        before = {*cluster.promises()}
        super().during(cluster)
        cluster.server.delete(f"{PODS}/running", {"gracePeriodSeconds": 0})
        cluster.advance(600)
        self._granted = {*cluster.promises()} - before

    def outcome(self, cluster: SkewedCluster) -> str:
        if self._granted:
            return "gates are removed"
        return "no gate is removed: the webhook refuses the stamp"

    def clean_up(self, cluster: SkewedCluster) -> None:
        cluster.agree(self.on)


class GateOwnership(Scenario):
    """A policy of a gate allows no user to lift it, and the controller lifts it after an hour."""

    title = "`GateOwnership`"
    on, off = without(ON, gate_ownership=True), ON

    def before(self, cluster: SkewedCluster) -> None:
        policy = {"apiVersion": "headgate.dev/v1alpha1", "kind": "GatePolicy", "metadata": {"name": "p"}}
        spec = {"gates": [FOREIGN], "liftedBy": [], "maxAge": "1h", "onMaxAge": "Lift"}
        cluster.created(POLICIES, {**policy, "spec": spec})
        for name in ("tried", "overdue"):
            cluster.created(PODS, _foreign(name))
        cluster.advance(5)

    def during(self, cluster: SkewedCluster) -> None:
        merge, body = "application/merge-patch+json", {"spec": {"schedulingGates": None}}
        self._tried = cluster.server.call(
            "PATCH", f"{PODS}/tried", body, content_type=merge, authorization="Bearer alice"
        )
        cluster.advance(4000)

    def outcome(self, cluster: SkewedCluster) -> str:
        is_refused = self._tried.status == 403
        refusal = "users that a policy excludes cannot lift its gate" if is_refused else "every user may lift gates"
        is_kept = FOREIGN in gates_of(cluster.get(PODS, "overdue"))
        return f"{refusal}; overdue gates {'stay' if is_kept else 'are lifted'}"

    def has_trace(self, cluster: SkewedCluster) -> bool:
        return "status" in cluster.get(POLICIES, "p")

    def release(self, cluster: SkewedCluster) -> None:
        """The gates of an hour ago are lifted; without policies a user lifts them."""
        for name, pod in cluster.items(PODS).items():
            if FOREIGN in gates_of(pod):
                cluster.server.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": None}})

    def whole(self, cluster: SkewedCluster) -> tuple[str, Object]:
        return PODS, objects.queue_pod("whole", "2")


def _foreign(name: str) -> Object:
    return objects.plain_pod(name, schedulerName="headgate", schedulingGates=[{"name": FOREIGN}])


def _without_annotation(pod: Object) -> Object:
    del pod["metadata"]["annotations"][GATE]
    return pod


def _reason(pod: Object) -> str:
    found = pod["status"].get("conditions") or ()
    return next((f"`{each['reason']}`" for each in found if each["type"] == "PodScheduled"), "pending")


QUEUE_SCENARIOS: tuple[type[Scenario], ...] = (
    PodSchedulingReadiness,
    QueueAllocationGate,
    QueueAllocationGateOfOthers,
    GangAtomicUngate,
    ReservationLease,
    GateOwnership,
    GateAllPods,
    SchedulerName,
    GatedSchedulerName,
    TrustedUser,
)
