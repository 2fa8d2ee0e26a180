"""Which webhooks match a write: the compiled rules and the index against the plain rules."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.webhooks.configuration import RESOURCES, Phase
from headgate.apiserver.webhooks.index import WebhookIndex
from headgate.store import Item, Store

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
KINDS = tuple(
    kind
    for kind in BUILTIN.kinds()
    if kind.plural in ("pods", "nodes", "namespaces", "deployments", "events", "horizontalpodautoscalers")
)


def some_of(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)


RULES = st.fixed_dictionaries(
    {
        "operations": some_of("*", *OPERATIONS),
        "apiGroups": some_of("*", "", "apps", "autoscaling", "events.k8s.io"),
        "apiVersions": some_of("*", "v1", "v2"),
        "resources": some_of(
            *("*", "*/*", "pods", "pods/*", "pods/status", "*/scale", "*/status", "deployments", "deployments/scale"),
            *("events", "horizontalpodautoscalers", "horizontalpodautoscalers/status", "namespaces", "nodes"),
        ),
        "scope": st.sampled_from(["*", "Cluster", "Namespaced"]),
    }
)
HOOKS = st.fixed_dictionaries(
    {
        "rules": st.lists(RULES, max_size=3),
        "matchPolicy": st.sampled_from(["Exact", "Equivalent"]),
        "clientConfig": st.just({"url": "https://hook"}),
    }
)
CONFIGURATIONS = st.dictionaries(st.sampled_from("abcd"), st.lists(HOOKS, max_size=3), max_size=4)


def slowly_matches(rule: Any, operation: str, kind: ServedKind, subresource: str) -> bool:
    """The documentation of a rule, word by word."""
    if rule["scope"] == "Cluster" and kind.namespaced:
        return False
    if rule["scope"] == "Namespaced" and not kind.namespaced:
        return False
    if operation not in rule["operations"] and "*" not in rule["operations"]:
        return False
    if kind.group not in rule["apiGroups"] and "*" not in rule["apiGroups"]:
        return False
    if kind.version not in rule["apiVersions"] and "*" not in rule["apiVersions"]:
        return False
    for text in rule["resources"]:
        resource, _, sub = text.partition("/")
        if resource not in ("*", kind.plural):
            continue
        if text.count("/") == 0 and subresource == "":
            return True
        if text.count("/") == 1 and (sub == subresource or (sub == "*")):
            return True
    return False


def slowly_found(configurations: Any, operation: str, kind: ServedKind, subresource: str) -> list[tuple[str, str]]:
    """The keys of the webhooks that are called, in order, with the version that each wants."""
    found = []
    for name in sorted(configurations):
        for index, hook in enumerate(configurations[name]):
            others = [each for each in BUILTIN.kinds() if each.resource == kind.resource and each != kind]
            if subresource:
                others = [each for each in others if each.subresource(subresource) is not None]
            wanted = next((kind for rule in hook["rules"] if slowly_matches(rule, operation, kind, subresource)), None)
            if wanted is None and hook["matchPolicy"] == "Equivalent":
                wanted = next(
                    (
                        other
                        for rule in hook["rules"]
                        for other in others
                        if slowly_matches(rule, operation, other, subresource)
                    ),
                    None,
                )
            if wanted is not None:
                found.append((f"{name}//{index}", wanted.api_version))
    return found


def put(store: Store, phase: Phase, name: str, hooks: Any, *, delete: bool = False) -> None:
    revision = store.next_revision()
    data = msgspec.json.encode({"metadata": {"name": name}, "webhooks": hooks})
    store.stage(Item(RESOURCES[phase], "", name, "u", revision, {}, {}, data), delete=delete)
    store.commit(revision)


@given(
    before=CONFIGURATIONS,
    after=CONFIGURATIONS,
    phase=st.sampled_from(["mutating", "validating"]),
    operation=st.sampled_from(OPERATIONS),
    kind=st.sampled_from(KINDS),
    subresource=st.sampled_from(["", "status", "scale"]),
)
def test_the_index_finds_what_the_rules_say(
    before: Any, after: Any, phase: Phase, operation: str, kind: ServedKind, subresource: str
) -> None:
    store, index = Store(), WebhookIndex()

    def asked() -> list[tuple[str, str]]:
        found = index.matching(store, BUILTIN, phase, operation, kind, subresource)
        return [(match.hook.key, match.kind.api_version) for match in found]

    for name, hooks in before.items():
        put(store, phase, name, hooks)
    assert asked() == slowly_found(before, operation, kind, subresource)
    for name in before:
        if name not in after:
            put(store, phase, name, [], delete=True)
    for name, hooks in after.items():
        put(store, phase, name, hooks)
    assert asked() == slowly_found(after, operation, kind, subresource)
    fresh = WebhookIndex().matching(store, BUILTIN, phase, operation, kind, subresource)
    assert [match.hook.key for match in fresh] == [key for key, _ in asked()]
