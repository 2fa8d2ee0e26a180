"""Metrics of attempts: each attempt is counted once, by result."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from headgate.scheduling.framework.effects import WriteResult
from unit.scheduling.world import World, a_node, a_pod

CPU = {"cpu": "3"}


def told(world: World, name: str) -> dict[tuple[str, ...], float]:
    """Values by the values of the labels, in the order of the labels' names."""
    page = world.scheduler.metrics_exposition(world.now_s).decode()
    samples = [each for family in text_string_to_metric_families(page) for each in family.samples if each.name == name]
    return {tuple(value for _, value in sorted(each.labels.items())): each.value for each in samples}


def attempts(world: World) -> dict[str, float]:
    return {result: value for (_, result), value in told(world, "scheduler_schedule_attempts_total").items()}


def test_an_attempt_counts_when_the_pod_is_bound_and_not_before() -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    assert attempts(world) == {}
    assert told(world, "scheduler_cache_size") == {("nodes",): 2, ("pods",): 1, ("assumed_pods",): 1}
    world.now_s += 0.25
    world.answer("p", WriteResult.DONE)
    assert attempts(world) == {"scheduled": 1}
    assert told(world, "scheduler_scheduling_attempt_duration_seconds_sum") == {
        ("default-scheduler", "scheduled"): 0.25
    }
    assert told(world, "scheduler_pod_scheduling_sli_duration_seconds_sum") == {("1",): 0.25}


def test_an_unknown_outcome_is_no_attempt_of_its_own_and_the_watch_may_end_it() -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    world.answer("p", WriteResult.UNKNOWN)
    assert attempts(world) == {}
    world.show_bound(a_pod("p", CPU), "a")
    assert attempts(world) == {"scheduled": 1}


def test_an_unschedulable_pod_and_a_failed_binding_have_different_results() -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    world.show(a_pod("huge", {"cpu": "64"}), a_pod("p", CPU))
    world.step()
    world.answer("p", WriteResult.REFUSED, "no")
    assert attempts(world) == {"unschedulable": 1, "error": 1}
    world.step(after_s=3)
    world.answer("p", WriteResult.DONE)
    # Released capacity wakes the pod for a second attempt.
    assert attempts(world) == {"unschedulable": 2, "error": 1, "scheduled": 1}
    assert told(world, "scheduler_pod_scheduling_attempts_sum") == {(): 2}


def test_gated_time_counts_for_the_gate_and_not_for_scheduling() -> None:
    world = World()
    gated = a_pod("p", CPU, schedulingGates=[{"name": "example.com/a"}])
    world.show(gated)
    assert told(world, "headgate_gated_pods") == {("example.com/a",): 1}
    world.step(after_s=1000)
    world.show(a_pod("p", CPU))
    world.step()
    world.now_s += 0.5
    world.answer("p", WriteResult.DONE)
    assert told(world, "scheduler_pod_scheduling_sli_duration_seconds_sum") == {("1",): 0.5}
    assert told(world, "headgate_gated_pods") == {("example.com/a",): 0}
    assert told(world, "headgate_gate_wait_seconds_count") == {("example.com/a",): 1}
