"""Explanations of waiting pods and of other pods."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, stamped
from headgate.capacity.api.lease import Lapse
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.explanation import PodExplanation, PodGate, explain
from headgate.capacity.names import DEQUEUE_STRATEGY, GATE, GROUP_NAMES, LEASE, MAX_PODS_WITHOUT_NODE, OPT_IN

Wire = dict[str, Any]
FOREIGN = "example.com/approval"
SERVED = ("headgate", "volcano")
TREE = (a_queue("eng", cpu=4), a_queue("a", parent="eng"), a_queue("b", cpu=3, parent="eng"))


def a_pod(name: str, *gates: str, condition: Wire | None = None, **spec: Any) -> Wire:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "annotations": {OPT_IN: "true"}}
    conditions = [{"type": "PodScheduled", "status": "False", **condition}] if condition else []
    listed = [{"name": each} for each in gates]
    return {
        "metadata": metadata,
        "spec": {"schedulerName": "headgate", "schedulingGates": listed, **spec},
        "status": {"conditions": conditions},
    }


def explained(queues: Queues | None, pod: Wire, cpu: int = 1) -> PodExplanation:
    gates = [PodGate(each["name"], "boss") for each in pod["spec"]["schedulingGates"]]
    return explain(pod, queues.engine if queues else None, {"cpu": cpu * 1000}, gates, SERVED)


def test_a_full_ancestor_is_named_with_requested_used_and_allowed_amounts() -> None:
    queues = Queues(*TREE, a_task("run", 3, queue="a", node_name="n"), a_task("wait", 2, queue="b"))
    explanation = explained(queues, a_pod("wait", GATE), 2)
    (hold,) = explanation.holds
    assert (explanation.state, explanation.queue, explanation.summary) == ("waiting", "b", "it waits for its queue")
    assert (hold.kind, hold.why, hold.name, hold.blocker) == ("queue", "QueueFull", "b", "eng")
    assert (hold.resource, hold.asked, hold.used, hold.limit, hold.position) == ("cpu", "2", "3", "4", 0)
    assert explanation.next == (
        "at least 1 cpu in queue eng has to become free (the end of pod ns/run is enough), "
        "or the capability of queue eng has to grow from 4 to 5 cpu",
    )


def test_promised_amounts_count_as_used() -> None:
    promised = stamped(a_task("promised", 3, queue="a"), "a")
    explanation = explained(Queues(*TREE, promised, a_task("wait", 2, queue="b")), a_pod("wait", GATE), 2)
    assert explanation.holds[0].used == "3"
    assert explained(Queues(*TREE, promised), a_pod("promised")).holds[0].kind == "scheduler"


def test_the_position_counts_those_before_it_in_its_queue() -> None:
    waiting = [a_task(f"w{i}", 5, queue="b", created_s=i) for i in range(3)]
    explanation = explained(Queues(*TREE, *waiting), a_pod("w2", GATE), 5)
    assert explanation.holds[0].position == 2
    assert explanation.next[0].endswith("; 2 before it in queue b come first")


def test_a_foreign_gate_is_the_first_hold_and_the_queue_the_second() -> None:
    gates = (FOREIGN, GATE)
    queues = Queues(*TREE, a_task("run", 3, queue="a", node_name="n"), a_task("held", 2, queue="b", gates=gates))
    explanation = explained(queues, a_pod("held", *gates), 2)
    gate, queue = explanation.holds
    assert explanation.summary == "it waits for a gate of another controller, then for its queue"
    assert (gate.kind, gate.name, gate.by) == ("gate", FOREIGN, "boss")
    assert (queue.kind, queue.blocker, queue.used, queue.limit) == ("queue", "eng", "3", "4")
    assert explanation.next[0] == f"boss has to remove {FOREIGN}"
    assert explanation.next[1].startswith("then at least 1 cpu in queue eng has to become free")
    queues.engine.task_removed("u-run")
    with_capacity = explained(queues, a_pod("held", *gates), 2)
    assert with_capacity.holds[1].text == "queue b has capacity for it now, but promises nothing yet"
    assert len(with_capacity.next) == 1


def test_an_admitted_pod_is_explained_by_its_condition() -> None:
    queues = Queues(*TREE, stamped(a_task("p", queue="a"), "a"))
    condition = {"reason": "Unschedulable", "message": "0/3 nodes are available", "lastTransitionTime": "then"}
    (hold,) = explained(queues, a_pod("p", condition=condition)).holds
    assert (hold.kind, hold.text) == ("node", "0/3 nodes are available")
    assert hold.since == "", "the transition time of the condition is when the pod was created, or anything else"
    nominated = a_pod("p", condition=condition)
    nominated["status"]["nominatedNodeName"] = "n7"
    explanation = explained(queues, nominated)
    assert (explanation.holds[0].name, explanation.next) == ("n7", ("pods have to leave node n7",))
    failed = explained(queues, a_pod("p", condition={"reason": "SchedulerError", "message": "no luck"})).holds[0]
    assert (failed.kind, failed.text) == ("scheduler", "no luck")
    assert "has said nothing" in explained(queues, a_pod("p")).holds[0].text


def test_a_pod_that_did_not_opt_in_and_fits_nowhere_waits_for_a_node_not_for_its_turn() -> None:
    queues = Queues(*TREE, a_task("p", queue="a", opted_in=False))
    condition = {"reason": "Unschedulable", "message": "0/3 nodes are available"}
    assert explained(queues, a_pod("p", condition=condition)).holds[0].kind == "node"
    assert explained(queues, a_pod("p")).holds[0].why == "WaitingForTurn"


REASONS = {
    "QueueNotFound": (
        a_task("p", queue="gone"),
        "queue gone has to be created, or the annotation scheduling.volcano.sh/queue-name has to name another queue",
    ),
    "QueueClosed": (a_task("p", queue="shut"), "queue shut has to be opened"),
    "QueueNotLeaf": (a_task("p", queue="eng"), "queue-name has to name a queue below eng"),
    "QueueInvalid": (a_task("p", queue="lost"), "that error has to be fixed"),
    "PodGroupNotFound": (a_task("p", group="absent"), "its PodGroup has to be created"),
    "NotEnoughTasks": (a_task("p", group="pair"), "more pods of its group"),
    "GateWithoutAnnotation": (a_task("p", queue="a", opted_in=False, gates=(GATE,)), "headgate gates lift"),
    "WaitingForTurn": (a_task("p", queue="a"), "check that a scheduler runs for headgate"),
}


@pytest.mark.parametrize(("task", "words"), REASONS.values(), ids=REASONS)
def test_every_reason_has_a_next_step(task: Any, words: str, request: pytest.FixtureRequest) -> None:
    others = (a_queue("shut", state="Closed"), a_queue("lost", parent="nobody"), a_group("pair", "a", minimum=2))
    explanation = explained(Queues(*TREE, *others, task), a_pod("p", *task.gates))
    assert explanation.holds[0].why in request.node.name
    assert words in explanation.next[0]


def test_a_hold_on_a_pod_of_a_group_names_the_group() -> None:
    pod = a_pod("p")
    pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), GROUP_NAMES[0]: "pair"}
    queues = Queues(*TREE, a_group("pair", "a", minimum=2), a_task("p", group="pair"))
    assert [(each.kind, each.name) for each in explained(queues, pod).holds] == [("group", "pair")]


def test_a_refused_gate_removal_and_a_lost_turn_are_explained() -> None:
    queues = Queues(*TREE, a_task("p", queue="a"))
    queues.admit()
    queues.engine.refused("u-p", 2e9, "a webhook says no")
    explanation = explained(queues, a_pod("p", GATE))
    assert (explanation.holds[0].why, "a webhook says no" in explanation.holds[0].text) == ("GateRemovalRefused", True)
    queues = Queues(a_queue("q", cpu=4), stamped(a_task("p", 4, queue="q"), "q"))
    queues.apply(a_queue("q", cpu=1))
    explanation = explained(queues, a_pod("p"))
    assert explanation.holds[0].why == "LostTurn"
    assert "freed capacity does not help: the capability of queue q has to grow from 1 to 4 cpu" in explanation.next[0]


NOT_WAITING = {
    "ended": ({"status": {"phase": "Succeeded"}}, "it has ended (Succeeded)"),
    "leaving": ({"metadata": {"deletionTimestamp": "now"}}, "it is being deleted"),
    "placed": ({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, "it is on node n1 (Running)"),
}


@pytest.mark.parametrize(("parts", "words"), NOT_WAITING.values(), ids=NOT_WAITING)
def test_a_pod_that_does_not_wait_has_a_plain_summary(parts: Wire, words: str, request: pytest.FixtureRequest) -> None:
    pod = a_pod("p")
    for part, fields in parts.items():
        pod[part].update(fields)
    explanation = explained(None, pod)
    assert explanation.state in request.node.name
    assert explanation.summary.startswith(words)
    assert (explanation.holds, explanation.next) == ((), ())


def test_a_pod_of_another_scheduler_is_foreign_and_its_gates_are_shown() -> None:
    explanation = explained(None, a_pod("p", FOREIGN, GATE, schedulerName="other"))
    assert explanation.state == "foreign"
    assert explanation.summary == "it waits for a gate of another controller; its scheduler other does not use queues"
    assert [hold.name for hold in explanation.holds] == [FOREIGN, GATE]


def test_without_queues_only_the_condition_explains_the_pod() -> None:
    condition = {"reason": "SchedulingGated", "message": "queue a has no capacity"}
    explanation = explained(None, a_pod("p", GATE, condition=condition))
    assert (explanation.holds[0].text, explanation.holds[0].why) == ("queue a has no capacity", "SchedulingGated")


def test_the_group_of_a_pod_is_named() -> None:
    pod = a_pod("p", GATE)
    pod["metadata"]["annotations"][GROUP_NAMES[0]] = "train"
    assert explained(None, pod).group == "train"


@pytest.mark.parametrize("opted_in", [True, False])
def test_a_pod_that_waits_for_terminating_pods_waits_for_its_node_and_not_for_its_turn(opted_in: bool) -> None:
    task = a_task("next", 1, queue="a", gates=(), opted_in=opted_in)
    pod = a_pod("next", condition={"reason": "WaitingForTerminatingPods", "message": "0/1 nodes are available"})
    pod["status"]["nominatedNodeName"] = "n"
    explanation = explained(Queues(*TREE, stamped(task, "a") if opted_in else task), pod)
    (hold,) = explanation.holds
    assert (hold.kind, hold.name, hold.why) == ("node", "n", "WaitingForTerminatingPods")
    assert explanation.next == ("pods have to leave node n",)


def test_a_promised_pod_of_an_incomplete_gang_is_explained_by_its_group_despite_its_unschedulable_condition() -> None:
    promised = stamped(a_task("g1", 1, group="g", queue="b"), "b")
    condition = a_pod("g1", condition={"reason": "Unschedulable", "message": "0/4 nodes are available"})
    explanation = explained(Queues(*TREE, a_group("g", "b", 2), promised), condition)
    (hold,) = explanation.holds
    assert (hold.kind, hold.why, hold.text) == ("group", "NotEnoughTasks", "its PodGroup g has 1 pods and needs 2")
    explanation = explained(Queues(*TREE, promised), condition)
    assert [(each.kind, each.why) for each in explanation.holds] == [("group", "PodGroupNotFound")]


# -- units, and what would help ------------------------------------------------------------------------------------


def test_pods_that_are_granted_together_are_one_unit_with_one_remedy() -> None:
    members = [a_task(f"g{i}", 2, group="g", created_s=i) for i in range(3)]
    others = [a_task(f"w{i}", 4, queue="b", created_s=0) for i in range(2)]
    queues = Queues(a_queue("b", cpu=6), a_group("g", "b", 3), a_task("run", 3, queue="b", node_name="n"), *members)
    for name in ("g0", "g1", "g2"):
        (hold,) = explained(queues, a_pod(name, GATE), 2).holds
        assert (hold.position, hold.together, hold.asked, hold.used, hold.limit) == (0, 3, "6", "3", "6")
        assert explained(queues, a_pod(name, GATE), 2).next == (
            "at least 3 cpu in queue b has to become free (the end of pod ns/run is enough), "
            "or the capability of queue b has to grow from 6 to 9 cpu",
        )
    queues.apply(*others)
    assert explained(queues, a_pod("w1", GATE), 4).holds[0].position == 2, "the group and the other pod"


def test_pods_beyond_the_minimum_are_single_units_and_the_remedy_covers_those_before() -> None:
    members = [a_task(f"g{i}", 2, group="g", created_s=i) for i in range(3)]
    queues = Queues(a_queue("b", cpu=3), a_group("g", "b", 1), a_task("run", 3, queue="b", node_name="n"), *members)
    assert [explained(queues, a_pod(f"g{i}", GATE), 2).holds[0].position for i in range(3)] == [0, 1, 2]
    last = explained(queues, a_pod("g2", GATE), 2).next[0]
    assert "the capability of queue b has to grow from 3 to 9 cpu; 2 before it in queue b come first" in last


def test_a_pod_behind_a_fitting_pod_of_its_group_gets_its_own_remedy() -> None:
    running, first = a_task("g0", 1, group="g", queue="b", node_name="n"), a_task("g1", 1, group="g", created_s=1)
    queues = Queues(a_queue("b", cpu=3), a_group("g", "b", 1), running, first, a_task("g2", 3, group="g", created_s=2))
    explanation = explained(queues, a_pod("g2", GATE), 3)
    assert explanation.holds[0].why == "QueueFull"
    assert "the capability of queue b has to grow from 3 to 5 cpu; 1 before it" in explanation.next[0]


def test_a_remedy_counts_larger_pods_that_come_first_when_all_of_it_is_there_at_once() -> None:
    """Of capacity that is added pod by pod, only small pods get some."""
    waiting = [a_task(f"wait{i}", cpu, queue="b", created_s=i) for i, cpu in enumerate((2, 1, 1))]
    running = [a_task(f"run{i}", 1, queue="b", node_name="n") for i in range(3)]
    (step,) = explained(Queues(a_queue("b", cpu=3), *running, *waiting), a_pod("wait2", GATE)).next
    assert "the capability of queue b has to grow from 3 to 7 cpu" in step
    assert "is enough" not in step, "of the pods that would have to end, the larger pod takes two"


def test_for_a_pod_larger_than_its_queue_freed_capacity_does_not_help() -> None:
    queues = Queues(*TREE, a_task("run", 1, queue="a", node_name="n"), a_task("huge", 9, queue="b"))
    explanation = explained(queues, a_pod("huge", GATE), 9)
    assert explanation.next == (
        "it asks for 9 cpu where queue b may use 3 at most and for 9 cpu where queue eng may use 4 at most, "
        "so freed capacity does not help: the capability of queue b has to grow from 3 to 9 cpu and "
        "the capability of queue eng has to grow from 4 to 10 cpu (9 cpu in queue b and 9 cpu in queue eng will do "
        "once no other pod uses capacity or waits for it), or it has to ask for less",
    )
    behind_gate = Queues(*TREE, a_task("huge", 9, queue="b", gates=(FOREIGN, GATE)))
    assert "freed capacity does not help" in explained(behind_gate, a_pod("huge", FOREIGN, GATE), 9).next[1]


def test_for_a_group_larger_than_its_queue_freed_capacity_does_not_help() -> None:
    members = [a_task(f"g{i}", 2, group="g") for i in range(3)]
    pod = a_pod("g0", GATE)
    pod["metadata"]["annotations"][GROUP_NAMES[0]] = "g"
    explanation = explained(Queues(a_queue("b", cpu=4), a_group("g", "b", 3), *members), pod, 2)
    assert explanation.next == (
        "its group g asks for 6 cpu where queue b may use 4 at most, so freed capacity does not help: "
        "the capability of queue b has to grow from 4 to 6 cpu, or its pods have to ask for less",
    )


def test_all_shortages_are_listed() -> None:
    tree = (a_queue("eng", capability={"cpu": 4, "memory": 4}), a_queue("b", cpu=3, parent="eng"))
    running = a_task("run", 3, queue="b", node_name="n", requests={"memory": 3})
    queues = Queues(*tree, running, a_task("wait", 2, queue="b", requests={"memory": 2}))
    pod = a_pod("wait", GATE)
    (step,) = explain(pod, queues.engine, {"cpu": 2000, "memory": 2}, [], SERVED).next
    assert step.startswith("at least 2 cpu in queue b and 1 memory in queue b and 1 cpu in queue eng and 1 memory in")
    assert "the capability of queue b has to grow from 3 to 5 cpu" in step
    assert "the capability of queue eng has to grow from 4 to 5 memory" in step


def test_a_limit_of_an_ancestor_is_raised_at_the_ancestor() -> None:
    tree = (a_queue("eng", cpu=4), a_queue("a", parent="eng", guarantee={"cpu": 2}), a_queue("b", parent="eng"))
    queues = Queues(*tree, a_task("run", 2, queue="b", node_name="n"), a_task("wait", 1, queue="b"))
    assert "the capability of queue eng has to grow from 4 to 5 cpu" in explained(queues, a_pod("wait", GATE)).next[0]


def a_held_pod(reason: str = "PreEnqueueRejected", **spec: Any) -> Wire:
    condition = {"reason": reason, "message": 'PreEnqueue plugin "HoldUntil": held until: noon'}
    return a_pod("p", condition=condition, **spec)


def test_a_pod_held_by_a_plugin_names_the_plugin_and_its_reason() -> None:
    queues = Queues(*TREE, stamped(a_task("p", queue="a"), "a"))
    for explanation in (explained(queues, a_held_pod()), explained(None, a_held_pod())):
        (hold,) = explanation.holds
        assert explanation.summary == "it waits for a plugin of its scheduler"
        assert (hold.kind, hold.name, hold.why, hold.text) == (
            "plugin",
            "HoldUntil",
            "PreEnqueueRejected",
            "held until: noon",
        )
        assert explanation.next == ("what plugin HoldUntil waits for has to happen",)


def test_a_failing_pre_enqueue_plugin_is_named() -> None:
    explanation = explained(None, a_held_pod("SchedulerError"))
    assert explanation.next == ("plugin HoldUntil fails on the pod: the plugin has to be fixed, or the pod changed",)


def test_a_pod_of_a_profile_without_queues_held_by_a_plugin_names_the_plugin() -> None:
    explanation = explained(None, a_held_pod(schedulerName="default-scheduler"))
    assert explanation.summary == "it waits for a plugin of its scheduler default-scheduler; it does not use queues"
    assert explanation.holds[0].name == "HoldUntil"


def test_a_pod_held_by_a_plugin_and_a_full_queue_has_both_holds() -> None:
    queues = Queues(*TREE, a_task("run", 3, queue="a", node_name="n"), a_task("p", 2, queue="b"))
    explanation = explained(queues, a_held_pod(), 2)
    assert [hold.kind for hold in explanation.holds] == ["plugin", "queue"]
    assert explanation.summary == "it waits for a plugin of its scheduler, then for its queue"


def test_a_pod_held_by_a_plugin_does_not_also_wait_for_its_turn() -> None:
    explanation = explained(Queues(*TREE, a_task("p", queue="a")), a_held_pod())
    assert [hold.kind for hold in explanation.holds] == ["plugin"]


def test_a_scheduler_error_without_a_plugin_is_retried() -> None:
    explanation = explained(None, a_pod("p", condition={"reason": "SchedulerError", "message": "binding rejected: no"}))
    assert explanation.next == ("it is retried automatically",)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Unschedulable", 'Reserve plugin "Zoo": plain no'),
        ("WaitingOnPermit", 'Permit plugin "Zoo": plain no'),
        ("WaitingOnPreBind", 'PreBind plugin "Zoo": plain no'),
    ],
)
def test_a_plugin_that_holds_a_pod_after_scheduling_is_named(reason: str, message: str) -> None:
    explanation = explained(None, a_pod("p", condition={"reason": reason, "message": message}))
    (hold,) = explanation.holds
    assert (hold.kind, hold.name, hold.text, hold.why) == ("plugin", "Zoo", "plain no", reason)
    assert explanation.next == ("what plugin Zoo waits for has to happen",)


@pytest.mark.parametrize("reason", ["SchedulingGated", "WaitingForQueue"])
def test_a_queue_plugin_that_fails_waits_for_nothing(reason: str) -> None:
    message = 'running QueueAdmission plugin "Zoo": RuntimeError: boom'
    explanation = explained(None, a_pod("p", condition={"reason": reason, "message": message}))
    (hold,) = explanation.holds
    assert (hold.kind, hold.name, hold.text) == ("plugin", "Zoo", message)
    assert explanation.next == (
        "it is retried automatically; if plugin Zoo keeps failing, fix the plugin or change the pod",
    )


@pytest.mark.parametrize("message", ['running PreFilter plugin "Zoo": no', 'running plugin "Zoo" (permit): no'])
def test_a_plugin_that_fails_at_a_later_point_is_named(message: str) -> None:
    explanation = explained(None, a_pod("p", condition={"reason": "SchedulerError", "message": message}))
    assert (explanation.holds[0].kind, explanation.holds[0].name, explanation.holds[0].text) == (
        "plugin",
        "Zoo",
        message,
    )
    assert explanation.next[0].startswith("it is retried automatically; if plugin Zoo keeps failing")


def test_a_shortage_of_nodes_is_a_node_hold() -> None:
    explanation = explained(
        None, a_pod("p", condition={"reason": "Unschedulable", "message": "0/1 nodes are available: no."})
    )
    assert explanation.holds[0].kind == "node"


def test_a_scheduler_without_queues_gets_a_neutral_explanation() -> None:
    explanation = explained(None, a_pod("p", schedulerName="zoo"))
    assert explanation.summary == "its scheduler is zoo, which does not use queues; queues are for headgate, volcano"
    assert explanation.next == (
        "scheduler zoo has to try it; if it does not, check that a scheduler of that name runs",
    )


def test_a_wait_for_terminating_pods_is_explained_with_their_usage_and_the_pods_that_come_first() -> None:
    old = a_task("old", 3, queue="b", node_name="n", gates=(), is_terminal_or_terminating=True)
    waiting = [a_task(f"w{i}", 2, queue="b", created_s=i) for i in range(2)]
    queues = Queues(*TREE, old, *waiting)
    queues.engine.set_leaving(old.uid, leaving=True)
    explanation = explained(queues, a_pod("w1", GATE), 2)
    (hold,) = explanation.holds
    assert (hold.why, hold.blocker, hold.asked, hold.used, hold.limit) == (
        "WaitingForTerminatingPods",
        "b",
        "2",
        "3",
        "3",
    )
    assert explanation.next == (
        "1 before it in queue b come first; then terminating pods in queue b have to leave their nodes",
    )


def test_a_unit_that_may_not_pass_the_first_in_line_is_explained_with_its_name() -> None:
    queue = a_queue("q", 4, annotations={DEQUEUE_STRATEGY: "backfill"})
    queues = Queues(queue, stamped(a_task("old", 3, queue="q"), "q"), a_task("first", 2, queue="q", priority=1))
    queues.apply(a_task("wait", 1, queue="q"))
    explanation = explained(queues, a_pod("wait", GATE))
    hold = explanation.holds[0]
    assert (hold.why, hold.blocker, hold.position) == ("FirstInLineProtected", "q", 1)
    assert hold.text == (
        "queue q has capacity for it; it would delay pod ns/first, the first in line, which is protected, may start at "
        "any time, and leaves 0 cpu in queue q"
    )
    assert explanation.next == (
        "1 before it in queue q come first; then the first in line of queue q has to start, or another dequeue "
        "strategy has to be set for the queue (annotation headgate.dev/dequeue-strategy)",
    )


def test_a_full_window_is_explained_with_its_annotation() -> None:
    queue = a_queue("q", annotations={MAX_PODS_WITHOUT_NODE: "1"})
    queues = Queues(queue, stamped(a_task("first", queue="q"), "q"), a_task("wait", queue="q"))
    explanation = explained(queues, a_pod("wait", GATE))
    assert explanation.holds[0].why == "TooManyPodsWithoutNode"
    assert explanation.next == (
        "pods of queue q that wait for a node have to get one or to wait longer than its annotation "
        "headgate.dev/without-node-timeout says (default 10m), or its annotation headgate.dev/max-pods-without-node "
        "has to grow",
    )


def test_a_lapsed_promise_is_explained_with_the_time_at_which_the_pod_asks_again() -> None:
    queues = Queues(a_queue("q"), conf=msgspec.structs.replace(DEFAULTS, has_leases=True))
    queues.apply(msgspec.structs.replace(a_task("wait", queue="q"), gates=(), lapse=Lapse(1, 1_768_000_000.0)))
    queues.engine.update_leases(0.0, 1_768_000_010.0)
    explanation = explained(queues, a_pod("wait"))
    assert explanation.holds[0].why == "ReservationLapsed"
    assert explanation.holds[0].text.endswith("it asks its queue again at 2026-01-09T23:07:40Z")
    assert explanation.next[0].endswith("it asks queue q again by itself")


def test_a_promise_is_explained_with_its_time_and_the_end_of_its_lease() -> None:
    queue = a_queue("q", annotations={LEASE: "20m"})
    queues = Queues(queue, stamped(a_task("p", queue="q"), "q", "2026-01-01T00:00:00.000000Z"))
    explanation = explained(queues, a_pod("p"))
    assert explanation.promised_at == "2026-01-01T00:00:00.000000Z"
    assert explanation.lease == (
        "its lease lasts 20m (annotation headgate.dev/reservation-lease of its queue q): with the feature gate "
        "ReservationLease the promise lapses at 2026-01-01T00:20:00Z at the earliest, and later if a node is being "
        "added or the scheduler was restarted"
    )


def test_the_source_of_the_lease_is_named() -> None:
    task = stamped(a_task("p", queue="q", priority_class="quick"), "q")
    queues = Queues(a_queue("q"), task)
    assert explained(queues, a_pod("p")).lease.startswith("its lease lasts 10m (default): ")
    queues.engine.priority_class_applied({"metadata": {"name": "quick", "annotations": {LEASE: "60s"}}})
    assert "lasts 60s (annotation headgate.dev/reservation-lease of its PriorityClass quick): " in (
        explained(queues, a_pod("p")).lease
    )
    queues.apply(msgspec.structs.replace(task, lease_s=math.inf))
    assert explained(queues, a_pod("p")).lease == "it never lapses (annotation headgate.dev/reservation-lease)"
    queues.engine.commit("u-p")
    assert explained(queues, a_pod("p")).lease == (
        "it never lapses, because another scheduler may bind the pod at any time"
    )


def test_a_pod_that_no_longer_counts_in_a_window_says_so() -> None:
    root = a_queue("root", annotations={MAX_PODS_WITHOUT_NODE: "1"})
    queues = Queues(root, a_queue("q"), stamped(a_task("p", queue="q"), "q", "1970-01-01T00:00:00.000000Z"))
    queues.engine.set_time_of_day(1_000_000.0)
    assert explained(queues, a_pod("p")).lease.endswith(
        "; the pod no longer counts in the annotation headgate.dev/max-pods-without-node of queue root"
    )


def test_a_pod_without_a_promise_has_no_lease() -> None:
    explanation = explained(Queues(a_queue("q"), a_task("p", queue="q")), a_pod("p", GATE))
    assert (explanation.promised_at, explanation.lease) == ("", "")


def test_annotations_without_effect_are_explained() -> None:
    pod = a_pod("p", GATE)
    pod["metadata"]["annotations"] |= {LEASE: "soon"}
    assert explained(Queues(a_queue("q"), a_task("p", queue="q")), pod).ignored == (
        "metadata.annotations[headgate.dev/reservation-lease]: 'soon' is neither a duration above 0 and up to "
        "2562047h, such as 10m, nor never; it is ignored",
    )


def test_the_queue_of_a_group_is_changed_in_its_podgroup() -> None:
    pod = a_pod("p", GATE)
    pod["metadata"]["annotations"] |= {GROUP_NAMES[0]: "g"}
    queues = Queues(a_group("g", "gone"), a_task("p", group="g"))
    assert explained(queues, pod).next == (
        "queue gone has to be created, or spec.queue of PodGroup g has to name another queue",
    )


@pytest.mark.parametrize(
    ("manager", "remover"), [("approver", "approver"), ("kubectl-client-side-apply", "its owner"), ("", "its owner")]
)
def test_a_gate_is_removed_by_the_client_that_set_it_unless_that_is_kubectl(manager: str, remover: str) -> None:
    queues = Queues(a_queue("q"), a_task("p", queue="q", gates=(FOREIGN,)))
    found = explain(a_pod("p", FOREIGN), queues.engine, {}, [PodGate(FOREIGN, manager)], ["headgate"])
    assert found.next[0] == f"{remover} has to remove {FOREIGN}"
