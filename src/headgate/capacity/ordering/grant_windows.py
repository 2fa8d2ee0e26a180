"""Windows: a queue may limit how many of its pods have a promise and no node, so that a long backlog does not reach an
autoscaler at once.

The annotation ``headgate.dev/max-pods-without-node`` of a queue counts the pods in and below that queue, each for a
limited time (``window_timeouts.py``), so that pods that fit no node do not block others for ever. A window
changes when units are granted capacity, and not their order: while the first unit in order does not fit in a window, no
unit after it in that queue is granted anything. A gang that is larger than the window is granted when no other pod in
the queue has a promise without a node. Pods that did not opt in to the queue gate return their grant if no node fits,
so windows do not count them.
"""

from __future__ import annotations

from typing import Final

from headgate.capacity.cache.ledger import Ledger
from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.cache.pseudo_resources import PseudoResource
from headgate.capacity.cache.queue_tree import QueueTree
from headgate.capacity.ordering.window_timeouts import WindowTimeouts

WINDOW: Final = PseudoResource("window")
"""Always the last in the ask of a unit: the number of its pods that count in windows."""


def with_window(ask: Ask, pod_count: int) -> Ask:
    """The ask of a unit with this number of pods that count in windows. Nothing is added to the ask after this:
    :func:`pods_in_window` reads only its end."""
    return (*ask, (WINDOW, pod_count)) if pod_count else ask


def pods_in_window(ask: Ask) -> int:
    """The number of pods of the unit that count in windows."""
    return ask[-1][1] if ask and ask[-1][0] == WINDOW else 0


class GrantWindows:
    """``closed``: queues whose window allows more pods, but not as many as the first unit in or below the queue has: no
    unit after it is granted anything there. A change of the queue opens it again."""

    def __init__(self, tree: QueueTree, ledger: Ledger) -> None:
        self._tree = tree
        self._ledger = ledger
        self.timeouts = WindowTimeouts(tree, ledger)
        self.closed: set[str] = set()

    def limit(self, queue: str) -> int | None:
        """The limit that the queue itself sets."""
        tree_queue = self._tree.queues.get(queue)
        return None if tree_queue is None else tree_queue.spec.max_pods_without_node

    def timeout_s(self, queue: str) -> float:
        """How long a pod counts in the window of this queue."""
        tree_queue = self._tree.queues.get(queue)
        return 0.0 if tree_queue is None else tree_queue.spec.without_node_timeout_s

    def count(self, queue: str) -> int:
        """The number of pods that count in the window of this queue."""
        return self._ledger.account(queue).pods_without_node - self.timeouts.overdue_count(queue)

    def is_open(self, queue: str) -> bool:
        """Whether the window of this queue allows more pods; its ancestors are not checked."""
        limit = self.limit(queue)
        return limit is None or (queue not in self.closed and self.count(queue) < limit)

    def find_full(self, queue: str, pod_count: int) -> str | None:
        """The first queue, from this one upwards, whose window does not allow this number of pods more."""
        for name in self._tree.path(queue) if pod_count else ():
            limit = self.limit(name)
            if limit is not None and (count := self.count(name)) and count + pod_count > limit:
                return name
        return None
