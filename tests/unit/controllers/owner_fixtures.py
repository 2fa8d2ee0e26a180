"""Fixtures for owners and dependents."""

from __future__ import annotations

from typing import Any

from headgate.controllers.garbage_collector.controller import GarbageCollector
from unit.controllers.world import Object, World, config_map

A = "/api/v1/namespaces/a"
B = "/api/v1/namespaces/b"
NODES = "/api/v1/nodes"
MISSING = "00000000-dead-4000-8000-000000000000"


def two_namespaces() -> World:
    world = World(GarbageCollector)
    for name in ("a", "b"):
        world.server.post("/api/v1/namespaces", {"metadata": {"name": name}})
    return world.settle()


def make(world: World, name: str, *owners: Object, path: str = f"{A}/configmaps", **metadata: Any) -> Object:
    response = world.server.post(path, config_map(name, *owners, **metadata))
    assert response.status == 201, response.body
    made: Object = response.body
    return made


def delete(world: World, name: str, policy: str | None = None, path: str = f"{A}/configmaps") -> None:
    body = None if policy is None else {"propagationPolicy": policy}
    assert world.server.delete(f"{path}/{name}", body).status == 200


def names(world: World, path: str = f"{A}/configmaps") -> list[str]:
    return sorted(item["metadata"]["name"] for item in world.server.get(path).body["items"])


def owners_of(world: World, name: str, path: str = f"{A}/configmaps") -> list[str]:
    metadata = world.server.get(f"{path}/{name}").body["metadata"]
    return [each["name"] for each in metadata.get("ownerReferences") or ()]
