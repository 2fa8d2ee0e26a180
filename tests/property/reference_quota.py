"""Quota as a slow, obvious reference: the formulas, computed anew from all objects for every question.

``subtree(n) = nominal + Σ (subtree(child) - local(child))``; ``local(n) = max(0, subtree - lending limit)``, 0 without
a limit; usage beyond the local quota counts at the parent; ``available(root) = subtree - usage``, ``available(n) =
max(0, local - usage) + min(available(parent), subtree - local - max(0, usage - local) + borrowing limit)``. For
``test_quota_tree.py`` and ``test_quota_engine.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.quota.api.resource_groups import FlavorQuota, FlavorResource

Held = tuple[str, Mapping[FlavorResource, int]]
"""A queue's name and what one workload uses in it."""


class SlowQuota:
    """ClusterQueues with their cohort and quotas, cohorts with their parent and quotas, and the usage of each."""

    def __init__(
        self,
        queues: Mapping[str, tuple[str, Mapping[FlavorResource, FlavorQuota]]],
        cohorts: Mapping[str, tuple[str, Mapping[FlavorResource, FlavorQuota]]],
        held: Iterable[Held] = (),
    ) -> None:
        self.queues, self.cohorts, self.held = queues, cohorts, list(held)

    def parent(self, node: str) -> str | None:
        """Nodes are written ``queue/NAME`` and ``cohort/NAME``. A cohort in a cycle has no parent."""
        kind, name = node.split("/", 1)
        known = self.queues if kind == "queue" else self.cohorts
        above = known[name][0] if name in known else ""
        if not above or (kind == "cohort" and name in self.circle(name)):
            return None
        return f"cohort/{above}"

    def circle(self, name: str) -> set[str]:
        seen: list[str] = []
        while name and name not in seen:
            seen.append(name)
            name = self.cohorts[name][0] if name in self.cohorts else ""
        return set(seen[seen.index(name) :]) if name else set()

    def children(self, node: str) -> list[str]:
        return [
            *(f"queue/{name}" for name in self.queues if self.parent(f"queue/{name}") == node),
            *(f"cohort/{name}" for name in self.cohorts if self.parent(f"cohort/{name}") == node),
        ]

    def quota(self, node: str, fr: FlavorResource) -> FlavorQuota:
        kind, name = node.split("/", 1)
        known = self.queues if kind == "queue" else self.cohorts
        return known[name][1].get(fr, FlavorQuota()) if name in known else FlavorQuota()

    def subtree(self, node: str, fr: FlavorResource) -> int:
        below = sum(self.subtree(each, fr) - self.local(each, fr) for each in self.children(node))
        return self.quota(node, fr).nominal + below

    def local(self, node: str, fr: FlavorResource) -> int:
        limit = self.quota(node, fr).lending_limit
        return 0 if limit is None else max(0, self.subtree(node, fr) - limit)

    def usage(self, node: str, fr: FlavorResource) -> int:
        if node.startswith("queue/"):
            return sum(usage.get(fr, 0) for queue, usage in self.held if f"queue/{queue}" == node)
        return sum(max(0, self.usage(each, fr) - self.local(each, fr)) for each in self.children(node))

    def available(self, node: str, fr: FlavorResource) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, fr) - self.usage(node, fr)
        local, usage, above = self.local(node, fr), self.usage(node, fr), self.available(parent, fr)
        limit = self.quota(node, fr).borrowing_limit
        if limit is not None:
            above = min(above, self.subtree(node, fr) - local - max(0, usage - local) + limit)
        return max(0, local - usage) + above

    def potential(self, node: str, fr: FlavorResource) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, fr)
        most = self.local(node, fr) + self.potential(parent, fr)
        limit = self.quota(node, fr).borrowing_limit
        return most if limit is None else min(most, self.subtree(node, fr) + limit)

    def fits(self, queue: str, usage: Mapping[FlavorResource, int]) -> bool:
        return all(amount <= self.available(f"queue/{queue}", fr) for fr, amount in usage.items())

    def without(self, gone: Iterable[Held]) -> SlowQuota:
        left = list(self.held)
        for each in gone:
            left.remove(each)
        return SlowQuota(self.queues, self.cohorts, left)
