"""A cache of ResourceFlavors and priority classes for the controllers of jobs and pods.

The controllers pass in watch events. If a new version of a flavor cannot be decoded, the cache keeps the last valid
version; ``quota/`` reports the problem.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.jobs.framework.workload import PriorityClasses
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.kube.api_resources import APIResource
from headgate.quota.api.resource_flavor import ResourceFlavor, read_flavor
from headgate.quota.kinds.names import PRIORITY_CLASSES, RESOURCE_FLAVORS

Object = dict[str, Any]

REFERENCED_RESOURCES: Final = (RESOURCE_FLAVORS, PRIORITY_CLASSES, POD_PRIORITY_CLASSES)


class FlavorsAndPriorities:
    def __init__(self) -> None:
        self.flavors: Final[dict[str, ResourceFlavor]] = {}
        self._classes: Final = {PRIORITY_CLASSES: dict[str, Object](), POD_PRIORITY_CLASSES: dict[str, Object]()}
        self.classes: Final = PriorityClasses(self._classes[PRIORITY_CLASSES], self._classes[POD_PRIORITY_CLASSES])

    def put(self, resource: APIResource, obj: Object) -> None:
        name = obj["metadata"]["name"]
        if resource in self._classes:
            self._classes[resource][name] = obj
        elif isinstance(flavor := read_flavor(obj), ResourceFlavor):
            self.flavors[name] = flavor

    def remove(self, resource: APIResource, name: str) -> None:
        if resource in self._classes:
            self._classes[resource].pop(name, None)
        else:
            self.flavors.pop(name, None)
