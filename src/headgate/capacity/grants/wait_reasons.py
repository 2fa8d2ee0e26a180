"""Finds the reason why the scheduler may not try a pod now, and writes the sentence that users see.

The functions read the queue cache and change nothing. ``capacity/queue_wait.py`` has the reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from headgate.capacity.api.lease import LAPSED_TEXT, Lapse
from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.ledger import QueueAccount
from headgate.capacity.cache.pod_record import HOLDING, PROMISED, AllocationState, Ask, PodRecord, ask_of
from headgate.capacity.grants.head_of_line import Delay, find_delay
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import GATE, MAX_PODS_WITHOUT_NODE
from headgate.capacity.ordering.grant_windows import pods_in_window, with_window
from headgate.capacity.ordering.queue_views import ENQUEUE_CHECK
from headgate.capacity.queue_wait import QueueShortage, QueueWait, WaitReason, queue_wait
from headgate.kube.resource_amounts import amount_text
from headgate.kube.timestamps import format_time, human_duration


def find_wait_reason(cache: QueueCache, record: PodRecord) -> QueueWait | None:
    """Why the pod waits; None if it may be tried."""
    queue, state = record.queue, record.state
    if record.task.uid in cache.promises.exceeding_limit:
        return _limit_lowered_wait(cache, record)
    if record.pending_lapse is not None and state in PROMISED:
        return _lapse_wait(queue, record.pending_lapse)
    if record.pending_revocation and state in PROMISED:
        found = _gang_wait(record.gang, queue) if record.gang is not None else None
        return found or queue_wait(WaitReason.REVOKED, queue, record.pending_revocation)
    if record.is_being_revoked and state in PROMISED:
        text = f"its promise in queue {queue}, for which no node was found, is revoked for a pod of higher priority"
        return queue_wait(WaitReason.REVOKED, queue, text)
    if record.delayed_unit and state is AllocationState.RESERVED:
        return _delayed_wait(cache, record)
    if state is AllocationState.RESERVED and record.gang is not None and not record.gang.can_start:
        return _gang_wait(record.gang, queue) or queue_wait(
            WaitReason.NOT_ENOUGH_PODS, queue, _tryable_pods_text(record.gang)
        )
    if state in HOLDING or state in (AllocationState.GONE, AllocationState.SUCCEEDED):
        return None
    if state is AllocationState.FOREIGN_GATE:
        gates = ", ".join(gate for gate in record.task.gates if gate != GATE)
        return queue_wait(WaitReason.FOREIGN_GATE, queue, f"it waits for other controllers to remove: {gates}")
    if state is AllocationState.NOT_OPTED_IN:
        return queue_wait(
            WaitReason.NOT_OPTED_IN, queue, f'its gate {GATE} is not removed: the annotation of that name is not "true"'
        )
    if state is AllocationState.GATE_REMOVAL_REFUSED and record.gate_refusal is not None:
        return queue_wait(
            WaitReason.GATE_REMOVAL_REFUSED, queue, f"its gate could not be removed: {record.gate_refusal[1]}"
        )
    if state is AllocationState.LAPSED and record.lapse is not None:
        return _lapse_wait(queue, record.lapse)
    gang = record.gang
    found = _gang_wait(gang, queue) if gang is not None else None
    found = found or find_queue_refusal(cache, queue)
    if found is not None:
        return found
    if cache.admission is not None:
        held = cache.admission.reason(record.task.uid if gang is None else gang.key)
        if held and state is AllocationState.WAITING:
            return queue_wait(WaitReason.PLUGIN, queue, held)
    if state is AllocationState.RESIZED:
        return _add_promise(_capacity_wait(cache, record, record.ask or (), "in use or promised"), record)
    if gang is not None:
        return _add_revocation(_gang_capacity_wait(cache, gang, record), record)
    return _add_revocation(_capacity_wait(cache, record, cache.ask_of_pod(record)), record)


def _lapse_wait(queue: str, lapse: Lapse) -> QueueWait:
    """The wait after a lapse, until the pod asks again. The text is the same while its stamp is being removed."""
    text = (
        f"{LAPSED_TEXT} in queue {queue} lapsed at {format_time(lapse.at_s)}; "
        f"it asks its queue again at {format_time(lapse.retry_s)}"
    )
    return queue_wait(WaitReason.LAPSED, queue, text)


def _add_promise(wait: QueueWait, record: PodRecord) -> QueueWait:
    """Adds to the message what a resized pod was promised: the pod keeps this promise and waits for the rest."""
    promised, requested = _amounts_text(record.promised_amounts), _amounts_text(record.task.requests)
    text = f"it was promised {promised} and asks for {requested} now: {wait.message}"
    return msgspec.structs.replace(wait, message=text)


def _add_revocation(wait: QueueWait, record: PodRecord) -> QueueWait:
    """Adds to the message why the promise of the pod was revoked."""
    if not record.revocation_reason or wait.why is not WaitReason.FULL:
        return wait
    text = f"{wait.message}; {record.revocation_reason}"
    return msgspec.structs.replace(wait, why=WaitReason.LOST_TURN, message=text)


def _amounts_text(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in sorted(amounts.items())) or "nothing"


def _gang_wait(gang: Gang, queue: str) -> QueueWait | None:
    """Why no member of the gang can be granted capacity, whatever the capacity of its queue; None if members can."""
    name = gang.key[1]
    if gang.spec is None:
        return queue_wait(WaitReason.NO_GROUP, queue, f"its PodGroup {name} does not exist")
    if not gang.spec.is_supported:
        return queue_wait(WaitReason.NOT_SUPPORTED, queue, f"its PodGroup {name} is held: {gang.spec.problem}")
    if gang.spec.problem:
        return queue_wait(WaitReason.INVALID, queue, f"its PodGroup {name} is not valid: {gang.spec.problem}")
    if gang.lacks_pods:
        existing, needed = gang.existing, gang.minimum
        return queue_wait(
            WaitReason.NOT_ENOUGH_PODS, queue, f"its PodGroup {name} has {existing} pods and needs {needed}"
        )
    return None


def _delayed_wait(cache: QueueCache, record: PodRecord) -> QueueWait:
    """The wait of a pod that has a promise and keeps its gate while terminating pods use the capacity on nodes."""
    unit = [record] if record.gang is None else [each for each in record.gang.members.values() if each.delayed_unit]
    total: Counter[str] = Counter()
    for each in unit:
        total.update(each.counted_amounts)
    shortage = find_shortage(cache, record.queue, ask_of(total), QueueAccount.occupied)
    if shortage is None:
        text = f"queue {record.queue} has capacity for it; pods that were promised capacity before it start first"
        return queue_wait(WaitReason.TERMINATING_PODS, record.queue, text)
    return queue_wait(WaitReason.TERMINATING_PODS, record.queue, shortage.describe_delay(), shortage)


def _tryable_pods_text(gang: Gang) -> str:
    missing, _ = gang.missing_on_nodes()
    tryable = gang.tryable_count
    return f"its PodGroup {gang.key[1]} needs {missing} more pods on nodes, and only {tryable} of them may be tried now"


def incomplete_gang_text(gang: Gang) -> str:
    """The text that says why the promises of an incomplete gang are revoked."""
    name = gang.key[1]
    cause = f"its PodGroup {name} does not exist"
    if gang.spec is not None:
        cause = (
            gang.spec.problem or f"{gang.ready} of the {gang.minimum} pods that its PodGroup {name} needs had capacity"
        )
    return f"its promise was revoked: {cause}"


def find_queue_refusal(cache: QueueCache, queue: str) -> QueueWait | None:
    """Why this queue admits no pods at all; None if it does."""
    tree_queue = cache.tree.get(queue)
    if tree_queue is None:
        return queue_wait(WaitReason.NO_QUEUE, queue, f"queue {queue} does not exist")
    if tree_queue.problem:
        return queue_wait(
            WaitReason.INVALID,
            queue,
            f"queue {queue} cannot grant anything: {tree_queue.problem}",
            QueueShortage(queue, "", 0, 0, 0),
        )
    if not tree_queue.is_leaf:
        return queue_wait(WaitReason.NOT_LEAF, queue, f"queue {queue} has queues below it; only those take pods")
    if not tree_queue.is_open:
        return queue_wait(WaitReason.CLOSED, queue, f"queue {queue} is {tree_queue.spec.state}")
    return None


def _gang_capacity_wait(cache: QueueCache, gang: Gang, record: PodRecord) -> QueueWait:
    """The wait for capacity of a valid gang with enough pods, in a queue that admits pods."""
    queue, name = gang.queue, gang.key[1]
    if gang.enqueue_request is not None:
        shortage = find_shortage(cache, queue, gang.enqueue_request.ask, QueueAccount.committed)
        if shortage is None:
            held = _held_wait(cache, queue, record)
            if held is not None:
                return held
            return queue_wait(
                WaitReason.WAITING_TURN, queue, f"its PodGroup {name} is next to be admitted to queue {queue}"
            )
        text = f"its PodGroup {name} is not admitted with its minResources: {shortage.describe()}"
        return queue_wait(WaitReason.NOT_INQUEUE, queue, text, shortage)
    if gang.grant_request is None:
        waiting, missing = len(gang.waiting), gang.missing_count
        text = f"its PodGroup {name} needs {missing} more pods, and only {waiting} of the waiting pods can start"
        return queue_wait(WaitReason.NOT_ENOUGH_PODS, queue, text)
    unit = gang.grant_request.uids
    if record.task.uid in unit or gang.missing_count:
        return _capacity_wait(cache, record, gang.grant_request.ask)
    return _capacity_wait(cache, record, with_window(ask_of(record.task.requests), cache.count_in_window((record,))))


def _capacity_wait(
    cache: QueueCache, record: PodRecord, ask: Ask, taken: str = "in use or promised to others"
) -> QueueWait:
    """The wait of a pod, whose unit has this ask, in a queue that admits pods. ``taken``: the words of the message for
    the amounts that other pods hold."""
    queue = record.queue
    shortage = find_shortage(cache, queue, ask)
    if shortage is None and ENQUEUE_CHECK in ask:
        shortage = find_shortage(cache, queue, ask, QueueAccount.committed)
        if shortage is not None:
            return queue_wait(
                WaitReason.FULL, queue, shortage.describe("in use, promised or set aside for groups"), shortage
            )
    if shortage is None:
        found = _held_wait(cache, queue, record) or _window_wait(cache, queue, pods_in_window(ask))
        if found is not None:
            return found
        delay = find_shortage(cache, queue, ask, QueueAccount.occupied)
        if delay is not None:
            return queue_wait(WaitReason.TERMINATING_PODS, queue, delay.describe_delay(), delay)
        return queue_wait(
            WaitReason.WAITING_TURN, queue, f"queue {queue} has capacity for it; the scheduler has not admitted it yet"
        )
    return queue_wait(WaitReason.FULL, queue, shortage.describe(taken), shortage)


def _held_wait(cache: QueueCache, queue: str, record: PodRecord) -> QueueWait | None:
    """The wait of a pod whose unit fits and would delay the first in line; None if it would not."""
    delay = find_delay(cache, record)
    if delay is None:
        return None
    text = f"queue {queue} has capacity for it; {_delay_text(cache, delay)}"
    place = queue if delay.exceeded is None else delay.exceeded[0][0]
    return queue_wait(WaitReason.BEHIND_FIRST, queue, text, QueueShortage(place, "", 0, 0, 0))


def _delay_text(cache: QueueCache, delay: Delay) -> str:
    """The unit that must not be delayed, and how it would be."""
    unit = delay.protected.unit
    if isinstance(unit, str):
        task = cache.records[unit].task
        first = f"pod {task.namespace}/{task.name}"
    else:
        first = f"PodGroup {unit[0]}/{unit[1]}"
    if delay.exceeded is None:
        return f"{first} is first in line, and nothing passes it (dequeue strategy {delay.protected.strategy})"
    (name, resource), spare = delay.exceeded
    start = "may start at any time"
    if delay.not_before_s > cache.time_of_day_s:
        start = f"cannot start before {format_time(delay.not_before_s)}"
    return (
        f"it would delay {first}, the first in line, which is protected, {start}, and leaves "
        f"{amount_text(resource, spare)} {resource} in queue {name}"
    )


def _window_wait(cache: QueueCache, queue: str, pod_count: int) -> QueueWait | None:
    """The wait of a unit for a window that does not allow this number of pods more now; None if all windows do."""
    full = cache.windows.find_full(queue, pod_count)
    if full is not None:
        text = f"queue {queue} has capacity for it; {_full_window_text(cache, full, pod_count)}"
        return queue_wait(WaitReason.WINDOW_FULL, queue, text, QueueShortage(full, "", 0, 0, 0))
    for name in cache.tree.path(queue) if pod_count else ():
        if not cache.windows.is_open(name):
            text = f"queue {queue} has capacity for it; a group before it waits until fewer pods of queue {name} wait"
            return queue_wait(WaitReason.WINDOW_FULL, queue, f"{text} for a node", QueueShortage(name, "", 0, 0, 0))
    return None


def _full_window_text(cache: QueueCache, full: str, pod_count: int) -> str:
    """Why the window of the queue ``full`` does not allow this number of pods more."""
    windows = cache.windows
    count, limit, time = windows.count(full), windows.limit(full) or 0, human_duration(windows.timeout_s(full))
    waiting = f"{count} {'pod' if count == 1 else 'pods'} of queue {full}"
    waiting += f" {'was' if count == 1 else 'were'} admitted in the last {time} and {'has' if count == 1 else 'have'}"
    if pod_count > limit:
        return (
            f"its group of {pod_count} pods is larger than the limit of {limit} pods without a node of queue {full} "
            f"(annotation {MAX_PODS_WITHOUT_NODE}), so it is admitted when no other pod counts there: {waiting} no node"
        )
    together = f", and its group needs {pod_count} more together" if pod_count > 1 else ""
    return f"{waiting} no node{together}; at most {limit} may wait for one (annotation {MAX_PODS_WITHOUT_NODE})"


def revocation_text(cache: QueueCache, record: PodRecord) -> str:
    """The text that says why a promise that exceeds a lowered limit is revoked."""
    wait = _limit_lowered_wait(cache, record)
    if not wait.resource:
        return "the promise of its gang was revoked when a limit was lowered"
    used, limit = (amount_text(wait.resource, each) for each in (wait.used, wait.limit))
    return (
        f"its promise was revoked: queue {wait.blocker} had {used} {wait.resource} in use or promised, "
        f"and its limit is {limit}"
    )


def _limit_lowered_wait(cache: QueueCache, record: PodRecord) -> QueueWait:
    """The wait of a pod whose promise exceeds a limit that was lowered."""
    queue = record.queue
    for name in cache.tree.path(queue):
        tree_queue, account = cache.tree.queues.get(name), cache.ledger.account(name)
        for resource, limit in sorted(tree_queue.limits.items()) if tree_queue is not None else ():
            asked = record.promised_amounts.get(resource, 0)
            if asked and account.allocated_plus_reserved(resource) > limit:
                shortage = QueueShortage(name, resource, asked, account.allocated_plus_reserved(resource), limit)
                text = f"its promise was made before the limit of queue {name} was lowered; older promises go first"
                return queue_wait(WaitReason.LOST_TURN, queue, text, shortage)
    return queue_wait(WaitReason.LOST_TURN, queue, "the promise of its gang was made before a limit was lowered")


def find_shortage(
    cache: QueueCache,
    queue: str,
    ask: Ask,
    used_in: Callable[[QueueAccount, str], int] = QueueAccount.allocated_plus_reserved,
) -> QueueShortage | None:
    """The shortage in the first queue without capacity for the ask, from this queue upwards; None if the ask fits.
    ``used_in``: what counts as used; the enqueue action counts ``QueueAccount.committed``."""
    for name in cache.tree.path(queue):
        tree_queue, account = cache.tree.queues.get(name), cache.ledger.account(name)
        for resource, amount in ask:
            limit = None if tree_queue is None else tree_queue.limits.get(resource)
            used = used_in(account, resource)
            if limit is not None and amount and used + amount > limit:
                return QueueShortage(name, resource, amount, used, limit)
    return None
