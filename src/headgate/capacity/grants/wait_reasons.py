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


def find_wait_reason(cache: QueueCache, record: PodRecord) -> QueueWait | None:
    """None if the pod may be tried."""
    queue, state = record.counted_queue, record.state
    if record.task.uid in cache.promises.exceeding_limit:
        return _lost_turn_wait(cache, record)
    if record.is_retracting and state in PROMISED:
        text = f"its promise in queue {queue}, for which no node was found, is revoked for a pod of higher priority"
        return queue_wait(WaitReason.TAKEN_BACK, queue, text)
    if state is AllocationState.RESERVED and record.gang is not None and not record.gang.can_start:
        return _gang_wait(record.gang, queue) or queue_wait(WaitReason.GANG_SHORT, queue, _few_pods_text(record.gang))
    if state in HOLDING or state in (AllocationState.GONE, AllocationState.SUCCEEDED):
        return None
    if state is AllocationState.FOREIGN:
        gates = ", ".join(gate for gate in record.task.gates if gate != GATE)
        return queue_wait(WaitReason.FOREIGN_GATE, queue, f"it waits for other controllers to remove: {gates}")
    if state is AllocationState.NOT_ASKED:
        return queue_wait(
            WaitReason.NOT_ASKED, queue, f'its gate {GATE} is not removed: the annotation of that name is not "true"'
        )
    if state is AllocationState.PUT_OFF and record.put_off is not None:
        return queue_wait(WaitReason.PUT_OFF, queue, f"its gate could not be removed: {record.put_off[1]}")
    gang = record.gang
    found = _gang_wait(gang, queue) if gang is not None else None
    found = found or find_queue_refusal(cache, queue)
    if found is not None:
        return found
    if state is AllocationState.GROWING:
        return _add_promise(_capacity_wait(cache, queue, record.ask or (), "in use or promised"), record)
    if gang is not None:
        return _add_withdrawal(_gang_capacity_wait(cache, gang, record), record)
    return _add_withdrawal(_capacity_wait(cache, queue, cache.ask_of_pod(record)), record)


def _add_promise(wait: QueueWait, record: PodRecord) -> QueueWait:
    """Adds the promise of a resized pod to the message: the pod keeps it and waits for the rest."""
    promised, wanted = _listed(record.promised), _listed(record.task.requests)
    text = f"it was promised {promised} and asks for {wanted} now: {wait.message}"
    return msgspec.structs.replace(wait, message=text)


def _add_withdrawal(wait: QueueWait, record: PodRecord) -> QueueWait:
    if not record.withdrawal or wait.why is not WaitReason.FULL:
        return wait
    text = f"{wait.message}; {record.withdrawal}"
    return msgspec.structs.replace(wait, why=WaitReason.LOST_TURN, message=text)


def _listed(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in sorted(amounts.items())) or "nothing"


def _gang_wait(gang: Gang, queue: str) -> QueueWait | None:
    name = gang.key[1]
    if gang.spec is None:
        return queue_wait(WaitReason.NO_GROUP, queue, f"its PodGroup {name} does not exist")
    if gang.spec.problem:
        return queue_wait(WaitReason.INVALID, queue, f"its PodGroup {name} is not valid: {gang.spec.problem}")
    if gang.lacks_pods:
        there, needed = gang.existing, gang.minimum
        return queue_wait(WaitReason.GANG_SHORT, queue, f"its PodGroup {name} has {there} pods and needs {needed}")
    return None


def _few_pods_text(gang: Gang) -> str:
    missing, _ = gang.missing_on_nodes()
    tryable = gang.tryable_count
    return f"its PodGroup {gang.key[1]} needs {missing} more pods on nodes, and only {tryable} of them may be tried now"


def incomplete_gang_text(gang: Gang) -> str:
    """The text that says why the promises of an incomplete gang are taken back."""
    name = gang.key[1]
    what = f"its PodGroup {name} does not exist"
    if gang.spec is not None:
        what = (
            gang.spec.problem or f"{gang.ready} of the {gang.minimum} pods that its PodGroup {name} needs had a share"
        )
    return f"its promise was revoked: {what}"


def find_queue_refusal(cache: QueueCache, queue: str) -> QueueWait | None:
    """Why this queue admits no pods at all; None if it does."""
    queue_node = cache.tree.get(queue)
    if queue_node is None:
        return queue_wait(WaitReason.NO_QUEUE, queue, f"queue {queue} does not exist")
    if queue_node.problem:
        return queue_wait(
            WaitReason.INVALID,
            queue,
            f"queue {queue} cannot grant anything: {queue_node.problem}",
            QueueShortage(queue, "", 0, 0, 0),
        )
    if not queue_node.is_leaf:
        return queue_wait(WaitReason.NOT_LEAF, queue, f"queue {queue} has queues below it; only those take pods")
    if not queue_node.is_open:
        return queue_wait(WaitReason.CLOSED, queue, f"queue {queue} is {queue_node.spec.state}")
    return None


def _gang_capacity_wait(cache: QueueCache, gang: Gang, record: PodRecord) -> QueueWait:
    """The wait for capacity of a gang that is valid and complete, in a queue that admits pods."""
    queue, name = gang.queue, gang.key[1]
    if gang.enqueue_request is not None:
        shortage = find_shortage(cache, queue, gang.enqueue_request[1], is_enqueue=True)
        if shortage is None:
            return queue_wait(
                WaitReason.WAITING_TURN, queue, f"its PodGroup {name} is next to be admitted to queue {queue}"
            )
        text = f"its PodGroup {name} is not admitted with its minResources: {shortage.describe()}"
        return queue_wait(WaitReason.NOT_INQUEUE, queue, text, shortage)
    if gang.entry is None:
        waiting, lacks = len(gang.waiting), gang.missing_count
        text = f"its PodGroup {name} needs {lacks} more pods, and only {waiting} of the waiting pods can start"
        return queue_wait(WaitReason.GANG_SHORT, queue, text)
    unit = gang.entry[2]
    ask = gang.entry[1] if record.task.uid in unit or gang.missing_count else ask_of(record.task.requests)
    return _capacity_wait(cache, queue, ask)


def _capacity_wait(cache: QueueCache, queue: str, ask: Ask, taken: str = "in use or promised to others") -> QueueWait:
    shortage = find_shortage(cache, queue, ask)
    if shortage is None and ENQUEUED_MARK in ask:
        shortage = find_shortage(cache, queue, ask, is_enqueue=True)
        if shortage is not None:
            return queue_wait(
                WaitReason.FULL, queue, shortage.describe("in use, promised or set aside for groups"), shortage
            )
    if shortage is None:
        return queue_wait(
            WaitReason.WAITING_TURN, queue, f"queue {queue} has room for it; the scheduler has not admitted it yet"
        )
    return queue_wait(WaitReason.FULL, queue, shortage.describe(taken), shortage)


def withdrawn_text(cache: QueueCache, record: PodRecord) -> str:
    """The text that says why the promise is taken back."""
    wait = _lost_turn_wait(cache, record)
    if not wait.resource:
        return "the promise of its gang was revoked when a limit was lowered"
    used, limit = (amount_text(wait.resource, each) for each in (wait.used, wait.limit))
    return (
        f"its promise was revoked: queue {wait.blocker} had {used} {wait.resource} in use or promised, "
        f"and its limit is {limit}"
    )


def _lost_turn_wait(cache: QueueCache, record: PodRecord) -> QueueWait:
    queue = record.counted_queue
    for name in cache.tree.path(queue):
        queue_node, account = cache.tree.nodes.get(name), cache.ledger.account(name)
        for resource, limit in sorted(queue_node.limits.items()) if queue_node is not None else ():
            asked = record.promised.get(resource, 0)
            if asked and account.used(resource) > limit:
                shortage = QueueShortage(name, resource, asked, account.used(resource), limit)
                text = f"its promise was made before the limit of queue {name} was lowered; older promises go first"
                return queue_wait(WaitReason.LOST_TURN, queue, text, shortage)
    return queue_wait(WaitReason.LOST_TURN, queue, "the promise of its gang was made before a limit was lowered")


def find_shortage(cache: QueueCache, queue: str, ask: Ask, is_enqueue: bool = False) -> QueueShortage | None:
    """The first queue without capacity for the ask, from this queue upwards."""
    for name in cache.tree.path(queue):
        queue_node, account = cache.tree.nodes.get(name), cache.ledger.account(name)
        for resource, amount in ask:
            limit = None if queue_node is None else queue_node.limits.get(resource)
            used = account.committed(resource) if is_enqueue else account.used(resource)
            if limit is not None and amount and used + amount > limit:
                return QueueShortage(name, resource, amount, used, limit)
    return None
