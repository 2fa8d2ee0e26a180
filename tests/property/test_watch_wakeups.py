"""Watches that are woken only by possibly matching changes see the same events as watches that examine every change."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from embedded import TOKEN, Embedded
from headgate.apiserver.request.messages import ServerRequest
from headgate.apiserver.watch.index import WatchIndex, WatchScope
from headgate.apiserver.watch.stream import WatchStream
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.store import Compacted, Item, Revision, StoreChange

QUERIES = (
    "/api/v1/pods?",
    "/api/v1/namespaces/a/pods?",
    "/api/v1/namespaces/b/pods?labelSelector=x%3D1",
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1",
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2",
    "/api/v1/pods?fieldSelector=spec.nodeName%3D",
    "/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1",
    "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dp1",
    "/api/v1/pods?fieldSelector=status.phase%3DPending,spec.nodeName%3Dn1&labelSelector=x",
)

names = st.sampled_from(("p1", "p2"))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from("ab"), names, st.sampled_from(("", "n1", "n2"))),
        st.tuples(st.just("label"), st.sampled_from("ab"), names, st.sampled_from("12")),
        st.tuples(st.just("bind"), st.sampled_from("ab"), names, st.sampled_from(("n1", "n2"))),
        st.tuples(st.just("delete"), st.sampled_from("ab"), names, st.just("")),
        st.tuples(st.just("compact"), st.just(""), st.just(""), st.just("")),
        st.tuples(st.just("take"), st.just(""), st.just(""), st.integers(0, len(QUERIES) - 1)),
    ),
    max_size=40,
)


def watch(server: Embedded, query: str) -> WatchCursor:
    path, _, rest = query.partition("?")
    answer = server.send(ServerRequest("GET", path, f"watch=true&{rest}", {"authorization": f"Bearer {TOKEN}"}))
    assert isinstance(answer, WatchCursor)
    return answer


def act(server: Embedded, verb: str, namespace: str, name: str, value: Any) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    if verb == "create":
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
        server.post(pods, {"metadata": {"name": name}, "spec": {**spec, "nodeName": value} if value else spec})
    elif verb == "label":
        server.patch(f"{pods}/{name}", {"metadata": {"labels": {"x": value}}})
    elif verb == "bind":
        server.post(f"{pods}/{name}/binding", {"target": {"kind": "Node", "name": value}})
    else:
        server.delete(f"{pods}/{name}", gracePeriodSeconds=0)


@settings(max_examples=60)
@given(steps)
def test_waking_only_matching_watches_loses_no_event(todo: list[tuple[str, str, str, Any]]) -> None:
    server = Embedded(namespace="a")
    server.post("/api/v1/namespaces", {"metadata": {"name": "b"}})
    store = server.api.store
    always = [watch(server, query) for query in QUERIES]
    expected = [b"".join(each.pull()) for each in always]
    streams = [WatchStream(watch(server, query), 0.0) for query in QUERIES]
    seen = [stream.take(0.0, 1) for stream in streams]
    followers: WatchIndex[int] = WatchIndex()
    for number, stream in enumerate(streams):
        followers.add(number, stream.scope)
    told = store.committed
    pending: set[int] = set()

    def take(number: int, limit_bytes: int) -> None:
        seen[number] += streams[number].take(0.0, limit_bytes)
        if not streams[number].behind:
            pending.discard(number)

    def publish() -> None:
        nonlocal told
        changes = store.changes("pods", told)
        assert not isinstance(changes, Compacted)
        if changes:
            for number in followers.matching(changes):
                streams[number].wake(Revision(changes[0].revision - 1))
                pending.add(number)
        told = store.committed
        for number, each in enumerate(always):
            expected[number] += b"".join(each.pull())

    for verb, namespace, name, value in todo:
        if verb == "compact":
            for number in list(pending):  # the others have nothing to look at, and may be left where they are
                take(number, 1 << 20)
            store.compact(store.committed)
        elif verb == "take":
            take(value, 1)
        else:
            act(server, verb, namespace, name, value)
            publish()
    for number, stream in enumerate(streams):
        take(number, 1 << 20)
        assert not stream.ended
    assert seen == expected


def change(namespace: str, before: dict[str, str] | None, after: dict[str, str]) -> StoreChange:
    def item(fields: dict[str, str]) -> Item:
        return Item("pods", namespace, "p", "u", Revision(1), {}, fields, b"{}")

    return StoreChange(Revision(1), item(after), None if before is None else item(before), False)


def test_a_watch_of_one_value_is_found_by_the_old_and_by_the_new_value() -> None:
    followers: WatchIndex[str] = WatchIndex()
    followers.add("n1", WatchScope("", "spec.nodeName", "n1"))
    followers.add("n2", WatchScope("", "spec.nodeName", "n2"))
    followers.add("a", WatchScope("a"))
    followers.add("all", WatchScope())
    moved = change("b", {"spec.nodeName": "n1"}, {"spec.nodeName": "n3"})
    assert set(followers.matching([moved])) == {"n1", "all"}
    assert set(followers.matching([change("a", None, {})])) == {"a", "all"}
    followers.remove("n1", WatchScope("", "spec.nodeName", "n1"))
    assert set(followers.matching([moved])) == {"all"}
    assert set(followers.all_watches()) == {"n2", "a", "all"}
