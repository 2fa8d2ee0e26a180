"""Metrics of jobs: gated jobs by gate and age, and the latency of Workload creation."""

from __future__ import annotations

from headgate.jobs.metrics import JobMetrics
from unit.jobs.fixtures import GATE, GATING, JOBS, a_world, add
from unit.jobs.pods import fixtures as stage

DATA, REVIEW = {GATE: "example.com/data"}, {GATE: "example.com/review"}


def read(metrics: JobMetrics, now_s: float) -> dict[str, float]:
    lines = metrics.page(now_s).decode().splitlines()
    return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines if each[0] != "#")}


def gated(found: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in found.items() if name.startswith("headgate_gated_jobs{")}


def test_gated_jobs_are_counted_by_gate_until_the_gate_or_the_job_goes() -> None:
    metrics = JobMetrics()
    world = a_world(features=GATING, metrics=metrics)
    add(world, "one", annotations=DATA)
    add(world, "two", annotations=DATA)
    add(world, "three", annotations=REVIEW)
    add(world, "free")
    world.advance(1)
    by_data, by_review = (f'headgate_gated_jobs{{kind="Job",gate="example.com/{each}"}}' for each in ("data", "review"))
    assert gated(read(metrics, world.server.epoch_s)) == {by_data: 2, by_review: 1}
    world.advance(3600)
    oldest = read(metrics, world.server.epoch_s)[by_data.replace("jobs{", "jobs_oldest_seconds{")]
    assert 3600 <= oldest <= 3610
    world.server.patch(f"{JOBS}/one", {"metadata": {"annotations": {GATE: None}}})
    world.server.delete(f"{JOBS}/three", {"propagationPolicy": "Background"})
    world.advance(1)
    assert gated(read(metrics, world.server.epoch_s)) == {by_data: 1}


def test_with_the_feature_off_no_job_is_gated() -> None:
    metrics = JobMetrics()
    world = a_world(metrics=metrics)
    add(world, "one", annotations=DATA)
    world.advance(1)
    assert gated(read(metrics, world.server.epoch_s)) == {}


def test_the_latency_of_a_workload_is_measured_from_the_creation_of_its_job() -> None:
    metrics = JobMetrics()
    world = a_world(features=GATING, metrics=metrics)
    add(world, "free")
    world.advance(1)
    found = read(metrics, world.server.epoch_s)
    assert found['kueue_workload_creation_latency_seconds_count{job_kind="Job"}'] == 1
    assert found['kueue_workload_creation_latency_seconds_sum{job_kind="Job"}'] <= 2


def test_restarted_controllers_report_gated_jobs_again() -> None:
    metrics = JobMetrics()
    world = a_world(features=GATING, metrics=metrics)
    add(world, "one", annotations=DATA)
    world.advance(1)
    held = gated(read(metrics, world.server.epoch_s))
    metrics.reset()
    assert gated(read(metrics, world.server.epoch_s)) == {}
    world.crash()
    world.advance(1)
    assert gated(read(metrics, world.server.epoch_s)) == held


def test_gate_removals_and_terminating_pods_are_measured() -> None:
    metrics = JobMetrics()
    metrics.ungated("kueue.x-k8s.io/admission", "cq", True, 5.0, 5.02)
    for uid, began_s in (("one", 10.0), ("other", 20.0), ("third", 30.0)):
        metrics.pod_terminating(uid, began_s)
    metrics.pod_terminating("other", 20.0, 50.0)
    metrics.pod_gone("one")
    found = read(metrics, 100.0)
    labels = '{name="kueue.x-k8s.io/admission",cluster_queue="cq",is_group="true"'
    assert found[f'kueue_pod_scheduling_gate_removal_seconds_bucket{labels},le="0.025"}}'] == 1
    assert found["headgate_terminating_released_pods"] == 2
    assert found["headgate_terminating_released_pods_oldest_seconds"] == 80
    assert found["headgate_overdue_released_pods"] == 1
    assert found["headgate_overdue_released_pods_oldest_seconds"] == 50
    metrics.reset()
    assert {read(metrics, 100.0)[name] for name in found if "_released_pods" in name} == {0}


def test_workload_creation_gate_removal_and_gated_pods_are_measured() -> None:
    world = stage.a_world(features=GATING)
    stage.add(world, "free", ends="Succeeded")
    stage.add(world, "held", annotations=DATA)
    world.advance(5)
    assert not stage.pods(world)["free"]["metadata"].get("finalizers"), "it was written to again"
    found = read(stage.controller(world).metrics, world.server.epoch_s)
    assert gated(found) == {'headgate_gated_jobs{kind="Pod",gate="example.com/data"}': 1}
    assert found['kueue_workload_creation_latency_seconds_count{job_kind="Pod"}'] == 1
    labels = '{name="kueue.x-k8s.io/admission",cluster_queue="cq",is_group="false"}'
    assert found[f"kueue_pod_scheduling_gate_removal_seconds_count{labels}"] == 1


def test_gates_that_users_invent_share_one_series_when_they_are_many() -> None:
    metrics = JobMetrics()
    for number in range(150):
        metrics.job_gated(f"job-{number}", "Job", f"example.com/gate-{number}", 0.0)
    found = gated(read(metrics, 0.0))
    assert len(found) == 101
    assert found['headgate_gated_jobs{kind="Job",gate="other"}'] == 50
    for number in range(150):
        metrics.job_released(f"job-{number}")
    assert gated(read(metrics, 0.0)) == {}
