"""Who holds quota, in two trees: as it is now, and as it will be once everybody who was told to go has gone.

``now`` counts whoever holds quota, evicted or not. ``ahead`` leaves out the evicted and counts claims instead: what a
workload is waiting for, for which others were evicted. Nothing is granted that does not fit both, so quota that was
freed for somebody is his (kueue#13797), and nobody is evicted for want of quota that is about to be free.
Who is evicted for whom is ``preemption.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from headgate.quota.cluster_queue import ClusterQueue
from headgate.quota.cohort import Cohort, FlavorResource, Usage
from headgate.quota.holder import Holder
from headgate.quota.occupancy import LeadsTo, Occupancy
from headgate.quota.tree import Node, QuotaTree


class Claim(msgspec.Struct, frozen=True):
    queue: str
    usage: Usage


def _leads_nowhere(local_queue: str) -> str:
    return ""


class Holdings:
    """``occupancy``: what is in use on nodes, with pods that terminate after their quota was released."""

    def __init__(self, leads_to: LeadsTo = _leads_nowhere) -> None:
        self.now = QuotaTree()
        self.ahead = QuotaTree()
        self.occupancy = Occupancy(leads_to)
        self._holders: dict[str, Holder] = {}
        self._by_queue: dict[str, dict[FlavorResource, dict[str, Holder]]] = {}
        self._claims: dict[str, Claim] = {}

    def get(self, key: str) -> Holder | None:
        return self._holders.get(key)

    def claim_of(self, key: str) -> Claim | None:
        return self._claims.get(key)

    def holders(self) -> Iterable[Holder]:
        return self._holders.values()

    def claims(self) -> Mapping[str, Claim]:
        return self._claims

    def tree_of(self, queue: str) -> str:
        """The name of the tree that a queue belongs to: its root's, or ``/queue`` if it is alone."""
        node = self.now.queue(queue)
        if node is None:
            return f"/{queue}"
        root = node.root
        return f"/{root.name}" if root.is_queue else root.name

    def room(self, queue: str, fr: FlavorResource) -> int:
        """How much of it the queue may use once everybody who was told to go has gone."""
        node = self.ahead.queue(queue)
        return 0 if node is None else node.available(fr)

    def users(self, queue: str, frs: Iterable[FlavorResource]) -> Iterator[Holder]:
        """Who holds some of these in a queue and was not told to go; each once."""
        by_resource = self._by_queue.get(queue, {})
        found: dict[str, Holder] = {}
        for fr in frs:
            found.update(by_resource.get(fr, {}))
        return (each for each in found.values() if not each.is_evicted)

    def held_in(self, queue: str) -> list[Holder]:
        """Everybody who holds something in a queue, by key."""
        found = {key: each for users in self._by_queue.get(queue, {}).values() for key, each in users.items()}
        return [found[key] for key in sorted(found)]

    def place_queue(self, queue: ClusterQueue) -> None:
        is_new = self.now.queue(queue.name) is None
        for tree in (self.now, self.ahead):
            tree.place_queue(queue.name, queue.cohort, queue.quotas)
        self.occupancy.place_queue(queue)
        if is_new:
            for holder in self.held_in(queue.name):
                self._count(holder, +1)
            for claim in self._claims.values():
                if claim.queue == queue.name:
                    self._add(self.ahead, claim.queue, claim.usage, +1)

    def remove_queue(self, name: str) -> None:
        """Who holds quota in it is remembered: should the queue come back, they are counted again."""
        for tree in (self.now, self.ahead):
            tree.remove_queue(name)
        self.occupancy.remove_queue(name)

    def place_cohort(self, cohort: Cohort) -> None:
        for tree in (self.now, self.ahead):
            tree.place_cohort(cohort.name, cohort.parent, cohort.quotas)
        self.occupancy.place_cohort(cohort)

    def remove_cohort(self, name: str) -> None:
        for tree in (self.now, self.ahead):
            tree.remove_cohort(name)
        self.occupancy.remove_cohort(name)

    def put(self, holder: Holder) -> None:
        """A workload holds this, whatever it held before."""
        self._take_out(holder.key)
        self._holders[holder.key] = holder
        by_resource = self._by_queue.setdefault(holder.queue, {})
        for fr in holder.usage:
            by_resource.setdefault(fr, {})[holder.key] = holder
        self._count(holder, +1)
        self.occupancy.put(holder)

    def remove(self, key: str, *, keeps_pods: bool = False) -> Holder | None:
        """``keeps_pods``: see ``occupancy.py``."""
        self.occupancy.remove(key, keeps_pods=keeps_pods)
        return self._take_out(key)

    def _take_out(self, key: str) -> Holder | None:
        holder = self._holders.pop(key, None)
        if holder is None:
            return None
        by_resource = self._by_queue[holder.queue]
        for fr in holder.usage:
            del by_resource[fr][key]
            if not by_resource[fr]:
                del by_resource[fr]
        if not by_resource:
            del self._by_queue[holder.queue]
        self._count(holder, -1)
        return holder

    def claim(self, key: str, claim: Claim | None) -> None:
        """What a workload waits for while others go for it; None for nothing any more."""
        before = self._claims.pop(key, None)
        if before is not None:
            self._add(self.ahead, before.queue, before.usage, -1)
        if claim is not None:
            self._claims[key] = claim
            self._add(self.ahead, claim.queue, claim.usage, +1)

    def shift_ahead(self, queue: str, usage: Usage, sign: int) -> None:
        """Try out what would be; who does it undoes it."""
        self._add(self.ahead, queue, usage, sign)

    def fits(self, queue: str, usage: Usage) -> bool:
        nodes = (self.now.queue(queue), self.ahead.queue(queue))
        return all(node is not None and fits(node, usage) for node in nodes)

    def _count(self, holder: Holder, sign: int) -> None:
        self._add(self.now, holder.queue, holder.usage, sign)
        if not holder.is_evicted:
            self._add(self.ahead, holder.queue, holder.usage, sign)

    def _add(self, tree: QuotaTree, queue: str, usage: Usage, sign: int) -> None:
        node = tree.queue(queue)
        if node is not None:
            tree.add(node, usage, sign)


def fits(node: Node, usage: Usage) -> bool:
    return all(amount <= node.available(fr) for fr, amount in usage.items() if amount)
