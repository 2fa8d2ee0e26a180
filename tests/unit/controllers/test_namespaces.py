"""The deletion of a namespace, on the embedded server."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import DeleteCollection, Discover, Effect, EffectResponse, Replace
from headgate.controllers.namespaces import NamespaceController
from unit.controllers.world import World, config_map

NS = "/api/v1/namespaces/x"


def a_world(**metadata: Any) -> World:
    world = World(NamespaceController)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "x", **metadata}})
    return world


def conditions(world: World) -> dict[str, tuple[str, str, str]]:
    found = world.server.get(NS).body["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


def test_an_empty_namespace_is_deleted_at_once() -> None:
    world = a_world()
    assert world.server.delete(NS).body["status"]["phase"] == "Terminating"
    world.settle()
    assert world.server.get(NS).status == 404


def test_content_of_every_kind_is_deleted() -> None:
    world = a_world()
    world.server.post(f"{NS}/configmaps", config_map("a"))
    world.server.post(f"{NS}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    lease = {"metadata": {"name": "l"}, "spec": {}}
    world.server.post("/apis/coordination.k8s.io/v1/namespaces/x/leases", lease)
    world.server.delete(NS)
    world.settle()
    assert world.server.get("/api/v1/configmaps").body["items"] == []
    assert world.server.get("/apis/coordination.k8s.io/v1/leases").body["items"] == []
    assert world.server.get(NS).status == 404


def test_a_finalizer_on_content_is_reported_and_blocks() -> None:
    world = a_world()
    world.server.post(f"{NS}/configmaps", config_map("held", finalizers=["example.com/f"]))
    world.server.post(f"{NS}/secrets", config_map("also", finalizers=["example.com/f", "example.com/g"]))
    world.server.delete(NS)
    world.settle()
    told = conditions(world)
    assert told["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances, secrets. has 1 resource instances",
    )
    assert told["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining:"
        " example.com/f in 2 resource instances, example.com/g in 1 resource instances",
    )
    assert told["NamespaceDeletionContentFailure"][0] == "False"
    world.server.patch(f"{NS}/configmaps/held", {"metadata": {"finalizers": None}})
    world.settle()
    assert world.server.get(NS).status == 200
    world.server.patch(f"{NS}/secrets/also", {"metadata": {"finalizers": None}})
    world.settle()
    assert world.server.get(NS).status == 404, "the last one to go is heard, not waited for"


def test_pods_are_deleted_first_with_their_grace_period() -> None:
    world = a_world()
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "i"}]}
    world.server.post(f"{NS}/pods", {"metadata": {"name": "p"}, "spec": spec})
    world.server.post(f"{NS}/configmaps", config_map("a"))
    world.server.delete(NS)
    world.settle()
    assert world.server.get(f"{NS}/configmaps/a").status == 200
    assert {status for status, _, _ in conditions(world).values()} == {"False"}
    world.server.delete(f"{NS}/pods/p", {"gracePeriodSeconds": 0})
    world.settle()
    assert world.server.get(NS).status == 404


def test_pods_that_exceed_their_grace_period_are_reported() -> None:
    world = a_world()
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "i"}]}
    world.server.post(f"{NS}/pods", {"metadata": {"name": "p"}, "spec": spec})
    world.server.delete(NS)
    world.advance(10)
    assert conditions(world)["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: x for gvr:"
        " /v1, Resource=pods",
    )
    world.server.delete(f"{NS}/pods/p", {"gracePeriodSeconds": 0})
    world.advance(120)
    assert world.server.get(NS).status == 404


def test_a_namespace_with_finalizers_of_its_own_waits_for_them_empty() -> None:
    world = a_world(finalizers=["example.com/f"])
    world.server.delete(NS)
    world.settle()
    left = world.server.get(NS).body
    assert left["spec"] == {}
    assert left["metadata"]["finalizers"] == ["example.com/f"]
    world.server.patch(NS, {"metadata": {"finalizers": None}})
    assert world.server.get(NS).status == 404


def test_foreign_entries_of_spec_finalizers_are_left_to_their_owners() -> None:
    world = World(NamespaceController)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "x"}, "spec": {"finalizers": ["example.com/f"]}})
    world.server.delete(NS)
    world.settle()
    assert world.server.get(NS).body["spec"]["finalizers"] == ["example.com/f"]


def test_a_discovery_failure_is_reported_and_retried() -> None:
    world = a_world()
    world.server.post(f"{NS}/configmaps", config_map("a"))
    down = EffectResponse(503, {"message": "the groups are having a rest"}, 0.0)
    world.refuse = lambda effect: down if effect == Discover("/apis") else None
    world.server.delete(NS)
    world.settle()
    assert conditions(world)["NamespaceDeletionDiscoveryFailure"][:2] == ("True", "DiscoveryFailed")
    assert world.server.get(f"{NS}/configmaps/a").status == 404, "what is known is deleted all the same"
    world.refuse = lambda effect: None
    world.advance(120)
    assert world.server.get(NS).status == 404


def test_a_kind_that_cannot_be_deleted_does_not_keep_the_others() -> None:
    world = a_world()
    world.server.post(f"{NS}/configmaps", config_map("a"))
    world.server.post(f"{NS}/secrets", config_map("b"))
    no = EffectResponse(403, {"message": "not you"}, 0.0)
    world.refuse = lambda effect: (
        no if isinstance(effect, DeleteCollection) and effect.resource.plural == "secrets" else None
    )
    world.server.delete(NS)
    world.settle()
    text = "Failed to delete all resource types, 1 remaining: not you"
    assert conditions(world)["NamespaceDeletionContentFailure"] == ("True", "ContentDeletionFailed", text)
    assert world.server.get(f"{NS}/configmaps/a").status == 404


@pytest.mark.parametrize("after", range(1, 200, 7))
def test_a_crash_after_any_request_is_completed_by_the_next_process(after: int) -> None:
    world = a_world()
    world.server.post(f"{NS}/configmaps", config_map("a"))
    world.server.delete(NS)

    class Killed(Exception):
        pass

    def kill(effect: Effect) -> EffectResponse | None:
        if len(world.requests) >= after:
            raise Killed
        return None

    world.refuse = kill
    try:
        world.settle()
    except Killed:
        world.refuse = lambda effect: None
        world.crash().settle()
    assert world.server.get(NS).status == 404


def test_concurrent_writes_do_not_stop_the_deletion() -> None:
    world = a_world()
    world.server.delete(NS)
    interfered: list[Effect] = []

    def interfere(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Replace) and len(interfered) < 4:
            interfered.append(effect)
            world.server.patch(NS, {"metadata": {"labels": {"n": str(len(interfered))}}})
        return None

    world.refuse = interfere
    world.advance(60)
    assert world.server.get(NS).status == 404


def test_a_new_namespace_of_the_same_name_is_not_deleted() -> None:
    world = a_world()
    world.server.delete(NS)
    world.deliver_all()
    world.server.put(f"{NS}/finalize", {"metadata": {"name": "x"}, "spec": {"finalizers": []}})
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    world.server.post(f"{NS}/configmaps", config_map("a"))
    world.settle()
    assert world.server.get(f"{NS}/configmaps/a").status == 200


def test_idle_namespaces_cost_nothing() -> None:
    world = a_world()
    world.settle()
    world.requests.clear()
    world.server.patch(NS, {"metadata": {"labels": {"a": "b"}}})
    world.server.post(f"{NS}/configmaps", config_map("a"))
    world.server.delete(f"{NS}/configmaps/a")
    world.settle()
    assert world.requests == []
