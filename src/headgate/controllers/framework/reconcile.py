"""The base class of controllers: its watches, its handlers of watch events, and ``reconcile``.

A controller caches the objects of its watch events and returns the keys to reconcile (:class:`Enqueue`). As in
controller-runtime, ``reconcile`` gets a key and not an event, so a key that is enqueued ten times is reconciled once. A
handler may return an iterator of keys; it is read in parts, and other events may arrive between two parts.
``reconcile`` is a generator: it yields effects, receives their responses, and returns a :data:`Result`. Watch events
may arrive while it waits for a response, so it must read cached state again afterwards. Controllers are pure: the
caller provides ``now_s`` (seconds since 1970). ``runtime/controller_manager.py`` runs all controllers.
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
    """A resource to watch: which objects (a field selector), and which fields beside namespace, name and uid.

    All controllers share one watch of a resource, which has the fields of all their specs.
    """

    resource: APIResource
    fields: frozenset[str]
    field_selector: str = ""


def watched_fields(specs: Iterable[WatchSpec]) -> frozenset[str]:
    """The fields that a shared watch must deliver for these specs; empty for whole objects."""
    fields = frozenset[str]().union(*(each.fields for each in specs))
    return frozenset() if fields >= ALL_FIELDS else fields


class Enqueue(msgspec.Struct, frozen=True):
    """A key to reconcile. A key that is already due sooner keeps its time."""

    key: Key
    after_s: float = 0.0


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to do until an object changes. ``enqueues``: other keys that must be reconciled now."""

    enqueues: Sequence[Enqueue] = ()


class RequeueWithBackoff(msgspec.Struct, frozen=True):
    """The reconcile failed: try again, with back-off. ``enqueues``: other keys that must be reconciled now."""

    error: str
    enqueues: Sequence[Enqueue] = ()


class RequeueAfter(msgspec.Struct, frozen=True):
    """Reconcile again at that time, unless an event enqueues the key before."""

    after_s: float


Result = Done | RequeueWithBackoff | RequeueAfter
ReconcileSteps = Generator[Effect, EffectResponse, Result]


def with_enqueues(result: Result, key: Key, enqueues: Sequence[Enqueue]) -> Result:
    """The result of the reconciliation of ``key``, together with other keys that must be reconciled now."""
    match result:
        case Done(own):
            return Done([*own, *enqueues])
        case RequeueWithBackoff(error, own):
            return RequeueWithBackoff(error, [*own, *enqueues])
        case RequeueAfter(after_s):
            return Done([Enqueue(key, after_s), *enqueues]) if enqueues else result


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

    def listing(self, resource: APIResource) -> Iterable[Enqueue]:
        """A watch of the resource starts: not all of its objects are known before ``synced``."""
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
