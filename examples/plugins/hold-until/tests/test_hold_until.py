"""The plugin alone, and in Headgate's own scheduling queue: no cluster, no clock, no waiting."""

from __future__ import annotations

from typing import Any

import pytest
from headgate_hold_until import HoldUntil, read_date

from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.pod import Pod, read_pod
from headgate.scheduling.queue import SchedulingQueue
from headgate.scheduling.shape import Shapes

DATE = "2027-01-01T06:00:00Z"
MOMENT_S = 1798783200.0


def a_pod(**annotations: str) -> Pod:
    named = {name.replace("_", "-"): value for name, value in annotations.items()}
    wire: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "annotations": {f"example.com/{n}": v for n, v in named.items()},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    pod = read_pod(wire, Shapes(), HoldUntil({}).annotations)
    assert isinstance(pod, Pod)
    return pod


class Clock:
    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def test_a_date_is_read_with_and_without_a_zone() -> None:
    assert read_date(DATE) == read_date("2027-01-01T07:00:00+01:00") == read_date("2027-01-01 06:00") == MOMENT_S


def test_a_pod_without_the_annotation_is_not_held() -> None:
    assert HoldUntil({}, Clock(0)).pre_enqueue(a_pod(other="x")) is None


def test_a_pod_is_held_until_its_date_and_says_so() -> None:
    held = HoldUntil({}, Clock(MOMENT_S - 60)).pre_enqueue(a_pod(hold_until=DATE))
    assert held is not None
    assert (held.reason, held.look_again_s) == (f"held until {DATE}", 60)
    assert HoldUntil({}, Clock(MOMENT_S)).pre_enqueue(a_pod(hold_until=DATE)) is None


def test_a_date_that_cannot_be_read_holds_the_pod_with_a_reason() -> None:
    held = HoldUntil({}, Clock(0)).pre_enqueue(a_pod(hold_until="tomorrow"))
    assert held is not None
    assert "'tomorrow' is not a date" in held.reason


def test_arguments_name_another_annotation_or_are_refused() -> None:
    assert HoldUntil({"annotation": "a/b"}).annotations == ("a/b",)
    with pytest.raises(ValueError, match="unknown argument 'anotation'"):
        HoldUntil({"anotation": "a/b"})


def test_the_queue_gives_the_pod_out_at_its_date_and_not_before() -> None:
    clock = Clock(MOMENT_S - 3600)
    queue: SchedulingQueue[Pod] = SchedulingQueue({"default-scheduler": [HoldUntil({}, clock)]}, PrioritySort())
    queue.add(a_pod(hold_until=DATE), clock())
    assert queue.pop(clock()) is None
    assert queue.next_deadline_s() == MOMENT_S
    clock.now_s = MOMENT_S
    popped = queue.pop(clock())
    assert popped is not None
    assert popped.pod.name == "p"


def test_a_date_that_is_moved_is_noticed_at_once() -> None:
    clock = Clock(MOMENT_S - 3600)
    queue: SchedulingQueue[Pod] = SchedulingQueue({"default-scheduler": [HoldUntil({}, clock)]}, PrioritySort())
    queue.add(a_pod(hold_until=DATE), clock())
    queue.update(a_pod(hold_until="2020-01-01"), clock())
    assert queue.pop(clock()) is not None
