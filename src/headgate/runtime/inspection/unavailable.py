"""Resources that a command could not read. The output of the command names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.capacity.names import QUEUES
from headgate.client.pager import ListRefused
from headgate.client.permissions import FORBIDDEN, NOT_FOUND, describe_permission, resource_name, unknown_text
from headgate.kube.api_resources import APIResource
from headgate.quota.kinds.names import WORKLOADS

_INSTALLED_BY_US: Final = frozenset({QUEUES.group, WORKLOADS.group})


class UnavailableResource(msgspec.Struct, frozen=True):
    """A resource that could not be listed, and why. ``right``: the missing permission, if that is why. ``is_absent``:
    the server does not serve the kind, so there are no objects."""

    plural: str
    text: str
    right: str = ""
    is_absent: bool = False

    @property
    def line(self) -> str:
        return f"missing right: {self.right}" if self.right else f"not known: {self.text}"


def unavailable_resource(
    resource: APIResource, refused: ListRefused, namespace: str | None = None, verb: str = "list"
) -> UnavailableResource:
    """``namespace``: the namespace of the request; None for all namespaces."""
    named = resource_name(resource)
    if refused.status == FORBIDDEN:
        return UnavailableResource(resource.plural, refused.text, describe_permission(verb, resource, namespace))
    if refused.status == NOT_FOUND and resource.group and verb == "list":
        hint = ": headgate install-crds creates them" if resource.group in _INSTALLED_BY_US else ""
        return UnavailableResource(resource.plural, f"this cluster has no {named}{hint}", is_absent=True)
    return UnavailableResource(resource.plural, f"{named}: {unknown_text(refused)}")


def lacks(unavailable: Iterable[UnavailableResource], resource: APIResource) -> bool:
    """Whether the list of an existing resource is missing."""
    return any(each.plural == resource.plural and not each.is_absent for each in unavailable)
