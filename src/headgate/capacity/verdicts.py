"""Asking the book why a pod may not be tried now. Looks only: nothing is changed by an answer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.capacity.book import Book
from headgate.capacity.groups import Gang
from headgate.capacity.names import GATE
from headgate.capacity.record import HELD, PROMISED, Ask, Record, Standing, ask_of
from headgate.capacity.verdict import Held, Shortage, Why, held_by
from headgate.capacity.views import ENQUEUED
from headgate.kube.amounts import amount_text


def find_reason(book: Book, record: Record) -> Held | None:
    """None: it may be tried."""
    queue, standing = record.place, record.standing
    if record.task.uid in book.promises.lost:
        return _lost_turn(book, record)
    if record.is_retracting and standing in PROMISED:
        text = f"its share of queue {queue}, for which no node was found, goes to a pod of higher priority"
        return held_by(Why.TAKEN_BACK, queue, text)
    if standing is Standing.RESERVED and record.gang is not None and not record.gang.can_start:
        return _find_in_group(record.gang, queue) or held_by(Why.GANG_SHORT, queue, _too_few(record.gang))
    if standing in HELD or standing in (Standing.GONE, Standing.SUCCEEDED):
        return None
    if standing is Standing.FOREIGN:
        gates = ", ".join(gate for gate in record.task.gates if gate != GATE)
        return held_by(Why.FOREIGN_GATE, queue, f"it waits for others to lift: {gates}")
    if standing is Standing.NOT_ASKED:
        return held_by(
            Why.NOT_ASKED, queue, f'its gate {GATE} is not lifted: the annotation of that name is not "true"'
        )
    if standing is Standing.PUT_OFF and record.put_off is not None:
        return held_by(Why.PUT_OFF, queue, f"its gate could not be lifted: {record.put_off[1]}")
    gang = record.gang
    found = _find_in_group(gang, queue) if gang is not None else None
    found = found or find_in_queue(book, queue)
    if found is not None:
        return found
    if standing is Standing.GROWING:
        return _grown(_measure(book, queue, record.ask or (), "in use or promised"), record)
    if gang is not None:
        return _withdrawn(_find_in_turn(book, gang, record), record)
    return _withdrawn(_measure(book, queue, book.ask_alone(record)), record)


def _grown(held: Held, record: Record) -> Held:
    """It was resized after the promise: it keeps what was promised, and asks for the rest like any other pod."""
    promised, wanted = _listed(record.promised), _listed(record.task.requests)
    text = f"it was promised {promised} and asks for {wanted} now: {held.message}"
    return msgspec.structs.replace(held, message=text)


def _withdrawn(held: Held, record: Record) -> Held:
    if not record.withdrawal or held.why is not Why.FULL:
        return held
    text = f"{held.message}; {record.withdrawal}"
    return msgspec.structs.replace(held, why=Why.LOST_TURN, message=text)


def _listed(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in sorted(amounts.items())) or "nothing"


def _find_in_group(gang: Gang, queue: str) -> Held | None:
    name = gang.key[1]
    if gang.spec is None:
        return held_by(Why.NO_GROUP, queue, f"its PodGroup {name} does not exist")
    if gang.spec.problem:
        return held_by(Why.INVALID, queue, f"its PodGroup {name} cannot be counted with: {gang.spec.problem}")
    if gang.is_short:
        there, needed = gang.existing, gang.minimum
        return held_by(Why.GANG_SHORT, queue, f"its PodGroup {name} has {there} pods and needs {needed}")
    return None


def _too_few(gang: Gang) -> str:
    least, _ = gang.lacks_on_nodes()
    return f"its PodGroup {gang.key[1]} lacks {least} pods on nodes, and only {gang.triable} of them may be tried now"


def why_short(gang: Gang) -> str:
    """In words, why what its members were promised is taken back."""
    name = gang.key[1]
    what = f"its PodGroup {name} does not exist"
    if gang.spec is not None:
        what = (
            gang.spec.problem or f"{gang.ready} of the {gang.minimum} pods that its PodGroup {name} needs had a share"
        )
    return f"what it was promised was taken back: {what}"


def find_in_queue(book: Book, queue: str) -> Held | None:
    """Why this queue takes no pods at all."""
    branch = book.tree.get(queue)
    if branch is None:
        return held_by(Why.NO_QUEUE, queue, f"queue {queue} does not exist")
    if branch.problem:
        return held_by(
            Why.INVALID, queue, f"queue {queue} cannot grant anything: {branch.problem}", Shortage(queue, "", 0, 0, 0)
        )
    if not branch.is_leaf:
        return held_by(Why.NOT_LEAF, queue, f"queue {queue} has queues below it; only those take pods")
    if not branch.is_open:
        return held_by(Why.CLOSED, queue, f"queue {queue} is {branch.spec.state}")
    return None


def _find_in_turn(book: Book, gang: Gang, record: Record) -> Held:
    """The group is sound and whole, and its queue takes pods."""
    queue, name = gang.place, gang.key[1]
    if gang.asks_in is not None:
        shortage = find_shortage(book, queue, gang.asks_in[1], is_enqueue=True)
        if shortage is None:
            return held_by(Why.WAITING_TURN, queue, f"its PodGroup {name} is next to be let into queue {queue}")
        text = f"its PodGroup {name} is not let in with its minResources: {shortage.describe()}"
        return held_by(Why.NOT_INQUEUE, queue, text, shortage)
    if gang.entry is None:
        waiting, lacks = len(gang.waiting), gang.lacks
        text = f"its PodGroup {name} lacks {lacks} pods, and only {waiting} of those that wait can go on"
        return held_by(Why.GANG_SHORT, queue, text)
    unit = gang.entry[2]
    ask = gang.entry[1] if record.task.uid in unit or gang.lacks else ask_of(record.task.requests)
    return _measure(book, queue, ask)


def _measure(book: Book, queue: str, ask: Ask, taken: str = "in use or promised to others") -> Held:
    shortage = find_shortage(book, queue, ask)
    if shortage is None and ENQUEUED in ask:
        shortage = find_shortage(book, queue, ask, is_enqueue=True)
        if shortage is not None:
            return held_by(Why.FULL, queue, shortage.describe("in use, promised or set aside for groups"), shortage)
    if shortage is None:
        return held_by(Why.WAITING_TURN, queue, f"queue {queue} has room; its turn has not come yet")
    return held_by(Why.FULL, queue, shortage.describe(taken), shortage)


def why_withdrawn(book: Book, record: Record) -> str:
    """In words, why the promise cannot be kept."""
    held = _lost_turn(book, record)
    if not held.resource:
        return "what its gang was promised was taken back when a limit was lowered"
    used, limit = (amount_text(held.resource, each) for each in (held.used, held.limit))
    return (
        f"what it was promised was taken back: queue {held.blocker} had {used} {held.resource} in use or promised, "
        f"and its limit is {limit}"
    )


def _lost_turn(book: Book, record: Record) -> Held:
    queue = record.place
    for name in book.tree.path(queue):
        branch, account = book.tree.branches.get(name), book.ledger.account(name)
        for resource, limit in sorted(branch.limits.items()) if branch is not None else ():
            asked = record.promised.get(resource, 0)
            if asked and account.used(resource) > limit:
                shortage = Shortage(name, resource, asked, account.used(resource), limit)
                text = (
                    f"it was promised its share before the limit of queue {name} was lowered; older promises go first"
                )
                return held_by(Why.LOST_TURN, queue, text, shortage)
    return held_by(Why.LOST_TURN, queue, "its gang was promised its share before a limit was lowered")


def find_shortage(book: Book, queue: str, ask: Ask, is_enqueue: bool = False) -> Shortage | None:
    """The first queue from here upwards that has no room for it."""
    for name in book.tree.path(queue):
        branch, account = book.tree.branches.get(name), book.ledger.account(name)
        for resource, amount in ask:
            limit = None if branch is None else branch.limits.get(resource)
            used = account.wanted(resource) if is_enqueue else account.used(resource)
            if limit is not None and amount and used + amount > limit:
                return Shortage(name, resource, amount, used, limit)
    return None
