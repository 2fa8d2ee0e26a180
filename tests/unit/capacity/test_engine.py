"""Admission by queue: which pods are granted, which wait, and for which reason."""

from __future__ import annotations

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, amounts, stamped
from headgate.capacity.api.queue import Queue, read_queue
from headgate.capacity.engine import Grant, WaitReason
from headgate.capacity.names import GATE, QUEUE_NAME


def test_a_pod_is_granted_its_requests_and_the_next_pod_waits_when_the_queue_is_full() -> None:
    queues = Queues(a_queue("default", cpu=1), a_task("p1"), a_task("p2"))
    assert queues.admit() == ["p1"]
    assert queues.usage("default") == (0, 1000)
    assert queues.wait_reason("p1") is None
    assert queues.wait_reason("p2") is WaitReason.FULL
    text = "queue default has no capacity for 1 cpu: 1 of 1 are in use or promised to others"
    assert queues.wait_message("p2") == text


def test_the_three_pods_of_the_design() -> None:
    """R7: a queue of one CPU and 1 GiB; the pod that finds no node keeps its share until it is deleted."""
    asks = {"cpu": "1", "memory": "1Gi"}
    pods = (a_task(f"pod-{number}", cpu=None, requests=asks, created_s=number) for number in (1, 2, 3))
    queues = Queues(a_queue("default", capability=amounts(cpu=1, memory="1Gi")), *pods)
    assert queues.admit() == ["pod-1"]
    queues.placed("pod-1")
    assert queues.usage("default") == (1000, 0)
    assert queues.admit() == []
    queues.engine.task_removed("u-pod-1")
    assert queues.admit() == ["pod-2"]
    assert queues.admit() == []
    assert queues.wait_reason("pod-3") is WaitReason.FULL
    queues.engine.task_removed("u-pod-2")
    assert queues.admit() == ["pod-3"]


def test_placed_and_unplaced_move_a_share_between_allocated_and_reserved() -> None:
    """R3 and R4."""
    queues = Queues(a_queue("default", cpu=2), a_task("p1"))
    queues.admit()
    queues.placed("p1", "p1")
    assert queues.usage("default") == (1000, 0)
    queues.engine.unplaced("u-p1")
    queues.engine.unplaced("u-p1")
    assert queues.usage("default") == (0, 1000)
    assert queues.usage("root") == (0, 1000)


def test_a_pod_that_did_not_opt_in_returns_an_unused_grant() -> None:
    queues = Queues(a_queue("default", cpu=1), a_task("plain", opted_in=False), a_task("gated", created_s=1))
    assert queues.admit() == ["plain"]
    assert queues.usage("default") == (0, 1000)
    queues.engine.unplaced("u-plain")
    assert queues.usage("default") == (0, 0)
    assert queues.admit() == ["gated"]
    wait = queues.engine.wait_reason("u-plain")
    assert wait is not None
    assert wait.why is WaitReason.FULL
    queues.engine.task_removed("u-gated")
    assert queues.admit() == ["plain"]


def test_peek_wait_reason_does_not_request_a_new_grant() -> None:
    queues = Queues(a_queue("default", cpu=1), a_task("plain", opted_in=False))
    queues.admit()
    queues.engine.unplaced("u-plain")
    assert queues.wait_reason("plain") is WaitReason.WAITING_TURN
    assert queues.admit() == []
    queues.engine.wait_reason("u-plain")
    assert queues.admit() == ["plain"]


def test_only_requested_resources_are_checked() -> None:
    queues = Queues(a_queue("default", capability=amounts(cpu=1, memory="1Gi")))
    queues.apply(a_task("big", cpu=None, requests={"memory": "2Gi"}, node_name="n1"), a_task("small"))
    assert queues.admit() == ["small"]


def test_a_resource_that_no_limit_names_is_unlimited() -> None:
    """A10: no node has to have it."""
    queues = Queues(a_queue("default", cpu=1), a_task("p1", cpu=1, requests=amounts(gpu=800)))
    assert queues.admit() == ["p1"]


def test_best_effort_pods_need_an_open_queue_and_nothing_else() -> None:
    """A9, U7."""
    queues = Queues(a_queue("default", cpu=0), a_task("p1", cpu=None), a_task("p2"))
    assert queues.admit() == ["p1"]


@pytest.mark.parametrize(
    ("objects", "why", "text"),
    [
        ([a_queue("default", state="Closed")], WaitReason.CLOSED, "queue default is Closed"),
        ([a_queue("default", state="Closing")], WaitReason.CLOSED, "queue default is Closing"),
        ([a_queue("default"), a_queue("below", parent="default")], WaitReason.NOT_LEAF, "has queues below it"),
        ([a_queue("default", parent="lost")], WaitReason.INVALID, "spec.parent: queue lost does not exist"),
        ([a_queue("default", cpu="nan")], WaitReason.INVALID, "spec.capability.cpu: quantities must match"),
        ([a_queue("default", cpu="-1")], WaitReason.INVALID, "-1 is negative"),
    ],
)
def test_a_queue_that_cannot_admit_a_pod_gives_the_reason(
    objects: list[dict[str, object]], why: WaitReason, text: str
) -> None:
    queues = Queues(*objects, a_task("p1"))
    assert queues.admit() == []
    assert queues.wait_reason("p1") is why
    assert text in queues.wait_message("p1")


def test_a_missing_queue_admits_no_pod_but_the_default_queue_always_exists() -> None:
    queues = Queues(a_task("p1", queue="lost"), a_task("p2"))
    assert queues.admit() == ["p2"]
    assert queues.wait_reason("p1") is WaitReason.NO_QUEUE
    assert "queue lost does not exist" in queues.wait_message("p1")
    queues.apply(a_queue("default", cpu=0))
    queues.engine.queue_removed("default")
    queues.apply(a_task("p3"))
    assert queues.admit() == ["p3"]


def test_pods_of_an_invalid_queue_are_admitted_when_it_is_valid() -> None:
    queues = Queues(a_queue("default", cpu="nan"), a_task("p1"))
    assert queues.admit() == []
    assert "queue/default" in queues.engine.problems()
    queues.apply(a_queue("default", cpu="1"))
    assert queues.admit() == ["p1"]
    assert queues.engine.problems() == {}


def test_a_pod_with_a_foreign_gate_is_not_admitted_until_the_gate_is_removed() -> None:
    """A3."""
    queues = Queues(a_queue("default", cpu=1), a_task("p1", gates=("example.com/hold", GATE)))
    assert queues.admit() == []
    assert queues.usage("default") == (0, 0)
    assert queues.wait_reason("p1") is WaitReason.FOREIGN_GATE
    assert queues.wait_message("p1").endswith("example.com/hold")
    queues.apply(a_task("p1"))
    assert queues.admit() == ["p1"]


def test_a_gate_without_the_opt_in_is_never_removed() -> None:
    """A4."""
    queues = Queues(a_queue("default"), a_task("p1", opted_in=False, gates=(GATE,)))
    assert queues.admit() == []
    assert queues.wait_reason("p1") is WaitReason.NOT_OPTED_IN


def test_a_refused_gate_removal_releases_the_share_and_is_retried() -> None:
    queues = Queues(a_queue("default", cpu=1), a_task("p1"), a_task("p2", created_s=1))
    queues.admit()
    queues.engine.refused("u-p1", queues.now_s + 10, "a webhook said no")
    assert queues.wait_reason("p1") is WaitReason.GATE_REMOVAL_REFUSED
    assert queues.wait_message("p1") == "its gate could not be removed: a webhook said no"
    assert queues.engine.next_deadline_s() == queues.now_s + 10
    assert queues.admit() == ["p2"]
    queues.engine.task_removed("u-p2")
    queues.now_s += 20
    assert queues.admit() == ["p1"]
    assert queues.engine.next_deadline_s() is None


def test_the_queue_of_a_pod_comes_from_its_group_its_annotation_its_namespace_or_the_default() -> None:
    queues = Queues(a_group("g", queue="of-group"), a_task("p1", group="g", queue="own"), a_task("p2", queue="own"))
    queues.apply(a_task("p3"))
    assert [queues.engine.queue_of(f"u-p{number}") for number in (1, 2, 3)] == ["of-group", "own", "default"]
    annotated = {"metadata": {"name": "team", "annotations": {"scheduling.volcano.sh/queue-name": "of-team"}}}
    queues.engine.namespace_applied(annotated)
    queues.apply(a_task("p4", namespace="team"))
    assert queues.engine.queue_of("u-p4") == "of-team"


def test_a_pod_that_was_promised_its_share_is_in_the_queue_that_its_stamp_names() -> None:
    queues = Queues(a_queue("a", cpu=1), a_queue("b", cpu=1), stamped(a_task("p", queue="a"), "b"))
    assert queues.engine.queue_of("u-p") == "b"


def test_a_pod_seen_before_its_namespace_is_in_the_queue_that_the_namespace_names() -> None:
    queues = Queues(a_queue("of-team"), a_task("p1", namespace="team"))
    annotated = {"metadata": {"name": "team", "annotations": {"scheduling.volcano.sh/queue-name": "of-team"}}}
    queues.engine.namespace_applied(annotated)
    assert queues.engine.queue_of("u-p1") == "of-team"
    assert queues.engine.admit(1.0, 10) == [Grant("of-team", ("u-p1",))]


def test_what_a_pod_holds_follows_its_resize() -> None:
    queues = Queues(a_queue("default", cpu=4), a_task("p1", cpu="2", node_name="n1"))
    assert queues.usage("default") == (2000, 0)
    queues.apply(a_task("p1", cpu="3", node_name="n1"))
    assert queues.usage("root") == (3000, 0)


def test_pods_that_end_or_are_deleted_hold_nothing() -> None:
    queues = Queues(a_queue("default", cpu=1), a_task("p1", node_name="n1"), a_task("p2"))
    assert queues.admit() == []
    queues.apply(a_task("p1", node_name="n1", is_terminal_or_terminating=True))
    assert queues.usage("default") == (0, 0)
    assert queues.admit() == ["p2"]


def test_pods_to_retry_returns_each_changed_pod_once() -> None:
    queues = Queues(a_queue("default", cpu=1), a_task("p1"), a_task("p2", created_s=1))
    queues.engine.pods_to_retry()
    queues.admit()
    assert queues.engine.pods_to_retry() == ["u-p1"]
    assert queues.engine.pods_to_retry() == []
    queues.engine.refused("u-p1", 2e6, "no")
    assert queues.engine.pods_to_retry() == ["u-p1"]


def test_admit_grants_at_most_max_pods() -> None:
    queues = Queues(a_queue("default"), *(a_task(f"p{number}") for number in range(5)))
    assert queues.admit(max_pods=2) == ["p0", "p1"]
    assert queues.admit(max_pods=2) == ["p2", "p3"]


def test_changed_queues_are_named_with_their_ancestors_once() -> None:
    queues = Queues(a_queue("top"), a_queue("leaf", parent="top"), a_queue("other"))
    queues.engine.changed_queues()
    queues.apply(a_task("p1", queue="leaf"))
    assert sorted(queues.engine.changed_queues()) == ["leaf", "root", "top"]
    assert queues.engine.changed_queues() == []
    assert queues.engine.usage("top").waiting == 1


def test_a_position_counts_the_units_before_it() -> None:
    queues = Queues(a_queue("default", cpu=0), *(a_task(f"p{number}", created_s=number) for number in range(4)))
    assert [queues.engine.position(f"u-p{number}") for number in (0, 3)] == [0, 3]
    assert queues.engine.oldest_waiting_s("default") == 0


def test_the_version_of_a_line_changes_with_the_line_and_not_with_those_of_other_queues() -> None:
    queues = Queues(a_queue("q", cpu=0), a_queue("other", cpu=0), a_task("p1", queue="q"), a_task("p2", queue="q"))
    engine = queues.engine
    first = engine.line_version("q")
    queues.apply(a_task("elsewhere", queue="other"))
    assert engine.line_version("q") == first
    queues.apply(a_task("p3", queue="q"))
    second = engine.line_version("q")
    queues.apply(a_task("p3", queue="q", priority=5))
    assert engine.line("q")[0] == "u-p3"
    third = engine.line_version("q")
    engine.task_removed("u-p3")
    assert len({first, second, third, engine.line_version("q")}) == 4
    assert engine.line_version("absent") == 0


def test_a_new_uid_under_an_old_name_is_another_pod() -> None:
    queues = Queues(a_queue("default", cpu=2), a_task("p1"))
    queues.admit()
    again = msgspec.structs.replace(a_task("p1"), uid="other")
    queues.apply(again)
    assert queues.engine.peek_wait_reason("other") is not None
    assert queues.usage("default") == (0, 1000)


def test_deleted_objects_leave_no_entries() -> None:
    """A pod may name any queue, and a group any members: deleted objects must use no memory."""
    queues = Queues(a_queue("q", cpu=5))
    granted_pods = queues.engine.new_granted_pod_queue()
    for number in range(300):
        name = f"p{number}"
        queues.apply(a_queue(f"q{number}", cpu=1, parent="q"), a_group(f"g{number}", f"q{number}", minimum=2))
        queues.apply(a_task(name, queue=f"nowhere-{number}"), a_task(f"m{number}", group=f"g{number}"))
        queues.apply(a_task(f"r{number}", queue=f"q{number}", node_name="n", gates=()), a_task(f"w{number}", queue="q"))
        queues.admit()
        granted_pods.put(f"u-w{number}")
        queues.engine.evicted(f"u-r{number}")
        for prefix in "pmrw":
            queues.engine.task_removed(f"u-{prefix}{number}")
        queues.engine.group_removed("ns", f"g{number}")
        queues.engine.queue_removed(f"q{number}")
    queues.admit()
    queues.engine.pods_to_retry()
    queues.engine.changed_queues()
    queues.engine.starving()
    assert len(granted_pods) == 0
    assert _size(queues.engine) < 100


def _size(thing: object, seen: set[int] | None = None) -> int:
    """How many entries all collections in it have."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | int | float | frozenset | type | None):
        return 0
    seen.add(id(thing))
    if isinstance(thing, dict):
        return len(thing) + sum(_size(each, seen) for each in thing.values())
    if isinstance(thing, list | tuple | set):
        return len(thing) + sum(_size(each, seen) for each in thing)
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [*slots, *getattr(thing, "__dict__", {})]
    return sum(_size(getattr(thing, name, None), seen) for name in names) if "headgate" in type(thing).__module__ else 0


def test_a_pod_that_waits_follows_its_annotation_and_one_with_a_promise_stays() -> None:
    queues = Queues(a_queue("full", cpu=1), a_queue("free", cpu=1), a_task("first", queue="full"))
    assert queues.admit() == ["first"]
    queues.apply(a_task("second", queue="full"))
    assert queues.admit() == []
    queues.apply(a_task("second", queue="free"), a_task("first", queue="free"))
    assert queues.admit() == ["second"]
    assert queues.engine.queue_of("u-first") == "full"


def test_pods_that_wait_follow_their_namespace_and_those_that_name_a_queue_do_not() -> None:
    queues = Queues(a_queue("full", cpu=0), a_queue("free", cpu=1))
    queues.engine.namespace_applied({"metadata": {"name": "ns", "annotations": {QUEUE_NAME: "full"}}})
    queues.apply(a_task("p"), a_task("q", queue="full"))
    assert queues.admit() == []
    queues.engine.namespace_applied({"metadata": {"name": "ns", "annotations": {QUEUE_NAME: "free"}}})
    assert queues.admit() == ["p"]
    assert queues.engine.queue_of("u-q") == "full"


def test_a_queue_without_a_weight_has_weight_one() -> None:
    assert read_queue(a_queue("q")).weight == Queue("q").weight == 1
