"""Who has to go when all connections together hold too much."""

from __future__ import annotations

from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.server_limits import ServerLimits


class Client:
    def __init__(self, accounts: ConnectionTracker) -> None:
        self._accounts = accounts
        self.gone = False
        self.entered = accounts.add(self)

    def abort(self, reason: str) -> None:
        self.gone = True
        self._accounts.remove(self)

    def finish(self) -> None:
        self.abort("asked to")


def test_a_flood_pushes_out_its_own_oldest_and_never_a_client_that_works() -> None:
    accounts = ConnectionTracker(ServerLimits(connections=3))
    working = Client(accounts)
    accounts.mark_served(working)
    flood = [Client(accounts) for _ in range(10)]
    assert not working.gone
    assert all(each.entered for each in flood)
    assert [each.gone for each in flood] == [True] * 8 + [False] * 2
    assert len(accounts) == 3


def test_when_all_places_are_taken_by_clients_that_work_a_newcomer_is_turned_away() -> None:
    accounts = ConnectionTracker(ServerLimits(connections=2))
    for _ in range(2):
        accounts.mark_served(Client(accounts))
    assert not Client(accounts).entered


def test_the_longest_unread_answer_goes_first_when_too_much_waits() -> None:
    accounts = ConnectionTracker(ServerLimits(unsent_in_all_bytes=100))
    first, second, third = Client(accounts), Client(accounts), Client(accounts)
    accounts.set_unsent_bytes(first, 40)
    accounts.set_unsent_bytes(second, 40)
    accounts.set_unsent_bytes(third, 40)
    assert (first.gone, second.gone, third.gone) == (True, False, False)
    accounts.clear_unsent_bytes(second)
    accounts.set_unsent_bytes(second, 60)
    assert not third.gone


def test_bodies_are_counted_together_until_they_are_complete() -> None:
    accounts = ConnectionTracker(ServerLimits(bodies_in_all_bytes=100))
    first, second = Client(accounts), Client(accounts)
    assert accounts.set_body_bytes(first, 60)
    assert not accounts.set_body_bytes(second, 60)
    accounts.set_body_bytes(first, 0)
    assert accounts.set_body_bytes(second, 60)
    accounts.remove(second)
    assert accounts.set_body_bytes(first, 100)


def test_reads_and_writes_in_flight_are_limited_apart() -> None:
    accounts = ConnectionTracker(ServerLimits(reads_in_flight=1, writes_in_flight=1))
    accounts.begin_request(reading=False)
    assert accounts.is_at_request_limit(reading=False)
    assert not accounts.is_at_request_limit(reading=True)
    accounts.finish_request(reading=False)
    assert not accounts.is_at_request_limit(reading=False)
