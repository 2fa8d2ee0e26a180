"""The controller of shadow mode: gives watch events, in the order of revisions, to the shadow of a component.

It never yields an effect, so the controller manager (``runtime/controller_manager.py``) sends no write for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Protocol

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.kube.api_resources import APIResource
from headgate.shadow.event_order import HOLD_S, EventOrder, HeldEvent

Object = dict[str, Any]

_STEP: Final = "step"
_MIN_WAIT_S: Final = 0.05
"""A deadline of an engine may stay in the past, because nothing that the engine decides is written."""
_LISTS_S: Final = 1.0
"""How often it is checked whether all lists have been delivered."""
_EVENTS_AT_ONCE: Final = 200
"""After this number of events the event loop runs other tasks."""


class Shadow(Protocol):
    """What compares the decisions of one component."""

    @property
    def name(self) -> str: ...

    def discovered(self, served: DiscoveredKinds) -> None: ...

    def watches(self) -> Iterable[WatchSpec]: ...

    def begin(self, now_s: float) -> None:
        """All objects are known."""
        ...

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> None: ...

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> None: ...

    def step(self, now_s: float) -> float | None:
        """Does what is due. Returns when it has to be called again without an event."""
        ...

    def open_decisions(self) -> Mapping[str, int]: ...


class ShadowController(Controller):
    """``hold_s``: how far one watch may be behind another."""

    def __init__(self, shadow: Shadow, hold_s: float = HOLD_S) -> None:
        self.name = f"shadow of {shadow.name}"
        self._shadow = shadow
        self._events = EventOrder(hold_s)
        self._synced: set[APIResource] = set()
        self._has_begun = False

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._shadow.discovered(served)
        return [Enqueue(_STEP)]

    def watches(self) -> Iterable[WatchSpec]:
        return self._shadow.watches()

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        self._events.put_applied(resource, obj, now_s)
        return self._wake(now_s)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._events.put_removed(resource, namespace, name, uid, now_s)
        return self._wake(now_s)

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        self._synced.add(resource)
        return [Enqueue(_STEP)]

    def _wake(self, now_s: float) -> Iterable[Enqueue]:
        next_s = self._events.next_s()
        return [] if next_s is None else [Enqueue(_STEP, max(next_s - now_s, 0.0))]

    def reconcile(self, key: Any, now_s: float) -> ReconcileSteps:
        yield from ()
        if not self._has_begun:
            # What the lists show are facts. Without one of them, the engine would decide about another cluster.
            for event in self._events.all():
                self._give(event, now_s)
            if {each.resource for each in self._shadow.watches()} - self._synced:
                return Done([Enqueue(_STEP, _LISTS_S)])
            self._has_begun = True
            self._shadow.begin(now_s)
        for event in islice(self._events.due(now_s), _EVENTS_AT_ONCE):
            self._give(event, now_s)
        deadlines = (self._shadow.step(now_s), self._events.next_s())
        next_s = min((each for each in deadlines if each is not None), default=None)
        return Done([] if next_s is None else [Enqueue(_STEP, max(next_s - now_s, _MIN_WAIT_S))])

    def _give(self, event: HeldEvent, now_s: float) -> None:
        if event.object is None:
            self._shadow.removed(event.resource, event.namespace, event.name, event.uid, now_s)
        else:
            self._shadow.applied(event.resource, event.object, now_s)
