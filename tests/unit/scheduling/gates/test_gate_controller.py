"""The gate controller: which pods it counts, when it removes their gates, and what it leaves to their scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import a_pod
from harness.metrics_page import gate_removals
from headgate.capacity.api.stamp import Stamp, write_stamp
from headgate.capacity.names import (
    DEQUEUE_STRATEGY,
    GATE,
    GROUP_NAMES,
    LEASE,
    MAX_PODS_WITHOUT_NODE,
    OPT_IN,
    POD_GROUPS,
    QUEUE_NAME,
    QUEUES,
    STAMP,
)
from headgate.kube.timestamps import format_time
from headgate.scheduling.framework.effects import Effect, RemoveSchedulingGate, SetStatus, WriteResult
from headgate.scheduling.gates.gate_controller import GateController, GateSettings

Object = dict[str, Any]


class World:
    """A gate controller, and the pods as the API server shows them."""

    def __init__(self, limit: str = "2", **settings: Any) -> None:
        self.now_s = 1000.0
        self._created = 0
        self._settings = GateSettings(time_of_day=lambda: self.now_s, **settings)
        self.queue_objects: Object = {}
        self.pods: dict[str, Object] = {}
        self.groups: dict[str, Object] = {}
        self.controller = GateController(["default-scheduler"], self._settings)
        self.queue("q", limit)

    def queue(self, name: str, cpu: str, parent: str = "root") -> None:
        spec = {"parent": parent, "capability": {"cpu": cpu}}
        self.queue_objects[name] = {"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}}
        self.controller.object_applied(QUEUES, self.queue_objects[name])

    def group(self, name: str, minimum: int) -> None:
        metadata = {"name": name, "namespace": "default"}
        self.groups[name] = {"metadata": metadata, "spec": {"minMember": minimum, "queue": "q"}, "status": {}}
        self.controller.object_applied(POD_GROUPS, self.groups[name])

    def pod(self, name: str, cpu: str = "1", queue: str = "q", group: str = "", **more: Any) -> Object:
        """``gates``: ours, unless others are named; ``opts_in``: yes, unless said otherwise."""
        gates, opts_in, node = more.pop("gates", (GATE,)), more.pop("opts_in", True), more.pop("node", "")
        pod = a_pod(name, {"cpu": cpu}, schedulingGates=[{"name": each} for each in gates], **more)
        said = {QUEUE_NAME: queue, GROUP_NAMES[0]: group, OPT_IN: "true" if opts_in else ""}
        pod["metadata"]["annotations"] = {key: value for key, value in said.items() if value}
        self._created += 1
        pod["metadata"]["creationTimestamp"] = format_time(500.0 + self._created)
        if node:
            pod["spec"]["nodeName"] = node
        return self.show(name, pod)

    def show(self, name: str, pod: Object) -> Object:
        self.pods[name] = pod
        self.controller.pod_applied(pod, self.now_s)
        return pod

    def bind(self, name: str) -> None:
        self.pods[name]["spec"] |= {"nodeName": "node", "schedulingGates": []}
        self.show(name, self.pods[name])

    def delete(self, name: str, grace_s: float = 30.0) -> None:
        self.pods[name]["metadata"]["deletionTimestamp"] = format_time(self.now_s + grace_s)
        self.show(name, self.pods[name])

    def gone(self, name: str) -> None:
        self.controller.pod_removed(self.pods.pop(name)["metadata"]["uid"], self.now_s)

    def step(self, later_s: float = 0.0) -> list[Effect]:
        self.now_s += later_s
        return self.controller.step(self.now_s)

    def ungated(self, later_s: float = 0.0) -> list[str]:
        """Runs steps until nothing is left to do; the names of the pods whose gates are removed, and the API server
        does that."""
        found = []
        while effects := [each for each in self.step(later_s) if isinstance(each, RemoveSchedulingGate)]:
            later_s = 0.0
            for each in effects:
                self.answer(each)
                found.append(each.pod.name)
        return found

    def answer(self, removal: RemoveSchedulingGate) -> None:
        pod = self.pods[removal.pod.name]
        if removal.stamp:
            pod["metadata"]["annotations"][STAMP] = removal.stamp
        pod["spec"]["schedulingGates"] = [each for each in pod["spec"]["schedulingGates"] if each["name"] != GATE]
        self.controller.gate_removed(removal.pod.uid, WriteResult.DONE, "", self.now_s)
        self.show(removal.pod.name, pod)

    def restart(self) -> None:
        self.controller = GateController(["default-scheduler"], self._settings)
        for each in self.queue_objects.values():
            self.controller.object_applied(QUEUES, each)
        for each in self.groups.values():
            self.controller.object_applied(POD_GROUPS, each)
        for name, each in self.pods.items():
            self.show(name, each)

    def used(self, queue: str = "q") -> tuple[int, int]:
        """What is allocated and reserved, in thousandths of a cpu."""
        usage = self.controller.queues.usage(queue)
        return usage.allocated.get("cpu", 0), usage.reserved.get("cpu", 0)


def messages(effects: list[Effect]) -> dict[str, str]:
    found = [each for each in effects if isinstance(each, SetStatus) and each.condition is not None]
    assert all(each.condition and each.condition["reason"] == "SchedulingGated" for each in found)
    return {each.pod.name: str(each.condition and each.condition["message"]) for each in found}


def test_a_pod_is_ungated_when_its_queue_has_capacity_and_its_promise_ends_with_its_binding() -> None:
    world = World(limit="1")
    world.pod("first")
    world.pod("second")
    assert world.ungated() == ["first"]
    assert world.used() == (0, 1000)
    world.bind("first")
    assert world.used() == (1000, 0)
    assert world.ungated() == []
    world.gone("first")
    assert world.ungated() == ["second"]


def test_a_promise_that_is_never_used_is_kept_until_its_pod_is_deleted() -> None:
    world = World(limit="1")
    world.pod("unschedulable")
    world.pod("next")
    assert world.ungated() == ["unschedulable"]
    assert world.ungated(later_s=100_000) == []
    world.gone("unschedulable")
    assert world.ungated() == ["next"]


def test_a_window_limits_how_many_gates_are_removed_before_pods_have_nodes() -> None:
    world = World(limit="9")
    world.queue_objects["q"]["metadata"]["annotations"] = {MAX_PODS_WITHOUT_NODE: "2"}
    world.controller.object_applied(QUEUES, world.queue_objects["q"])
    for number in range(4):
        world.pod(f"p{number}")
    assert world.ungated() == ["p0", "p1"]
    assert world.ungated(later_s=599) == []
    world.restart()
    assert world.ungated() == []
    world.bind("p0")
    assert world.ungated() == ["p2"]


def test_pods_that_the_other_scheduler_never_binds_hold_the_window_of_the_root_for_its_timeout_only() -> None:
    world = World(limit="9")
    world.queue("other", "9")
    root = {"metadata": {"name": "root", "annotations": {MAX_PODS_WITHOUT_NODE: "2"}}, "spec": {}}
    world.controller.object_applied(QUEUES, root)
    for number in range(2):
        pod = world.pod(f"stuck{number}", nodeSelector={"disk": "none"})
        pod["metadata"]["annotations"][LEASE] = "never"
    assert world.ungated() == ["stuck0", "stuck1"]
    world.pod("urgent", queue="other", priority=1000)
    assert world.ungated(later_s=599) == []
    world.queue_objects["root"] = root
    world.restart()
    assert world.ungated() == []
    assert world.controller.next_deadline_s() == world.now_s + 1
    assert world.ungated(later_s=1) == ["urgent"]


def test_a_pod_passes_the_first_in_line_if_it_ends_before_that_can_start() -> None:
    world = World(limit="4")
    world.queue_objects["q"]["metadata"]["annotations"] = {DEQUEUE_STRATEGY: "backfill"}
    world.controller.object_applied(QUEUES, world.queue_objects["q"])
    running = world.pod("running", "3", node="node", gates=(), activeDeadlineSeconds=100)
    running["status"] = {"phase": "Running", "startTime": format_time(world.now_s)}
    world.show("running", running)
    world.pod("large", "4")
    for name, deadline_s in (("long", 90), ("short", 60), ("other", 60)):
        world.pod(name, activeDeadlineSeconds=deadline_s)  # and a grace period of 30 seconds
    world.restart()
    assert world.ungated(later_s=5) == ["short"]
    world.gone("short")
    world.restart()
    assert world.ungated(later_s=10) == []
    world.gone("running")
    assert world.ungated() == ["large"]


def test_a_pod_on_a_node_counts_whichever_program_bound_it() -> None:
    world = World(limit="2")
    world.pod("by-hand", node="node", gates=(), opts_in=False)
    world.pod("waiting", cpu="2")
    assert world.used() == (1000, 0)
    assert world.ungated() == []
    world.gone("by-hand")
    assert world.ungated() == ["waiting"]


def test_a_pod_that_did_not_opt_in_reserves_nothing_before_it_has_a_node() -> None:
    world = World(limit="1")
    world.pod("plain", gates=(), opts_in=False)
    world.pod("gated")
    assert world.used() == (0, 0)
    assert world.ungated() == ["gated"]
    world.bind("plain")
    assert world.used() == (1000, 1000)


def test_a_pod_of_another_scheduler_is_neither_counted_nor_ungated() -> None:
    world = World(limit="1")
    world.pod("theirs", schedulerName="other")
    world.pod("running", schedulerName="other", node="node", gates=())
    assert world.ungated() == []
    assert world.used() == (0, 0)


def test_a_gate_stays_while_terminating_pods_use_the_capacity_and_goes_with_them() -> None:
    world = World(limit="1")
    world.pod("old", node="node", gates=())
    world.pod("new")
    world.delete("old")
    assert world.ungated() == []
    assert world.used() == (0, 1000)  # its capacity is promised already
    found = messages(world.step(later_s=1.1))
    assert found["new"].startswith("queue q has capacity for 1 cpu when terminating pods have left their nodes")
    world.gone("old")
    assert world.ungated() == ["new"]


def test_a_pod_that_fits_beside_terminating_pods_is_ungated_at_once() -> None:
    world = World(limit="2")
    world.pod("old", node="node", gates=())
    world.delete("old")
    world.pod("new")
    assert world.ungated() == ["new"]


def test_a_terminating_pod_that_is_overdue_keeps_no_gate() -> None:
    world = World(limit="1")
    world.pod("old", node="node", gates=())
    world.pod("new")
    world.delete("old", grace_s=30)
    assert world.ungated(later_s=32.9) == []
    world.show("old", world.pods["old"])  # a later event of it begins nothing new
    assert world.ungated(later_s=0.2) == ["new"]


def test_a_grace_period_of_years_keeps_a_gate_for_ten_minutes() -> None:
    world = World(limit="1")
    world.pod("old", node="node", gates=())
    world.pod("new")
    world.delete("old", grace_s=1e8)
    assert world.ungated(later_s=602.0) == []
    world.show("old", world.pods["old"])
    assert world.ungated(later_s=1.5) == ["new"]


def test_nothing_waits_for_a_terminating_pod_of_a_daemon_set() -> None:
    world = World(limit="1")
    old = world.pod("old", node="node", gates=())
    old["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    world.pod("new")
    world.delete("old")
    assert world.ungated() == ["new"]


def test_with_the_feature_gate_off_no_gate_waits_for_terminating_pods() -> None:
    world = World(limit="1", delays_starts=False)
    world.pod("old", node="node", gates=())
    world.pod("new")
    world.delete("old")
    assert world.ungated() == ["new"]


def test_a_gang_is_ungated_whole_when_all_terminating_pods_have_left() -> None:
    world = World(limit="2")
    for name in ("old-0", "old-1"):
        world.pod(name, node="node", gates=())
    world.group("g", 2)
    for name in ("new-0", "new-1"):
        world.pod(name, group="g")
    for name in ("old-0", "old-1"):
        world.delete(name)
    assert world.ungated() == []
    assert world.used() == (0, 2000)
    world.pod("small", cpu="1")  # it comes later, and takes nothing of what the gang waits for
    world.gone("old-0")
    assert world.ungated() == []
    world.gone("old-1")
    assert sorted(world.ungated()) == ["new-0", "new-1"]


def test_no_gate_of_a_gang_is_removed_before_its_minimum_exists() -> None:
    world = World(limit="2")
    world.group("g", 2)
    world.pod("new-0", group="g")
    assert world.ungated() == []
    world.pod("new-1", group="g")
    assert sorted(world.ungated()) == ["new-0", "new-1"]


def test_a_gang_that_was_half_ungated_before_a_restart_gets_its_rest_first() -> None:
    world = World(limit="2")
    world.group("g", 2)
    for name in ("new-0", "new-1"):
        world.pod(name, group="g")
    removals = [each for each in world.step() if isinstance(each, RemoveSchedulingGate)]
    world.answer(removals[0])
    world.pod("other", priority=100)
    world.restart()
    assert world.ungated() == [removals[1].pod.name]


def test_a_promise_is_kept_when_the_limit_is_lowered_after_the_gate_was_removed() -> None:
    world = World(limit="2")
    world.pod("first")
    world.pod("second")
    assert sorted(world.ungated()) == ["first", "second"]
    world.queue("q", "1")
    assert world.step() == []
    assert world.used() == (0, 2000)
    world.pod("third")
    world.gone("first")
    assert world.ungated() == []
    world.gone("second")
    assert world.ungated() == ["third"]


def test_a_promise_is_revoked_when_the_limit_is_lowered_while_the_gate_stays() -> None:
    world = World(limit="1")
    world.pod("old", node="node", gates=())
    world.pod("new")
    world.delete("old")
    assert world.ungated() == []
    world.queue("q", "0")
    world.gone("old")
    assert world.ungated() == []
    assert world.used() == (0, 0)
    world.queue("q", "1")
    assert world.ungated() == ["new"]


def test_a_pod_that_was_ungated_by_another_client_gets_a_stamp_when_its_queue_has_capacity() -> None:
    world = World(limit="1")
    world.pod("torn", gates=())
    removals = world.step()
    assert [type(each) for each in removals] == [RemoveSchedulingGate]
    assert world.used() == (0, 1000)


def test_a_foreign_gate_is_waited_for_and_kept() -> None:
    world = World(limit="1")
    pod = world.pod("held", gates=("example.com/hold", GATE))
    assert world.ungated() == []
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    world.show("held", pod)
    assert world.ungated() == ["held"]


def test_a_pod_with_the_gate_that_did_not_opt_in_keeps_it() -> None:
    world = World(limit="1")
    world.pod("no", opts_in=False)
    assert world.ungated() == []
    assert messages(world.step(later_s=11.0))["no"].endswith('the annotation of that name is not "true"')


def test_a_pod_that_opts_out_while_its_gate_waits_for_terminating_pods_loses_its_promise() -> None:
    world = World(limit="1")
    world.pod("old", node="node", gates=())
    pod = world.pod("new")
    world.delete("old")
    assert world.ungated() == []
    del pod["metadata"]["annotations"][OPT_IN]
    world.show("new", pod)
    world.pod("next")
    world.gone("old")
    assert world.ungated() == ["next"]


def test_the_queue_of_a_waiting_pod_may_change() -> None:
    world = World(limit="0")
    pod = world.pod("moves")
    world.queue("r", "1")
    assert world.ungated() == []
    pod["metadata"]["annotations"][QUEUE_NAME] = "r"
    world.show("moves", pod)
    assert world.ungated() == ["moves"]
    assert world.used("r") == (0, 1000)


def test_a_resized_pod_asks_for_the_difference_and_keeps_its_promise() -> None:
    world = World(limit="3")
    pod = world.pod("grows", cpu="1")
    assert world.ungated() == ["grows"]
    world.pod("other", cpu="2", node="node", gates=())
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    world.show("grows", pod)
    assert world.ungated() == []
    assert world.used() == (2000, 1000)
    world.gone("other")
    assert world.ungated() == ["grows"]  # a new stamp
    assert world.used() == (0, 2000)


def test_a_pod_created_again_under_the_same_name_keeps_its_gate() -> None:
    world = World(limit="1")
    world.pod("again")
    (removal,) = [each for each in world.step() if isinstance(each, RemoveSchedulingGate)]
    world.gone("again")
    pod = world.pod("again")
    pod["metadata"]["uid"] = "another"
    world.controller.pod_removed("uid-again", world.now_s)
    world.show("again", pod)
    world.queue("q", "0")
    world.controller.gate_removed(removal.pod.uid, WriteResult.GONE, "", world.now_s)
    assert world.ungated() == []
    assert world.used() == (0, 0)


def test_a_refused_removal_ends_the_promise_and_is_tried_again_later() -> None:
    world = World(limit="1")
    world.pod("refused")
    (removal,) = [each for each in world.step() if isinstance(each, RemoveSchedulingGate)]
    effects = world.controller.gate_removed(removal.pod.uid, WriteResult.REFUSED, "a webhook says no", world.now_s)
    assert messages(effects) == {"refused": "its gate could not be removed: a webhook says no"}
    assert world.used() == (0, 0)
    assert world.ungated(later_s=6.0) == ["refused"]


def test_a_condition_that_another_write_overtook_is_decided_again() -> None:
    world = World(limit="0")
    pod = world.pod("p")
    (told,) = messages(world.step(later_s=11.0)).values()
    world.show("p", {**pod, "metadata": {**pod["metadata"], "labels": {"new": "label"}}})
    assert messages(world.step(later_s=11.0)) == {}, "it counts as written"
    world.controller.condition_conflicted(pod["metadata"]["uid"], world.now_s)
    assert messages(world.step(later_s=11.0)) == {"p": told}


def test_a_stamp_makes_a_restarted_controller_count_the_promise() -> None:
    world = World(limit="1")
    pod = world.pod("promised", gates=())
    stamp = Stamp(pod["metadata"]["uid"], "q", {"cpu": 1000}, "2026-01-01T00:00:00.000000Z")
    pod["metadata"]["annotations"][STAMP] = write_stamp(stamp)
    world.restart()
    assert world.used() == (0, 1000)
    assert world.step() == []


def test_switched_off_all_gates_go_at_a_limited_rate_and_no_stamp_is_written() -> None:
    world = World(limit="0", enabled=False)
    for number in range(150):
        world.pod(f"p-{number}")
    world.pod("held", gates=("example.com/hold", GATE))
    first = world.ungated()
    assert 0 < len(first) < 150
    second = world.ungated(later_s=10.0)
    assert len(first) + len(second) == 150
    assert not any(STAMP in each["metadata"]["annotations"] for each in world.pods.values())


def test_a_gate_that_waits_for_its_queue_says_so_after_ten_seconds() -> None:
    world = World(limit="1")
    world.pod("first", node="node", gates=())
    world.pod("second")
    assert messages(world.step()) == {}
    assert messages(world.step(later_s=10.1)) == {
        "second": "queue q has no capacity for 1 cpu: 1 of 1 are in use or promised to others"
    }


def test_metrics_show_the_queue() -> None:
    world = World(limit="1")
    world.pod("first")
    world.pod("second")
    world.ungated()
    page = world.controller.metrics_exposition().decode()
    assert 'headgate_queue_gated_pods{queue="q"} 1' in page
    assert 'headgate_queue_reserved{queue="q",resource="cpu"} 1000' in page
    assert 'headgate_gate_removals_total{result="done"} 1' in page


@pytest.mark.parametrize("how", ["watch first", "watch only", "on a node", "deleted", "gone"])
def test_every_gate_removal_is_counted_and_timed(how: str) -> None:
    world = World(limit="1")
    pod = world.pod("p")
    (removal,) = (each for each in world.step() if isinstance(each, RemoveSchedulingGate))
    uid, ungated = removal.pod.uid, {**pod, "spec": {**pod["spec"], "schedulingGates": []}}
    ungated["metadata"] = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], STAMP: removal.stamp}}
    world.now_s += 0.5
    match how:
        case "watch first":
            world.show("p", ungated)
            world.controller.gate_removed(uid, WriteResult.DONE, "", world.now_s)
            results = {"done": 1}
        case "watch only" | "on a node":
            world.controller.gate_removed(uid, WriteResult.UNKNOWN, "", world.now_s)
            ungated["spec"]["nodeName"] = "node" if how == "on a node" else ""
            world.show("p", ungated)
            results = {"done": 1, "unknown": 1}
        case "deleted":
            world.controller.gate_removed(uid, WriteResult.LATER, "", world.now_s)
            world.gone("p")
            results = {"gone": 1, "later": 1}
        case _:
            world.controller.gate_removed(uid, WriteResult.GONE, "", world.now_s)
            results = {"gone": 1}
    assert gate_removals(world.controller.metrics_exposition().decode()) == (results, 1, 0.5)
    assert world.ungated(60.0) == []
