"""What a namespace says about its own end: five conditions, in the words that clients know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube import conditions
from headgate.kube.conditions import Condition
from headgate.kube.resource import Resource

Object = dict[str, Any]

_DISCOVERY: Final = "NamespaceDeletionDiscoveryFailure"
_PARSING: Final = "NamespaceDeletionGroupVersionParsingFailure"
_CONTENT: Final = "NamespaceDeletionContentFailure"
_REMAINING: Final = "NamespaceContentRemaining"
_FINALIZERS: Final = "NamespaceFinalizersRemaining"
_FINE: Final = {
    _DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    _PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    _CONTENT: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    _REMAINING: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class Findings(msgspec.Struct):
    """What one round found. Mutable: the round adds to it."""

    undiscovered: str = ""
    failures: list[str] = []
    remaining: dict[Resource, int] = {}
    finalizers: dict[str, int] = {}


def updated(before: list[Condition], found: Findings, now: str) -> list[Condition]:
    """The conditions after a round; the very list that was given if there is nothing to write."""
    bad = _complaints(found)
    after = before
    for type_, (reason, message) in _FINE.items():
        told = bad.get(type_)
        status = "False" if told is None else "True"
        reason, message = told or (reason, message)
        condition = {"type": type_, "status": status, "reason": reason, "message": message}
        after = conditions.with_condition(after, condition, now)
    return after


def _complaints(found: Findings) -> Mapping[str, tuple[str, str]]:
    told: dict[str, tuple[str, str]] = {}
    if found.undiscovered:
        told[_DISCOVERY] = ("DiscoveryFailed", found.undiscovered)
    if found.failures:
        text = f"Failed to delete all resource types, {len(found.failures)} remaining: {_joined(found.failures)}"
        told[_CONTENT] = ("ContentDeletionFailed", text)
    if found.remaining:
        counts = [f"{each.plural}.{each.group} has {n} resource instances" for each, n in found.remaining.items()]
        told[_REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {_joined(counts)}")
    if found.finalizers:
        counts = [f"{name} in {n} resource instances" for name, n in found.finalizers.items()]
        text = f"Some content in the namespace has finalizers remaining: {_joined(counts)}"
        told[_FINALIZERS] = ("SomeFinalizersRemain", text)
    return told


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(sorted(texts))
