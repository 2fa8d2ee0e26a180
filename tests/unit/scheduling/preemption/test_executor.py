"""Preemption in the scheduler: nominations, the hold while victims are deleted, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import HEADER, a_node, a_pod
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.config.plugin_registry import PluginEntry, with_plugins
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework.effects import Bind, Effect, EmitPodEvent, Preempt, SetStatus, WriteResult
from headgate.scheduling.framework.interface import PermitWait
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.scheduler import Scheduler

Object = dict[str, Any]


class Holds:
    """Holds pods whose name begins with ``w``."""

    name = "Holds"

    def permit(self, pod: PodInfo, node_name: str, /) -> PermitWait | None:
        return PermitWait(60.0) if pod.name.startswith("w") else None


class Driven:
    """A scheduler, its clock, and what the API server would hold."""

    def __init__(self, *nodes: Object) -> None:
        registry = with_plugins([PluginEntry("Holds", frozenset({"permit"}))])
        assert not isinstance(registry, str)
        profile = {"plugins": {"permit": {"enabled": [{"name": "Holds"}]}}}
        read = parse_configuration({**HEADER, "profiles": [profile]}, registry)
        assert isinstance(read, KubeSchedulerConfiguration)
        self.scheduler = Scheduler(read, {**IN_TREE_PLUGINS, "Holds": lambda args, cluster: Holds()})
        self.now_s = 100.0
        self.events: list[EmitPodEvent] = []
        for each in nodes:
            self.scheduler.node_applied(each, self.now_s)

    def apply(self, wire: Object, **status: Any) -> Object:
        wire = {**wire, "status": {**wire["status"], **status}}
        self.scheduler.pod_applied(wire, self.now_s)
        return wire

    def runs(self, name: str, node: str, cpu: str = "1", priority: int = 0) -> Object:
        return self.apply(a_pod(name, {"cpu": cpu}, nodeName=node, priority=priority))

    def comes(self, name: str, cpu: str = "1", priority: int = 10, **status: Any) -> Object:
        return self.apply(a_pod(name, {"cpu": cpu}, priority=priority), **status)

    def step(self, later_s: float = 20.0) -> list[Effect]:
        """Past every backoff. Events are put aside."""
        self.now_s += later_s
        return self.without_events(self.scheduler.step(self.now_s, 100))

    def without_events(self, effects: list[Effect]) -> list[Effect]:
        self.events += [each for each in effects if isinstance(each, EmitPodEvent)]
        return [each for each in effects if not isinstance(each, EmitPodEvent)]

    def gone(self, *names: str) -> None:
        for each in names:
            self.scheduler.pod_removed(f"uid-{each}", self.now_s)

    def where(self, name: str) -> PodState | None:
        queued = self.scheduler.queue.get(f"uid-{name}")
        return None if queued is None else queued.state

    def ended(self, preempt: Preempt, *, ok: bool = True) -> list[Effect]:
        uids = [each.uid for each in preempt.victims]
        return self.without_events(self.scheduler.preempted(preempt, uids, self.now_s, ok=ok))


def only(effects: list[Effect], kind: type[Any]) -> Any:
    (found,) = (each for each in effects if isinstance(each, kind))
    return found


def test_the_preemptor_is_nominated_and_its_victims_are_deleted() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.runs("v", "a")
    driven.comes("p")
    effects = driven.step()
    preempt, status = only(effects, Preempt), only(effects, SetStatus)
    assert (preempt.pod.name, preempt.node_name, [each.name for each in preempt.victims]) == ("p", "a", ["v"])
    assert status.nominated_node == "a"
    assert status.condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert driven.scheduler.queue.nominator.node_of("uid-p") == "a"
    assert [each.reason for each in driven.events] == ["FailedScheduling"]
    driven.ended(preempt)
    event = driven.events[-1]
    assert (event.pod.name, event.reason, event.action, event.type) == ("v", "Preempted", "Preempting", "Normal")
    assert event.message == "Preempted by pod uid-p on node a"
    assert event.related is not None
    assert event.related.name == "p"


def test_the_preemptor_is_held_while_deletions_are_requested() -> None:
    driven = Driven(a_node("a", cpu="2"))
    driven.runs("v", "a")
    driven.runs("w", "a")
    driven.comes("p", cpu="2")
    preempt = only(driven.step(), Preempt)
    assert driven.where("p") is PodState.UNSCHEDULABLE
    driven.gone("v")
    assert driven.where("p") is PodState.GATED
    why = driven.scheduler.queue.why("uid-p")
    assert why is not None
    assert [each.reason for each in why.reason] == ["waiting for the preemption for this pod to be finished"]
    assert driven.step() == []
    driven.ended(preempt)
    assert driven.where("p") is PodState.GATED
    driven.gone("w")
    assert only(driven.step(), Bind).node_name == "a"


def test_a_preemptor_whose_victims_are_already_gone_is_activated() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.runs("v", "a")
    driven.comes("p")
    preempt = only(driven.step(), Preempt)
    driven.gone("v")
    assert driven.step() == []
    driven.ended(preempt)
    assert driven.where("p") is PodState.ACTIVE
    assert only(driven.step(0), Bind).node_name == "a"


def test_after_a_failed_deletion_the_preemptor_is_retried_at_once() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.runs("v", "a")
    driven.comes("p")
    preempt = only(driven.step(), Preempt)
    driven.scheduler.preempted(preempt, [], driven.now_s, ok=False)
    assert driven.where("p") is PodState.ACTIVE
    assert only(driven.step(0), Preempt) == preempt


def test_repeated_failed_deletions_back_off() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.runs("v", "a")
    driven.comes("p")
    preempt = only(driven.step(), Preempt)
    waited = []
    for _ in range(7):
        driven.scheduler.preempted(preempt, [], driven.now_s, ok=False)
        deadline_s = driven.scheduler.next_deadline_s()
        waited.append(0.0 if driven.where("p") is PodState.ACTIVE else (deadline_s or 0.0) - driven.now_s)
        preempt = only(driven.step(waited[-1]), Preempt)
    assert waited == [0.0, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    driven.ended(preempt)
    driven.scheduler.queue.activate(["uid-p"], driven.now_s)
    driven.scheduler.preempted(preempt, [], driven.now_s, ok=False)
    assert driven.where("p") is PodState.ACTIVE


def test_a_preemptor_deleted_during_its_back_off_leaves_no_state() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.runs("v", "a")
    driven.comes("p")
    for _ in range(2):
        driven.scheduler.preempted(only(driven.step(), Preempt), [], driven.now_s, ok=False)
    assert len(driven.scheduler.cluster.ongoing_preemptions) == 1
    driven.gone("p")
    assert len(driven.scheduler.cluster.ongoing_preemptions) == 0
    assert driven.step() == []


def test_victims_are_waited_for_even_if_the_api_does_not_show_their_termination() -> None:
    driven = Driven(a_node("a", cpu="1"), a_node("b", cpu="1"))
    driven.runs("v", "a")
    driven.runs("w", "b", priority=5)
    driven.comes("p")
    driven.ended(only(driven.step(), Preempt))
    driven.scheduler.queue.activate(["uid-p"], driven.now_s)
    (status,) = driven.step()
    assert isinstance(status, SetStatus)
    assert status.condition is not None
    assert status.condition["message"].endswith("not eligible due to a terminating pod on the nominated node.")
    driven.gone("v")
    assert only(driven.step(), Bind).node_name == "a"


def test_the_preemptor_waits_for_victims_that_take_their_time() -> None:
    driven = Driven(a_node("a", cpu="1"), a_node("b", cpu="1"))
    victim = driven.runs("v", "a")
    driven.runs("w", "b", priority=5)
    pod = driven.comes("p")
    driven.ended(only(driven.step(), Preempt))
    victim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    driven.apply(victim, conditions=[condition])
    driven.apply(pod, nominatedNodeName="a")
    driven.scheduler.queue.activate(["uid-p"], driven.now_s)
    status = only(driven.step(), SetStatus)
    assert status.condition["message"].endswith("not eligible due to a terminating pod on the nominated node.")
    assert status.nominated_node is None
    assert driven.scheduler.queue.nominator.node_of("uid-p") == "a"
    driven.gone("v")
    assert only(driven.step(), Bind).node_name == "a"


def test_terminating_victims_are_not_deleted_again() -> None:
    driven = Driven(a_node("a", cpu="2"))
    terminating = a_pod("v", {"cpu": "1"}, nodeName="a")
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    driven.apply(terminating)
    driven.runs("w", "a")
    driven.comes("p", cpu="2")
    assert [each.name for each in only(driven.step(), Preempt).victims] == ["w"]


def test_if_all_victims_terminate_already_no_preemption_is_ongoing() -> None:
    driven = Driven(a_node("a", cpu="1"))
    terminating = a_pod("v", {"cpu": "1"}, nodeName="a")
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    driven.apply(terminating)
    driven.comes("p")
    assert [type(each) for each in driven.step()] == [SetStatus]
    assert driven.scheduler.queue.nominator.node_of("uid-p") == "a"
    driven.gone("v")
    assert only(driven.step(), Bind).node_name == "a"


def test_nominations_of_lower_priority_on_the_same_node_are_cleared() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.runs("v", "a", priority=-1)
    driven.comes("low", priority=5, nominatedNodeName="a")
    driven.comes("p", priority=10)
    effects = driven.step()
    cleared = [each for each in effects if isinstance(each, SetStatus) and each.nominated_node == ""]
    assert [(each.pod.name, each.condition) for each in cleared] == [("low", None)]
    assert [each.name for each in driven.scheduler.queue.nominator.on_node("a")] == ["p"]


def test_nominated_capacity_is_not_used_by_pods_of_equal_priority() -> None:
    driven = Driven(a_node("a", cpu="2"))
    driven.runs("v", "a")
    driven.runs("x", "a", priority=20)
    driven.comes("p")
    preempt = only(driven.step(), Preempt)
    driven.gone("v")
    driven.comes("q")
    assert not any(isinstance(each, Bind) for each in driven.step())
    driven.ended(preempt)
    assert only(driven.step(0), Bind).pod.name == "p"


def test_a_victim_that_waits_for_permit_is_rejected_and_not_deleted() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.comes("w", priority=0)
    assert driven.step() == []
    driven.comes("p")
    effects = driven.step()
    assert not any(isinstance(each, Preempt) for each in effects)
    assert {each.reason for each in driven.events} == {"FailedScheduling", "Preempted", "WaitingOnPermit"}
    (bound,) = (each for each in [*effects, *driven.step()] if isinstance(each, Bind))
    assert (bound.pod.name, bound.node_name) == ("p", "a")
    assert driven.where("w") is PodState.UNSCHEDULABLE
    driven.runs("p", "a", priority=10)
    assert driven.where("w") in (
        PodState.ACTIVE,
        PodState.BACKOFF,
    )  # it is to learn what it would take to fit elsewhere


def test_a_preemptor_deleted_meanwhile_leaves_no_hold() -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.runs("v", "a")
    driven.comes("p")
    preempt = only(driven.step(), Preempt)
    driven.gone("p")
    driven.ended(preempt)
    assert len(driven.scheduler.cluster.ongoing_preemptions) == 0
    assert driven.scheduler.queue.nominator.on_node("a") == ()


def test_a_nomination_is_written_once_and_cleared_when_preemption_does_not_help() -> None:
    driven = Driven(a_node("a", cpu="1"))
    victim = driven.runs("v", "a")
    pod = driven.comes("p")
    driven.scheduler.preempted(only(driven.step(), Preempt), [], driven.now_s, ok=False)
    assert [type(each) for each in driven.step()] == [Preempt]
    driven.gone("v")
    driven.apply({**victim, "spec": {**victim["spec"], "priority": 20}})
    driven.apply(pod, nominatedNodeName="a")
    driven.scheduler.cluster.ongoing_preemptions.end("uid-p")
    driven.scheduler.queue.activate(["uid-p"], driven.now_s)
    assert only(driven.step(), SetStatus).nominated_node == ""
    assert driven.scheduler.queue.nominator.node_of("uid-p") is None


@pytest.mark.parametrize("result", [WriteResult.LATER, WriteResult.REFUSED, WriteResult.GONE])
def test_the_capacity_of_a_pod_that_was_not_bound_wakes_waiting_pods(result: WriteResult) -> None:
    driven = Driven(a_node("a", cpu="1"))
    driven.comes("first")
    assert only(driven.step(), Bind).pod.name == "first"
    driven.comes("second")
    driven.step()
    assert driven.where("second") is PodState.UNSCHEDULABLE
    driven.scheduler.bound("uid-first", result, "no", driven.now_s)
    assert driven.where("second") in (PodState.ACTIVE, PodState.BACKOFF)
