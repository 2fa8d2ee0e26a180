"""One rule of a role: which verbs on which resources, or on which paths.

:func:`allows` asks a rule about a request. :func:`uncovered` asks whether some rules grant all that others grant, which
is what stands between a user and granting more than they have (``escalation.py``). Where rules come from is
``policy.py``'s matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.errors import quote
from headgate.kube.status import Attributes

ALL: Final = "*"


class Rule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def wire(self) -> dict[str, Any]:
        pairs = zip(_WIRE_NAMES, (self.verbs, self.groups, self.resources, self.names, self.urls), strict=True)
        return {field: list(values) for field, values in pairs if values}

    def __str__(self) -> str:
        """How a refusal shows a right that is missing."""
        shown = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted_list(values)}" for name, values in shown if values) + "}"


_WIRE_NAMES: Final = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def quoted_list(values: Iterable[str]) -> str:
    return "[" + " ".join(quote(value) for value in values) + "]"


def rules_of(role: dict[str, Any]) -> tuple[Rule, ...]:
    """The rules of a stored Role or ClusterRole."""
    return tuple(
        Rule(*(tuple(rule.get(field) or ()) for field in _WIRE_NAMES)) for rule in role.get("rules") or () if rule
    )


def allows(rule: Rule, asked: Attributes) -> bool:
    if asked.verb not in rule.verbs and ALL not in rule.verbs:
        return False
    if asked.path is not None:
        return any(_url_matches(url, asked.path) for url in rule.urls)
    if asked.group not in rule.groups and ALL not in rule.groups:
        return False
    if not _resource_matches(rule.resources, asked):
        return False
    return not rule.names or asked.name in rule.names


def _resource_matches(resources: tuple[str, ...], asked: Attributes) -> bool:
    if ALL in resources:
        return True
    if not asked.subresource:
        return asked.resource in resources
    return f"{asked.resource}/{asked.subresource}" in resources or f"*/{asked.subresource}" in resources


def _url_matches(url: str, path: str) -> bool:
    return url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """What of ``wanted`` no rule of ``owned`` grants, taken apart into single rights."""
    return [
        right for rule in wanted for right in _single_rights(rule) if not any(_covers(each, right) for each in owned)
    ]


def _single_rights(rule: Rule) -> list[Rule]:
    names: tuple[tuple[str, ...], ...] = tuple((name,) for name in rule.names) or ((),)
    return [
        Rule((verb,), (group,), (resource,), name)
        for group in rule.groups
        for resource in rule.resources
        for verb in rule.verbs
        for name in names
    ] + [Rule((verb,), urls=(url,)) for url in rule.urls for verb in rule.verbs]


def _covers(owner: Rule, right: Rule) -> bool:
    """``right`` has at most one of everything."""
    return (
        _has(owner.verbs, right.verbs)
        and _has(owner.groups, right.groups)
        and _covers_resource(owner.resources, right.resources)
        and (not owner.names or (bool(right.names) and right.names[0] in owner.names))
        and all(any(_covers_url(mine, url) for mine in owner.urls) for url in right.urls)
    )


def _has(owned: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in owned or all(each in owned for each in wanted)


def _covers_resource(owned: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if _has(owned, wanted):
        return True
    _, slash, subresource = wanted[0].partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _covers_url(owned: str, wanted: str) -> bool:
    return owned == wanted or (owned.endswith(ALL) and wanted.startswith(owned.rstrip(ALL)))


def described(rights: Iterable[Rule]) -> list[str]:
    """Single rights as a person wants to read them: the verbs on one resource together, in order of text."""
    gathered: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for right in rights:
        # Paths are shown one by one, with their verb.
        key = (right.groups, right.resources, right.names, right.urls, right.verbs if right.urls else ())
        gathered.setdefault(key, []).extend(right.verbs)
    return sorted(
        {
            str(Rule(tuple(verbs), groups, resources, names, urls))
            for (groups, resources, names, urls, _), verbs in gathered.items()
        }
    )
