"""Which event handlers receive which resources: built-in parts of the cluster's state, and plugins with ``watched``.

A plugin that fails on an object affects neither the other handlers nor any pod; the failure is logged. ``cluster.py``
uses this class for the scheduler, and ``scheduling/gates/gate_controller.py`` for pods of another scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headgate.kube.api_resources import APIResource
from headgate.scheduling.framework import result_checks
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import ResourceEventHandler
from headgate.scheduling.framework.plugin_timers import ERROR, SUCCESS, ProfileTimers

Object = Mapping[str, Any]


class ResourceEventHandlers:
    """``timers``: for handlers that are plugins."""

    def __init__(self, timers: ProfileTimers) -> None:
        self._timers = timers
        self._handlers: dict[APIResource, list[ResourceEventHandler]] = {}
        self._needed: frozenset[APIResource] = frozenset()

    def add(self, handler: ResourceEventHandler, *, needed: bool = False) -> None:
        """Pass events of the handler's resources to it. ``needed``: built-in parts read these resources."""
        for resource in handler.watched:
            self._handlers.setdefault(resource, []).append(handler)
        if needed:
            self._needed |= frozenset(handler.watched)

    @property
    def needed(self) -> frozenset[APIResource]:
        """The resources that built-in parts read. Only external plugins need other watched resources."""
        return self._needed

    def watchers(self, resource: APIResource) -> list[str]:
        """The names of the plugins that receive the resource."""
        names = (getattr(handler, "name", "") for handler in self._handlers.get(resource, ()))
        return sorted({name for name in names if name})

    def watched(self) -> dict[APIResource, frozenset[str]]:
        """The fields that the handlers read, by resource; an empty set means all fields."""
        return {
            resource: frozenset(field for handler in handlers for field in handler.watched[resource])
            if all(handler.watched[resource] for handler in handlers)
            else frozenset()
            for resource, handlers in self._handlers.items()
        }

    def applied(self, resource: APIResource, obj: Object) -> list[ClusterEvent]:
        """An object was created or updated."""
        return self._notify(resource, "applied", lambda handler: handler.applied(resource, obj))

    def removed(self, resource: APIResource, namespace: str, name: str) -> list[ClusterEvent]:
        return self._notify(resource, "removed", lambda handler: handler.removed(resource, namespace, name))

    def _notify(
        self, resource: APIResource, method: str, call: Callable[[ResourceEventHandler], Iterable[ClusterEvent]]
    ) -> list[ClusterEvent]:
        found: list[ClusterEvent] = []
        handler: Any
        for handler in self._handlers[resource]:
            if result_checks.is_built_in(handler):
                found += call(handler)
                continue
            timer = self._timers.timer(handler.name, method)
            began_s = timer.begin()
            status = SUCCESS
            try:
                found += result_checks.cluster_events(call(handler))
            except BaseException as error:
                status = ERROR
                self._timers.failures.failed(handler, method, error, f"a change of {resource.plural}")
            if began_s is not None:
                timer.end(began_s, status)
        return found
