"""All objects of several resources at one revision, for estimates: they need whole objects, also those that have ended.

A generator that yields requests and is sent responses. A kind that the server does not serve has no objects. A list
that is refused is reported: an estimate without it would be wrong.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.pager import ListRefused
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, APIResource
from headgate.runtime.inspection.queues import list_at
from headgate.runtime.inspection.unavailable import UnavailableResource, unavailable_resource

Wire = dict[str, Any]


class ListedObjects(msgspec.Struct, frozen=True):
    """``unavailable``: lists of kinds that exist and that could not be read. ``absent``: kinds that the server does not
    serve."""

    objects: Mapping[APIResource, list[Wire]]
    revision: str = ""
    unavailable: tuple[UnavailableResource, ...] = ()
    absent: frozenset[APIResource] = frozenset()


SCHEDULED: Final = (PODS, NODES, NAMESPACES, QUEUES, POD_GROUPS, POD_DISRUPTION_BUDGETS)
"""What decides when pods in queues start."""


def list_objects(resources: Iterable[APIResource]) -> Generator[HTTPRequest, HTTPResponse, ListedObjects]:
    """The first resource determines the revision of the others, if the server still has it."""
    objects: dict[APIResource, list[Wire]] = {}
    unavailable: list[UnavailableResource] = []
    absent: set[APIResource] = set()
    revision = ""
    for resource in resources:
        found = yield from list_at(resource, revision)
        if isinstance(found, ListRefused):
            missing = unavailable_resource(resource, found)
            if missing.is_absent:
                absent.add(resource)
            else:
                unavailable.append(missing)
            objects[resource] = []
            continue
        revision = revision or found.revision
        objects[resource] = found.items
    return ListedObjects(objects, revision, tuple(unavailable), frozenset(absent))
