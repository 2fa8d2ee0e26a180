"""One rule of a role: which verbs on which resources, or on which paths.

:func:`allows` matches a rule with a request. :func:`uncovered` returns the rules that other rules do not cover, which
prevents privilege escalation (``apiserver/admission/rbac_escalation.py``). ``rbac.py`` collects the rules of a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, Final

import msgspec

from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.kube.field_errors import quoted_list

ALL: Final = "*"
MAX_COMPARISONS: Final = 50_000


class PolicyRule(
    msgspec.Struct,
    frozen=True,
    gc=False,  # it has only texts: the garbage collector need not scan large roles
    rename={"groups": "apiGroups", "names": "resourceNames", "urls": "nonResourceURLs"},
):
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def wire(self) -> dict[str, Any]:
        pairs = zip(_WIRE_NAMES, (self.verbs, self.groups, self.resources, self.names, self.urls), strict=True)
        return {field: list(values) for field, values in pairs if values}

    def __str__(self) -> str:
        """The text of a missing right in a refusal."""
        shown = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted_list(values)}" for name, values in shown if values) + "}"


_WIRE_NAMES: Final = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def rules_of(role: dict[str, Any]) -> tuple[PolicyRule, ...]:
    """The rules of a stored Role or ClusterRole."""
    return tuple(
        PolicyRule(*(tuple(rule.get(field) or ()) for field in _WIRE_NAMES)) for rule in role.get("rules") or () if rule
    )


class _StoredRole(msgspec.Struct):
    rules: tuple[PolicyRule, ...] = ()


_role_decoder: Final = msgspec.json.Decoder(_StoredRole)


def stored_rules(data: bytes) -> tuple[PolicyRule, ...]:
    """The rules of a stored Role or ClusterRole, decoded without the other fields, because the event loop does this
    after a commit and a role may be large."""
    try:
        return _role_decoder.decode(data).rules
    except msgspec.ValidationError:  # a list is null, which only the slower function accepts
        return rules_of(msgspec.json.decode(data))


def allows(rule: PolicyRule, attributes: AuthorizationAttributes) -> bool:
    if attributes.verb not in rule.verbs and ALL not in rule.verbs:
        return False
    if attributes.path is not None:
        return any(_url_matches(url, attributes.path) for url in rule.urls)
    if attributes.group not in rule.groups and ALL not in rule.groups:
        return False
    if not _resource_matches(rule.resources, attributes):
        return False
    return not rule.names or attributes.name in rule.names


def _resource_matches(resources: tuple[str, ...], attributes: AuthorizationAttributes) -> bool:
    if ALL in resources:
        return True
    if not attributes.subresource:
        return attributes.resource in resources
    return f"{attributes.resource}/{attributes.subresource}" in resources or f"*/{attributes.subresource}" in resources


def _url_matches(url: str, path: str) -> bool:
    return url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def uncovered(held: Iterable[PolicyRule], requested: Iterable[PolicyRule]) -> list[PolicyRule] | None:
    """The rights of ``requested`` that no rule of ``held`` grants, as single *rights*: rules with one verb and
    resource.

    A rule stands for every combination of its verbs, groups, resources and names, so a small role may have too many
    rights to compare. ``None`` if more than :data:`MAX_COMPARISONS` comparisons would be needed.
    """
    index = _RuleIndex(held)
    missing: list[PolicyRule] = []
    for rule in requested:
        if index.has_all(rule):
            continue
        for right in _split_rule(rule):
            if not index.has(right):
                missing.append(right)
            if index.comparisons > MAX_COMPARISONS:
                return None
    return missing


def _split_rule(rule: PolicyRule) -> Iterator[PolicyRule]:
    names: tuple[tuple[str, ...], ...] = tuple((name,) for name in rule.names) or ((),)
    for group, resource, verb, name in product(rule.groups, rule.resources, rule.verbs, names):
        yield PolicyRule((verb,), (group,), (resource,), name)
    for url, verb in product(rule.urls, rule.verbs):
        yield PolicyRule((verb,), urls=(url,))


class _RuleSets:
    """A rule with sets in place of its lists. ``prefixes``: those of URLs that end in ``*``."""

    __slots__ = ("groups", "names", "prefixes", "resources", "urls", "verbs")

    def __init__(self, rule: PolicyRule) -> None:
        self.verbs, self.groups = frozenset(rule.verbs), frozenset(rule.groups)
        self.resources, self.names = frozenset(rule.resources), frozenset(rule.names)
        self.urls = frozenset(rule.urls)
        self.prefixes = tuple({url.rstrip(ALL) for url in rule.urls if url.endswith(ALL)})

    def covers(self, rule: PolicyRule) -> bool:
        """Whether this rule alone grants every right of ``rule``."""
        return (
            (ALL in self.verbs or self.verbs.issuperset(rule.verbs))
            and (ALL in self.groups or self.groups.issuperset(rule.groups))
            and (ALL in self.resources or all(map(self._covers_resource, rule.resources)))
            and (not self.names or (bool(rule.names) and self.names.issuperset(rule.names)))
            and all(url in self.urls or url.startswith(self.prefixes) for url in rule.urls)
        )

    def _covers_resource(self, requested: str) -> bool:
        _, slash, subresource = requested.partition("/")
        return requested in self.resources or (bool(slash) and f"*/{subresource}" in self.resources)


class _RuleIndex:
    """Rules by resource and URL, so that a right is compared only with rules that may cover it."""

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self.comparisons = 0
        self._by_resource: dict[str, list[_RuleSets]] = {}
        self._by_url: dict[str, list[_RuleSets]] = {}
        self._with_prefixes: list[_RuleSets] = []
        for rule in rules:
            rule_sets = _RuleSets(rule)
            for resource in rule_sets.resources:
                self._by_resource.setdefault(resource, []).append(rule_sets)
            for url in rule_sets.urls:
                self._by_url.setdefault(url, []).append(rule_sets)
            if rule_sets.prefixes:
                self._with_prefixes.append(rule_sets)

    def has_all(self, rule: PolicyRule) -> bool:
        """Whether one rule grants all of ``rule``, so that it need not be split."""
        return not (rule.resources and rule.urls) and self.has(rule)

    def has(self, right: PolicyRule) -> bool:
        for rule_sets in self._candidates(right):
            self.comparisons += 1
            if rule_sets.covers(right):
                return True
        return False

    def _candidates(self, right: PolicyRule) -> Iterator[_RuleSets]:
        if right.resources:
            resource = right.resources[0]
            _, slash, subresource = resource.partition("/")
            yield from self._by_resource.get(resource, ())
            yield from self._by_resource.get(ALL, ()) if resource != ALL else ()
            yield from self._by_resource.get(f"*/{subresource}", ()) if slash else ()
        elif right.urls:
            yield from self._by_url.get(right.urls[0], ())
            yield from self._with_prefixes


def described(rights: Iterable[PolicyRule]) -> list[str]:
    """Single rights as texts, with the verbs of one resource together, sorted."""
    verbs_by_key: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for right in rights:
        # Paths are shown one by one, with their verb.
        key = (right.groups, right.resources, right.names, right.urls, right.verbs if right.urls else ())
        verbs_by_key.setdefault(key, []).extend(right.verbs)
    return sorted(
        {
            str(PolicyRule(tuple(verbs), groups, resources, names, urls))
            for (groups, resources, names, urls, _), verbs in verbs_by_key.items()
        }
    )
