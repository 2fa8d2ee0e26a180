"""What the page of metrics says of queues and of the removal of gates."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from headgate.scheduling.effects import Result
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue


def values(world: QueuedWorld, queue: str) -> dict[str, float]:
    """All samples of a queue that are not about one resource, and those about cpu."""
    found = {}
    page = world.scheduler.page(world.now_s).decode()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if queue in sample.labels.values() and sample.labels.get("resource", "cpu") == "cpu":
                found[sample.name] = sample.value
    return found


def test_a_queue_tells_what_it_has_what_it_promised_and_who_waits() -> None:
    world = QueuedWorld(a_queue("q", "3", deserved={"cpu": "2"}, weight=4))
    world.show(a_gated_pod("a-placed"), a_gated_pod("b-lost", nodeSelector={"disk": "fast"}), a_gated_pod("c-big", "2"))
    world.step()
    told = values(world, "q")
    assert told["headgate_queue_gated_pods"] == 1
    assert told["headgate_queue_admitted_pods_total"] == 2
    assert told["headgate_queue_reserved"] == 1000
    assert told["volcano_queue_allocated_milli_cpu"] == 1000
    assert told["volcano_queue_request_milli_cpu"] == 4000
    assert told["volcano_queue_capacity_milli_cpu"] == 3000
    assert told["volcano_queue_real_capacity_milli_cpu"] == 3000
    assert told["volcano_queue_deserved_milli_cpu"] == 2000
    assert told["volcano_queue_weight"] == 4
    assert told["volcano_queue_overused"] == 0


def test_waits_are_told_from_creation_until_admission_and_the_oldest_by_its_age() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    first, second = a_gated_pod("first"), a_gated_pod("second")
    for pod in (first, second):
        pod["metadata"]["creationTimestamp"] = "1970-01-01T00:16:30Z"  # ten seconds before the story begins
    world.show(first, second)
    world.step()
    told = values(world, "q")
    assert told["headgate_queue_wait_seconds_sum"] == 10
    assert told["headgate_queue_wait_seconds_count"] == 1
    world.step(5.0)
    assert values(world, "q")["headgate_queue_oldest_waiting_seconds"] == 15


def test_answers_to_removals_are_counted_and_timed_once_they_are_settled() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p"))
    world.step()
    world.now_s += 0.5
    world.lifted("p", Result.UNKNOWN)
    world.step(1.5)
    world.lifted("p")
    page = world.scheduler.page(world.now_s).decode()
    assert 'headgate_gate_removals_total{result="done"} 1' in page
    assert 'headgate_gate_removals_total{result="unknown"} 1' in page
    assert "headgate_gate_removal_duration_seconds_sum 2" in page


def test_a_queue_that_is_gone_is_not_told_of() -> None:
    world = QueuedWorld(a_queue("q", "1"), a_queue("other", "1"))
    world.show(a_gated_pod("p"))
    world.step()
    world.remove("p")
    world.scheduler.queues.queue_removed("q")
    assert values(world, "q") == {}
    assert values(world, "other")
