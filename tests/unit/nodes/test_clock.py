"""Clocks of hollow nodes and autoscalers: monotonic for durations, wall time for written timestamps."""

from __future__ import annotations

import pytest

from headgate.nodes.clock import FollowingClock, SteadyClock
from headgate.nodes.timer_heap import TimerHeap
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod


class Times:
    """A steady clock and a wall clock, set by hand."""

    steady_s = 100.0
    wall_s = T0

    def steady(self) -> float:
        return self.steady_s

    def wall(self) -> float:
        return self.wall_s

    def pass_by(self, seconds: float) -> None:
        self.steady_s += seconds
        self.wall_s += seconds


@pytest.mark.parametrize("by_s", [3600.0, -3600.0, 0.06])
def test_a_clock_that_follows_is_right_after_the_wall_clock_was_set_and_tells_by_how_much(by_s: float) -> None:
    times, moves = Times(), list[float]()
    clock = FollowingClock(times.steady, times.wall, moves.append)
    times.pass_by(5)
    assert clock.now_s() == pytest.approx(T0 + 5)
    times.wall_s += by_s
    assert clock.now_s() == pytest.approx(times.wall_s)
    assert clock.now_s() == pytest.approx(times.wall_s)
    assert moves == [pytest.approx(by_s, abs=1e-6)]


def test_a_clock_that_follows_another_ignores_a_small_difference() -> None:
    times, moves = Times(), list[float]()
    clock = FollowingClock(times.steady, times.wall, moves.append)
    times.wall_s += 0.01
    assert clock.now_s() == T0
    assert moves == []


def test_a_steady_clock_continues_and_returns_the_offset_of_the_wall_clock() -> None:
    times = Times()
    clock = SteadyClock(times.steady, times.wall)
    times.wall_s += 3600
    times.pass_by(5)
    assert clock.now_s() == T0 + 5
    assert clock.ahead_s() == 3600


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_timers_ring_after_the_same_time_though_the_clock_was_set(by_s: float) -> None:
    timers: TimerHeap[str] = TimerHeap()
    timers.set("a", T0 + 10)
    timers.postpone_all(by_s)
    timers.set("b", T0 + by_s + 5)
    assert list(timers.due(T0 + by_s + 4)) == []
    assert list(timers.due(T0 + by_s + 5)) == ["b"]
    assert timers.next_deadline_s() == T0 + by_s + 10
    assert list(timers.due(T0 + by_s + 10)) == ["a"]


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_pods_and_nodes_take_as_long_as_they_would_have(by_s: float) -> None:
    runs = a_pod("runs", "m", annotations={"run-for": "100s"})
    ends = a_pod("ends", "m", activeDeadlineSeconds=100)
    cluster = FakeCluster().start().add(a_node(killed_after="100s"), a_node("m"), runs, ends)
    cluster.advance(50)
    cluster.kubelets.clock_moved(by_s)
    cluster.now_s += by_s
    for obj in (*cluster.nodes.values(), *cluster.pods.values()):
        cluster.edit(obj)  # every timer is set anew
    cluster.advance(49)
    assert (cluster.phase("runs"), cluster.phase("ends"), sorted(cluster.nodes)) == ("Running", "Running", ["m", "n"])
    cluster.advance(1.001)
    assert (cluster.phase("runs"), cluster.phase("ends"), sorted(cluster.nodes)) == ("Succeeded", "Failed", ["m"])
