"""Options that concern jobs and pods in Kueue's queues: what becomes of users' objects."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headgate.jobs.names import ADMISSION_GATE, SAFE_TO_FORCEFULLY_DELETE, SCHEDULING_GATED_BY
from headgate.jobs.names import QUEUE_NAME as LOCAL_QUEUE
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube import conditions
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.labels import Requirement, Selector
from headgate.quota.api.pods_ready import WaitForPodsReady
from headgate.quota.names import ACTIVATE, ADMISSION_GATED_BY, DEACTIVATE, WAITING_FOR_TERMINATING_PODS
from skew import objects
from skew.cluster import JOBS, PODS, RUNS, SLOW, WORKLOADS, Object, SkewedCluster, gates_of, is_bound
from skew.replica import Replica
from skew.scenario import Scenario
from unit.controllers.kubelet import HELD
from unit.jobs import training

NODES = "/api/v1/nodes"
START_JOBS = "start suspended jobs by hand"
RELEASE_QUOTA = "delete Workloads that hold quota, and their finalizer"


def replica(settings: JobSettings = DEFAULT, **features: bool) -> Replica:
    components = frozenset({"webhooks", "quota", "jobs"})
    return Replica(components=components, features=FeatureGates(**features), jobs=settings)


def with_jobs(**settings: Any) -> Replica:
    return replica(replace(DEFAULT, **settings))


def is_true(obj: Object, condition: str) -> bool:
    return conditions.is_true((obj.get("status") or {}).get("conditions"), condition)


ON = replica()


class JobScenario(Scenario):
    """A job before, and a job while the replicas differ. There is quota for both."""

    allowed = ("runs and is not admitted",)
    path = JOBS

    def before(self, cluster: SkewedCluster) -> None:
        self.add(cluster, "old")
        cluster.advance(3)
        self._changes = len(cluster.suspensions("old"))

    def add(self, cluster: SkewedCluster, name: str) -> None:
        cluster.created(JOBS, objects.job(name))

    def during(self, cluster: SkewedCluster) -> None:
        self.add(cluster, "new")
        cluster.advance(70)

    def outcome(self, cluster: SkewedCluster) -> str:
        return f"a job from before {self.fate(cluster, 'old')}; a new job {self.fate(cluster, 'new')}"

    def fate(self, cluster: SkewedCluster, name: str) -> str:
        found, workload = cluster.items(self.path)[name], self.workload(cluster, name)
        is_running = not found["spec"].get("suspend")
        first = ""
        if name == "old" and True in cluster.suspensions("old")[self._changes :]:
            first = "is stopped, and "
        elif name == "new" and cluster.suspensions("new")[:2] == [False, True]:
            first = "is suspended by the leader, and "
        if workload is None:
            return f"{first}runs without quota" if is_running else f"{first}stays suspended, without a Workload"
        if not is_running:
            return f"{first}waits" + ("" if workload["spec"].get("active", True) else ", with an inactive Workload")
        return f"{first}runs with quota"

    def workload(self, cluster: SkewedCluster, name: str) -> Object | None:
        for each in cluster.items(WORKLOADS).values():
            if any(owner["name"] == name for owner in each["metadata"].get("ownerReferences", ())):
                return each
        return None

    def clean_up(self, cluster: SkewedCluster) -> None:
        for name, found in cluster.items(self.path).items():
            if found["spec"].get("suspend"):
                cluster.changed(self.path, name, {"spec": {"suspend": False}})
        if RELEASE_QUOTA in self.remedy:
            for name in cluster.items(WORKLOADS):
                cluster.server.delete(f"{WORKLOADS}/{name}")
                cluster.server.patch(f"{WORKLOADS}/{name}", {"metadata": {"finalizers": None}})

    def whole(self, cluster: SkewedCluster) -> tuple[str, Object]:
        return JOBS, objects.job("whole", "2")


class AnnotatedJobScenario(JobScenario):
    annotation = ""

    def add(self, cluster: SkewedCluster, name: str) -> None:
        cluster.created(JOBS, objects.job(name, annotations={self.annotation: "example.com/gate"}))

    def release(self, cluster: SkewedCluster) -> None:
        for name in ("old", "new"):
            cluster.changed(JOBS, name, {"metadata": {"annotations": {self.annotation: None}}})


class SchedulingGatedBy(AnnotatedJobScenario):
    title, annotation = "`SchedulingGatedBy`", SCHEDULING_GATED_BY
    on, off = replica(scheduling_gated_by=True), ON

    def has_trace(self, cluster: SkewedCluster) -> bool:
        return any(each.reason == "SchedulingGated" for each in cluster.emitted)


class AdmissionGatedBy(AnnotatedJobScenario):
    title, annotation = "`AdmissionGatedBy`", ADMISSION_GATED_BY
    on, off = ON, replica(admission_gated_by=False)

    def has_trace(self, cluster: SkewedCluster) -> bool:
        found = (each["metadata"].get("annotations") or {} for each in cluster.items(WORKLOADS).values())
        return any(ADMISSION_GATED_BY in annotations for annotations in found)


class ActivationLabels(JobScenario):
    """Jobs with the label that deactivates their Workload."""

    title = "`ActivationLabels`"
    on, off = replica(activation_labels=True), ON

    def add(self, cluster: SkewedCluster, name: str) -> None:
        cluster.created(JOBS, objects.job(name, labels={DEACTIVATE: "true"}))

    def has_trace(self, cluster: SkewedCluster) -> bool:
        return not all(each["spec"].get("active", True) for each in cluster.items(WORKLOADS).values())

    def release(self, cluster: SkewedCluster) -> None:
        for name in ("old", "new"):
            cluster.changed(JOBS, name, {"metadata": {"labels": {DEACTIVATE: None, ACTIVATE: "true"}}})


class JobComponent(JobScenario):
    title = "`--components`, with and without `jobs`"
    on, off = ON, replace(ON, components=ON.components - {"jobs"})
    remedy = f"{START_JOBS}; {RELEASE_QUOTA}"


class ManageJobsWithoutQueueName(JobScenario):
    """Jobs that name no queue. While the option is on, their users name one later."""

    title = "`--manage-jobs-without-queue-name`"
    on, off = with_jobs(manages_all=True), ON
    remedy = START_JOBS

    def add(self, cluster: SkewedCluster, name: str) -> None:
        cluster.created(JOBS, objects.job(name, queue=""))

    def release(self, cluster: SkewedCluster) -> None:
        for name in ("old", "new"):
            if cluster.leader == self.on:
                cluster.changed(JOBS, name, {"metadata": {"labels": {LOCAL_QUEUE: "lq"}}})


class NamespaceSelector(JobScenario):
    title = "`--managed-jobs-namespace-selector`"
    on, off = ON, with_jobs(namespaces=Selector((Requirement("team", "exists"),)))
    remedy = START_JOBS


class JobFramework(JobScenario):
    title = "`--job-frameworks`, with and without `batch/job`"
    on, off = ON, with_jobs(frameworks=frozenset({"pod"}), kinds=())
    remedy = START_JOBS


class JobKinds(JobScenario):
    title, path = "`--job-kinds`", RUNS
    on, off = replica(training.settings()), ON
    remedy = f"{START_JOBS}; {RELEASE_QUOTA}"
    refuses_others = True

    def add(self, cluster: SkewedCluster, name: str) -> None:
        run = training.a_run(name)
        del run["spec"]["leader"]
        run["spec"]["suspend"] = False
        cluster.created(RUNS, run)


class WaitForReadyPods(JobScenario):
    """Pods that are not ready for a long time."""

    title = "`--wait-for-pods-ready`"
    on, off = with_jobs(pods_ready=WaitForPodsReady(timeout_s=60.0, recovery_timeout_s=60.0)), ON

    def before(self, cluster: SkewedCluster) -> None:
        cluster.changed(NODES, "n", {"metadata": {"labels": {SLOW: "true"}}})
        super().before(cluster)

    def outcome(self, cluster: SkewedCluster) -> str:
        evicted = [is_true(each, "Evicted") for each in cluster.items(WORKLOADS).values()]
        return f"jobs without ready pods {'are evicted' if all(evicted) else 'keep their quota'}"

    def release(self, cluster: SkewedCluster) -> None:
        cluster.changed(NODES, "n", {"metadata": {"labels": {SLOW: None}}})
        for name in cluster.items(PODS):
            cluster.changed(PODS, name, {"metadata": {"labels": {"example.com/seen": "true"}}})


class PodScenario(JobScenario):
    """A pod runs, and another one waits for quota."""

    def before(self, cluster: SkewedCluster) -> None:
        cluster.created(PODS, objects.quota_pod("running"))
        cluster.advance(3)
        cluster.created(PODS, objects.quota_pod("next", "2"))
        cluster.advance(3)

    def during(self, cluster: SkewedCluster) -> None:
        cluster.created(PODS, objects.quota_pod("new"))
        cluster.advance(3)

    def outcome(self, cluster: SkewedCluster) -> str:
        return f"the next pod {self.fate(cluster, 'next')}; a new pod {self.fate(cluster, 'new')}"

    def fate(self, cluster: SkewedCluster, name: str) -> str:
        pod = cluster.items(PODS).get(name)
        workload = self.workload(cluster, name)
        has_quota = workload is not None and is_true(workload, "QuotaReserved")
        if pod is None:
            return "is gone"
        if "deletionTimestamp" in pod["metadata"]:
            return f"terminates {'with its' if has_quota else 'without'} quota"
        if ADMISSION_GATE in gates_of(pod):
            return f"waits behind its gate{', with quota' if has_quota else ''}"
        assert is_bound(pod)
        return f"runs {'with' if has_quota else 'without'} quota"

    def whole(self, cluster: SkewedCluster) -> tuple[str, Object]:
        return PODS, objects.quota_pod("whole", "2")


class PodFramework(PodScenario):
    title = "`--job-frameworks`, with and without `pod`"
    on, off = ON, with_jobs(frameworks=frozenset({"batch/job"}))


class DeletedPodScenario(PodScenario):
    """The running pod is deleted, and terminates for a minute."""

    def during(self, cluster: SkewedCluster) -> None:
        assert cluster.server.delete(f"{PODS}/running").status == 200
        cluster.advance(3)

    def outcome(self, cluster: SkewedCluster) -> str:
        return f"a deleted pod {self.fate(cluster, 'running')}; the next pod {self.fate(cluster, 'next')}"


class FastQuotaRelease(DeletedPodScenario):
    title = "`PodIntegrationFastQuotaRelease`"
    on, off = ON, replica(pod_integration_fast_quota_release=False)


class StartAfterTerminatingPods(DeletedPodScenario):
    title = "`StartAfterTerminatingPods`"
    on, off = ON, replica(start_after_terminating_pods=False)

    def has_trace(self, cluster: SkewedCluster) -> bool:
        statuses = (each.get("status") or {} for each in cluster.items(WORKLOADS).values())
        return any(conditions.find(each.get("conditions"), WAITING_FOR_TERMINATING_PODS) for each in statuses)


class QuotaRelease(DeletedPodScenario):
    title = "`--quota-release pod=OnTerminal`"
    on, off = with_jobs(quota_release={"pod": "OnTerminal"}), ON


class MaxWait(DeletedPodScenario):
    title = "`--max-wait-for-terminating-pods`, shorter"
    on, off = with_jobs(max_wait_s=5.0), ON

    def during(self, cluster: SkewedCluster) -> None:
        super().during(cluster)
        cluster.advance(40)


class HungPodScenario(DeletedPodScenario):
    """The kubelet of the deleted pod does not end it."""

    def before(self, cluster: SkewedCluster) -> None:
        super().before(cluster)
        notes = {HELD: "true", SAFE_TO_FORCEFULLY_DELETE: "true"}
        cluster.changed(PODS, "running", {"metadata": {"annotations": notes}})
        cluster.advance(1)

    def during(self, cluster: SkewedCluster) -> None:
        super().during(cluster)
        cluster.advance(1200)

    def release(self, cluster: SkewedCluster) -> None:
        """The kubelet works again."""
        cluster.changed(NODES, "n", {"spec": {"taints": None}})
        if "running" in cluster.items(PODS):
            cluster.changed(PODS, "running", {"metadata": {"annotations": {HELD: None}}})


class FailureRecoveryPolicy(HungPodScenario):
    title = "`FailureRecoveryPolicy`"
    on, off = replica(failure_recovery_policy=True), ON

    def during(self, cluster: SkewedCluster) -> None:
        taints = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
        cluster.changed(NODES, "n", {"spec": {"taints": taints}})
        super().during(cluster)

    def has_trace(self, cluster: SkewedCluster) -> bool:
        return "running" not in cluster.items(PODS)


class ForceDelete(HungPodScenario):
    title = "`--force-delete-terminating-pods-after`"
    on, off = with_jobs(force_delete_after_s=60.0), ON

    def before(self, cluster: SkewedCluster) -> None:
        ready = [{"type": "Ready", "status": "True"}]
        cluster.server.patch(f"{NODES}/n/status", {"status": {"conditions": ready}}, "strategic")
        super().before(cluster)


JOB_SCENARIOS: tuple[type[Scenario], ...] = (
    SchedulingGatedBy,
    AdmissionGatedBy,
    ActivationLabels,
    FastQuotaRelease,
    StartAfterTerminatingPods,
    FailureRecoveryPolicy,
    JobComponent,
    ManageJobsWithoutQueueName,
    NamespaceSelector,
    JobFramework,
    PodFramework,
    JobKinds,
    QuotaRelease,
    WaitForReadyPods,
    MaxWait,
    ForceDelete,
)
