"""Who has to go when all connections together hold too much."""

from __future__ import annotations

from headgate.apiserver.http.accounts import Accounts
from headgate.apiserver.http.limits import Limits


class Client:
    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self.gone = False
        self.entered = accounts.enter(self)

    def abort(self, reason: str) -> None:
        self.gone = True
        self._accounts.leave(self)

    def finish(self) -> None:
        self.abort("asked to")


def test_a_flood_pushes_out_its_own_oldest_and_never_a_client_that_works() -> None:
    accounts = Accounts(Limits(connections=3))
    working = Client(accounts)
    accounts.served(working)
    flood = [Client(accounts) for _ in range(10)]
    assert not working.gone
    assert all(each.entered for each in flood)
    assert [each.gone for each in flood] == [True] * 8 + [False] * 2
    assert len(accounts) == 3


def test_when_all_places_are_taken_by_clients_that_work_a_newcomer_is_turned_away() -> None:
    accounts = Accounts(Limits(connections=2))
    for _ in range(2):
        accounts.served(Client(accounts))
    assert not Client(accounts).entered


def test_the_longest_unread_answer_goes_first_when_too_much_waits() -> None:
    accounts = Accounts(Limits(unsent_in_all_bytes=100))
    first, second, third = Client(accounts), Client(accounts), Client(accounts)
    accounts.does_not_read(first, 40)
    accounts.does_not_read(second, 40)
    accounts.does_not_read(third, 40)
    assert (first.gone, second.gone, third.gone) == (True, False, False)
    accounts.reads_again(second)
    accounts.does_not_read(second, 60)
    assert not third.gone


def test_bodies_are_counted_together_until_they_are_complete() -> None:
    accounts = Accounts(Limits(bodies_in_all_bytes=100))
    first, second = Client(accounts), Client(accounts)
    assert accounts.body(first, 60)
    assert not accounts.body(second, 60)
    accounts.body(first, 0)
    assert accounts.body(second, 60)
    accounts.leave(second)
    assert accounts.body(first, 100)


def test_reads_and_writes_in_flight_are_limited_apart() -> None:
    accounts = Accounts(Limits(reads_in_flight=1, writes_in_flight=1))
    accounts.begin(reading=False)
    assert accounts.busy(reading=False)
    assert not accounts.busy(reading=True)
    accounts.finish(reading=False)
    assert not accounts.busy(reading=False)
