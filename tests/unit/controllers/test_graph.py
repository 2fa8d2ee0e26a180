"""The ownership graph is read in parts: edges are complete at once, doubts follow, and changes may come in between."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from headgate.controllers.framework.discovery import DiscoveredKind
from headgate.controllers.garbage_collector.graph import AttemptToDelete, CollectorKey, OwnershipGraph, VerifyOwner
from headgate.kube.api_resources import CONFIG_MAPS

MANY = 20_000
PART = 500
KIND = DiscoveredKind(CONFIG_MAPS, "ConfigMap", frozenset({"delete", "list", "watch"}))


def an_object(uid: str, *owners: int, **metadata: Any) -> dict[str, Any]:
    named = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{number}", "uid": f"u{number}"} for number in owners]
    return {"name": uid, "namespace": "ns", "uid": uid, "ownerReferences": named, **metadata}


def verified(looks: list[CollectorKey]) -> list[str]:
    return [look.owner.uid for look in looks if isinstance(look, VerifyOwner)]


def uids(first: int, last: int) -> list[str]:
    return [f"u{number}" for number in range(first, last)]


@pytest.fixture
def graph() -> OwnershipGraph:
    return OwnershipGraph()


def test_owners_are_looked_at_while_the_keys_are_read(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    node = graph.get("child")
    assert node is not None
    assert node.checked == 0
    assert len(graph.dependents(f"u{MANY - 1}")) == 1
    assert verified(list(islice(looks, PART))) == uids(0, PART)
    assert node.checked == PART
    assert verified(list(looks)) == uids(PART, MANY)


def test_an_object_that_is_heard_of_again_is_looked_at_to_the_end(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    first = verified(list(islice(looks, PART)))
    again = graph.applied(KIND, an_object("child", *range(MANY)))
    assert list(looks) == [], "the newer state looks at the rest"
    found = list(again)
    assert first + verified(found) == uids(0, MANY)
    assert list(graph.applied(KIND, an_object("child", *range(MANY)))) == []


def test_owners_that_are_named_no_more_leave_no_doubt(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    assert len(list(islice(looks, PART))) == PART
    assert verified(list(graph.applied(KIND, an_object("child", MANY)))) == [f"u{MANY}"]
    assert list(looks) == []
    assert list(graph.removed(CONFIG_MAPS, "child")) == []
    assert graph.is_without_edges()


def test_an_object_that_goes_between_two_parts_leaves_nothing(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    assert len(list(islice(looks, PART))) == PART
    assert list(graph.removed(CONFIG_MAPS, "child")) == []
    assert list(looks) == []
    assert graph.is_without_edges()
    assert len(graph) == 0


def test_an_owner_that_comes_between_two_parts_is_not_doubted(graph: OwnershipGraph) -> None:
    looks = graph.applied(KIND, an_object("child", *range(MANY)))
    assert len(list(islice(looks, PART))) == PART
    assert list(graph.applied(KIND, {**an_object("u7"), "name": "o7"})) == []
    assert list(graph.applied(KIND, {**an_object(f"u{PART}"), "name": f"o{PART}"})) == []
    assert verified(list(looks)) == uids(PART + 1, MANY)


def test_the_dependents_of_an_owner_that_is_gone_are_those_of_that_moment(graph: OwnershipGraph) -> None:
    assert list(graph.applied(KIND, {**an_object("u1"), "name": "o1"})) == []
    for number in range(3):
        assert list(graph.applied(KIND, an_object(f"child{number}", 1))) == []
    looks = graph.removed(CONFIG_MAPS, "u1")
    assert next(looks) == AttemptToDelete("child0")
    assert list(graph.removed(CONFIG_MAPS, "child2")) == []
    assert list(looks) == [AttemptToDelete("child1"), AttemptToDelete("child2")]


def test_a_dependent_that_is_gone_before_its_turn_is_not_called_misplaced(graph: OwnershipGraph) -> None:
    for number in range(2):
        assert len(list(graph.applied(KIND, an_object(f"child{number}", 1)))) == 1
    looks = graph.applied(KIND, {**an_object("u1"), "name": "o1", "namespace": "elsewhere"})
    assert list(graph.removed(CONFIG_MAPS, "child1")) == []
    assert {getattr(look, "uid", "") for look in looks} == {"child0"}
