"""Aggregated cluster roles."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headgate.apiserver.authz.bootstrap_policy.policy_objects import default_policy
from headgate.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from unit.controllers.world import World

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def rule(verb: str) -> dict[str, Any]:
    return {"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}


def role(name: str, labels: dict[str, str] | None = None, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules)}


def total(name: str, *labels: dict[str, str], own: dict[str, str] | None = None) -> dict[str, Any]:
    selectors = [{"matchLabels": each} for each in labels]
    return {**role(name, own), "aggregationRule": {"clusterRoleSelectors": selectors}}


def verbs(world: World, name: str) -> list[str]:
    found = world.server.get(f"{ROLES}/{name}").body
    return [each["verbs"][0] for each in found.get("rules") or ()]


def created(*roles: dict[str, Any]) -> World:
    world = World(ClusterRoleAggregationController)
    for each in roles:
        assert world.server.post(ROLES, each).status == 201
    return world.settle()


def test_an_aggregated_role_has_the_rules_of_its_members_by_selector_and_name() -> None:
    world = created(
        role("z", {"a": "1"}, rule("get")),
        total("sum", {"b": "1"}, {"a": "1"}),
        role("y", {"a": "1"}, rule("list"), rule("get")),
        role("x", {"b": "1"}, rule("watch")),
        role("other", {}, rule("delete")),
    )
    assert verbs(world, "sum") == ["watch", "list", "get"]


def test_an_aggregated_role_follows_its_members() -> None:
    world = created(role("x", {"a": "1"}, rule("get")), total("sum", {"a": "1"}))
    world.server.patch(f"{ROLES}/x", {"rules": [rule("get"), rule("list")]})
    assert verbs(world.settle(), "sum") == ["get", "list"]
    world.server.patch(f"{ROLES}/x", {"metadata": {"labels": {"a": None}}})
    assert verbs(world.settle(), "sum") == []
    world.server.post(ROLES, role("y", {"a": "1"}, rule("watch")))
    assert verbs(world.settle(), "sum") == ["watch"]
    world.server.delete(f"{ROLES}/y")
    assert verbs(world.settle(), "sum") == []


def test_manual_changes_of_an_aggregated_role_are_reverted() -> None:
    world = created(role("x", {"a": "1"}, rule("get")), total("sum", {"a": "1"}))
    world.server.patch(f"{ROLES}/sum", {"rules": [rule("delete")]})
    assert verbs(world.settle(), "sum") == ["get"]


def test_an_aggregated_role_is_no_member_of_itself_and_may_be_one_of_another() -> None:
    world = created(
        total("small", {"a": "1"}, own={"a": "1", "b": "1"}),
        total("large", {"b": "1"}),
        role("x", {"a": "1"}, rule("get")),
        role("y", {"b": "1"}, rule("list")),
    )
    assert verbs(world, "small") == ["get"]
    assert verbs(world, "large") == ["get", "list"]


def test_a_role_that_is_no_longer_aggregated_keeps_its_rules() -> None:
    world = created(role("x", {"a": "1"}, rule("get")), total("sum", {"a": "1"}))
    world.server.patch(f"{ROLES}/sum", {"aggregationRule": None})
    world.server.patch(f"{ROLES}/x", {"rules": [rule("list")]})
    assert verbs(world.settle(), "sum") == ["get"]


def test_the_role_is_written_once_by_its_own_field_manager() -> None:
    world = created(role("x", {"a": "1"}, rule("get")), total("sum", {"a": "1"}))
    written = [each for each in world.requests if each[0] == "PATCH"]
    assert len(written) == 1
    world.crash().settle()
    assert [each for each in world.requests if each[0] == "PATCH"] == written
    owners = world.server.get(f"{ROLES}/sum").body["metadata"]["managedFields"]
    assert {(each["manager"], each["operation"]) for each in owners} >= {
        ("clusterrole-aggregation-controller", "Apply")
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_default_roles_are_aggregated_in_any_order_of_events(seed: int) -> None:
    world = World(ClusterRoleAggregationController)
    objects = [each for each in default_policy() if each["kind"] == "ClusterRole"]
    order = random.Random(seed)
    order.shuffle(objects)
    for each in objects:
        assert world.server.post(ROLES, each).status == 201
        world.settle(order.choice, steps=order.randrange(4))
    world.settle(order.choice)
    found = {name: world.server.get(f"{ROLES}/{name}").body["rules"] for name in ("admin", "edit", "view")}
    parts = {name: world.server.get(f"{ROLES}/system:aggregate-to-{name}").body["rules"] for name in found}
    assert found["view"] == parts["view"]
    assert found["edit"] == [*parts["edit"], *found["view"]]
    assert found["admin"] == [*found["edit"], *parts["admin"]]
