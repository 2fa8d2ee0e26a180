"""What every controller is: interests, events in, keys to work on, and work in steps.

A controller remembers what it hears and says which keys need work (:class:`Wake`); the work itself gets a key, never an
event, so a key that is woken ten times is worked on once. What one event wakes may be many: the result of a method may
be an iterator, which is read in parts, and other events may be heard between two parts. Work is a generator of effects
that returns a verdict.
While it waits for an answer other events may be heard, so what was remembered must be looked at again afterwards.
Nothing here knows of clocks or sockets: ``now_s`` (seconds since 1970) comes in. ``control/shell.py`` serves them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterable, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.resource import Resource
from headgate.owners.effects import Answer, Effect
from headgate.owners.served import Served

Object = dict[str, Any]
Key = Hashable

WHOLE: Final = frozenset({"*"})
"""Every field there is."""


class Interest(msgspec.Struct, frozen=True):
    """A resource to be told about: which objects (a field selector), and which of their fields beside their identity.

    Interests of several controllers in one resource share one watch, with the fields of all of them.
    """

    resource: Resource
    fields: frozenset[str]
    field_selector: str = ""


def asked_for(interests: Iterable[Interest]) -> frozenset[str]:
    """The fields that one watch for all of these has to bring; empty: whole objects."""
    fields = frozenset[str]().union(*(each.fields for each in interests))
    return frozenset() if fields >= WHOLE else fields


class Wake(msgspec.Struct, frozen=True):
    """A key that needs work; a key that is to be woken sooner already stays so."""

    key: Key
    after_s: float = 0.0


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to do until something changes; what was found out on the way may wake others."""

    wakes: Sequence[Wake] = ()


class Again(msgspec.Struct, frozen=True):
    """It did not work out: once more, each time a little later."""

    why: str


class Later(msgspec.Struct, frozen=True):
    """It takes time: once more then, unless something wakes the key before."""

    after_s: float


Verdict = Done | Again | Later
Steps = Generator[Effect, Answer, Verdict]


def one_by_one(effects: Iterable[Effect]) -> Generator[Effect, Answer, None]:
    """Each in its turn, whatever the answers are: for Events, whose answers say nothing."""
    left = iter(effects)
    while (effect := next(left, None)) is not None:
        yield effect


class Controller(ABC):
    """Hears nothing unless it says so, and works."""

    name: str

    def interests(self) -> Iterable[Interest]:
        """Asked again after each ``learn``."""
        return ()

    def learn(self, served: Served) -> Iterable[Wake]:
        """What the server serves: told before anything else, and whenever it changes."""
        return ()

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        """An object is new or has changed."""
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        """An object is gone."""
        return ()

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        """Everything of a resource that there was at ``revision`` has been told: at first, and after a cut watch."""
        return ()

    @abstractmethod
    def work(self, key: Any, now_s: float) -> Steps:
        """Work on a key; not begun before the first list of every interest has been told."""
