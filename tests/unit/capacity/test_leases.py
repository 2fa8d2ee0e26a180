"""Leases of promises in the queue engine: when they begin and end, whose they are, and what follows a lapse."""

from __future__ import annotations

import math

import msgspec
import pytest

from capacity_builders import Queues, Wire, a_group, a_queue, a_task, stamped
from cost_growth import TIMES, cpu_s, too_steep
from headgate.capacity.api.lease import DEFAULT_LEASE_S, Lapse, read_lapse, read_lease_s, write_lapse
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import LEASE
from headgate.kube.timestamps import format_time

_WITH_LEASES = msgspec.structs.replace(DEFAULTS, has_leases=True)


class LeasedQueues(Queues):
    """The time of day is that of the clock."""

    def __init__(self, *objects: Wire | TaskInfo) -> None:
        super().__init__(conf=_WITH_LEASES)
        self.tasks: dict[str, TaskInfo] = {}
        self.apply(*objects)

    def apply(self, *objects: Wire | TaskInfo) -> None:
        self.tasks = {
            **getattr(self, "tasks", {}),
            **{each.name: each for each in objects if isinstance(each, TaskInfo)},
        }
        super().apply(*objects)

    def grant(self) -> list[str]:
        """Grants, and shows the stamps."""
        granted = self.admit()
        for name in granted:
            self.apply(stamped(self.tasks[name], self.engine.queue_of(f"u-{name}"), f"at {self.now_s} of {name}"))
        self.update()
        return granted

    def update(self, after_s: float = 0.0) -> None:
        self.now_s += after_s
        self.engine.update_leases(self.now_s, self.now_s)

    def expired(self, after_s: float = 0.0) -> list[str]:
        self.update(after_s)
        return [" ".join(each.removeprefix("u-") for each in unit) for unit in self.engine.expired_leases(self.now_s)]

    def lapse(self, *names: str) -> None:
        uids = [f"u-{name}" for name in names]
        lapses = self.engine.begin_lapse(uids, self.now_s)
        self.engine.lapse_confirmed(uids)
        for name in names:
            task = msgspec.structs.replace(self.tasks[name], stamp=None, lapse=lapses[f"u-{name}"])
            self.apply(task)
        self.update()


def a_leased_queue(name: str, cpu: int, lease: str, parent: str = "") -> Wire:
    return a_queue(name, cpu, parent, annotations={LEASE: lease})


def test_a_lease_begins_when_the_stamp_is_shown() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.admit()
    assert queues.expired(100.0) == []
    queues.apply(stamped(queues.tasks["p"], "q"))
    assert queues.expired() == []
    assert queues.expired(29.0) == []
    assert queues.expired(1.0) == ["p"]


def test_without_a_setting_a_lease_lasts_ten_minutes() -> None:
    queues = LeasedQueues(a_queue("q", 1), a_task("p", queue="q"))
    queues.grant()
    assert queues.expired(DEFAULT_LEASE_S - 1.0) == []
    assert queues.expired(1.0) == ["p"]


def test_without_the_feature_nothing_expires() -> None:
    queues = Queues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.admit()
    queues.apply(stamped(a_task("p", queue="q"), "q"))
    queues.engine.update_leases(queues.now_s, queues.now_s)
    assert queues.engine.expired_leases(math.inf) == []
    assert queues.engine.next_deadline_s() is None


def test_the_pod_then_its_class_then_its_queue_then_an_ancestor_decides_the_time() -> None:
    queues = LeasedQueues(
        a_leased_queue("above", 9, "40s"), a_leased_queue("q", 9, "30s", "above"), a_queue("r", 9, "above")
    )
    queues.engine.priority_class_applied({"metadata": {"name": "quick", "annotations": {LEASE: "20s"}}})
    queues.apply(
        a_task("own", queue="q", lease_s=10.0, priority_class="quick"),
        a_task("class", queue="q", priority_class="quick"),
        a_task("queue", queue="q", priority_class="other"),
        a_task("ancestor", queue="r"),
        a_task("never", queue="q", lease_s=math.inf),
    )
    queues.grant()
    assert [queues.expired(10.0) for _ in range(4)] == [["own"], ["class"], ["queue"], ["ancestor"]]
    assert queues.engine.next_deadline_s() is None


def test_a_changed_time_counts_from_the_beginning_of_the_lease() -> None:
    queues = LeasedQueues(
        a_leased_queue("q", 2, "1h"), a_task("p", queue="q"), a_task("r", queue="q", priority_class="c")
    )
    queues.grant()
    assert queues.expired(60.0) == []
    queues.apply(a_leased_queue("q", 2, "30s"))
    queues.engine.priority_class_applied({"metadata": {"name": "c", "annotations": {LEASE: "2m"}}})
    assert queues.expired() == ["p"]
    queues.engine.priority_class_removed("c")
    assert queues.expired() == ["r"]


def test_a_renewed_lease_begins_again() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.grant()
    queues.update(20.0)
    queues.engine.renew_lease("u-p", queues.now_s)
    assert queues.expired(29.0) == []
    assert queues.expired(1.0) == ["p"]


def test_a_sign_holds_a_short_lease_for_at_least_its_own_time() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.grant()
    queues.engine.renew_lease("u-p", queues.now_s - 100.0, 900.0)
    assert queues.expired(799.0) == []
    assert queues.expired(1.0) == ["p"]


def test_an_old_sign_shortens_no_lease() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.grant()
    queues.engine.renew_lease("u-p", queues.now_s - 5000.0, 900.0)
    assert queues.expired(29.0) == []
    assert queues.expired(1.0) == ["p"]


def test_a_pod_with_a_node_has_no_lease() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.grant()
    queues.placed("p")
    assert queues.expired(1000.0) == []


def test_a_promise_counts_until_its_stamp_is_removed() -> None:
    queues = LeasedQueues(
        a_leased_queue("q", 1, "30s"), a_task("p", queue="q"), a_task("next", queue="q", created_s=1.0)
    )
    queues.grant()
    assert queues.expired(30.0) == ["p"]
    queues.engine.begin_lapse(["u-p"], queues.now_s)
    assert queues.wait_reason("p") is WaitReason.LAPSED
    assert queues.admit() == []
    assert queues.usage("q") == (0, 1000)
    queues.engine.lapse_confirmed(["u-p"])
    assert queues.admit() == ["next"]


def test_a_pod_that_got_a_node_meanwhile_keeps_it() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.grant()
    queues.expired(30.0)
    queues.engine.begin_lapse(["u-p"], queues.now_s)
    queues.apply(msgspec.structs.replace(queues.tasks["p"], node_name="n"))
    queues.engine.lapse_confirmed(["u-p"])
    assert queues.usage("q") == (1000, 0)
    assert queues.wait_reason("p") is None


def test_repeated_lapses_back_off() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    waits = []
    for _ in range(7):
        assert queues.grant() == ["p"]
        assert queues.expired(30.0) == ["p"]
        queues.lapse("p")
        began_s = queues.now_s
        while queues.wait_reason("p") is WaitReason.LAPSED:
            queues.update(1.0)
        waits.append(queues.now_s - began_s)
    assert waits == [60.0, 120.0, 240.0, 480.0, 960.0, 1800.0, 1800.0]


def test_after_a_lapse_a_pod_is_behind_those_that_waited_then() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("old", queue="q"))
    queues.apply(a_task("young", queue="q", created_s=5.0), a_task("late", queue="q", created_s=queues.now_s + 3600.0))
    assert queues.grant() == ["old"]
    queues.expired(30.0)
    queues.lapse("old")
    queues.update(60.0)
    assert queues.grant() == ["young"]
    queues.engine.task_removed("u-young")
    assert queues.grant() == ["old"]


def test_a_pod_of_higher_priority_stays_before_others_after_its_lapse() -> None:
    queues = LeasedQueues(
        a_leased_queue("q", 1, "30s"), a_task("high", queue="q", priority=5), a_task("low", queue="q")
    )
    assert queues.grant() == ["high"]
    queues.expired(30.0)
    queues.lapse("high")
    queues.update(60.0)
    assert queues.grant() == ["high"]


def test_the_message_says_when_the_pod_asks_again() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.now_s = 1_768_000_000.0
    queues.grant()
    queues.expired(30.0)
    queues.lapse("p")
    assert queues.wait_message("p") == (
        "no node was found for it in time, so its promise in queue q lapsed at 2026-01-09T23:07:11Z; "
        "it asks its queue again at 2026-01-09T23:08:11Z"
    )


def test_the_promises_of_a_gang_lapse_together_when_the_last_lease_has_ended() -> None:
    queues = LeasedQueues(a_leased_queue("q", 3, "30s"), a_group("g", "q", 2, phase="Inqueue"))
    queues.apply(a_task("a", group="g"), a_task("b", group="g"))
    assert queues.grant() == ["a", "b"]
    queues.update(10.0)
    queues.engine.renew_lease("u-b", queues.now_s)
    assert queues.expired(20.0) == []
    assert queues.expired(10.0) == ["a b"]


def test_waiting_members_of_a_gang_wait_with_those_whose_promises_lapsed() -> None:
    queues = LeasedQueues(a_leased_queue("q", 2, "30s"), a_group("g", "q", 2, phase="Inqueue"))
    queues.apply(*(a_task(name, group="g") for name in "abcd"))
    assert queues.grant() == ["a", "b"]
    assert queues.expired(30.0) == ["a b"]
    queues.lapse("a", "b")
    assert queues.grant() == []
    assert {queues.wait_reason(name) for name in "abcd"} == {WaitReason.LAPSED}
    queues.update(60.0)
    assert queues.grant() == ["a", "b"]


def test_further_members_of_a_gang_whose_minimum_has_nodes_lapse_one_by_one() -> None:
    queues = LeasedQueues(a_leased_queue("q", 4, "30s"), a_group("g", "q", 1, phase="Inqueue"))
    queues.apply(*(a_task(name, group="g") for name in "abc"))
    queues.grant()
    queues.placed("a")
    queues.engine.renew_lease("u-b", queues.now_s + 5.0)
    assert queues.expired(30.0) == ["c"]


def test_a_restarted_engine_gives_each_promise_its_time_again() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"))
    queues.apply(stamped(a_task("p", queue="q"), "q", "2020-01-01T00:00:00.000000Z"))
    assert queues.expired() == []
    assert queues.expired(30.0) == ["p"]


def test_a_restarted_engine_continues_a_back_off() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"))
    queues.apply(msgspec.structs.replace(a_task("p", queue="q"), gates=(), lapse=Lapse(2, queues.now_s - 100.0)))
    queues.update()
    assert queues.grant() == []
    queues.update(18.0)  # one second has passed at the admission step
    assert queues.wait_reason("p") is WaitReason.LAPSED
    queues.update(1.0)
    assert queues.grant() == ["p"]


def test_without_the_feature_a_recorded_lapse_holds_no_pod() -> None:
    queues = Queues(a_queue("q", 1), msgspec.structs.replace(a_task("p", queue="q"), lapse=Lapse(9, 999_999.0)))
    assert queues.admit() == ["p"]


def test_a_lapse_in_the_future_counts_as_of_now() -> None:
    """The clock that wrote it was ahead. The pod waits for its back-off, and its message says until when."""
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"))
    queues.apply(msgspec.structs.replace(a_task("p", queue="q"), lapse=Lapse(1, 9e12)))
    queues.update()
    wait = queues.engine.peek_wait_reason("u-p")
    assert wait is not None
    assert wait.message.endswith(f"it asks its queue again at {format_time(queues.now_s + 60.0)}")
    assert queues.grant() == []
    queues.update(60.0)
    assert queues.grant() == ["p"]


@pytest.mark.parametrize("group", ["", "gang"])
def test_a_pod_with_a_lapse_in_the_future_is_not_behind_pods_that_come_after_its_back_off(group: str) -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"))
    if group:
        queues.apply(a_group(group, "q", 1))
    lapsed = a_task("p", queue="q", group=group)
    queues.apply(msgspec.structs.replace(lapsed, lapse=Lapse(1, 9e12)))
    queues.update()
    queues.update(60.0)
    queues.apply(msgspec.structs.replace(a_task("later", queue="q"), created_s=queues.now_s))
    assert queues.grant() == ["p"]


def test_a_stamp_that_cannot_be_removed_keeps_its_promise() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.grant()
    queues.expired(30.0)
    queues.engine.begin_lapse(["u-p"], queues.now_s)
    queues.engine.revocation_refused("u-p")
    assert queues.wait_reason("p") is None
    assert queues.expired(10_000.0) == []


def test_a_deleted_pod_leaves_no_deadline() -> None:
    queues = LeasedQueues(a_leased_queue("q", 1, "30s"), a_task("p", queue="q"))
    queues.grant()
    queues.engine.task_removed("u-p")
    assert queues.expired(1000.0) == []
    assert queues.engine.next_deadline_s() is None


@pytest.mark.measured
def test_a_step_costs_no_more_with_more_promises() -> None:
    """Only leases that change or end are looked at."""

    def steps_s(promises: int) -> float:
        queues = LeasedQueues(a_leased_queue("q", promises, "1h"))
        queues.apply(*(a_task(f"p{number}", queue="q") for number in range(promises)))
        queues.grant()

        def run() -> None:
            for _ in range(200):
                queues.engine.renew_lease("u-p7", queues.now_s)
                assert queues.expired(1.0) == []

        return cpu_s(run)

    assert too_steep(lambda: steps_s(100), lambda: steps_s(100 * TIMES), most=3.0) == ""


def test_a_lapse_is_read_as_it_was_written() -> None:
    lapse = Lapse(3, 1_768_000_000.25)
    assert read_lapse(write_lapse(lapse, "u"), "u") == lapse
    assert read_lapse(write_lapse(lapse, "u"), "another") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"uid":"u","count":0,"at":"2026-01-01T00:00:00Z"}', '{"uid":"u"}'])
def test_a_text_that_is_no_lapse_is_ignored(text: str) -> None:
    assert read_lapse(text, "u") is None


def test_lease_times() -> None:
    assert read_lease_s(None) is None
    assert read_lease_s("1m30s") == 90.0
    assert read_lease_s("never") == math.inf
    assert read_lease_s("2562047h") == 2562047 * 3600.0
    for wrong in ("", "0", "0s", "-1m", "10", "soon", "2562048h", "99999999999h"):
        assert "neither a duration above 0 and up to 2562047h" in str(read_lease_s(wrong))
