"""Explains a queue: whether it admits pods, how full it is, which pods hold its capacity, and which pod waits first.

The functions ask a queue engine that ``runtime/inspection/queues.py`` has built from lists of all objects. What would
help the first pod is found as for the pod itself (``explanation.py``): by dry runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headgate.capacity.engine import QueueContents, QueueEngine, WaitReason
from headgate.capacity.explanation import remedy_text
from headgate.capacity.names import ROOT
from headgate.kube.resource_amounts import amount_text

_MAX_LEAVES: Final = 5
"""For how many queues below the explained one the first pod is named."""
_MAX_REASONS: Final = 2000
"""How many waiting pods are asked for their reason."""
_ADMITS: Final = (None, WaitReason.NOT_LEAF)
"""Queues with queues below them take no pods themselves; those below may."""


class ResourceUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Formatted amounts. ``limit``: what the queue may use, which ancestors and guarantees of siblings may reduce;
    empty if it is unlimited. ``free``: how much of ``limit`` is neither allocated nor reserved; an ancestor may have
    less."""

    resource: str
    allocated: str
    reserved: str
    limit: str = ""
    free: str = ""
    deserved: str = ""
    guarantee: str = ""
    terminating: str = ""


class HolderOfQueue(msgspec.Struct, frozen=True, omit_defaults=True):
    """``is_promised``: the capacity is reserved for the pod, which has no node yet."""

    pod: str
    queue: str
    amounts: Mapping[str, str]
    is_promised: bool = False


class FirstWaitingPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first pod in the line of a leaf queue. ``help``: what would give it capacity; empty if its queue lacks
    none."""

    pod: str
    queue: str
    reason: str
    text: str
    help: str = ""


class QueueExplanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """``admits``: whether the queue, or a queue below it, admits pods at all. ``full_at``: the queue on its path to the
    root that has no capacity left for a resource, with the resource; empty if there is none. ``holders``: the largest
    first. ``waiting_reasons``: how many of the waiting pods wait for which reason; ``uncounted``: how many were not
    asked."""

    name: str
    summary: str
    admits: bool
    state: str
    parent: str = ""
    children: tuple[str, ...] = ()
    usage: tuple[ResourceUsage, ...] = ()
    full_at: tuple[str, str] = ("", "")
    waiting: int = 0
    waiting_reasons: Mapping[str, int] = {}
    uncounted: int = 0
    holders: tuple[HolderOfQueue, ...] = ()
    first: tuple[FirstWaitingPod, ...] = ()
    next: tuple[str, ...] = ()


def explain_queue(queues: QueueEngine, name: str, state: str) -> QueueExplanation:
    """``name``: of a queue that exists. ``state``: from its status."""
    refusal = queues.refusal(name)
    children = tuple(each for each in queues.queue_names() if each != name and queues.parent(each) == name)
    admits = (None if refusal is None else refusal.why) in _ADMITS
    contents = queues.contents(name)
    full = next(_full_queues(queues, name), ("", ""))
    first = tuple(_first_pods(queues, contents)) if admits else ()
    reasons = Counter(_reasons(queues, contents))
    waiting = len(contents.waiting) + len(contents.held_back)
    steps = tuple(f"for pod {each.pod}: {each.help}" for each in first if each.help)
    if refusal is not None and not admits:
        steps = (_repair(name, refusal.why, refusal.message),)
    return QueueExplanation(
        name,
        _summary(queues, name, None if admits or refusal is None else refusal.message, full, waiting),
        admits,
        state,
        queues.parent(name),
        children,
        tuple(_usage(queues, name)),
        full,
        waiting,
        dict(sorted(reasons.items())),
        max(waiting - _MAX_REASONS, 0),
        tuple(_holders(contents, _ranking_resource(queues, name))),
        first,
        steps,
    )


def _summary(queues: QueueEngine, name: str, refusal: str | None, full: tuple[str, str], waiting: int) -> str:
    waits = f"{waiting} pods wait" if waiting != 1 else "1 pod waits"
    if refusal is not None:
        return f"it admits no pods: {refusal}; {waits}"
    if full[0]:
        queue, resource = full
        limit = queues.limits(queue).capability[resource]
        taken = queues.usage(queue).allocated.get(resource, 0) + queues.usage(queue).reserved.get(resource, 0)
        amounts = f"{amount_text(resource, taken)} of {amount_text(resource, limit)}"
        where = "it has" if queue == name else f"its ancestor {queue} has"
        return f"{where} no {resource} left: {amounts} are in use or promised; {waits}"
    return f"it admits pods; {waits}"


def _repair(name: str, why: WaitReason, message: str) -> str:
    if why is WaitReason.CLOSED:
        return f"queue {name} has to be opened"
    return message if why is WaitReason.NO_QUEUE else f"that error has to be fixed: kubectl edit queue {name}"


def _path(queues: QueueEngine, name: str) -> Iterator[str]:
    while name:
        yield name
        name = queues.parent(name)


def _full_queues(queues: QueueEngine, name: str) -> Iterator[tuple[str, str]]:
    """Queues on the path to the root whose limit for a resource is reached; the lowest queue first."""
    for queue in _path(queues, name):
        usage = queues.usage(queue)
        for resource, limit in sorted(queues.limits(queue).capability.items()):
            if usage.allocated.get(resource, 0) + usage.reserved.get(resource, 0) >= limit:
                yield queue, resource


def _usage(queues: QueueEngine, name: str) -> Iterator[ResourceUsage]:
    usage, limits = queues.usage(name), queues.limits(name)
    named = {*usage.allocated, *usage.reserved, *usage.terminating, *limits.capability, *limits.deserved}
    for resource in sorted({*named, *limits.guarantee}):
        taken = usage.allocated.get(resource, 0) + usage.reserved.get(resource, 0)
        limit = limits.capability.get(resource)
        if not (taken or limit is not None or usage.terminating.get(resource) or limits.deserved.get(resource)):
            continue

        def text(amount: int | None, resource: str = resource) -> str:
            return "" if amount is None else amount_text(resource, amount)

        yield ResourceUsage(
            resource,
            text(usage.allocated.get(resource, 0)),
            text(usage.reserved.get(resource, 0)),
            text(limit),
            text(None if limit is None else max(limit - taken, 0)),
            text(limits.deserved.get(resource)),
            text(limits.guarantee.get(resource)),
            text(usage.terminating.get(resource) or None),
        )


def _ranking_resource(queues: QueueEngine, name: str) -> str:
    """The resource by which holders are ordered: the one of which the largest part is taken."""
    usage, limits = queues.usage(name), queues.limits(name).capability
    taken = Counter(usage.allocated)
    taken.update(usage.reserved)
    parts = [(-amount / limits[resource], resource) for resource, amount in taken.items() if limits.get(resource)]
    return min(parts)[1] if parts else min((name for name, amount in taken.items() if amount), default="")


def _holders(contents: QueueContents, resource: str) -> Iterator[HolderOfQueue]:
    for each in sorted(contents.holders, key=lambda each: (-each.amounts.get(resource, 0), each.key)):
        amounts = {name: amount_text(name, amount) for name, amount in sorted(each.amounts.items()) if amount}
        yield HolderOfQueue(each.key, each.queue, amounts, each.is_promised)


def _first_pods(queues: QueueEngine, contents: QueueContents) -> Iterator[FirstWaitingPod]:
    """The first waiting pod of each leaf queue."""
    seen: set[str] = set()
    for each in contents.waiting:
        if each.queue in seen or len(seen) == _MAX_LEAVES:
            continue
        seen.add(each.queue)
        wait = queues.peek_wait_reason(each.uid)
        if wait is None:
            continue
        remedy = queues.remedy(each.uid) if wait.resource else None
        text = "" if remedy is None else remedy_text(remedy, each.group)
        yield FirstWaitingPod(each.key, each.queue, wait.why.value, wait.message, text)


def _reasons(queues: QueueEngine, contents: QueueContents) -> Iterator[str]:
    asked: Sequence[str] = [each.uid for each in (*contents.waiting, *contents.held_back)][:_MAX_REASONS]
    for uid in asked:
        wait = queues.peek_wait_reason(uid)
        if wait is not None:
            yield wait.why.value


def known_queue(queues: QueueEngine, name: str) -> bool:
    return name == ROOT or name in queues.queue_names()
