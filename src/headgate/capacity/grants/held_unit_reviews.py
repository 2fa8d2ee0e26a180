"""Reviews of held units: when units that may not pass the first unit of their queue are looked at again.

Units are held back until their queue or its line changes, until the usage of an ancestor has changed by a given amount,
or until a time. An admission step reviews a limited number of queues, and the next step goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.cache.usage_triggers import QueueResource, UsageTriggers
from headgate.capacity.ordering.admission_index import AdmissionIndex
from headgate.capacity.ordering.held_units import HeldUnits

_MAX_REVIEWS: Final = 32
"""At how many queues whose held units may pass an admission step looks. A pod that ends may concern all queues below an
ancestor, so that the step would take longer the more queues there are."""


class HeldUnitReviews:
    def __init__(self, held_units: HeldUnits, triggers: UsageTriggers, indexes: Sequence[AdmissionIndex]) -> None:
        self._held_units = held_units
        self._triggers = triggers
        self._indexes = indexes
        self._to_review: dict[str, None] = {}  # queues with held units that may pass the first unit now
        self._left = 0  # how many of these the admission step may still look at
        self._step_s = 0.0  # the time of the last admission step

    def hold(
        self,
        queue: str,
        grants: frozenset[Ask],
        enqueues: frozenset[Ask],
        changes: Mapping[QueueResource, int],
        until_s: float,
    ) -> None:
        """Hold units of this queue back, by the limited parts of their asks, until the queue or its line changes, until
        the usage of its ancestors has changed by more than one of these amounts, or until this time."""
        self._held_units.hold(queue, grants, enqueues, until_s)
        self._triggers.watch(queue, changes)
        for index in self._indexes:
            index.mark_queue_changed(queue)

    def begin_step(self, now_s: float, time_of_day_s: float) -> None:
        """An admission step begins. It looks at some of the queues whose held units may pass; the next one goes on."""
        self._step_s, self._left = now_s, _MAX_REVIEWS
        for queue in self._held_units.due(time_of_day_s):
            self._to_review[queue] = None

    def is_due(self, queue: str) -> bool:
        """Whether the units of this queue are to be reviewed."""
        return queue in self._to_review

    def next_s(self) -> float | None:
        """When the next admission step should look at queues that the last one did not look at."""
        return self._step_s if self._to_review else None

    def review(self) -> None:
        for queue in self._triggers.take_due():
            self._to_review[queue] = None
        while self._to_review and self._left:
            self._left -= 1
            self.release(next(iter(self._to_review)))

    def release(self, queue: str) -> None:
        """What may pass the first unit of this queue may have changed."""
        self._to_review.pop(queue, None)
        self._triggers.forget(queue)
        if self._held_units.release(queue):
            for index in self._indexes:
                index.mark_queue_changed(queue)
