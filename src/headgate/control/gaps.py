"""What a command could not read: a gap is named in the output, and nothing is claimed about what is in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.capacity.names import QUEUES
from headgate.client.listing import Refused
from headgate.client.rights import FORBIDDEN, NOT_FOUND, resource_name, right_to, unknown_text
from headgate.kube.resource import Resource
from headgate.quota.kinds.names import WORKLOADS

_INSTALLED_BY_US: Final = frozenset({QUEUES.group, WORKLOADS.group})


class Gap(msgspec.Struct, frozen=True):
    """What could not be listed, and why. ``right``: the one that is missing, if that is why. ``is_absent``: the server
    does not know the kind, so there are none of it."""

    plural: str
    text: str
    right: str = ""
    is_absent: bool = False

    @property
    def line(self) -> str:
        return f"missing right: {self.right}" if self.right else f"not known: {self.text}"


def gap_of(resource: Resource, refused: Refused, namespace: str | None = None, verb: str = "list") -> Gap:
    """``namespace``: where it was asked for; None for all namespaces."""
    named = resource_name(resource)
    if refused.status == FORBIDDEN:
        return Gap(resource.plural, refused.text, right_to(verb, resource, namespace))
    if refused.status == NOT_FOUND and resource.group and verb == "list":
        hint = ": headgate install-crds brings them" if resource.group in _INSTALLED_BY_US else ""
        return Gap(resource.plural, f"this cluster has no {named}{hint}", is_absent=True)
    return Gap(resource.plural, f"{named}: {unknown_text(refused)}")


def lacks(gaps: Iterable[Gap], resource: Resource) -> bool:
    """Whether a list is missing that is there, as far as is known."""
    return any(gap.plural == resource.plural and not gap.is_absent for gap in gaps)
