"""The condition GatedJobs of LocalQueues and of Volcano's Queues, on the embedded server with a virtual clock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from headgate.admission.settings import AdmissionSettings
from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.controllers.framework import effects
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Effect, EffectResponse, Patch
from headgate.controllers.framework.reconcile import ReconcileSteps
from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.jobs.gated_jobs import CONDITION, GatedJobs
from headgate.jobs.gated_jobs_controller import INTERVAL_S, GatedJobsController
from headgate.jobs.pods.pod_controller import ManagedPodController
from headgate.kube import api_resources, conditions
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.timestamps import format_time
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import LOCAL_QUEUES
from kueue_builders import Wire, a_flavor, a_local_queue
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.world import World
from unit.jobs.fixtures import GATE, GATING, JOBS, a_job
from unit.jobs.pods.fixtures import a_pod
from unit.jobs.queue_fixtures import API, PODS, create, kueue_object, server_with_queue

LOCAL = f"{API}/namespaces/ns/localqueues"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
DATA = {GATE: "example.com/data"}


class GatedWorld(CrashingWorld):
    """``features``: of the next process. ``warnings``: of the controller of the condition."""

    def __init__(self, features: FeatureGates, *crds: Wire) -> None:
        self.features = features
        self.warnings: list[str] = []
        gated = [GatedJobs()]

        def jobs() -> ManagedJobController:
            gated[0] = GatedJobs()
            return ManagedJobController(self.features, gated=gated[0])

        settings = AdmissionSettings(schedulers=frozenset(), suspends_jobs=True, features=features)
        super().__init__(
            lambda: QuotaController(QuotaSettings()),
            jobs,
            lambda: ManagedPodController(self.features, gated=gated[0]),
            lambda: GatedJobsController(
                gated[0], is_on=self.features.scheduling_gated_by, warn=lambda text: self.warnings.append(text)
            ),
            server=server_with_queue(9, a_flavor(), {}, features, settings, crds),
        )
        self.advance(INTERVAL_S)

    def add(self, name: str, gate: str = "example.com/data", **template: str) -> str:
        """A gated job; ``template``: annotations of its pods. Returns when it was created."""
        job = a_job(name, annotations={GATE: gate})
        job["spec"]["template"]["metadata"]["annotations"] |= template
        created: str = create(self.server, JOBS, job)["metadata"]["creationTimestamp"]
        self.server.epoch_s += 1
        return created

    def ungate(self, path: str) -> None:
        assert self.server.patch(path, {"metadata": {"annotations": {GATE: None}}}).status == 200

    def look(self, path: str = f"{LOCAL}/lq") -> Wire | None:
        found: Wire = self.server.get(path).body
        return conditions.find((found.get("status") or {}).get("conditions"), CONDITION)

    def message(self, path: str = f"{LOCAL}/lq") -> str:
        return str((self.look(path) or {}).get("message", ""))

    def status_writes(self, plural: str = "localqueues") -> int:
        return sum(method == "PATCH" and path.endswith("/status") and plural in path for method, path in self.requests)


@pytest.fixture
def world() -> GatedWorld:
    return GatedWorld(GATING)


def test_the_condition_has_the_number_and_the_oldest_and_disappears_with_the_last_gate(world: GatedWorld) -> None:
    assert world.look() is None
    first = world.add("first")
    world.add("second", "example.com/review")
    world.advance(INTERVAL_S)
    found = world.look()
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "SchedulingGated")
    expected = f"2 jobs have no Workload because of a gate, the oldest since {first} (Job first, gate example.com/data)"
    assert found["message"] == expected
    world.ungate(f"{JOBS}/first")
    world.advance(INTERVAL_S)
    assert "1 job has no Workload" in world.message()
    assert "(Job second, gate example.com/review)" in world.message()
    assert (world.look() or {})["lastTransitionTime"] == found["lastTransitionTime"], "the status is the same"
    world.server.delete(f"{JOBS}/second", {"propagationPolicy": "Background"})
    world.advance(INTERVAL_S)
    assert world.look() is None
    shown = world.server.get(f"{LOCAL}/lq").body["status"]["conditions"]
    assert [each["type"] for each in shown] == ["Active"], "conditions of others are kept"


def test_gated_pods_and_jobs_of_one_queue_are_counted_together(world: GatedWorld) -> None:
    create(world.server, PODS, a_pod("held", annotations=DATA))
    world.server.epoch_s += 1
    world.add("later")
    world.advance(INTERVAL_S)
    assert "2 jobs have" in world.message()
    assert "(Pod held, gate example.com/data)" in world.message()


def test_a_group_is_counted_once(world: GatedWorld) -> None:
    for number in range(2):
        create(world.server, PODS, a_pod(f"g-{number}", "g", annotations=DATA))
    world.advance(INTERVAL_S)
    assert "1 job has" in world.message()
    assert "(Pod group g, " in world.message()


def test_a_queue_that_is_created_after_its_jobs_gets_the_condition(world: GatedWorld) -> None:
    job = a_job("early", annotations=DATA)
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "late"
    create(world.server, JOBS, job)
    world.advance(INTERVAL_S)
    create(world.server, LOCAL, kueue_object("LocalQueue", a_local_queue("late")))
    world.advance(2 * INTERVAL_S)
    assert "1 job has" in world.message(f"{LOCAL}/late")
    assert world.look() is None


def test_the_condition_stays_during_a_restart_and_is_not_written_again(world: GatedWorld) -> None:
    world.add("first")
    world.advance(INTERVAL_S)
    before, writes = world.look(), world.status_writes()
    assert before is not None
    world.crash()
    world.advance(3 * INTERVAL_S)
    assert world.look() == before
    assert world.status_writes() == writes


def test_a_condition_that_is_wrong_after_a_restart_is_corrected(world: GatedWorld) -> None:
    world.add("first")
    world.add("second")
    world.advance(INTERVAL_S)
    world.crash()
    world.server.delete(f"{JOBS}/first", {"propagationPolicy": "Background"})
    world.ungate(f"{JOBS}/second")
    world.advance(2 * INTERVAL_S)
    assert world.look() is None


def test_a_condition_of_the_last_process_stays_until_all_jobs_of_the_first_list_were_reconciled() -> None:
    gated, controller = _controller_with_condition()
    gated.expect(["a job"])
    assert _writes(controller, 100.0) == []
    assert _writes(controller, 159.0) == []
    gated.reconciled("a job")
    assert len(_writes(controller, 160.0)) == 1


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_a_gated_job_of_the_first_list_is_waited_for_until_it_was_reconciled(kind: str) -> None:
    gated = GatedJobs()
    managed = {"Job": ManagedJobController, "Pod": ManagedPodController}[kind](GATING, gated=gated)
    resource, obj = (api_resources.JOBS, a_job("a")) if kind == "Job" else (api_resources.PODS, a_pod("a"))
    obj["metadata"] |= {"namespace": "ns", "uid": "u", "resourceVersion": "1"}
    (enqueued,) = managed.applied(resource, obj, 0.0)
    assert not gated.is_complete
    reconcile: Callable[[Any, float], ReconcileSteps] = managed.reconcile
    steps, response = reconcile(enqueued.key, 0.0), EffectResponse(404, {"details": {"name": "a"}}, 0.0)
    with contextlib.suppress(StopIteration):
        next(steps)
        while True:
            steps.send(response)
    assert gated.is_complete


def test_a_job_that_cannot_be_reconciled_delays_the_condition_for_a_minute_only() -> None:
    gated, controller = _controller_with_condition()
    gated.expect(["a job"])
    assert _writes(controller, 100.0) == []
    assert len(_writes(controller, 160.0)) == 1


def _controller_with_condition() -> tuple[GatedJobs, GatedJobsController]:
    gated = GatedJobs()
    controller = GatedJobsController(gated, is_on=True)
    shown = {"type": CONDITION, "status": "True", "reason": "SchedulingGated", "message": "3 jobs have"}
    metadata = {"namespace": "ns", "name": "lq", "uid": "u", "resourceVersion": "7"}
    controller.applied(LOCAL_QUEUES, {"metadata": metadata, "status": {"conditions": [shown]}}, 0.0)
    return gated, controller


def _writes(controller: GatedJobsController, now_s: float) -> list[Patch]:
    (key,) = {each.key for each in controller.discovered(DiscoveredKinds.read([]))}
    reconcile: Callable[[Any, float], ReconcileSteps] = controller.reconcile
    steps = reconcile(key, now_s)
    try:
        effect = next(steps)
    except StopIteration:
        return []
    assert isinstance(effect, effects.ParallelRequests)
    return [each for each in effect.requests if isinstance(each, Patch)]


def test_with_the_feature_off_no_queue_gets_the_condition_and_an_old_one_is_removed(world: GatedWorld) -> None:
    world.add("first")
    world.advance(INTERVAL_S)
    assert world.look() is not None
    world.features = FeatureGates()
    world.crash()
    world.advance(2 * INTERVAL_S)
    assert world.look() is None
    sent: list[Patch] = []

    def record(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Patch) and _has_condition(effect):
            sent.append(effect)
        return None

    world.refuse = record
    world.add("second")
    create(world.server, PODS, a_pod("held", gates=("kueue.x-k8s.io/admission", "example.com/foreign")))
    world.advance(60)
    assert world.look() is None
    assert sent == []


def test_a_burst_of_gated_jobs_costs_one_write_per_interval_and_age_costs_none(world: GatedWorld) -> None:
    before = world.status_writes()
    for number in range(20):
        create(world.server, JOBS, a_job(f"job-{number}", annotations=DATA))
    world.advance(INTERVAL_S)
    assert "20 jobs have" in world.message()
    assert world.status_writes() - before == 1
    world.advance(3600)
    assert world.status_writes() - before == 1


def test_a_condition_that_another_client_removes_is_written_again(world: GatedWorld) -> None:
    world.add("first")
    world.advance(INTERVAL_S)
    assert world.server.patch(f"{LOCAL}/lq/status", {"status": {"conditions": []}}).status == 200
    world.advance(2 * INTERVAL_S)
    assert "1 job has" in world.message()


def test_a_write_from_an_old_version_conflicts_and_keeps_what_others_wrote(world: GatedWorld) -> None:
    world.add("first")
    other = {"type": "Other", "status": "True", "reason": "R", "message": "", "lastTransitionTime": format_time(0)}
    raced: list[str] = []

    def race(effect: Effect) -> EffectResponse | None:
        """Another client writes after the version that this write is planned from."""
        if isinstance(effect, Patch) and effect.resource == LOCAL_QUEUES and not raced and _has_condition(effect):
            raced.append(effect.name)
            shown = world.server.get(f"{LOCAL}/lq").body["status"]["conditions"]
            body = {"status": {"conditions": [*shown, other]}}
            assert world.server.patch(f"{LOCAL}/lq/status", body).status == 200
        return None

    world.refuse = race
    world.advance(3 * INTERVAL_S)
    assert raced == ["lq"]
    shown = world.server.get(f"{LOCAL}/lq").body["status"]["conditions"]
    assert {each["type"] for each in shown} == {"Active", "Other", CONDITION}


def _has_condition(patch: Patch) -> bool:
    return conditions.find((patch.body.get("status") or {}).get("conditions"), CONDITION) is not None


def test_a_missing_right_is_named_once_and_the_condition_is_written_when_the_right_exists(world: GatedWorld) -> None:
    refusal = 'localqueues.kueue.x-k8s.io "lq" is forbidden: User "jobs" cannot patch resource "localqueues/status"'

    def forbid(effect: Effect) -> EffectResponse | None:
        is_ours = isinstance(effect, Patch) and effect.resource == LOCAL_QUEUES and _has_condition(effect)
        return EffectResponse(403, {"message": refusal}, world.server.epoch_s) if is_ours else None

    world.refuse = forbid
    world.add("first")
    world.advance(10)
    world.add("second")
    world.advance(150)
    assert world.warnings == [f"the condition GatedJobs of LocalQueue ns/lq cannot be written: {refusal}"]
    world.refuse = lambda effect: None
    world.advance(61)
    assert "2 jobs have" in world.message()


# -- Volcano's queues ------------------------------------------------------------------------------------------------

QUEUE_NAME = "scheduling.volcano.sh/queue-name"


def a_queue(world: World, name: str) -> None:
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    create(world.server, QUEUES, body)


def test_a_queue_of_volcano_counts_the_gated_jobs_whose_pods_name_it() -> None:
    world = GatedWorld(GATING, DEFINITIONS[0])
    for name in ("research", "idle"):
        a_queue(world, name)
    since = world.add("secret", **{QUEUE_NAME: "research"})
    world.add("elsewhere")
    world.advance(INTERVAL_S)
    expected = f"1 job has no Workload because of a gate, since {since} (gate example.com/data)"
    assert world.message(f"{QUEUES}/research") == expected, "readers of the queue may not be allowed to see the job"
    assert world.look(f"{QUEUES}/idle") is None
    assert "2 jobs have" in world.message()
    world.ungate(f"{JOBS}/secret")
    world.advance(INTERVAL_S)
    assert world.look(f"{QUEUES}/research") is None


def test_a_definition_without_conditions_is_named_once_and_not_written_again_and_again() -> None:
    definition = _without_conditions(DEFINITIONS[0])
    world = GatedWorld(GATING, definition)
    a_queue(world, "research")
    world.add("a", **{QUEUE_NAME: "research"})
    world.advance(60)
    assert world.look(f"{QUEUES}/research") is None
    problem = "is not stored: the definition queues.scheduling.volcano.sh has no such field"
    assert world.warnings == [f"the condition GatedJobs of Queue research {problem}"]
    assert world.status_writes("queues/research") == 1


def _without_conditions(definition: Wire) -> Wire:
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]
    kept = {name: each for name, each in status["properties"].items() if name != "conditions"}
    properties = {**schema["properties"], "status": {**status, "properties": kept}}
    changed = {**version, "schema": {"openAPIV3Schema": {**schema, "properties": properties}}}
    return {**definition, "spec": {**definition["spec"], "versions": [changed]}}
