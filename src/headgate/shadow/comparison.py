"""The comparison of one decision: what the other system did, what Headgate would do in the same state, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

Outcome = Literal["same", "late", "only_other", "only_headgate", "other_flavors", "other_victims"]
ComparedDecision = Literal["admission", "eviction"]

OUTCOMES: Final[dict[Outcome, str]] = {
    "same": "Both decided the same.",
    "late": "The other decided the same, after Headgate had reported that it does not.",
    "only_other": "The other decided it; Headgate would not.",
    "only_headgate": "Headgate would decide it; the other did not in time.",
    "other_flavors": "Both admit the workload, with different flavors or pod counts.",
    "other_victims": "Both preempt for the same workload, and evict different ones.",
}
"""What each outcome means, in the order in which they are shown."""
AGREEMENTS: Final = frozenset[Outcome]({"same", "late"})


class DecisionComparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """``component``: the one of Headgate that would decide. ``other`` and ``headgate``: what each does with the object.
    ``reason`` and ``message``: why Headgate decides otherwise. ``instead``: objects that Headgate would admit to the
    same queues. ``preemptor``: the object that an eviction makes room for."""

    outcome: Outcome
    component: str
    decision: ComparedDecision
    kind: str
    namespace: str
    name: str
    uid: str = ""
    queue: str = ""
    cluster_queue: str = ""
    other: str = ""
    headgate: str = ""
    reason: str = ""
    message: str = ""
    preemptor: str = ""
    instead: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        return self.outcome not in AGREEMENTS


Compared = Callable[[DecisionComparison], None]
