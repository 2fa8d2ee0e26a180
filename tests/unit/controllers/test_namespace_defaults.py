"""The default service account and the root CA of every namespace."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import Create, EffectResponse
from headgate.controllers.namespaces import NamespaceController
from headgate.controllers.root_ca_publisher import RootCACertPublisher
from headgate.controllers.service_accounts import ServiceAccountsController
from unit.controllers.world import World

NS = "/api/v1/namespaces/a"
ACCOUNT = f"{NS}/serviceaccounts/default"
CERTIFICATE = f"{NS}/configmaps/kube-root-ca.crt"


@pytest.fixture
def world() -> World:
    world = World(ServiceAccountsController, lambda: RootCACertPublisher("PEM"), NamespaceController)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    return world.settle()


def test_a_new_namespace_gets_service_account_and_root_ca(world: World) -> None:
    assert world.server.get(ACCOUNT).status == 200
    found = world.server.get(CERTIFICATE).body
    assert found["data"] == {"ca.crt": "PEM"}
    assert found["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle")


@pytest.mark.parametrize("path", [ACCOUNT, CERTIFICATE])
def test_a_deleted_object_is_recreated(world: World, path: str) -> None:
    before = world.server.get(path).body["metadata"]["uid"]
    world.server.delete(path)
    world.settle()
    assert world.server.get(path).body["metadata"]["uid"] != before


def test_a_changed_root_ca_is_restored_and_other_fields_are_kept(world: World) -> None:
    change = {"metadata": {"labels": {"a": "b"}, "annotations": {"mine": "1"}}, "data": {"ca.crt": "forged", "x": "y"}}
    world.server.patch(CERTIFICATE, change)
    world.settle()
    found = world.server.get(CERTIFICATE).body
    assert found["data"] == {"ca.crt": "PEM"}
    assert (found["metadata"]["labels"], found["metadata"]["annotations"]["mine"]) == ({"a": "b"}, "1")


def test_a_new_ca_after_a_restart_is_published_everywhere(world: World) -> None:
    world._makers = (lambda: RootCACertPublisher("NEW"),)
    world.crash().settle()
    assert world.server.get(CERTIFICATE).body["data"] == {"ca.crt": "NEW"}


def test_nothing_is_created_in_a_terminating_namespace(world: World) -> None:
    metadata = {"name": "held", "finalizers": ["example.com/f"]}
    world.server.post(f"{NS}/configmaps", {"metadata": metadata})
    world.server.delete(NS)
    world.settle()
    assert world.server.get(ACCOUNT).status == 404
    world.server.patch(f"{NS}/configmaps/held", {"metadata": {"finalizers": None}})
    world.settle()
    assert world.server.get(NS).status == 404


def test_a_recreated_namespace_gets_both_again(world: World) -> None:
    world.server.delete(NS)
    world.settle()
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    world.settle()
    assert world.server.get(ACCOUNT).status == world.server.get(CERTIFICATE).status == 200


def test_a_rejected_write_is_retried(world: World) -> None:
    no = EffectResponse(500, {"message": "not now"}, 0.0)
    world.refuse = lambda effect: no if isinstance(effect, Create) else None
    world.server.delete(ACCOUNT)
    world.advance(1)
    world.refuse = lambda effect: None
    world.advance(60)
    assert world.server.get(ACCOUNT).status == 200


def test_an_idle_cluster_gets_no_requests(world: World) -> None:
    world.crash().settle()
    assert [path for method, path in world.requests if method != "GET"].count(f"{NS}/serviceaccounts") == 1
    world.requests.clear()
    world.server.patch(NS, {"metadata": {"labels": {"a": "b"}}})
    world.settle()
    assert world.requests == []
