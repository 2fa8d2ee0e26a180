"""Arrivals of a replay: past units, created again at the same distances, from the same time of day on."""

from __future__ import annotations

from itertools import islice, takewhile

from estimate_states import NOW_S, pod, pod_group, workload
from headgate.capacity.names import GATE, GROUP_NAMES, POD_GROUPS, STAMP
from headgate.estimates.arrivals import (
    NO_ARRIVALS,
    ArrivalHistory,
    arrivals_of,
    as_created,
    created_again,
    drawn_arrivals,
)
from headgate.estimates.units import pod_unit, workload_unit
from headgate.kube.api_resources import PODS
from headgate.quota.kinds.names import WORKLOADS

DAY_S = 86_400.0


def history(*created_s: float) -> ArrivalHistory:
    pods = [pod(f"p{number}", created_s=each) for number, each in enumerate(created_s)]
    return arrivals_of([(pod_unit(each, "q"), [(PODS, each)]) for each in pods])


def test_a_past_of_less_than_a_day_arrives_again_from_some_moment_on() -> None:
    past = history(NOW_S - 300, NOW_S - 200, NOW_S - 50)
    drawn = list(islice(drawn_arrivals(past, NOW_S, 1), 10))
    times = [at_s for at_s, _ in drawn]
    assert times == sorted(times)
    assert times[0] >= NOW_S
    assert times[-1] <= NOW_S + 10 * 300


def test_arrivals_come_at_about_the_same_time_of_the_day() -> None:
    past = history(*(NOW_S - day * DAY_S + 7200 + 60 * n for day in range(7, 0, -1) for n in range(20)))
    near: list[bool] = []
    for seed in range(50):
        at_s, _ = next(drawn_arrivals(past, NOW_S, seed))
        near.append(abs((at_s - NOW_S) % DAY_S - 7800) < 3 * 3600)
    assert sum(near) >= 45


def test_replays_differ_in_how_much_arrives() -> None:
    past = history(*(NOW_S - 12 * 3600 + 300 * n for n in range(144)))

    def count(past: ArrivalHistory, seed: int) -> int:
        drawn = drawn_arrivals(past, NOW_S, seed)
        return len(list(takewhile(lambda each: each[0] < NOW_S + DAY_S, drawn)))

    assert {count(past, seed) for seed in range(5)} == {288}  # all hours are alike
    bursts = history(*(NOW_S - 12 * 3600 + 3600 * (n // 36) * 3 + n for n in range(144)))
    counts = sorted(count(bursts, seed) for seed in range(40))
    assert counts[0] < 200
    assert counts[-1] > 400


def test_one_day_of_the_past_does_not_arrive_in_the_same_order_in_all_replays() -> None:
    past = history(*(NOW_S - 1.3 * DAY_S + 997.0 * n for n in range(112)))
    drawn = [tuple(unit.unit.key for _, unit in islice(drawn_arrivals(past, NOW_S, seed), 20)) for seed in range(9)]
    assert len(set(drawn)) == 9


def test_units_that_were_created_together_arrive_together() -> None:
    past = history(*(NOW_S - 11 * 3600 + 3600 * (n // 4) for n in range(40)))
    times = [at_s for at_s, _ in islice(drawn_arrivals(past, NOW_S, 2), 40)]
    assert all(times[n] == times[n + 3] for n in range(0, 40, 4))


def test_a_past_of_more_than_sixty_days_without_arrivals_brings_none() -> None:
    assert list(drawn_arrivals(history(NOW_S - 61 * DAY_S), NOW_S, 0)) == []


def test_without_a_past_nothing_arrives() -> None:
    assert list(drawn_arrivals(NO_ARRIVALS, NOW_S, 0)) == []


def test_a_gang_is_created_again_with_its_group_and_its_gate() -> None:
    member = pod("m", group="g", started_s=NOW_S - 50)
    member["metadata"]["annotations"][STAMP] = "{}"
    unit = pod_unit(member, "q")
    (past,) = arrivals_of([(unit, [(PODS, member), (POD_GROUPS, pod_group("g", 1))])]).arrivals
    ((first, group), (second, made)), again = created_again(past, 7, NOW_S)
    assert (first, second) == (POD_GROUPS, PODS)
    assert made["metadata"]["annotations"][GROUP_NAMES[0]] == group["metadata"]["name"] == "g-arrival-7"
    assert made["spec"]["schedulingGates"] == [{"name": GATE}]
    assert "nodeName" not in made["spec"]
    assert STAMP not in made["metadata"]["annotations"]
    assert (again.started_s, again.queue) == (None, "q")


def test_a_workload_is_created_again_without_its_admission() -> None:
    admitted = workload("w", admitted_s=NOW_S - 5)
    assert as_created(WORKLOADS, admitted)["status"] == {}
    assert workload_unit(admitted).started_s == NOW_S - 5


def test_a_past_whose_arrivals_are_all_at_its_beginning_arrives_again() -> None:
    for past in (history(NOW_S - 300), history(NOW_S - 1.4 * DAY_S)):
        (at_s, _), (later_s, _) = islice(drawn_arrivals(past, NOW_S, 3), 2)
        assert NOW_S <= at_s < later_s
