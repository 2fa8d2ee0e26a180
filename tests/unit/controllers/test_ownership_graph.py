"""The ownership graph is read in parts: edges are complete at once, and changes may arrive between two parts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from cost_growth import TIMES, cpu_s, too_steep
from headgate.controllers.framework.discovery import DiscoveredKind
from headgate.controllers.garbage_collector.graph import AttemptToDelete, CollectorKey, OwnershipGraph, VerifyOwner
from headgate.kube.api_resources import CONFIG_MAPS

MANY = 20_000
PART = 500
KIND = DiscoveredKind(CONFIG_MAPS, "ConfigMap", frozenset({"delete", "list", "watch"}))


def an_object(uid: str, *owners: int, **metadata: Any) -> dict[str, Any]:
    named = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{number}", "uid": f"u{number}"} for number in owners]
    return {"name": uid, "namespace": "ns", "uid": uid, "ownerReferences": named} | metadata


def a_blocking_object(uid: str, *owners: int) -> dict[str, Any]:
    named = an_object(uid, *owners)["ownerReferences"]
    return an_object(uid, ownerReferences=[{**each, "blockOwnerDeletion": True} for each in named])


def verified(looks: list[CollectorKey]) -> list[str]:
    return [look.owner.uid for look in looks if isinstance(look, VerifyOwner)]


def uids(first: int, last: int) -> list[str]:
    return [f"u{number}" for number in range(first, last)]


@pytest.fixture
def graph() -> OwnershipGraph:
    return OwnershipGraph()


def test_owners_are_checked_while_the_keys_are_read(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    node = graph.get("child")
    assert node is not None
    assert node.checked == 0
    assert len(graph.dependents(f"u{MANY - 1}")) == 1
    assert verified(list(islice(looks, PART))) == uids(0, PART)
    assert node.checked == PART
    assert verified(list(looks)) == uids(PART, MANY)


def test_an_object_that_changes_again_is_checked_completely(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    first = verified(list(islice(looks, PART)))
    again = graph.applied(KIND, an_object("child", *range(MANY)))
    assert list(looks) == [], "the newer state looks at the rest"
    found = list(again)
    assert first + verified(found) == uids(0, MANY)
    assert list(graph.applied(KIND, an_object("child", *range(MANY)))) == []


def test_removed_owners_are_not_verified(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    assert len(list(islice(looks, PART))) == PART
    assert verified(list(graph.applied(KIND, an_object("child", MANY)))) == [f"u{MANY}"]
    assert list(looks) == []
    assert list(graph.removed(CONFIG_MAPS, "child")) == []
    assert graph.is_without_edges()


def test_an_object_deleted_between_two_parts_leaves_no_edges(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    assert len(list(islice(looks, PART))) == PART
    assert list(graph.removed(CONFIG_MAPS, "child")) == []
    assert list(looks) == []
    assert graph.is_without_edges()
    assert len(graph) == 0


def test_an_owner_observed_between_two_parts_is_not_verified(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    assert len(list(islice(looks, PART))) == PART
    assert list(graph.applied(KIND, {**an_object("u7"), "name": "o7"})) == []
    assert list(graph.applied(KIND, {**an_object(f"u{PART}"), "name": f"o{PART}"})) == []
    assert verified(list(looks)) == uids(PART + 1, MANY)


def test_the_dependents_of_a_deleted_owner_are_those_at_its_deletion(graph: OwnershipGraph) -> None:
    assert list(graph.applied(KIND, {**an_object("u1"), "name": "o1"})) == []
    for number in range(3):
        assert list(graph.applied(KIND, an_object(f"child{number}", 1))) == []
    looks = graph.removed(CONFIG_MAPS, "u1")
    assert next(looks) == AttemptToDelete("child0")
    assert list(graph.removed(CONFIG_MAPS, "child2")) == []
    assert list(looks) == [AttemptToDelete("child1"), AttemptToDelete("child2")]


def test_a_dependent_that_is_deleted_first_is_not_reported(graph: OwnershipGraph) -> None:
    for number in range(2):
        assert len(list(graph.applied(KIND, an_object(f"child{number}", 1)))) == 1
    looks = graph.applied(KIND, {**an_object("u1"), "name": "o1", "namespace": "elsewhere"})
    assert list(graph.removed(CONFIG_MAPS, "child1")) == []
    assert {getattr(look, "uid", "") for look in looks} == {"child0"}


def test_an_object_blocks_the_owners_that_it_names_now(graph: OwnershipGraph) -> None:
    for number in (0, 10):
        assert list(graph.applied(KIND, an_object(f"u{number}", name=f"o{number}"))) == []
    first, second = graph.get("u0"), graph.get("u10")
    assert first is not None
    assert second is not None
    list(graph.applied(KIND, a_blocking_object("child", *range(10))))
    assert (graph.is_blocked(first), graph.is_blocked(second)) == (True, False)
    list(graph.applied(KIND, a_blocking_object("child", *range(10, 20))))
    assert (graph.is_blocked(first), graph.is_blocked(second)) == (False, True)


def lose_all_owners(number: int) -> float:
    """The CPU time of an update of an object that names as many owners as before, and none of them again."""
    graph = OwnershipGraph()
    assert len(list(graph.applied(KIND, an_object("child", *range(number))))) == number
    others, enqueued = an_object("child", *range(number, 2 * number)), list[object]()
    took = cpu_s(lambda: enqueued.extend(graph.applied(KIND, others)))
    assert len(enqueued) == number
    return took


def unblock_all_owners(number: int) -> float:
    """The CPU time of the end of one of two objects that all of their owners wait for."""
    graph = OwnershipGraph()
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
    for each in range(number):
        list(graph.applied(KIND, {**an_object(f"u{each}", **leaving), "name": f"o{each}"}))
    for uid in ("first", "second"):
        list(graph.applied(KIND, a_blocking_object(uid, *range(number))))
    enqueued: list[object] = []
    took = cpu_s(lambda: enqueued.extend(graph.removed(CONFIG_MAPS, "first")))
    assert not enqueued
    return took


@pytest.mark.measured
@pytest.mark.parametrize("cost_s", [lose_all_owners, unblock_all_owners])
def test_eight_times_as_many_owners_cost_far_less_than_the_square(cost_s: Callable[[int], float]) -> None:
    assert not too_steep(lambda: cost_s(2000), lambda: cost_s(TIMES * 2000))
