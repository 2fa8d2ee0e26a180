"""Which connections the tracker aborts when all connections in total exceed a limit."""

from __future__ import annotations

from headgate.apiserver.io.http_handler import RequestsInFlight
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.server_limits import ServerLimits


class Client:
    def __init__(self, tracker: ConnectionTracker) -> None:
        self._tracker = tracker
        self.aborted = False
        self.accepted = tracker.add(self)

    def abort(self, reason: str) -> None:
        self.aborted = True
        self._tracker.remove(self)

    def finish(self) -> None:
        self.abort("asked to")


def test_a_flood_of_unserved_connections_evicts_its_own_oldest_and_no_served_connection() -> None:
    tracker = ConnectionTracker(ServerLimits(connections=3))
    working = Client(tracker)
    tracker.mark_served(working)
    flood = [Client(tracker) for _ in range(10)]
    assert not working.aborted
    assert all(each.accepted for each in flood)
    assert [each.aborted for each in flood] == [True] * 8 + [False] * 2
    assert len(tracker) == 3


def test_a_new_connection_is_rejected_when_all_connections_are_served() -> None:
    tracker = ConnectionTracker(ServerLimits(connections=2))
    for _ in range(2):
        tracker.mark_served(Client(tracker))
    assert not Client(tracker).accepted


def test_the_connection_with_the_oldest_unread_response_is_aborted_first() -> None:
    tracker = ConnectionTracker(ServerLimits(total_unsent_bytes=100))
    first, second, third = Client(tracker), Client(tracker), Client(tracker)
    tracker.set_unsent_bytes(first, 40)
    tracker.set_unsent_bytes(second, 40)
    tracker.set_unsent_bytes(third, 40)
    assert (first.aborted, second.aborted, third.aborted) == (True, False, False)
    tracker.clear_unsent_bytes(second)
    tracker.set_unsent_bytes(second, 60)
    assert not third.aborted


def test_incomplete_bodies_are_limited_in_total() -> None:
    tracker = ConnectionTracker(ServerLimits(total_body_bytes=100))
    first, second = Client(tracker), Client(tracker)
    assert tracker.set_body_bytes(first, 60)
    assert not tracker.set_body_bytes(second, 60)
    tracker.set_body_bytes(first, 0)
    assert tracker.set_body_bytes(second, 60)
    tracker.remove(second)
    assert tracker.set_body_bytes(first, 100)


def test_reads_and_writes_in_flight_have_separate_limits() -> None:
    requests = RequestsInFlight(ServerLimits(reads_in_flight=1, writes_in_flight=1))
    requests.begin(reading=False)
    assert requests.is_at_limit(reading=False)
    assert not requests.is_at_limit(reading=True)
    requests.finish(reading=False)
    assert not requests.is_at_limit(reading=False)


def test_a_server_that_evicts_no_connection_rejects_the_new_one() -> None:
    tracker = ConnectionTracker(ServerLimits(connections=1, evicts_unserved=False))
    first = Client(tracker)
    assert not Client(tracker).accepted
    assert not first.aborted
