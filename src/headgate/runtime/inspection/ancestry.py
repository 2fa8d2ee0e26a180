"""The owners of a job or a pod, read step by step: its controller, the controller of that, and so on."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headgate.client.pager import ListRefused
from headgate.client.permissions import NOT_FOUND
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.framework.management import AncestorKinds, UnknownAncestor, managed_ancestor
from headgate.kube.api_resources import APIResource
from headgate.kube.object_meta import controller_of, group_kind_of
from headgate.runtime.inspection.object_reads import get_object

Wire = dict[str, Any]


def find_ancestor(
    obj: Wire, known: AncestorKinds
) -> Generator[HTTPRequest, HTTPResponse, Wire | UnknownAncestor | ListRefused | None]:
    """The topmost ancestor that is in a queue; :class:`ListRefused` if the API server refuses to read an ancestor."""
    namespace = str(obj["metadata"].get("namespace", ""))
    ancestors: dict[tuple[APIResource, str, str], Wire] = {}
    current = obj
    while (owner := controller_of(current)) is not None and (resource := known.get(group_kind_of(owner))) is not None:
        key = resource, namespace, str(owner.get("name", ""))
        parent = yield from get_object(resource, str(owner.get("kind")), *key[1:])
        if isinstance(parent, ListRefused):
            if parent.status != NOT_FOUND:
                return parent
            break
        if key in ancestors:
            break
        ancestors[key] = current = parent
    return managed_ancestor(obj, lambda *place: ancestors.get(place), known)
