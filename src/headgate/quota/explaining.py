"""Why a workload waits: where it stands, flavor by flavor what is missing, who holds it, and who would have to end.

Answers are made when somebody asks, by the same functions that decide; nothing is kept and nothing changes. Turning
them into lines for people is ``cli/``'s.
"""

from __future__ import annotations

import msgspec

from headgate.quota.assignment import Attempt
from headgate.quota.cohort import FlavorResource
from headgate.quota.engine import Engine
from headgate.quota.holdings import Holdings
from headgate.quota.nominating import nominate
from headgate.quota.queueing import Reason


class Share(msgspec.Struct, frozen=True):
    """How much of something a workload holds, or waits for while others go for it."""

    key: str
    queue: str
    amount: int
    is_evicted: bool = False
    is_claim: bool = False


class Shortage(msgspec.Struct, frozen=True):
    """Of one resource in one flavor: what is ``available`` to the queue now and at most, and who holds it in the whole
    tree, the largest first. What would help is ``remedies.py``'s."""

    flavor: str
    resource: str
    asked: int
    available: int
    most: int
    held_by: tuple[Share, ...]


class Explanation(msgspec.Struct, frozen=True):
    """``position``: how many come before it in its queue; None if it stands in none. ``behind``: the first of a strict
    queue, if he is what it waits for. ``message``: why no flavors can be assigned, in Kueue's words."""

    key: str
    state: str
    queue: str = ""
    position: int | None = None
    behind: str = ""
    reason: Reason | None = None
    attempts: tuple[tuple[str, Attempt], ...] = ()
    """Pod sets by name, each with one flavor that was looked at."""
    shortages: tuple[Shortage, ...] = ()
    would_evict: tuple[str, ...] = ()
    message: str = ""


def explain(engine: Engine, key: str) -> Explanation:
    problem = engine.world.problems.get(("Workload", key))
    holder, waiter = engine.book.get(key), engine.queueing.get(key)
    if holder is not None:
        return Explanation(key, "Evicted" if holder.is_evicted else "QuotaReserved", holder.queue)
    if problem is not None:
        return Explanation(key, "SetAside", reason=Reason("Misconfigured", problem))
    if waiter is None:
        known = engine.workloads.get(key)
        state = "NotFound" if known is None else "Finished" if known.is_finished else "Inadmissible"
        return Explanation(key, state, reason=engine.queueing.why(key))
    queue = engine.world.queues[waiter.queue]
    line = [each.key for each in engine.queueing.waiters(waiter.queue)]
    claim = engine.book.claim_of(key)
    engine.book.claim(key, None)
    found = nominate(engine.book, queue, engine.world.flavors, waiter.workload, waiter.order_s)
    engine.book.claim(key, claim)
    asked: dict[FlavorResource, int] = {}
    for one in found.assignment.pod_sets:
        for attempt in (each for group in one.groups for each in group):
            for fr in attempt.short:
                asked[fr] = asked.get(fr, 0) + one.requests[fr[1]]
    return Explanation(
        key,
        "Pending",
        waiter.queue,
        line.index(key),
        line[0] if queue.is_strict and line[0] != key else "",
        engine.queueing.why(key),
        tuple((one.name, each) for one in found.assignment.pod_sets for group in one.groups for each in group),
        tuple(_shortage(engine.book, waiter.queue, fr, asked[fr]) for fr in sorted(asked)),
        tuple(target.holder.key for target in found.targets),
        found.assignment.message,
    )


def _shortage(book: Holdings, queue: str, fr: FlavorResource, asked: int) -> Shortage:
    now, ahead = book.now.queue(queue), book.ahead.queue(queue)
    available = min((node.available(fr) for node in (now, ahead) if node is not None), default=0)
    most = 0 if now is None else now.potential(fr)
    queues = [] if now is None else [each.name for each in book.now.below(now.root)]
    holders = [each for name in queues for each in book.held_in(name) if each.usage.get(fr)]
    shares = [Share(each.key, each.queue, each.usage[fr], each.is_evicted) for each in holders]
    shares += [
        Share(key, claim.queue, claim.usage[fr], is_claim=True)
        for key, claim in sorted(book.claims().items())
        if claim.queue in queues and claim.usage.get(fr)
    ]
    shares.sort(key=lambda each: (-each.amount, each.key))
    return Shortage(*fr, asked, available, most, tuple(shares))
