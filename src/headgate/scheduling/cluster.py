"""What plugins may look at besides the pod: the nodes with their pods, and the objects around them.

The objects around are kept by parts, each in a module of its own: a part says what it wants to be told about, takes it
in, and answers with the events that this is to waiting pods. A new part is an attribute and an entry in ``parts``.
Who watches the API and tells us is ``control/scheduler/``; which pod is where, as far as it has a node, is the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from headgate.kube.resource import Resource
from headgate.scheduling import plugin_answers
from headgate.scheduling.budgets import Budgets
from headgate.scheduling.events import Event
from headgate.scheduling.leaving import Leaving
from headgate.scheduling.meters import ERROR, SUCCESS, Watch
from headgate.scheduling.namespaces import Namespaces
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.preemptions import Preemptions
from headgate.scheduling.selectors import Selectors
from headgate.scheduling.storage.part import Storage
from headgate.scheduling.victim_rules import VictimRule

Object = Mapping[str, Any]


@runtime_checkable
class Part(Protocol):
    """``watched``: the resources it is told about, and the fields it reads of each (``client/picking.py``)."""

    @property
    def watched(self) -> Mapping[Resource, tuple[str, ...]]: ...

    def applied(self, resource: Resource, wire: Object, /) -> Iterable[Event]: ...

    def removed(self, resource: Resource, namespace: str, name: str, /) -> Iterable[Event]: ...


class Cluster:
    def __init__(
        self,
        capacity: int = 64,
        spared: Collection[str] = (),
        waiting: Collection[str] = (),
        watch: Watch | None = None,
    ) -> None:
        """Pods with a label in ``spared``, and pods of the schedulers in ``waiting``, are no shortage while room is
        being left (``leaving.py``). ``watch`` times plugins that are told about objects."""
        self._watch = watch or Watch()
        self.matrix = NodeMatrix(capacity)
        self.namespaces = Namespaces()
        self.budgets = Budgets()
        self.preemptions = Preemptions()
        self.leaving = Leaving(spared, waiting)
        self.victim_rules: dict[str, VictimRule] = {}
        self.selectors = Selectors()
        self.storage = Storage()
        self.parts: tuple[Part, ...] = (self.namespaces, self.budgets, self.selectors, self.storage)
        self._listeners: dict[Resource, list[Part]] = {}
        for part in self.parts:
            self.join(part)
        self._needed = frozenset(self._listeners)

    def join(self, part: Part, *, needed: bool = False) -> None:
        """A plugin that is told about objects of its own choice is a part, too."""
        for resource in part.watched:
            self._listeners.setdefault(resource, []).append(part)
        if needed:
            self._needed |= frozenset(part.watched)

    @property
    def needed(self) -> frozenset[Resource]:
        """What built-in plugins and queues look at. Other resources that are watched are plugins' own choice."""
        return self._needed

    def watchers(self, resource: Resource) -> list[str]:
        """The names of the plugins that are told about the resource."""
        names = (getattr(part, "name", "") for part in self._listeners.get(resource, ()))
        return sorted({name for name in names if name})

    def watched(self) -> dict[Resource, frozenset[str]]:
        """The fields that some part reads of each resource; none are all fields, as soon as one part reads all."""
        return {
            resource: frozenset(field for part in parts for field in part.watched[resource])
            if all(part.watched[resource] for part in parts)
            else frozenset()
            for resource, parts in self._listeners.items()
        }

    def applied(self, resource: Resource, wire: Object) -> list[Event]:
        """An object is new, or changed."""
        return self._told(resource, "applied", lambda part: part.applied(resource, wire))

    def removed(self, resource: Resource, namespace: str, name: str) -> list[Event]:
        return self._told(resource, "removed", lambda part: part.removed(resource, namespace, name))

    def _told(self, resource: Resource, method: str, tell: Callable[[Part], Iterable[Event]]) -> list[Event]:
        """A plugin that raises, or returns something else than events, keeps the other parts from nothing."""
        found: list[Event] = []
        part: Any
        for part in self._listeners[resource]:
            if plugin_answers.is_built_in(part):
                found += tell(part)
                continue
            meter = self._watch.meter(part.name, method)
            began_s = meter.begin()
            status = SUCCESS
            try:
                found += plugin_answers.happened(tell(part))
            except BaseException as broken:
                status = ERROR
                self._watch.failures.failed(part, method, broken, f"a change of {resource.plural}")
            if began_s is not None:
                meter.end(began_s, status)
        return found
