"""After any changes of pods and of their owners: no pod runs without quota, no quota is held without pods, and in the
end nothing is left.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.controllers.framework.effects import Create, Delete, Patch
from headgate.kube.api_resources import PODS as POD
from headgate.kube.api_resources import APIResource
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.kubelet import ENDS
from unit.jobs.pods.fixtures import (
    SLOW,
    K,
    SlowKubelet,
    a_pod,
    a_world,
    no_gate_is_lifted_without_quota,
    pods,
    workloads,
)
from unit.jobs.queue_fixtures import PODS, PREEMPTION, WORKLOADS

NAMES = st.integers(0, 7)
MOVES = st.one_of(
    st.tuples(st.just("create"), NAMES, st.sampled_from(["", "g", "h"]), st.sampled_from(["low", "high"])),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("end"), NAMES, st.sampled_from(["Succeeded", "Failed"])),
    st.tuples(st.just("deactivate"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("delete workload"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.sampled_from([1, 5, 70])),
    st.tuples(st.just("die"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("cut"), st.sampled_from([POD, WORKLOAD])),
    st.tuples(st.just("lose"), st.sampled_from([Create, Patch, Delete])),
)


def make_a_move(world: CrashingWorld, number: int, move: tuple[Any, ...]) -> None:
    match move:
        case ("create", name, group, priority):
            world.server.post(PODS, a_pod(f"p{name}", group=group, priority=priority, grace_s=30))
        case ("delete", name):
            world.server.delete(f"{PODS}/p{name}")
        case ("end", name, phase):
            world.server.patch(f"{PODS}/p{name}", {"metadata": {"annotations": {ENDS: phase}}})
        case ("deactivate", place, is_active):
            for name in _some_workload(world, place):
                world.server.patch(f"{WORKLOADS}/{name}", {"spec": {"active": is_active}})
        case ("delete workload", place):
            for name in _some_workload(world, place):
                world.server.delete(f"{WORKLOADS}/{name}")
        case ("wait", seconds):
            world.advance(seconds)
        case ("die", writes, sent):
            world.crash_at, world.sent = world.writes + writes, sent
        case ("cut", resource):
            assert isinstance(resource, APIResource)
            world.break_watch(resource)
        case ("lose", what):
            losses = iter([True])
            world.loses_response = lambda effect: isinstance(effect, what) and next(losses, False)
    if number % 2:
        world.advance(1)


def _some_workload(world: CrashingWorld, place: int) -> list[str]:
    return sorted(each["metadata"]["name"] for each in workloads(world).values())[place : place + 1]


def nobody_holds_quota_without_pods(world: CrashingWorld) -> None:
    """When nothing changes any more, a Workload that holds quota has a pod that is not terminating."""
    live = [each for each in pods(world).values() if "deletionTimestamp" not in each["metadata"]]
    filled = {each["metadata"]["labels"].get(f"{K}/pod-group-name", each["metadata"]["name"]) for each in live}
    for name, workload in workloads(world).items():
        told = {each["type"]: each["status"] for each in workload.get("status", {}).get("conditions", ())}
        if told.get("QuotaReserved") == "True" and told.get("Finished") != "True":
            assert name in filled, f"{name} holds quota and has nobody"


@settings(max_examples=30, suppress_health_check=list(HealthCheck))  # an example is 300 s of a whole server
@given(st.lists(MOVES, min_size=8, max_size=25), st.sampled_from([FeatureGates(), SLOW]))
def test_pods_never_run_without_quota_nor_quota_without_pods_and_nothing_is_left(
    moves: list[tuple[Any, ...]], features: FeatureGates
) -> None:
    world = a_world(cpu=3, features=features, kubelet=SlowKubelet, **PREEMPTION)
    world.check = no_gate_is_lifted_without_quota
    for number, move in enumerate(moves):
        make_a_move(world, number, move)
    world.crash_at = 0
    world.loses_response = lambda effect: False
    world.advance(5 if features.pod_integration_fast_quota_release else 40)
    nobody_holds_quota_without_pods(world)
    starts = [each.about["uid"] for each in world.emitted if each.reason == "Started"]
    assert len(starts) == len(set(starts)), "a gate was lifted twice"
    for name in pods(world):
        world.server.delete(f"{PODS}/{name}")
    world.advance(300)
    assert not pods(world)
    assert not workloads(world)
