"""A promise that ends before its pod has a node: its stamp is removed first, then other pods get the capacity.

Until then the promise counts, the pod is hidden, and its gang gets no further grant. The next promise has its own
stamp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clusters import a_node
from headgate.capacity.names import LEASE, OPT_IN, POD_GROUPS, STAMP
from headgate.scheduling.framework.effects import RemoveStamp, SetStatus, WriteResult
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_group, a_queue, ungated

Object = dict[str, Any]


def with_a_promise(*queues: Object) -> tuple[QueuedWorld, Object]:
    """A pod of 5 CPU in ``t1`` that was let in, and that no node fits."""
    world = QueuedWorld(*(queues or (a_queue("t1", "5"),)))
    pod = a_gated_pod("large", "5", queue="t1", nodeSelector={"disk": "fast"})
    world.show(pod)
    world.step()
    stamp = world.lifts["large"]
    world.lifted("large")
    shown = ungated(pod, stamp)
    world.show(shown)
    world.step(1.0)
    return world, shown


def removals(world: QueuedWorld) -> dict[str, str]:
    return {each.pod.name: each.stamp for each in world.effects if isinstance(each, RemoveStamp)}


def remove_stamp(world: QueuedWorld, name: str, stamp: str, result: WriteResult = WriteResult.DONE) -> None:
    """The API server has answered the removal of the stamp."""
    world.effects = world.scheduler.stamp_removed(f"uid-{name}", stamp, result, world.now_s)


def without_stamp(pod: Object) -> Object:
    annotations = {name: value for name, value in pod["metadata"]["annotations"].items() if name != STAMP}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def test_the_stamp_goes_and_the_pod_is_hidden_again() -> None:
    world, shown = with_a_promise()
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    stamp = shown["metadata"]["annotations"][STAMP]
    assert removals(world) == {"large": stamp}
    assert world.statuses["large"].startswith("WaitingForQueue: its promise was revoked: queue t1 had 5 cpu")
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 5000}, "the API shows it, so it counts"
    remove_stamp(world, "large", stamp)
    assert world.scheduler.queues.usage("t1").reserved == {}
    world.step(1.0)
    assert world.statuses["large"].startswith("WaitingForQueue: queue t1 has no capacity for 5 cpu: 0 of 4")
    assert "its promise was revoked: queue t1 had 5 cpu" in world.statuses["large"]
    world.show(without_stamp(shown))
    world.step(1.0)
    assert removals(world) == {}
    assert world.scheduler.queues.usage("t1").reserved == {}


def test_a_removal_of_the_stamp_is_asked_for_once() -> None:
    world, shown = with_a_promise()
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    world.show({**shown, "metadata": {**shown["metadata"], "labels": {"touched": "yes"}}})
    world.step(1.0)
    assert removals(world) == {}


def test_siblings_have_what_was_taken_back_when_its_stamp_is_removed() -> None:
    world, shown = with_a_promise(a_queue("team", "5"), a_queue("t1", "5", parent="team"), a_queue("t2", parent="team"))
    world.show(a_gated_pod("sibling", "5", queue="t2"))
    world.step(1.0)
    assert world.lifts == {}
    world.show_queues(a_queue("t1", "4", parent="team"))
    world.step(1.0)
    assert world.lifts == {}
    remove_stamp(world, "large", shown["metadata"]["annotations"][STAMP])
    world.step(1.0)
    assert list(world.lifts) == ["sibling"]


def test_a_new_promise_is_written_with_a_stamp_of_its_own_though_the_old_one_is_still_shown() -> None:
    world, shown = with_a_promise()
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    remove_stamp(world, "large", shown["metadata"]["annotations"][STAMP])
    world.show_queues(a_queue("t1", "5"))
    world.scheduler.node_applied(a_node("fast", cpu="8", labels={"disk": "fast"}), world.now_s)
    world.step(1.0)
    assert world.lifts["large"] not in ("", shown["metadata"]["annotations"][STAMP])
    world.lifted("large")
    assert world.binds == {"large": "fast"}


def test_a_promise_that_is_taken_back_while_its_gate_is_on_its_way_off_leaves_no_stamp() -> None:
    world = QueuedWorld(a_queue("t1", "5"))
    pod = a_gated_pod("large", "5", queue="t1", nodeSelector={"disk": "fast"})
    world.show(pod)
    world.step()
    stamp = world.lifts["large"]
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    assert removals(world) == {}, "the patch that writes it may still be performed"
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 5000}
    world.lifted("large")
    assert world.scheduler.next_deadline_s() == float("-inf")
    world.step(1.0)
    assert removals(world) == {"large": stamp}, "also if the watch does not show it yet"
    world.show(ungated(pod, stamp))
    remove_stamp(world, "large", stamp)
    assert world.scheduler.queues.usage("t1").reserved == {}


def test_a_second_promise_has_its_own_stamp_after_the_first_one_is_removed() -> None:
    world = QueuedWorld(a_queue("t1", "5"))
    pod = a_gated_pod("large", "5", queue="t1", nodeSelector={"disk": "fast"})
    world.show(pod)
    world.step()
    first = world.lifts["large"]
    for cpu in ("4", "5"):
        world.show_queues(a_queue("t1", cpu))
        world.step(1.0)
        assert world.lifts == {}, "one removal at a time"
    world.lifted("large", WriteResult.DONE)
    world.step(1.0)
    assert (removals(world), world.lifts) == ({"large": first}, {})
    remove_stamp(world, "large", first)
    world.step(1.0)
    second = world.lifts["large"]
    assert second != first
    world.lifted("large")
    world.show(ungated(pod, second))
    world.step(1.0)
    assert removals(world) == {}
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 5000}


def test_a_promise_that_is_taken_back_between_steps_is_followed_up_at_once() -> None:
    world, shown = with_a_promise()
    assert world.scheduler.queues.revoke("uid-large", "it is for a pod of higher priority")
    assert world.scheduler.next_deadline_s() == float("-inf")
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    assert removals(world) == {"large": shown["metadata"]["annotations"][STAMP]}
    remove_stamp(world, "large", shown["metadata"]["annotations"][STAMP])
    world.step(1.0)
    assert world.statuses["large"].endswith("; it is for a pod of higher priority")
    assert world.scheduler.next_deadline_s() != float("-inf")


def test_the_node_that_was_kept_for_the_pod_is_free_again() -> None:
    world, shown = with_a_promise()
    nominated = {**shown, "status": {**shown["status"], "nominatedNodeName": "a"}}
    world.show(nominated)
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    said = [each for each in world.effects if isinstance(each, SetStatus) and each.nominated_node is not None]
    assert [(each.pod.name, each.nominated_node) for each in said] == [("large", "")]


def test_a_promised_pod_that_is_resized_up_is_hidden_until_its_queue_has_more() -> None:
    world, shown = with_a_promise(a_queue("t1", "8"))
    container = {**shown["spec"]["containers"][0], "resources": {"requests": {"cpu": "100"}}}
    world.show({**shown, "spec": {**shown["spec"], "containers": [container]}})
    world.step(1.0)
    assert world.statuses["large"].startswith("WaitingForQueue: it was promised 5 cpu and asks for 100 cpu now")
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 5000}
    container = {**container, "resources": {"requests": {"cpu": "7"}}}
    world.show({**shown, "spec": {**shown["spec"], "containers": [container]}})
    world.step(1.0)
    assert '"cpu":"7"' in world.lifts["large"]
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 7000}


def a_gang_with_patches_in_progress() -> tuple[QueuedWorld, dict[str, str]]:
    """A gang of 3 CPU in a queue of 3, without a node, whose gates are being removed; and the stamps of its pods."""
    world = QueuedWorld(a_queue("q", "3"), a_queue("other", "3"))
    world.show_groups(a_group("g", 2))
    world.show(gang_pod("s", "2"), gang_pod("y", "1"))
    world.step()
    assert set(world.lifts) == {"s", "y"}
    return world, world.lifts


def gang_pod(name: str, cpu: str) -> Object:
    return a_gated_pod(name, cpu, group="g", nodeSelector={"disk": "fast"})


def test_a_gang_that_lost_a_pod_keeps_its_capacity_until_the_stamps_of_the_others_are_removed() -> None:
    world, stamps = a_gang_with_patches_in_progress()
    world.remove("s")
    world.show(a_gated_pod("x", "3"))
    world.step(1.0)
    assert (world.lifts, removals(world)) == ({}, {}), "the patch that writes the stamp of y is in progress"
    world.lifted("y")
    world.step(1.0)
    assert (world.lifts, removals(world)) == ({}, {"y": stamps["y"]})
    world.show(ungated(gang_pod("y", "1"), stamps["y"]))
    world.step(1.0)
    assert (world.lifts, removals(world)) == ({}, {})
    remove_stamp(world, "y", stamps["y"])
    world.step(1.0)
    assert list(world.lifts) == ["x"]


def test_a_gate_removal_that_is_refused_ends_the_promise_without_a_removal_of_the_stamp() -> None:
    world, _ = a_gang_with_patches_in_progress()
    world.remove("s")
    world.show(a_gated_pod("x", "3"))
    world.step(1.0)
    world.lifted("y", WriteResult.REFUSED)
    world.step(1.0)
    assert (list(world.lifts), removals(world)) == (["x"], {})


def test_a_stamp_with_an_unknown_outcome_is_removed_after_the_patch_is_repeated() -> None:
    world, stamps = a_gang_with_patches_in_progress()
    world.remove("s")
    world.show(a_gated_pod("x", "3"))
    world.step(1.0)
    world.lifted("y", WriteResult.UNKNOWN)
    world.step(0.1)
    assert (world.lifts, removals(world)) == ({}, {})
    world.step(1.0)
    assert (world.lifts, removals(world)) == ({"y": stamps["y"]}, {})
    world.lifted("y")
    world.step()
    assert (world.lifts, removals(world)) == ({}, {"y": stamps["y"]})


def test_a_stamp_that_the_watch_shows_is_removed_after_the_response_because_the_patch_may_be_repeated() -> None:
    world, stamps = a_gang_with_patches_in_progress()
    world.show(ungated(gang_pod("y", "1"), stamps["y"]))
    world.remove("s")
    world.step(1.0)
    assert removals(world) == {}
    world.lifted("y")
    world.step(1.0)
    assert removals(world) == {"y": stamps["y"]}


def test_a_new_pod_of_the_gang_waits_until_the_promises_of_the_others_have_ended() -> None:
    world, stamps = a_gang_with_patches_in_progress()
    world.remove("s")
    world.step(1.0)
    world.show(gang_pod("t", "2"))
    world.step(1.0)
    assert world.lifts == {}, "a gang is granted as a whole"
    world.lifted("y")
    world.step(1.0)
    remove_stamp(world, "y", stamps["y"])
    world.step(1.0)
    assert set(world.lifts) == {"t", "y"}


def a_gang_that_lost_a_pod() -> tuple[QueuedWorld, dict[str, str]]:
    """A gang of 3 pods in a queue of 3, one of which was replaced, before a pod of 2 CPU. The promises of the other
    two are being revoked. Returns their stamps."""
    world = QueuedWorld(a_queue("q", "3"))
    world.show_groups(a_group("g", 3))
    pods = {name: gang_pod(name, "1") for name in ("a", "b", "c")}
    world.show(*pods.values())
    world.step()
    stamps = world.lifts
    for name, pod in pods.items():
        world.lifted(name)
        world.show(ungated(pod, stamps[name]))
    world.remove("c")
    world.show(a_gated_pod("x", "2", priority=-1))
    world.step(1.0)
    assert (world.lifts, set(removals(world))) == ({}, {"a", "b"})
    world.show(gang_pod("d", "1"))
    return world, stamps


def test_the_promises_of_a_gang_end_together_so_that_no_smaller_pod_gets_a_part_of_its_capacity() -> None:
    world, stamps = a_gang_that_lost_a_pod()
    remove_stamp(world, "a", stamps["a"])
    world.step(1.0)
    assert world.lifts == {}
    assert world.scheduler.queues.usage("q").reserved == {"cpu": 2000}
    remove_stamp(world, "b", stamps["b"])
    assert world.scheduler.queues.usage("q").reserved == {}
    world.step(1.0)
    assert set(world.lifts) == {"a", "b", "d"}


def test_the_promises_of_a_gang_do_not_wait_for_one_whose_member_is_deleted_or_whose_removal_is_refused() -> None:
    world, stamps = a_gang_that_lost_a_pod()
    remove_stamp(world, "a", stamps["a"])
    world.remove("b")
    world.step(1.0)
    assert list(world.lifts) == ["x"]
    world, stamps = a_gang_that_lost_a_pod()
    remove_stamp(world, "a", stamps["a"])
    remove_stamp(world, "b", stamps["b"], WriteResult.REFUSED)
    world.step(1.0)
    assert list(world.lifts) == ["x"]
    world.step(5.0)
    assert removals(world) == {"b": stamps["b"]}
    remove_stamp(world, "b", stamps["b"])
    assert not world.scheduler.queues.is_being_revoked("uid-b")


def test_a_refused_removal_of_a_stamp_is_repeated_and_the_promise_counts_until_it_is_done() -> None:
    world, stamps = a_gang_with_patches_in_progress()
    world.remove("s")
    world.show(a_gated_pod("x", "3"))
    world.lifted("y")
    world.step(1.0)
    for delay_s in (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0):
        remove_stamp(world, "y", stamps["y"], WriteResult.REFUSED)
        world.step(delay_s - 1.0)
        assert (world.lifts, removals(world)) == ({}, {})
        assert world.scheduler.queues.usage("q").reserved == {"cpu": 1000}
        assert world.scheduler.queues.is_being_revoked("uid-y")
        world.step(1.0)
        assert (world.lifts, removals(world)) == ({}, {"y": stamps["y"]})
    remove_stamp(world, "y", stamps["y"])
    world.step(1.0)
    assert list(world.lifts) == ["x"]


def test_a_promise_whose_removal_is_refused_ends_with_its_pod() -> None:
    world, stamps = a_gang_with_patches_in_progress()
    world.remove("s")
    world.show(a_gated_pod("x", "3"))
    world.lifted("y")
    world.step(1.0)
    remove_stamp(world, "y", stamps["y"], WriteResult.REFUSED)
    world.remove("y")
    world.step(1.0)
    assert list(world.lifts) == ["x"]
    world.step(600.0)
    assert removals(world) == {}


def another_group(world: QueuedWorld) -> None:
    world.show(a_gated_pod("s", "2", queue="other", group="h", nodeSelector={"disk": "fast"}))


def a_larger_minimum(world: QueuedWorld) -> None:
    world.show_groups(a_group("g", 3))


def no_group(world: QueuedWorld) -> None:
    world.scheduler.object_removed(POD_GROUPS, "default", "g", world.now_s)


@pytest.mark.parametrize("change", [another_group, a_larger_minimum, no_group])
def test_no_change_of_a_gang_frees_capacity_before_the_stamps_are_removed(
    change: Callable[[QueuedWorld], object],
) -> None:
    world, stamps = a_gang_with_patches_in_progress()
    world.show(a_gated_pod("x", "1"))
    change(world)
    world.step(1.0)
    assert (world.lifts, removals(world)) == ({}, {})
    for name in stamps:
        world.lifted(name)
    world.step(1.0)
    ended = removals(world)
    assert ended
    assert ended.items() <= stamps.items()
    assert world.lifts == {}
    for name, stamp in ended.items():
        remove_stamp(world, name, stamp)
    world.step(1.0)
    assert "x" in world.lifts


def test_a_pod_that_opts_out_keeps_a_promise_whose_stamp_is_being_written() -> None:
    world = QueuedWorld(a_queue("q", "3"))
    pod = a_gated_pod("p", "3", nodeSelector={"disk": "fast"})
    world.show(pod)
    world.step(most=0)
    stamp = world.lifts["p"]
    annotations = {name: value for name, value in pod["metadata"]["annotations"].items() if name != OPT_IN}
    opted_out = {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}
    world.show(opted_out, a_gated_pod("x", "3"))
    for _ in range(2):
        world.step(20.0)
        assert world.lifts == {}
    world.lifted("p")
    world.show(ungated(opted_out, stamp))
    world.step(20.0)
    assert world.lifts == {}
    assert world.scheduler.queues.usage("q").reserved == {"cpu": 3000}


def resized(pod: Object, cpu: str) -> Object:
    container = {**pod["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
    return {**pod, "spec": {**pod["spec"], "containers": [container]}}


def touched(pod: Object) -> Object:
    """Another client has changed an annotation that the queue engine reads."""
    return {**pod, "metadata": {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], LEASE: "5m"}}}


def test_an_event_with_the_smaller_stamp_does_not_undo_a_promise_whose_stamp_is_being_written() -> None:
    world, shown = with_a_promise(a_queue("t1", "8"))
    world.show(resized(shown, "7"))
    world.step(1.0)
    assert '"cpu":"7"' in world.lifts["large"]
    world.show(resized(touched(shown), "7"), a_gated_pod("x", "3", queue="t1", priority=10))
    world.step(1.0)
    assert world.lifts == {}
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 7000}


def test_the_last_stamp_is_removed_though_the_watch_shows_an_older_one() -> None:
    world, shown = with_a_promise(a_queue("t1", "8"))
    world.show(resized(shown, "7"))
    world.step(1.0)
    last = world.lifts["large"]
    world.show_queues(a_queue("t1", "6"))
    world.step(1.0)
    assert removals(world) == {}
    world.lifted("large")
    world.show(resized(touched(shown), "7"))
    world.step(1.0)
    assert removals(world) == {"large": last}
    remove_stamp(world, "large", last)
    world.show(resized(shown, "7"))
    assert world.scheduler.queues.usage("t1").reserved == {}


def test_a_late_event_with_the_smaller_stamp_counts_nothing_though_the_larger_stamp_was_refused() -> None:
    world, shown = with_a_promise(a_queue("t1", "8"))
    world.show(resized(shown, "7"))
    world.step(1.0)
    assert '"cpu":"7"' in world.lifts["large"]
    world.lifted("large", WriteResult.REFUSED)
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 7000}
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    stamp = shown["metadata"]["annotations"][STAMP]
    assert removals(world) == {"large": stamp}
    remove_stamp(world, "large", stamp)
    world.show(resized(touched(shown), "7"))
    assert world.scheduler.queues.usage("t1").reserved == {}


@pytest.mark.parametrize("is_answered_first", [False, True])
def test_a_refused_larger_stamp_frees_nothing_if_the_smaller_one_was_written_and_is_not_shown_yet(
    is_answered_first: bool,
) -> None:
    world = QueuedWorld(a_queue("q", "8"))
    pod = a_gated_pod("p", "5", nodeSelector={"disk": "fast"})
    world.show(pod)
    world.step()
    first = world.lifts["p"]
    if is_answered_first:
        world.lifted("p")
    world.show(resized(pod, "7"), a_gated_pod("x", "8"))
    world.step(1.0)
    if not is_answered_first:
        world.lifted("p")
        world.step()
    assert '"cpu":"7"' in world.lifts["p"]
    world.lifted("p", WriteResult.REFUSED)
    world.step(1.0)
    assert world.lifts == {}
    assert world.scheduler.queues.usage("q").reserved == {"cpu": 7000}
    world.show_queues(a_queue("q", "4"))
    world.step(1.0)
    assert removals(world) == {"p": first}


def test_a_refusal_after_an_unknown_outcome_frees_nothing_before_the_watch_can_show_the_stamp() -> None:
    world = QueuedWorld(a_queue("q", "3"))
    pod = a_gated_pod("p", "3", nodeSelector={"disk": "fast"})
    world.show(pod, a_gated_pod("x", "3"))
    world.step()
    stamp = world.lifts["p"]
    world.lifted("p", WriteResult.UNKNOWN)
    world.step(1.0)
    assert world.lifts == {"p": stamp}
    world.lifted("p", WriteResult.REFUSED)
    world.step(1.0)
    assert world.lifts == {}
    world.show(ungated(pod, stamp))
    world.step(60.0)
    assert world.lifts == {}
    assert world.scheduler.queues.usage("q").reserved == {"cpu": 3000}


def test_a_refusal_ends_the_promise_when_the_watch_has_not_shown_a_stamp_in_time() -> None:
    world = QueuedWorld(a_queue("q", "3"))
    world.show(a_gated_pod("p", "3", nodeSelector={"disk": "fast"}), a_gated_pod("x", "3"))
    world.step()
    assert list(world.lifts) == ["p"]
    world.lifted("p", WriteResult.UNKNOWN)
    world.step(31.0)
    world.lifted("p", WriteResult.REFUSED)
    world.step(1.0)
    assert list(world.lifts) == ["x"]


def two_resized_pods(*others: Object) -> tuple[QueuedWorld, Object]:
    """Pods of 3 CPU that ask for 5 now, beside a pod that runs with 4, in a queue of 10: the promise of ``young`` is
    being revoked. Returns ``young`` with its stamp."""
    world = QueuedWorld(a_queue("q", "10"))
    shown: dict[str, Object] = {}
    for name in ("old", "young"):
        pod = a_gated_pod(name, "3", nodeSelector={"disk": "fast"})
        world.show(pod)
        world.step(1.0)
        stamp = world.lifts[name]
        world.lifted(name)
        shown[name] = ungated(pod, stamp)
        world.show(shown[name])
    running = ungated(a_gated_pod("runs", "4"))
    world.show({**running, "spec": {**running["spec"], "nodeName": "a"}}, *others)
    world.step(1.0)
    world.show(*(resized(each, "5") for each in shown.values()))
    world.step(1.0)
    assert (world.lifts, list(removals(world))) == ({}, ["young"])
    return world, shown["young"]


def test_a_resized_pod_gets_no_more_while_its_promise_is_being_revoked() -> None:
    world, young = two_resized_pods(a_gated_pod("waits", "5", nodeSelector={"disk": "fast"}))
    world.remove("runs")
    world.step(1.0)
    assert list(world.lifts) == ["old"]
    assert world.scheduler.queues.position("uid-young") is None
    assert world.scheduler.queues.usage("q").reserved == {"cpu": 8000}
    remove_stamp(world, "young", young["metadata"]["annotations"][STAMP])
    assert world.scheduler.queues.usage("q").reserved == {"cpu": 5000}
    world.step(1.0)
    assert len(world.lifts) == 1
    assert world.scheduler.queues.usage("q").reserved == {"cpu": 10_000}
