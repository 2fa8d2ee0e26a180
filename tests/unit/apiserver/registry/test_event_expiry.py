"""Which events are due: by the time of their last write, in order, without reading the others."""

from __future__ import annotations

from typing import Any

from embedded import Embedded, events
from headgate.apiserver.registry.event_expiry import EventExpiryQueue

EVENTS = "/api/v1/namespaces/t/events"
TTL_S = 3600.0


def an_event(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "involvedObject": {"namespace": "t"}}


def left(server: Embedded) -> list[str]:
    return [each["metadata"]["name"] for each in server.get(EVENTS).body["items"]]


def expire(server: Embedded, expiry: EventExpiryQueue) -> int:
    count = expiry.tick(server.epoch_s)
    server.api.store.commit(server.api.store.applied)
    return count


def test_an_event_goes_an_hour_after_its_last_write_and_watchers_hear_of_it() -> None:
    server = Embedded()
    expiry = EventExpiryQueue(server.api, TTL_S)
    server.post(EVENTS, an_event("a"))
    server.post(EVENTS, an_event("b"))
    assert expire(server, expiry) == 0
    server.epoch_s += 1800
    server.patch(f"{EVENTS}/a", {"count": 2})
    expire(server, expiry)
    watch = server.watch(EVENTS, resourceVersion=server.get(EVENTS).body["metadata"]["resourceVersion"])
    server.epoch_s += 1800
    assert expire(server, expiry) == 1
    assert left(server) == ["a"]
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)] == [("DELETED", "b")]
    server.epoch_s += 1800
    assert expire(server, expiry) == 1
    assert left(server) == []


def test_events_from_before_this_process_go_by_the_times_they_carry() -> None:
    server = Embedded()
    server.post(EVENTS, an_event("old"))
    server.epoch_s += 3000
    server.post(EVENTS, an_event("young"))
    server.patch(f"{EVENTS}/young", {"count": 2})
    expiry = EventExpiryQueue(server.api, TTL_S)
    server.epoch_s += 600
    assert expire(server, expiry) == 1
    assert left(server) == ["young"]


def test_an_event_that_was_deleted_or_written_again_is_passed_over() -> None:
    server = Embedded()
    expiry = EventExpiryQueue(server.api, TTL_S)
    server.post(EVENTS, an_event("a"))
    expire(server, expiry)
    server.delete(f"{EVENTS}/a")
    server.epoch_s += TTL_S - 1
    server.post(EVENTS, an_event("a"))
    expire(server, expiry)
    server.epoch_s += 1
    assert expire(server, expiry) == 0
    assert left(server) == ["a"]


def test_what_could_not_be_deleted_is_tried_again() -> None:
    server = Embedded()
    expiry = EventExpiryQueue(server.api, TTL_S)
    server.post(EVENTS, an_event("a"))
    expire(server, expiry)
    server.epoch_s += TTL_S
    assert expiry.tick(server.epoch_s) == 1
    server.api.store.rollback()
    expiry.put_back()
    assert left(server) == ["a"]
    assert expire(server, expiry) == 1
    assert left(server) == []


def test_a_flood_goes_in_batches() -> None:
    server = Embedded()
    expiry = EventExpiryQueue(server.api, TTL_S)
    for number in range(501):
        server.post(EVENTS, an_event(f"e{number}"))
    expire(server, expiry)
    server.epoch_s += TTL_S
    assert [expire(server, expiry) for _ in range(3)] == [500, 1, 0]
