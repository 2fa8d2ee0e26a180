"""Lists, pages and watches, without a socket."""

from __future__ import annotations

import msgspec
import pytest

from embedded import Embedded, a_pod, events
from headgate.apiserver.request.messages import ServerRequest
from headgate.apiserver.watch.watcher import WatchCursor

MAPS = "/api/v1/namespaces/t/configmaps"
PODS = "/api/v1/namespaces/t/pods"


def with_maps(*names: str) -> Embedded:
    server = Embedded()
    for name in names:
        server.post(MAPS, {"metadata": {"name": name, "labels": {"first": name[0]}}})
    return server


def test_a_paged_list_shows_one_revision_whatever_happens_between_the_pages() -> None:
    server = with_maps("a", "b", "c", "d")
    first = server.get(MAPS, limit=2).body
    assert first["metadata"]["remainingItemCount"] == 2
    server.delete(f"{MAPS}/c")
    server.post(MAPS, {"metadata": {"name": "e"}})
    second = server.get(MAPS, limit=2, **{"continue": first["metadata"]["continue"]}).body
    names = [item["metadata"]["name"] for item in (*first["items"], *second["items"])]
    assert names == ["a", "b", "c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


def test_a_page_is_filled_past_what_the_selector_leaves_out() -> None:
    server = with_maps("a1", "b1", "a2", "b2", "a3")
    page = server.get(MAPS, limit=2, labelSelector="first=a").body
    assert [item["metadata"]["name"] for item in page["items"]] == ["a1", "a2"]
    assert "remainingItemCount" not in page["metadata"]
    rest = server.get(MAPS, limit=2, labelSelector="first=a", **{"continue": page["metadata"]["continue"]}).body
    assert [item["metadata"]["name"] for item in rest["items"]] == ["a3"]


def test_items_of_a_list_carry_no_type_of_their_own() -> None:
    listed = with_maps("a").get(MAPS).body
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in listed["items"][0]


def test_a_watch_tells_what_enters_and_leaves_its_selection() -> None:
    server = with_maps("a")
    watch = server.watch(MAPS, labelSelector="on=yes", resourceVersion=server.api.store.committed)
    obj = server.get(f"{MAPS}/a").body
    on = server.put(f"{MAPS}/a", {**obj, "metadata": {**obj["metadata"], "labels": {"on": "yes"}}}).body
    more = server.put(f"{MAPS}/a", {**on, "data": {"k": "v"}}).body
    off = server.put(f"{MAPS}/a", {**more, "metadata": {**more["metadata"], "labels": {}}}).body
    seen = events(watch)
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    last = seen[-1][1]["metadata"]
    assert last["labels"] == {"on": "yes"}
    assert last["resourceVersion"] == off["metadata"]["resourceVersion"]


def test_a_watch_that_asks_for_the_state_gets_it_and_then_a_bookmark() -> None:
    server = with_maps("a", "b")
    watch = server.watch(
        MAPS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    kinds = [(kind, obj["metadata"].get("name")) for kind, obj in events(watch)]
    assert kinds == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", None)]


def test_a_watch_that_fell_behind_the_history_ends_with_410() -> None:
    server = with_maps("a", "b")
    watch = server.watch(MAPS, resourceVersion="1")
    server.api.store.compact(server.api.store.committed)
    ((kind, error),) = events(watch)
    assert (kind, error["code"], error["reason"]) == ("ERROR", 410, "Expired")
    assert watch.ended
    assert events(watch) == []


def test_a_watch_of_one_namespace_hears_nothing_of_others() -> None:
    server = with_maps()
    server.post("/api/v1/namespaces", {"metadata": {"name": "u"}})
    watch = server.watch(MAPS)
    server.post("/api/v1/namespaces/u/configmaps", {"metadata": {"name": "x"}})
    assert events(watch) == []


def test_a_table_watch_sends_its_columns_once() -> None:
    server = Embedded()
    server.post(PODS, a_pod("a"))
    server.post(PODS, a_pod("b"))
    accept = {"authorization": "Bearer token", "accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    watch = server.send(ServerRequest("GET", PODS, "watch=1", accept))
    assert isinstance(watch, WatchCursor)
    tables = [msgspec.json.decode(line)["object"] for line in watch.pull()]
    assert [table["kind"] for table in tables] == ["Table", "Table"]
    assert [bool(table["columnDefinitions"]) for table in tables] == [True, False]


@pytest.mark.parametrize("field", ["spec.foo", "metadata.uid"])
def test_a_field_that_cannot_be_selected_on_is_refused_by_name(field: str) -> None:
    refused = Embedded().get(PODS, fieldSelector=f"{field}=x")
    assert refused.status == 400
    assert field in refused.body["message"]


def test_pods_are_selected_by_node() -> None:
    server = Embedded()
    server.post(PODS, a_pod("a", nodeName="n1"))
    server.post(PODS, a_pod("b"))
    assert [each["metadata"]["name"] for each in server.get(PODS, fieldSelector="spec.nodeName=n1").body["items"]] == [
        "a"
    ]
    assert [each["metadata"]["name"] for each in server.get(PODS, fieldSelector="spec.nodeName!=").body["items"]] == [
        "a"
    ]


def test_a_revision_from_the_future_is_a_timeout_that_says_to_come_back() -> None:
    refused = with_maps("a").get(MAPS, resourceVersion="999999")
    assert (refused.status, refused.body["reason"]) == (504, "Timeout")
    assert refused.body["details"]["retryAfterSeconds"] == 1
    assert ("Retry-After", "1") in refused.headers


def test_an_expired_paged_list_may_continue_with_the_present_objects() -> None:
    server = with_maps("a", "b", "c")
    first = server.get(MAPS, limit=1).body
    server.post(MAPS, {"metadata": {"name": "b2"}})
    server.api.store.compact(server.api.store.committed)
    expired = server.get(MAPS, limit=2, **{"continue": first["metadata"]["continue"]})
    assert (expired.status, expired.body["reason"]) == (410, "Expired")
    rest = server.get(MAPS, **{"continue": expired.body["metadata"]["continue"]}).body
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "b2", "c"]
