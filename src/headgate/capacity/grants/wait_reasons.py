"""Finds the reason why a pod may not be tried now. Reads the queue cache and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import HOLDING, PROMISED, AllocationState, Ask, PodRecord, ask_of
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import GATE
from headgate.capacity.ordering.queue_views import ENQUEUED_MARK
from headgate.capacity.wait_reason import QueueShortage, QueueWait, WaitReason, queue_wait
from headgate.kube.resource_amounts import amount_text


def find_wait_reason(book: QueueCache, record: PodRecord) -> QueueWait | None:
    """None: it may be tried."""
    queue, standing = record.counted_queue, record.state
    if record.task.uid in book.promises.exceeding_limit:
        return _lost_turn(book, record)
    if record.is_retracting and standing in PROMISED:
        text = f"its share of queue {queue}, for which no node was found, goes to a pod of higher priority"
        return queue_wait(WaitReason.TAKEN_BACK, queue, text)
    if standing is AllocationState.RESERVED and record.gang is not None and not record.gang.can_start:
        return _find_in_group(record.gang, queue) or queue_wait(WaitReason.GANG_SHORT, queue, _too_few(record.gang))
    if standing in HOLDING or standing in (AllocationState.GONE, AllocationState.SUCCEEDED):
        return None
    if standing is AllocationState.FOREIGN:
        gates = ", ".join(gate for gate in record.task.gates if gate != GATE)
        return queue_wait(WaitReason.FOREIGN_GATE, queue, f"it waits for others to lift: {gates}")
    if standing is AllocationState.NOT_ASKED:
        return queue_wait(
            WaitReason.NOT_ASKED, queue, f'its gate {GATE} is not lifted: the annotation of that name is not "true"'
        )
    if standing is AllocationState.PUT_OFF and record.put_off is not None:
        return queue_wait(WaitReason.PUT_OFF, queue, f"its gate could not be lifted: {record.put_off[1]}")
    gang = record.gang
    found = _find_in_group(gang, queue) if gang is not None else None
    found = found or find_queue_refusal(book, queue)
    if found is not None:
        return found
    if standing is AllocationState.GROWING:
        return _grown(_measure(book, queue, record.ask or (), "in use or promised"), record)
    if gang is not None:
        return _withdrawn(_find_in_turn(book, gang, record), record)
    return _withdrawn(_measure(book, queue, book.ask_alone(record)), record)


def _grown(held: QueueWait, record: PodRecord) -> QueueWait:
    """It was resized after the promise: it keeps what was promised, and asks for the rest like any other pod."""
    promised, wanted = _listed(record.promised), _listed(record.task.requests)
    text = f"it was promised {promised} and asks for {wanted} now: {held.message}"
    return msgspec.structs.replace(held, message=text)


def _withdrawn(held: QueueWait, record: PodRecord) -> QueueWait:
    if not record.withdrawal or held.why is not WaitReason.FULL:
        return held
    text = f"{held.message}; {record.withdrawal}"
    return msgspec.structs.replace(held, why=WaitReason.LOST_TURN, message=text)


def _listed(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in sorted(amounts.items())) or "nothing"


def _find_in_group(gang: Gang, queue: str) -> QueueWait | None:
    name = gang.key[1]
    if gang.spec is None:
        return queue_wait(WaitReason.NO_GROUP, queue, f"its PodGroup {name} does not exist")
    if gang.spec.problem:
        return queue_wait(WaitReason.INVALID, queue, f"its PodGroup {name} cannot be counted with: {gang.spec.problem}")
    if gang.lacks_pods:
        there, needed = gang.existing, gang.minimum
        return queue_wait(WaitReason.GANG_SHORT, queue, f"its PodGroup {name} has {there} pods and needs {needed}")
    return None


def _too_few(gang: Gang) -> str:
    least, _ = gang.missing_on_nodes()
    few = gang.tryable_count
    return f"its PodGroup {gang.key[1]} lacks {least} pods on nodes, and only {few} of them may be tried now"


def why_short(gang: Gang) -> str:
    """In words, why what its members were promised is taken back."""
    name = gang.key[1]
    what = f"its PodGroup {name} does not exist"
    if gang.spec is not None:
        what = (
            gang.spec.problem or f"{gang.ready} of the {gang.minimum} pods that its PodGroup {name} needs had a share"
        )
    return f"what it was promised was taken back: {what}"


def find_queue_refusal(book: QueueCache, queue: str) -> QueueWait | None:
    """Why this queue takes no pods at all."""
    branch = book.tree.get(queue)
    if branch is None:
        return queue_wait(WaitReason.NO_QUEUE, queue, f"queue {queue} does not exist")
    if branch.problem:
        return queue_wait(
            WaitReason.INVALID,
            queue,
            f"queue {queue} cannot grant anything: {branch.problem}",
            QueueShortage(queue, "", 0, 0, 0),
        )
    if not branch.is_leaf:
        return queue_wait(WaitReason.NOT_LEAF, queue, f"queue {queue} has queues below it; only those take pods")
    if not branch.is_open:
        return queue_wait(WaitReason.CLOSED, queue, f"queue {queue} is {branch.spec.state}")
    return None


def _find_in_turn(book: QueueCache, gang: Gang, record: PodRecord) -> QueueWait:
    """The group is sound and whole, and its queue takes pods."""
    queue, name = gang.queue, gang.key[1]
    if gang.enqueue_request is not None:
        shortage = find_shortage(book, queue, gang.enqueue_request[1], is_enqueue=True)
        if shortage is None:
            return queue_wait(
                WaitReason.WAITING_TURN, queue, f"its PodGroup {name} is next to be let into queue {queue}"
            )
        text = f"its PodGroup {name} is not let in with its minResources: {shortage.describe()}"
        return queue_wait(WaitReason.NOT_INQUEUE, queue, text, shortage)
    if gang.entry is None:
        waiting, lacks = len(gang.waiting), gang.missing_count
        text = f"its PodGroup {name} lacks {lacks} pods, and only {waiting} of those that wait can go on"
        return queue_wait(WaitReason.GANG_SHORT, queue, text)
    unit = gang.entry[2]
    ask = gang.entry[1] if record.task.uid in unit or gang.missing_count else ask_of(record.task.requests)
    return _measure(book, queue, ask)


def _measure(book: QueueCache, queue: str, ask: Ask, taken: str = "in use or promised to others") -> QueueWait:
    shortage = find_shortage(book, queue, ask)
    if shortage is None and ENQUEUED_MARK in ask:
        shortage = find_shortage(book, queue, ask, is_enqueue=True)
        if shortage is not None:
            return queue_wait(
                WaitReason.FULL, queue, shortage.describe("in use, promised or set aside for groups"), shortage
            )
    if shortage is None:
        return queue_wait(WaitReason.WAITING_TURN, queue, f"queue {queue} has room; its turn has not come yet")
    return queue_wait(WaitReason.FULL, queue, shortage.describe(taken), shortage)


def why_withdrawn(book: QueueCache, record: PodRecord) -> str:
    """In words, why the promise cannot be kept."""
    held = _lost_turn(book, record)
    if not held.resource:
        return "what its gang was promised was taken back when a limit was lowered"
    used, limit = (amount_text(held.resource, each) for each in (held.used, held.limit))
    return (
        f"what it was promised was taken back: queue {held.blocker} had {used} {held.resource} in use or promised, "
        f"and its limit is {limit}"
    )


def _lost_turn(book: QueueCache, record: PodRecord) -> QueueWait:
    queue = record.counted_queue
    for name in book.tree.path(queue):
        branch, account = book.tree.nodes.get(name), book.ledger.account(name)
        for resource, limit in sorted(branch.limits.items()) if branch is not None else ():
            asked = record.promised.get(resource, 0)
            if asked and account.used(resource) > limit:
                shortage = QueueShortage(name, resource, asked, account.used(resource), limit)
                text = (
                    f"it was promised its share before the limit of queue {name} was lowered; older promises go first"
                )
                return queue_wait(WaitReason.LOST_TURN, queue, text, shortage)
    return queue_wait(WaitReason.LOST_TURN, queue, "its gang was promised its share before a limit was lowered")


def find_shortage(book: QueueCache, queue: str, ask: Ask, is_enqueue: bool = False) -> QueueShortage | None:
    """The first queue from here upwards without capacity for it."""
    for name in book.tree.path(queue):
        branch, account = book.tree.nodes.get(name), book.ledger.account(name)
        for resource, amount in ask:
            limit = None if branch is None else branch.limits.get(resource)
            used = account.committed(resource) if is_enqueue else account.used(resource)
            if limit is not None and amount and used + amount > limit:
                return QueueShortage(name, resource, amount, used, limit)
    return None
