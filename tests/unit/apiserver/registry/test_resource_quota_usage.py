"""Usage of ResourceQuotas: charged, released and recounted, always together with the write."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded, a_pod, events
from headgate.apiserver.registry.resource_quota_usage import recalculate_all
from headgate.store import Store

QUOTAS = "/api/v1/namespaces/t/resourcequotas"
PODS = "/api/v1/namespaces/t/pods"


def a_quota(name: str = "q", **hard: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"hard": hard}}


def used(server: Embedded, name: str = "q") -> Any:
    return server.get(f"{QUOTAS}/{name}").body["status"].get("used")


@pytest.fixture
def server() -> Embedded:
    return Embedded(keeps_quota=True)


def test_a_quota_knows_what_was_there_before_it(server: Embedded) -> None:
    server.post(PODS, a_pod("a"))
    response = server.post(QUOTAS, a_quota(pods="2"))
    assert response.body["status"] == {}, "the answer is of the moment before it was counted, as a real server's"
    assert used(server) == {"pods": "1"}


def test_object_and_quota_change_in_one_transaction(server: Embedded) -> None:
    server.post(QUOTAS, a_quota(pods="2"))
    server.disk_error = "disk full"
    assert server.post(PODS, a_pod("a")).status == 500
    server.disk_error = None
    assert used(server) == {"pods": "0"}
    assert server.get(f"{PODS}/a").status == 404


def test_watchers_of_a_quota_hear_of_every_charge(server: Embedded) -> None:
    server.post(QUOTAS, a_quota(pods="2"))
    watch = server.watch(QUOTAS, resourceVersion=server.get(QUOTAS).body["metadata"]["resourceVersion"])
    server.post(PODS, a_pod("a"))
    server.delete(f"{PODS}/a", gracePeriodSeconds="0")
    assert [event["status"]["used"]["pods"] for _, event in events(watch)] == ["1", "0"]


def test_other_namespaces_are_not_asked(server: Embedded) -> None:
    server.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    server.post(QUOTAS, a_quota(pods="0"))
    assert server.post("/api/v1/namespaces/other/pods", a_pod("a")).status == 201


def test_a_write_that_costs_nothing_leaves_the_quota_alone(server: Embedded) -> None:
    server.post(QUOTAS, a_quota(pods="2"))
    server.post(PODS, a_pod("a"))
    before = server.get(f"{QUOTAS}/q").body["metadata"]["resourceVersion"]
    server.patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}})
    server.post("/api/v1/namespaces/t/configmaps", {"metadata": {"name": "c"}})
    assert server.get(f"{QUOTAS}/q").body["metadata"]["resourceVersion"] == before


def test_a_quota_with_limits_and_without_usage_in_its_status_admits_no_object() -> None:
    server = Embedded()
    server.post(QUOTAS, a_quota(pods="2"))
    assert server.post(PODS, a_pod("a")).status == 201, "no limit is in force before somebody writes the status"
    server.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"pods": "2"}}})
    response = server.post(PODS, a_pod("b"))
    assert response.body["message"] == 'pods "b" is forbidden: status unknown for quota: q, resources: pods'


def test_books_that_others_kept_are_put_right_at_the_start() -> None:
    store = Store()
    server = Embedded(store=store)
    server.post(QUOTAS, a_quota(pods="9"))
    server.post(QUOTAS, a_quota("right", configmaps="9"))
    server.patch(f"{QUOTAS}/right/status", {"status": {"hard": {"configmaps": "9"}, "used": {"configmaps": "0"}}})
    server.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"pods": "1"}, "used": {"pods": "7"}}})
    later = Embedded(store=store, namespace="", keeps_quota=True)
    recalculate_all(later.api, "2030-01-01T00:00:00Z")
    assert [change.item.name for change in store.pending()] == ["q"]
    store.commit(store.applied)
    assert later.get(f"{QUOTAS}/q").body["status"] == {"hard": {"pods": "9"}, "used": {"pods": "0"}}


def test_the_quota_is_asked_before_the_name_is_looked_up(server: Embedded) -> None:
    server.post(QUOTAS, a_quota(pods="1"))
    server.post(PODS, a_pod("a"))
    response = server.post(PODS, a_pod("a"))
    assert response.status == 403
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in response.body["message"]


def test_a_name_that_is_taken_is_not_charged_twice(server: Embedded) -> None:
    server.post(QUOTAS, a_quota(pods="5"))
    server.post(PODS, a_pod("a"))
    assert server.post(PODS, a_pod("a")).status == 409
    assert used(server) == {"pods": "1"}
