"""On which terms jobs and pods come into queues: the flavors that they may be given, and the classes of their priority.

Kept up to date by whoever hears of changes. What cannot be read is left as it was: ``quota/`` says so where its user
looks.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.jobs.workload import Classes
from headgate.kube.resource import Resource
from headgate.quota.flavor import ResourceFlavor, read_flavor
from headgate.quota.kinds.names import PRIORITY_CLASSES, RESOURCE_FLAVORS

Object = dict[str, Any]

RESOURCES: Final = (RESOURCE_FLAVORS, PRIORITY_CLASSES, POD_PRIORITY_CLASSES)


class Terms:
    def __init__(self) -> None:
        self.flavors: Final[dict[str, ResourceFlavor]] = {}
        self._classes: Final = {PRIORITY_CLASSES: dict[str, Object](), POD_PRIORITY_CLASSES: dict[str, Object]()}
        self.classes: Final = Classes(self._classes[PRIORITY_CLASSES], self._classes[POD_PRIORITY_CLASSES])

    def put(self, resource: Resource, obj: Object) -> None:
        name = obj["metadata"]["name"]
        if resource in self._classes:
            self._classes[resource][name] = obj
        elif isinstance(flavor := read_flavor(obj), ResourceFlavor):
            self.flavors[name] = flavor

    def remove(self, resource: Resource, name: str) -> None:
        if resource in self._classes:
            self._classes[resource].pop(name, None)
        else:
            self.flavors.pop(name, None)
