"""Leases in the scheduler: a promise without a node lapses, and one for which a node is on its way does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clusters import a_node
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.names import LAPSED, LEASE, MAX_PODS_WITHOUT_NODE, STAMP
from headgate.kube.api_resources import EVENTS
from headgate.kube.timestamps import format_time
from headgate.scheduling.framework.effects import EmitPodEvent, RemoveStamp, WriteResult
from headgate.scheduling.gates.autoscaler_signs import NODE_CLAIMS, PRIORITY_CLASSES
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_group, a_queue, ungated

Object = dict[str, Any]

_WITH_LEASES = msgspec.structs.replace(DEFAULTS, has_leases=True)
IMPOSSIBLE = {"disk": "fast"}


class LeasedWorld(QueuedWorld):
    def __init__(self, *queues: Object, **more: Any) -> None:
        super().__init__(*queues, **({"settings": _WITH_LEASES} | more))
        self.pods: dict[str, Object] = {}

    def admit(self, *pods: Object) -> None:
        """Shows the pods and answers the removals of their gates."""
        self.show(*pods)
        self.pods |= {each["metadata"]["name"]: each for each in pods}
        self.step()
        self.answer_lifts()

    def answer_lifts(self) -> None:
        """``effects`` are then those of the answers, too."""
        effects = self.effects
        for name, stamp in self.lifts.items():
            self.pods[name] = ungated(self.pods[name], stamp)
            effects = effects + self.lifted(name)
            self.show(self.pods[name])
        self.effects = effects + self.step()

    @property
    def removals(self) -> dict[str, RemoveStamp]:
        return {each.pod.name: each for each in self.effects if isinstance(each, RemoveStamp)}

    def answer_removals(self, removals: dict[str, RemoveStamp]) -> None:
        for name, removal in removals.items():
            self.scheduler.stamp_removed(f"uid-{name}", removal.stamp, WriteResult.DONE, self.now_s)
            metadata = self.pods[name]["metadata"]
            annotations = {key: value for key, value in metadata["annotations"].items() if key != STAMP}
            if removal.lapse:
                annotations[LAPSED] = removal.lapse
            self.pods[name] = {**self.pods[name], "metadata": {**metadata, "annotations": annotations}}
            self.show(self.pods[name])

    def show_event(self, name: str, reason: str, age_s: float = 0.0) -> None:
        event = {
            "metadata": {"name": f"{name}.1", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": name, "uid": f"uid-{name}"},
            "reason": reason,
            "lastTimestamp": format_time(self.now_s - age_s),
        }
        self.scheduler.leases.object_applied(EVENTS, event, self.now_s)

    def show_claim(self, labels: Object, cpu: str = "4", initialized: str = "Unknown", **metadata: Any) -> None:
        claim = {
            "metadata": {"name": "claim", "labels": labels, **metadata},
            "spec": {
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]}],
                "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
            },
            "status": {"conditions": [{"type": "Initialized", "status": initialized}]},
        }
        self.scheduler.leases.object_applied(NODE_CLAIMS, claim, self.now_s)


def a_stuck_pod(name: str = "stuck", lease: str = "30s", **spec: Any) -> Object:
    """No node fits it."""
    pod = a_gated_pod(name, "2", nodeSelector=IMPOSSIBLE, **spec)
    pod["metadata"]["annotations"][LEASE] = lease
    return pod


def with_a_stuck_pod(**spec: Any) -> LeasedWorld:
    """Its queue has capacity for one pod, and another one waits."""
    world = LeasedWorld(a_queue("q", "2"))
    world.admit(a_stuck_pod(**spec))
    assert world.statuses["stuck"].startswith("Unschedulable")
    world.admit(a_gated_pod("next", "2"))
    return world


def test_a_promise_that_gets_no_node_lapses_and_its_pod_is_hidden() -> None:
    world = with_a_stuck_pod()
    world.step(29.0)
    assert world.removals == {}
    world.step(1.0)
    assert list(world.removals) == ["stuck"]
    assert world.statuses["stuck"].startswith("WaitingForQueue: no node was found for it in time, so its promise in")
    assert [each.reason for each in world.effects if isinstance(each, EmitPodEvent)] == ["ReservationLapsed"]


def test_the_capacity_goes_to_the_next_pod_when_the_stamp_is_removed() -> None:
    world = with_a_stuck_pod()
    world.step(30.0)
    removals = world.removals
    world.step()
    assert world.lifts == {}
    world.answer_removals(removals)
    world.step()
    assert list(world.lifts) == ["next"]
    assert '"count":1' in removals["stuck"].lapse


def test_no_pod_is_evicted_and_the_pod_is_tried_again_after_its_back_off() -> None:
    world = LeasedWorld(a_queue("q", "2"))
    world.admit(a_stuck_pod())
    world.step(30.0)
    world.answer_removals(world.removals)
    world.step(59.0)
    assert world.lifts == {}
    world.step(1.0)
    world.answer_lifts()
    assert world.statuses["stuck"].startswith("Unschedulable")


def test_a_node_that_fits_after_the_back_off_is_used() -> None:
    world = LeasedWorld(a_queue("q", "2"))
    world.admit(a_stuck_pod())
    world.step(30.0)
    world.answer_removals(world.removals)
    world.scheduler.node_applied(a_node("fast", labels=IMPOSSIBLE), world.now_s)
    world.step(60.0)
    world.answer_lifts()
    assert world.binds == {"stuck": "fast"}


def test_with_the_feature_gate_off_a_promise_never_lapses() -> None:
    world = QueuedWorld(a_queue("q", "2"))
    pod = a_stuck_pod()
    world.show(pod)
    world.step()
    stamp = world.lifts["stuck"]
    world.lifted("stuck")
    world.show(ungated(pod, stamp))
    world.step(100_000.0)
    assert not any(isinstance(each, RemoveStamp) for each in world.effects)
    assert list(world.scheduler.leases.watches) == []


def test_the_members_of_a_gang_lapse_together_and_the_next_pod_waits_for_the_last_stamp() -> None:
    world = LeasedWorld(a_queue("q", "4"))
    world.show_groups(a_group("g", 2))
    world.admit(a_stuck_pod("a", group="g"), a_stuck_pod("b", group="g"))
    world.admit(a_gated_pod("next", "1"))
    world.step(30.0)
    removals = world.removals
    assert sorted(removals) == ["a", "b"]
    world.answer_removals({"a": removals["a"]})
    world.step()
    assert world.lifts == {}
    world.answer_removals({"b": removals["b"]})
    world.step()
    assert list(world.lifts) == ["next"]


@pytest.mark.parametrize("reason", ["TriggeredScaleUp", "Nominated"])
def test_an_event_of_an_autoscaler_holds_the_promise_while_a_machine_may_start(reason: str) -> None:
    world = with_a_stuck_pod()
    world.step(20.0)
    world.show_event("stuck", reason)
    world.step(899.0)
    assert world.removals == {}
    world.step(1.0)
    assert list(world.removals) == ["stuck"]


def test_an_old_event_and_an_event_of_another_reason_renew_nothing() -> None:
    world = with_a_stuck_pod()
    world.show_event("stuck", "TriggeredScaleUp", age_s=3000.0)
    world.show_event("stuck", "NotTriggerScaleUp")
    world.step(30.0)
    assert list(world.removals) == ["stuck"]


def test_a_machine_that_starts_and_fits_holds_the_promise_until_its_node_is_initialized() -> None:
    world = with_a_stuck_pod()
    world.show_claim(IMPOSSIBLE)
    for _ in range(50):
        world.step(30.0)
        assert world.removals == {}
    world.show_claim(IMPOSSIBLE, initialized="True")
    world.step(30.0)
    assert list(world.removals) == ["stuck"]


@pytest.mark.parametrize(
    "claim",
    [
        {"labels": {}},
        {"labels": {"disk": "slow"}},
        {"labels": IMPOSSIBLE, "cpu": "1"},
        {"labels": IMPOSSIBLE, "initialized": "True"},
        {"labels": IMPOSSIBLE, "deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_machine_for_other_pods_holds_no_promise(claim: Object) -> None:
    world = with_a_stuck_pod()
    world.show_claim(**claim)
    world.step(30.0)
    assert list(world.removals) == ["stuck"]


def test_a_removed_claim_holds_no_promise() -> None:
    world = with_a_stuck_pod()
    world.show_claim(IMPOSSIBLE)
    world.scheduler.leases.object_removed(NODE_CLAIMS, "claim")
    world.step(30.0)
    assert list(world.removals) == ["stuck"]


def test_a_machine_matches_labels_that_it_may_get_from_its_instance_type() -> None:
    world = LeasedWorld(a_queue("q", "2"))
    pod = a_stuck_pod()
    pod["spec"]["nodeSelector"] = {**IMPOSSIBLE, "kubernetes.io/arch": "arm64", "topology.kubernetes.io/zone": "z1"}
    world.admit(pod)
    world.show_claim(IMPOSSIBLE)
    world.step(30.0)
    assert world.removals == {}


def test_a_nominated_node_holds_the_promise() -> None:
    world = with_a_stuck_pod()
    world.show({**world.pods["stuck"], "status": {"nominatedNodeName": "soon"}})
    for _ in range(5):
        world.step(30.0)
        assert world.removals == {}
    world.show(world.pods["stuck"])
    world.step(30.0)
    assert list(world.removals) == ["stuck"]


def test_a_priority_class_sets_the_time() -> None:
    world = LeasedWorld(a_queue("q", "2"))
    pod = a_stuck_pod(priorityClassName="quick")
    del pod["metadata"]["annotations"][LEASE]
    metadata = {"name": "quick", "annotations": {LEASE: "5s"}}
    world.scheduler.leases.object_applied(PRIORITY_CLASSES, {"metadata": metadata}, world.now_s)
    world.admit(pod)
    world.step(5.0)
    assert list(world.removals) == ["stuck"]


def test_a_refused_removal_of_the_stamp_keeps_the_promise_and_the_pod_visible() -> None:
    world = with_a_stuck_pod()
    world.step(30.0)
    stamp = world.removals["stuck"].stamp
    world.scheduler.stamp_removed("uid-stuck", stamp, WriteResult.REFUSED, world.now_s)
    world.step(1.0)
    assert world.scheduler.queues.peek_wait_reason("uid-stuck") is None
    world.step(1000.0)
    assert world.removals == {}


def test_an_unanswered_removal_is_repeated() -> None:
    world = with_a_stuck_pod()
    world.step(30.0)
    first = world.removals["stuck"]
    world.scheduler.stamp_removed("uid-stuck", first.stamp, WriteResult.UNKNOWN, world.now_s)
    world.step(2.0)
    assert world.removals == {"stuck": first}


def test_the_lapses_of_a_queue_are_counted() -> None:
    world = with_a_stuck_pod()
    world.step(30.0)
    page = world.scheduler.metrics_exposition(world.now_s).decode()
    assert 'headgate_queue_lapsed_promises_total{queue="q"} 1' in page
    assert 'headgate_queue_pods_without_node{queue="q"} 1' in page


@pytest.mark.parametrize("has_leases", [True, False])
def test_pods_that_fit_no_node_and_never_lapse_hold_the_window_of_the_root_for_its_timeout_only(
    has_leases: bool,
) -> None:
    settings = msgspec.structs.replace(DEFAULTS, has_leases=has_leases)
    root = a_queue("root", parent="")
    root["metadata"]["annotations"] = {MAX_PODS_WITHOUT_NODE: "2"}
    world = LeasedWorld(root, a_queue("q"), a_queue("other"), settings=settings)
    world.admit(a_stuck_pod("one", lease="never"), a_stuck_pod("two", lease="never"))
    assert all(world.statuses[name].startswith("Unschedulable") for name in ("one", "two"))
    world.admit(a_gated_pod("urgent", "1", queue="other", priority=1000))
    assert world.lifts == {}
    world.step(598.0)
    assert world.lifts == {}
    world.step(2.0)
    assert list(world.lifts) == ["urgent"]
    assert world.removals == {}
    assert world.scheduler.queues.peek_wait_reason("uid-one") is None


def test_a_lease_that_is_shorter_than_the_timeout_of_the_window_ends_first() -> None:
    root = a_queue("root", parent="")
    root["metadata"]["annotations"] = {MAX_PODS_WITHOUT_NODE: "1"}
    world = LeasedWorld(root, a_queue("q"), a_queue("other"))
    world.admit(a_stuck_pod("one", lease="30s"))
    world.admit(a_gated_pod("urgent", "1", queue="other", priority=1000))
    assert world.lifts == {}
    world.step(30.0)
    world.answer_removals(world.removals)
    world.step()
    assert list(world.lifts) == ["urgent"]
