"""Who a job or a pod belongs to, asked step by step: its controller, the controller of that, and so on."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headgate.client.listing import Refused
from headgate.client.rights import NOT_FOUND
from headgate.client.transport import Request, Response
from headgate.control.quota.getting import get
from headgate.jobs.ancestors import Known, Unsure, managed_ancestor
from headgate.kube.references import controller_of, group_kind_of
from headgate.kube.resource import Resource

Wire = dict[str, Any]


def find_ancestor(obj: Wire, known: Known) -> Generator[Request, Response, Wire | Unsure | Refused | None]:
    """The topmost one that is in a queue; :class:`Refused` if one of them may not be read."""
    namespace = str(obj["metadata"].get("namespace", ""))
    above: dict[tuple[Resource, str, str], Wire] = {}
    current = obj
    while (owner := controller_of(current)) is not None and (resource := known.get(group_kind_of(owner))) is not None:
        place = resource, namespace, str(owner.get("name", ""))
        parent = yield from get(resource, str(owner.get("kind")), *place[1:])
        if isinstance(parent, Refused):
            if parent.status != NOT_FOUND:
                return parent
            break
        if place in above:
            break
        above[place] = current = parent
    return managed_ancestor(obj, lambda *place: above.get(place), known)
