"""Metrics of queues and of gate removals."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.metrics_page import gate_removals
from headgate.scheduling.framework.effects import WriteResult
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue, ungated


def values(world: QueuedWorld, queue: str) -> dict[str, float]:
    """All samples of a queue that are not about one resource, and those about cpu."""
    found = {}
    page = world.scheduler.metrics_exposition(world.now_s).decode()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if queue in sample.labels.values() and sample.labels.get("resource", "cpu") == "cpu":
                found[sample.name] = sample.value
    return found


def test_a_queue_has_metrics_of_usage_promises_and_waiting_pods() -> None:
    world = QueuedWorld(a_queue("q", "3", deserved={"cpu": "2"}, weight=4))
    world.show(a_gated_pod("a-placed"), a_gated_pod("b-lost", nodeSelector={"disk": "fast"}), a_gated_pod("c-big", "2"))
    world.step()
    values_of_queue = values(world, "q")
    assert values_of_queue["headgate_queue_gated_pods"] == 1
    assert values_of_queue["headgate_queue_admitted_pods_total"] == 2
    assert values_of_queue["headgate_queue_reserved"] == 1000
    assert values_of_queue["volcano_queue_allocated_milli_cpu"] == 1000
    assert values_of_queue["volcano_queue_request_milli_cpu"] == 4000
    assert values_of_queue["volcano_queue_capacity_milli_cpu"] == 3000
    assert values_of_queue["volcano_queue_real_capacity_milli_cpu"] == 3000
    assert values_of_queue["volcano_queue_deserved_milli_cpu"] == 2000
    assert values_of_queue["volcano_queue_weight"] == 4
    assert values_of_queue["volcano_queue_overused"] == 0


def test_waits_are_measured_from_creation_to_admission() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    first, second = a_gated_pod("first"), a_gated_pod("second")
    for pod in (first, second):
        pod["metadata"]["creationTimestamp"] = "1970-01-01T00:16:30Z"  # ten seconds before the start of the test
    world.show(first, second)
    world.step()
    values_of_queue = values(world, "q")
    assert values_of_queue["headgate_queue_wait_seconds_sum"] == 10
    assert values_of_queue["headgate_queue_wait_seconds_count"] == 1
    world.step(5.0)
    assert values(world, "q")["headgate_queue_oldest_waiting_seconds"] == 15


def test_gate_removals_are_counted_by_result_and_timed_when_complete() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p"))
    world.step()
    world.now_s += 0.5
    world.lifted("p", WriteResult.UNKNOWN)
    world.step(1.5)
    world.lifted("p")
    page = world.scheduler.metrics_exposition(world.now_s).decode()
    assert 'headgate_gate_removals_total{result="done"} 1' in page
    assert 'headgate_gate_removals_total{result="unknown"} 1' in page
    assert "headgate_gate_removal_duration_seconds_sum 2" in page


def test_a_deleted_queue_has_no_samples() -> None:
    world = QueuedWorld(a_queue("q", "1"), a_queue("other", "1"))
    world.show(a_gated_pod("p"))
    world.step()
    world.remove("p")
    world.scheduler.queues.queue_removed("q")
    assert values(world, "q") == {}
    assert values(world, "other")


def removals(world: QueuedWorld) -> tuple[dict[str, float], float, float]:
    return gate_removals(world.scheduler.metrics_exposition(world.now_s).decode())


def a_removal_under_way() -> tuple[QueuedWorld, dict[str, object], str]:
    world = QueuedWorld(a_queue("q", "1"))
    pod = a_gated_pod("p")
    world.show(pod)
    world.step()
    stamp = world.lifts["p"]
    world.now_s += 0.5
    return world, pod, stamp


def test_a_removal_that_the_watch_shows_before_the_response_is_timed() -> None:
    world, pod, stamp = a_removal_under_way()
    world.show(ungated(pod, stamp))
    world.now_s += 0.5
    world.lifted("p")
    assert removals(world) == ({"done": 1}, 1, 1.0)


def test_a_removal_that_only_the_watch_confirms_is_timed() -> None:
    world, pod, stamp = a_removal_under_way()
    world.lifted("p", WriteResult.UNKNOWN)
    world.now_s += 0.5
    world.show(ungated(pod, stamp))
    assert removals(world) == ({"done": 1, "unknown": 1}, 1, 1.0)


@pytest.mark.parametrize("is_shown_first", [False, True])
def test_a_removal_from_a_deleted_pod_is_counted_and_timed(is_shown_first: bool) -> None:
    world, _, _ = a_removal_under_way()
    if is_shown_first:
        world.remove("p")
    world.lifted("p", WriteResult.GONE)
    assert removals(world) == ({"gone": 1}, 1, 0.5)


def test_a_pod_deleted_before_the_retry_of_its_removal_is_counted_as_gone() -> None:
    world, _, _ = a_removal_under_way()
    world.lifted("p", WriteResult.LATER)
    world.remove("p")
    assert removals(world) == ({"gone": 1, "later": 1}, 1, 0.5)
    world.step(60.0)
    assert not world.lifts


def test_a_refused_removal_is_timed_and_so_is_the_next_one() -> None:
    world, _, _ = a_removal_under_way()
    world.lifted("p", WriteResult.REFUSED, "no")
    world.step(6.0)
    assert list(world.lifts) == ["p"]
    world.lifted("p")
    assert removals(world) == ({"done": 1, "refused": 1}, 2, 0.5)


def test_every_result_of_a_removal_counts_from_zero_so_that_a_rate_shows_the_first_one() -> None:
    page = QueuedWorld(a_queue("q", "1")).scheduler.metrics_exposition(0.0).decode()
    for result in ("done", "gone", "refused", "later", "unknown"):
        assert f'headgate_gate_removals_total{{result="{result}"}} 0' in page


def test_resources_that_pods_invent_share_one_series_when_they_are_many() -> None:
    world = QueuedWorld(a_queue("q"))
    for number in range(60):
        pod = a_gated_pod(f"p-{number:02}")
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        requests[f"example.com/a-{number:02}"] = "2"
        world.show(pod)
    world.step()
    page = world.scheduler.metrics_exposition(world.now_s).decode()
    reserved = {
        sample.labels["resource"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "headgate_queue_reserved" and sample.labels["queue"] == "q"
    }
    assert len(reserved) == 51
    assert reserved["cpu"] == 60_000
    assert reserved["example.com/a-48"] == 2
    assert reserved["other"] == 2 * (60 - 49)
