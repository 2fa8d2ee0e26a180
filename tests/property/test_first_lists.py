"""The conditions of workloads when lists and events arrive in any order, against a start at which everything is known.

A workload must never be told that a queue or a namespace is missing or inactive when it is not, and a wrong condition
of an earlier process must be corrected.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded import Embedded
from headgate.controllers.framework.effects import Patch, RequestEffect
from headgate.kube import conditions
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from kueue_builders import Wire, a_flavor, a_local_queue, a_workload
from unit.controllers.world import World
from unit.jobs.queue_fixtures import API, WORKLOADS, create, kueue_object, server_with_queue

FALSE = (
    ("Misconfigured", 'workload namespace "ns" does not exist'),
    ("Misconfigured", "LocalQueue lq doesn't exist"),
    ("Misconfigured", "ClusterQueue cq doesn't exist"),
    ("Suspended", "ClusterQueue cq is inactive"),
    ("Suspended", "LocalQueue lq is inactive"),
    ("Deactivated", "The workload is deactivated"),
    ("AdmissionGated", "Admission is gated by: example.com/gate"),
    ("ExceedsMaxQuota", "couldn't assign flavors"),
)
UNTRUE = frozenset(("Misconfigured", "Suspended", "Deactivated", "AdmissionGated"))
QUEUE, LOCAL_QUEUE = f"{API}/clusterqueues/cq", f"{API}/namespaces/ns/localqueues/lq"
Stale = tuple[str, str] | None


class ListingWorld(World):
    announces_lists = True


def a_server(strategy: str, workloads: Mapping[str, tuple[int, Stale]]) -> Embedded:
    server = server_with_queue(3, a_flavor(), {"queueingStrategy": strategy}, FeatureGates())
    for name, (cpu, stale) in workloads.items():
        create(server, WORKLOADS, kueue_object("Workload", a_workload(name, cpu=cpu)))
        server.epoch_s += 1
        if stale is not None:
            shown = {"type": "QuotaReserved", "status": "False", "reason": stale[0], "message": stale[1]}
            body = {"status": {"conditions": [{**shown, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
            assert server.patch(f"{WORKLOADS}/{name}/status", body).status == 200
    return server


def a_world(server: Embedded) -> ListingWorld:
    return ListingWorld(lambda: QuotaController(QuotaSettings()), server=server)


def claims(world: World) -> dict[str, tuple[bool, str]]:
    """By workload: whether it is admitted, and the reason of its condition; empty if it has none."""
    found = {}
    for each in world.server.get(WORKLOADS).body["items"]:
        shown = conditions.find((each.get("status") or {}).get("conditions"), "QuotaReserved") or {}
        found[each["metadata"]["name"]] = shown.get("status") == "True", str(shown.get("reason") or "")
    return found


def refuse_untrue(world: World) -> None:
    """No write says what is not true at any moment of the test."""
    request = world._request

    def check(effect: RequestEffect) -> Any:
        if isinstance(effect, Patch) and effect.resource == WORKLOAD:
            listed = (effect.body.get("status") or {}).get("conditions") or ()
            written = conditions.find(listed, "QuotaReserved") or {}
            assert written.get("reason") not in UNTRUE, written
        return request(effect)

    world._request = check  # type: ignore[method-assign]  # the test looks at each request


STALE = st.one_of(st.none(), st.sampled_from(FALSE))
LOAD = st.lists(st.tuples(st.sampled_from((1, 1, 1, 2, 9)), STALE), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(("StrictFIFO", "BestEffortFIFO")), LOAD, st.integers(0, 10_000))
def test_a_start_with_lists_in_any_order_ends_with_what_is_true(
    strategy: str, load: list[tuple[int, Stale]], seed: int
) -> None:
    workloads = {f"w{number}": each for number, each in enumerate(load)}
    reference = a_world(a_server(strategy, {name: (cpu, None) for name, (cpu, _) in workloads.items()}))
    expected = claims(reference.advance(10))
    world = a_world(a_server(strategy, workloads))
    refuse_untrue(world)
    world.settle(random.Random(seed).choice)
    found = claims(world.advance(10))
    for name, (cpu, stale) in workloads.items():
        same_shape = {expected[other][1] for other, (size, _) in workloads.items() if size == cpu}
        assert found[name][0] is expected[name][0], name
        if stale is None and not expected[name][1]:
            assert found[name][1] == "", name
        assert found[name][1] in same_shape | ({"PendingEvaluation"} if not expected[name][1] else set()), name


def _patch(path: str, body: Wire) -> Callable[[Embedded], None]:
    def change(server: Embedded) -> None:
        assert server.patch(path, body).status == 200

    return change


def _stop(path: str, policy: str) -> Callable[[Embedded], None]:
    return _patch(path, {"spec": {"stopPolicy": policy}})


def _select(**labels: str) -> Callable[[Embedded], None]:
    return _patch(QUEUE, {"spec": {"namespaceSelector": {"matchLabels": labels or None}}})


def _delete_local_queue(server: Embedded) -> None:
    server.delete(LOCAL_QUEUE)


def _create_local_queue(server: Embedded) -> None:
    server.post(LOCAL_QUEUE.rpartition("/")[0], kueue_object("LocalQueue", a_local_queue()))


EVENTS = {
    "the ClusterQueue stops": _stop(QUEUE, "Hold"),
    "the ClusterQueue starts": _stop(QUEUE, "None"),
    "the selector does not match": _select(team="other"),
    "the selector matches": _select(),
    "the LocalQueue is deleted": _delete_local_queue,
    "the LocalQueue is created": _create_local_queue,
}
AFTERWARDS = ("the ClusterQueue starts", "the selector matches", "the LocalQueue is created")


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(("StrictFIFO", "BestEffortFIFO")),
    LOAD,
    st.lists(st.sampled_from(sorted(EVENTS)), max_size=5),
    st.permutations(AFTERWARDS),
    st.integers(0, 10_000),
)
def test_after_events_in_any_order_no_condition_says_what_is_over(
    strategy: str, load: list[tuple[int, Stale]], events: list[str], afterwards: list[str], seed: int
) -> None:
    world = a_world(a_server(strategy, {f"w{number}": each for number, each in enumerate(load)}))
    chance = random.Random(seed)
    for event in (*events, *afterwards):
        world.server.epoch_s += 1
        EVENTS[event](world.server)
        for _ in range(chance.randrange(3)):
            world.settle(chance.choice)
            world.advance(chance.choice((0, 1)))
    found = claims(world.advance(10))
    assert not [name for name, (_, reason) in found.items() if reason in UNTRUE], found
    assert any(is_admitted for is_admitted, _ in found.values()) or any(cpu > 3 for cpu, _ in load), found


@pytest.mark.parametrize("late", ["namespaces", "localqueues", "clusterqueues", "resourceflavors", "workloads"])
def test_nothing_is_decided_while_a_list_is_missing(late: str) -> None:
    server = a_server("BestEffortFIFO", {"a": (1, None), "b": (3, None), "c": (3, None)})
    world = a_world(server)
    resource = next(each for each, _ in world._feeds if each.plural == late)
    world.silent = (resource,)
    before = len(world.requests)
    world.advance(100)
    assert [path for method, path in world.requests[before:] if method != "GET"] == []
    world.silent = ()
    world.advance(5)
    assert claims(world) == {"a": (True, "QuotaReserved"), "b": (False, "WaitingForQuota"), "c": (False, "")}
