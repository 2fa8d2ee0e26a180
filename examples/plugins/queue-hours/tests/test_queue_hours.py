"""Tests the plugin in Headgate's scheduler without a cluster. Only the tests move the clock."""

from __future__ import annotations

from typing import Any

import pytest
from headgate_queue_hours import QueueHours

from headgate.scheduling.testing import Clock, VirtualScheduler, a_node, a_pod, a_pod_group, a_queue

MIDNIGHT_S = 20_000 * 86_400.0
HOUR_S = 3600.0
NIGHT = {"queues": {"night": {"from": "22:00", "to": "06:00", "maxPods": 2}}}


def scheduler_at(hour: float) -> VirtualScheduler:
    scheduler = VirtualScheduler(QueueHours(NIGHT), clock=Clock(MIDNIGHT_S + hour * HOUR_S))
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_queue(a_queue("night"))
    return scheduler


def night_pod(name: str, **fields: Any) -> dict[str, Any]:
    return a_pod(name, queue="night", gated=True, requests={"cpu": "1"}, **fields)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"queue": {}}, "unknown argument 'queue'"),
        ({"queues": {"night": {"from": "22:00"}}}, "night.to: must be a time such as '22:00', not None"),
        ({"queues": {"night": {"from": "22:00", "to": "24:00"}}}, "night.to: must be a time"),
        ({"queues": {"night": {"from": "22:00", "to": "06:00", "maxPods": 0}}}, "night.maxPods: must be a whole"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        QueueHours(arguments)


def test_a_pod_of_the_night_queue_waits_for_the_evening_and_other_pods_do_not() -> None:
    scheduler = scheduler_at(hour=9)
    scheduler.apply_pod(night_pod("train"), a_pod("web"))
    scheduler.advance(13 * HOUR_S - 1)
    assert scheduler.node_of("web") == "node-a"
    assert scheduler.node_of("train") is None
    condition = scheduler.condition("train")
    assert condition is not None
    assert condition["message"] == 'QueueAdmission plugin "QueueHours": queue night is open from 22:00 to 06:00 UTC'
    scheduler.advance(1)
    assert scheduler.node_of("train") == "node-a"


def test_a_gang_is_let_in_as_a_whole() -> None:
    scheduler = scheduler_at(hour=21)
    scheduler.apply_pod_group(a_pod_group("pair", 2, queue="night"))
    scheduler.apply_pod(night_pod("a", group="pair"), night_pod("b", group="pair"))
    scheduler.advance(HOUR_S - 1)
    assert [scheduler.node_of(name) for name in ("a", "b")] == [None, None]
    scheduler.advance(1)
    assert [scheduler.node_of(name) for name in ("a", "b")] == ["node-a", "node-a"]


def test_the_third_pod_waits_until_another_pod_ends() -> None:
    scheduler = scheduler_at(hour=23)
    scheduler.apply_pod(*(night_pod(name) for name in "abc"))
    scheduler.advance(1)
    assert [scheduler.node_of(name) for name in "abc"] == ["node-a", "node-a", None]
    scheduler.delete_pod("a")
    scheduler.run()
    assert scheduler.node_of("c") == "node-a"


def test_a_new_process_knows_the_pods_that_an_earlier_one_let_in() -> None:
    scheduler = scheduler_at(hour=23)
    scheduler.apply_pod(night_pod("a"), night_pod("b"))
    scheduler.run()
    scheduler = scheduler.restarted(QueueHours(NIGHT))
    scheduler.apply_pod(night_pod("c"))
    scheduler.advance(1)
    assert scheduler.node_of("c") is None
    scheduler.delete_pod("b")
    scheduler.run()
    assert scheduler.node_of("c") == "node-a"
