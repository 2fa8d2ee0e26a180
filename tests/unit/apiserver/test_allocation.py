"""Addresses and node ports: allocated once, also while webhooks are called; a dry run allocates nothing."""

from __future__ import annotations

from typing import Any

from embedded import Embedded

SERVICES = "/api/v1/namespaces/t/services"


def a_service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_an_address_is_free_again_when_its_service_is_gone() -> None:
    server = Embedded()
    asked = {"clusterIP": "10.96.7.7"}
    assert server.post(SERVICES, a_service("a", **asked)).status == 201
    assert server.post(SERVICES, a_service("b", **asked)).status == 422
    server.delete(f"{SERVICES}/a")
    assert server.post(SERVICES, a_service("b", **asked)).status == 201


def test_a_dry_run_allocates_nothing_and_does_not_wait() -> None:
    server = Embedded()
    asked = {"clusterIP": "10.96.7.7"}
    assert server.post(SERVICES, a_service("a", **asked), dryRun="All").status == 201
    assert server.post(SERVICES, a_service("a", **asked)).status == 201
    assert server.post(SERVICES, a_service("b", **asked), dryRun="All").status == 201


def test_what_a_lost_write_held_is_free() -> None:
    server = Embedded()
    asked = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}
    server.disk_error = "full"
    assert server.post(SERVICES, a_service("a", **asked)).status == 500
    server.disk_error = None
    assert server.post(SERVICES, a_service("b", **asked)).status == 201


def test_the_first_and_the_last_address_of_the_range_are_not_allocated() -> None:
    server = Embedded()
    for address in ("10.96.0.0", "10.96.255.255", "10.97.0.1"):
        response = server.post(SERVICES, a_service("a", clusterIP=address))
        assert "the provided network does not match the current range" in response.body["message"]
