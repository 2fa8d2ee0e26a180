"""All webhooks, compiled and in call order, and which of them match an endpoint.

The index has the committed configurations. A lookup compares one revision; if it has changed, the lookup reads the
changed configurations. The matching rules are computed once per endpoint, until a configuration or the table of kinds
changes. ``apiserver/admission/webhook_request.py`` evaluates selectors per write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.webhooks.configuration import (
    ANY,
    RESOURCES,
    AdmissionWebhook,
    Phase,
    WebhookRule,
    WebhookRuleTarget,
    compile_webhooks,
)
from headgate.store import Compacted, Item, Revision, Store

_EXEMPT_GROUP: Final = "admissionregistration.k8s.io"


class WebhookMatch(msgspec.Struct, frozen=True):
    """A webhook that matches an endpoint, and the kind in whose version it gets objects."""

    hook: AdmissionWebhook
    kind: ServedKind


class WebhookIndex:
    def __init__(self) -> None:
        self._hooks: Final[dict[Phase, dict[str, tuple[AdmissionWebhook, ...]]]] = {"mutating": {}, "validating": {}}
        self._seen: Revision | None = None
        self._kinds: KindTable | None = None
        self._matches: Final[dict[tuple[Phase, WebhookRuleTarget], tuple[WebhookMatch, ...]]] = {}
        self._enabled = True

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Inside the context no webhook matches."""
        self._enabled = False
        try:
            yield
        finally:
            self._enabled = True

    def matching(
        self, store: Store, kinds: KindTable, phase: Phase, operation: str, kind: ServedKind, subresource: str
    ) -> tuple[WebhookMatch, ...]:
        """The webhooks whose rules match: by the name of their configuration, then in the order of the configuration.

        Webhook configurations are never sent to webhooks: a failing webhook must not prevent its own removal.
        """
        self._update(store, kinds)
        if not self._hooks[phase] or not self._enabled or kind.group == _EXEMPT_GROUP:
            return ()
        endpoint = _endpoint(operation, kind, subresource)
        found = self._matches.get((phase, endpoint))
        if found is None:
            found = self._matches[phase, endpoint] = self._find(phase, endpoint, kind, kinds)
        return found

    def _find(
        self, phase: Phase, endpoint: WebhookRuleTarget, kind: ServedKind, kinds: KindTable
    ) -> tuple[WebhookMatch, ...]:
        equivalents = _Equivalents(
            endpoint,
            [
                each
                for each in kinds.kinds_stored_as(kind.resource)
                if each is not kind and (not endpoint.subresource or each.subresource(endpoint.subresource))
            ],
        )
        found = []
        for name in sorted(self._hooks[phase]):
            for hook in self._hooks[phase][name]:
                found_kind = _matching_kind(hook, endpoint, kind, equivalents)
                if found_kind is not None:
                    found.append(WebhookMatch(hook, found_kind))
        return tuple(found)

    def _update(self, store: Store, kinds: KindTable) -> None:
        if kinds is not self._kinds:
            self._kinds = kinds
            self._matches.clear()
        if store.committed == self._seen:
            return
        for phase, resource in RESOURCES.items():
            changes = None if self._seen is None else store.changes(resource, self._seen)
            if changes is None or isinstance(changes, Compacted):
                self._reload(phase, store)
                continue
            for change in changes:
                self._put(phase, change.item, deleted=change.deleted)
        self._seen = store.committed

    def _reload(self, phase: Phase, store: Store) -> None:
        self._hooks[phase].clear()
        self._matches.clear()
        page = store.page(RESOURCES[phase], None)
        if not isinstance(page, Compacted):
            for item in page.items:
                self._put(phase, item, deleted=False)

    def _put(self, phase: Phase, item: Item, *, deleted: bool) -> None:
        self._matches.clear()
        if deleted:
            self._hooks[phase].pop(item.name, None)
        else:
            self._hooks[phase][item.name] = compile_webhooks(msgspec.json.decode(item.data))


def _endpoint(operation: str, kind: ServedKind, subresource: str) -> WebhookRuleTarget:
    return WebhookRuleTarget(operation, kind.group, kind.version, kind.plural, subresource, kind.namespaced)


class _Equivalents:
    """The other versions of a resource.

    A resource may have many versions and a webhook many rules, so a rule is not compared with every version: kinds that
    differ only in their version are grouped, and only the versions that the rule names are looked up.
    """

    def __init__(self, endpoint: WebhookRuleTarget, kinds: list[ServedKind]) -> None:
        self._kinds: Final = kinds
        # By the endpoint without a version: the index in `kinds` of each version.
        self._by_target: Final[dict[WebhookRuleTarget, dict[str, int]]] = {}
        for i, found_kind in enumerate(kinds):
            target = _endpoint(endpoint.operation, found_kind, endpoint.subresource)
            self._by_target.setdefault(target._replace(version=""), {})[target.version] = i

    def first(self, rule: WebhookRule) -> ServedKind | None:
        """The first kind that the rule matches."""
        found: list[int] = []
        for target, versions in self._by_target.items():
            if ANY in rule.versions:
                named = [next(iter(versions.values()))]
            else:
                named = [versions[version] for version in rule.versions if version in versions]
            if named and rule.matches(target._replace(version=self._kinds[named[0]].version)):
                found.append(min(named))
        return self._kinds[min(found)] if found else None


def _matching_kind(
    hook: AdmissionWebhook, endpoint: WebhookRuleTarget, kind: ServedKind, equivalents: _Equivalents
) -> ServedKind | None:
    """The kind of the request if the webhook's rules match it; else, for ``Equivalent``, the first matching kind."""
    if any(rule.matches(endpoint) for rule in hook.rules):
        return kind
    if not hook.equivalent:
        return None
    return next((found_kind for rule in hook.rules if (found_kind := equivalents.first(rule)) is not None), None)
