"""Which of the watched kinds have not delivered their first list, so that objects may exist that are not known yet.

The controller manager waits for the first lists at the start, but not without end, and kinds may be served later: an
installation creates definitions and starts pods at the same time. A controller that decides from the absence of an
object asks here before it does. A kind whose list is awaited without end is *required*; for an *optional* kind the
controller waits only some time, because one kind that cannot be listed must not stop all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from headgate.kube.api_resources import APIResource

MAX_OPTIONAL_WAIT_S: Final = 30.0
LIST_CHECK_S: Final = 1.0
"""After how many seconds a controller that waits for a list asks again."""


class FirstLists:
    """Kinds that are neither required nor optional are not awaited."""

    def __init__(self, required: Collection[APIResource], optional: Collection[APIResource]) -> None:
        self._required: Final = frozenset(required)
        self._optional: Final = frozenset(optional)
        self._unlisted: Final[set[APIResource]] = set()
        self._since_s: float | None = None

    def listing(self, *resources: APIResource) -> None:
        """Watches of these kinds start, or are going to start."""
        self._unlisted.update(each for each in resources if each in self._required or each in self._optional)

    def synced(self, resource: APIResource) -> None:
        self._unlisted.discard(resource)

    def keep(self, resources: Iterable[APIResource]) -> None:
        """Only these kinds are watched, or are going to be."""
        self._unlisted.intersection_update(resources)

    def awaited(self, now_s: float) -> list[APIResource]:
        """The kinds whose list has to be awaited; none if decisions may be made."""
        if not self._unlisted:
            self._since_s = None
            return []
        if self._since_s is None:
            self._since_s = now_s
        found = self._unlisted & self._required if self.is_late(now_s) else self._unlisted
        return sorted(found, key=lambda each: (each.group, each.plural))

    def is_late(self, now_s: float) -> bool:
        """Whether lists have been awaited for so long that it should be reported."""
        return self._since_s is not None and now_s >= self._since_s + MAX_OPTIONAL_WAIT_S
