"""A scenario of one option: what users do while replicas have different values of it, and what they see.

A :class:`Situation` is a column of the table in docs/production-readiness.md, a :class:`Scenario` is a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from skew.cluster import Object, SkewedCluster
from skew.replica import Replica


class Scenario(ABC):
    """``title``: the option as the page names it. ``on`` and ``off``: two replicas that differ only in it. ``revokes``:
    a leader with the option on may revoke promises. ``remedy``: what users have to do if the option stays off; empty if
    nothing is left to do. ``refuses_others``: a replica with the option off refuses objects of entries that a replica
    with the option on has registered. ``allowed``: problems of quota that the outcome tells."""

    title: str
    on: Replica
    off: Replica
    revokes = False
    remedy = ""
    refuses_others = False
    allowed: tuple[str, ...] = ()

    @abstractmethod
    def before(self, cluster: SkewedCluster) -> None:
        """What exists when the replicas begin to differ."""

    @abstractmethod
    def during(self, cluster: SkewedCluster) -> None:
        """What users do while they differ."""

    @abstractmethod
    def outcome(self, cluster: SkewedCluster) -> str:
        """What users see then, in the words of the page."""

    def has_trace(self, cluster: SkewedCluster) -> bool:
        """Whether an object or an Event shows that the feature is on. Only features that leave no trace when they are
        off are asked."""
        raise AssertionError(f"{self.title} may leave traces")

    def release(self, cluster: SkewedCluster) -> None:  # noqa: B027 - by default users have nothing to do
        """What users do when the replicas agree again, so that everything can run."""

    def clean_up(self, cluster: SkewedCluster) -> None:  # noqa: B027 - by default nothing is left to do
        """The remedy."""

    @abstractmethod
    def whole(self, cluster: SkewedCluster) -> tuple[str, Object]:
        """An object that needs the whole capacity, and its collection: it runs only if nothing is leaked."""


class Situation:
    """All replicas have one value of the option; then the webhooks, or the leader, get the other one. In the end all
    have the value ``ends_on``."""

    def __init__(self, title: str, *, begins_on: bool, changes_leader: bool, ends_on: bool) -> None:
        self.title, self.ends_on = title, ends_on
        self._begins_on, self._changes_leader = begins_on, changes_leader

    def begin(self, scenario: Scenario) -> SkewedCluster:
        first = scenario.on if self._begins_on else scenario.off
        return SkewedCluster(first, first, first)

    def differ(self, cluster: SkewedCluster, scenario: Scenario) -> None:
        then = scenario.off if self._begins_on else scenario.on
        if self._changes_leader:
            cluster.lead(then)
        else:
            cluster.register(then)
            cluster.serve(then)

    def agree(self, cluster: SkewedCluster, scenario: Scenario) -> None:
        cluster.agree(scenario.on if self.ends_on else scenario.off)


SITUATIONS = (
    Situation("webhooks on, leader off", begins_on=False, changes_leader=False, ends_on=True),
    Situation("webhooks off, leader on", begins_on=True, changes_leader=False, ends_on=False),
    Situation("leader on → off", begins_on=True, changes_leader=True, ends_on=True),
    Situation("leader off → on", begins_on=False, changes_leader=True, ends_on=False),
)
