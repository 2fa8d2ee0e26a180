"""Pseudo-resources: entries in the ask of a unit that are not amounts of a resource, but decide where the unit waits.

Clients name resources freely, for example in ``minResources``. A :class:`PseudoResource` is therefore equal to no plain
string, whatever the string is: no object of the API can contain one.
"""

from __future__ import annotations

from headgate.capacity.cache.pod_record import Ask


class PseudoResource(str):
    """The name of a pseudo-resource. It is equal only to another one with the same text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PseudoResource) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return ~str.__hash__(self)


def requests_in(ask: Ask) -> dict[str, int]:
    """The amounts of resources in the ask."""
    return {name: amount for name, amount in ask if not isinstance(name, PseudoResource)}
