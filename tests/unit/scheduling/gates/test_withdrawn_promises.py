"""A promise that is taken back: its stamp is removed, the pod is hidden, and the next promise has its own stamp."""

from __future__ import annotations

from typing import Any

from clusters import a_node
from headgate.capacity.names import STAMP
from headgate.scheduling.framework.effects import RemoveStamp, SetStatus, WriteResult
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue, ungated

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


def without_stamp(pod: Object) -> Object:
    annotations = {name: value for name, value in pod["metadata"]["annotations"].items() if name != STAMP}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def test_the_stamp_goes_and_the_pod_is_hidden_again() -> None:
    world, shown = with_a_promise()
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    assert removals(world) == {"large": shown["metadata"]["annotations"][STAMP]}
    assert world.statuses["large"].startswith("WaitingForQueue: queue t1 has no room for 5 cpu: 0 of 4")
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


def test_siblings_have_what_was_taken_back_in_the_same_step() -> None:
    world, _ = with_a_promise(a_queue("team", "5"), a_queue("t1", "5", parent="team"), a_queue("t2", parent="team"))
    world.show(a_gated_pod("sibling", "5", queue="t2"))
    world.step(1.0)
    assert world.lifts == {}
    world.show_queues(a_queue("t1", "4", parent="team"))
    world.step(1.0)
    assert list(world.lifts) == ["sibling"]


def test_a_new_promise_is_written_with_a_stamp_of_its_own_though_the_old_one_is_still_shown() -> None:
    world, shown = with_a_promise()
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
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
    assert removals(world) == {}, "the API shows none yet"
    world.lifted("large")
    world.show(ungated(pod, stamp))
    world.step(1.0)
    assert removals(world) == {"large": stamp}
    assert world.scheduler.queues.usage("t1").reserved == {}


def test_a_promise_that_comes_back_while_the_first_stamp_is_on_its_way_is_written_after_it() -> None:
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
    second = world.lifts["large"]
    assert second != first
    world.lifted("large")
    world.show(ungated(pod, second))
    world.step(1.0)
    assert removals(world) == {}
    assert world.scheduler.queues.usage("t1").reserved == {"cpu": 5000}


def test_a_promise_that_is_taken_back_between_steps_is_followed_up_at_once() -> None:
    world, shown = with_a_promise()
    assert world.scheduler.queues.take_back("uid-large", "it is for a pod of higher priority")
    assert world.scheduler.next_deadline_s() == float("-inf")
    world.show_queues(a_queue("t1", "4"))
    world.step(1.0)
    assert removals(world) == {"large": shown["metadata"]["annotations"][STAMP]}
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
