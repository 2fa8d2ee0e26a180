"""What a controller is: watches, events in, keys to enqueue, and a reconcile in steps.

A controller keeps what it receives and returns the keys to reconcile (:class:`Enqueue`); reconcile gets a key, never an
event, so a key that is enqueued ten times is reconciled once. One event may enqueue many keys: a method may return an
iterator, which is read in parts, and other events may arrive between two parts. Reconcile is a generator of effects
that returns a result. Other events may arrive while it waits for a response, so cached state must be read again
afterwards. Nothing here knows clocks or sockets: the caller provides ``now_s`` (seconds since 1970).
``runtime/controller_manager.py`` runs all controllers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterable, Sequence
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Effect, EffectResponse
from headgate.kube.api_resources import APIResource

Object = dict[str, Any]
Key = Hashable

ALL_FIELDS: Final = frozenset({"*"})
"""All fields of the object."""


class WatchSpec(msgspec.Struct, frozen=True):
    """A resource to watch: which objects (a field selector), and which of their fields beside their identity.

    Watches of several controllers on one resource share one watch, with the fields of all of them.
    """

    resource: APIResource
    fields: frozenset[str]
    field_selector: str = ""


def watched_fields(specs: Iterable[WatchSpec]) -> frozenset[str]:
    """The fields that one watch for all of these must deliver; empty for whole objects."""
    fields = frozenset[str]().union(*(each.fields for each in specs))
    return frozenset() if fields >= ALL_FIELDS else fields


class Enqueue(msgspec.Struct, frozen=True):
    """A key to reconcile. A key that is already due sooner keeps its time."""

    key: Key
    after_s: float = 0.0


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to do until something changes; the findings of this reconcile may enqueue other keys."""

    enqueues: Sequence[Enqueue] = ()


class RequeueWithBackoff(msgspec.Struct, frozen=True):
    """The reconcile failed: try again, with back-off."""

    error: str


class RequeueAfter(msgspec.Struct, frozen=True):
    """Reconcile again at that time, unless an event enqueues the key before."""

    after_s: float


Result = Done | RequeueWithBackoff | RequeueAfter
ReconcileSteps = Generator[Effect, EffectResponse, Result]


def yield_each(effects: Iterable[Effect]) -> Generator[Effect, EffectResponse, None]:
    """Yields the effects one by one and ignores the responses: for Events."""
    remaining = iter(effects)
    while (effect := next(remaining, None)) is not None:
        yield effect


class Controller(ABC):
    """The base of all controllers. It watches nothing unless a subclass declares it."""

    name: str

    def watches(self) -> Iterable[WatchSpec]:
        """Called again after each ``discovered``."""
        return ()

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        """The kinds that the server serves: called before anything else, and whenever they change."""
        return ()

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        """An object is new or has changed."""
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        """An object was deleted."""
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        """All objects of a resource at ``revision`` have been delivered: after the first list, and after a new list."""
        return ()

    @abstractmethod
    def reconcile(self, key: Any, now_s: float) -> ReconcileSteps:
        """Reconciles a key. It is not called before the first list of every watch has been delivered."""
