"""All webhooks, compiled and in call order, and which of them match an endpoint.

The index follows the committed configurations: a lookup costs one comparison while nothing was written, and a read of
the changed configurations after a write. The matching rules are computed once per endpoint, until a configuration or
the table of kinds changes. ``apiserver/admission/webhook_request.py`` evaluates selectors per write.
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
    """A webhook that asks for an endpoint, and the row of the kind in whose version it wants to see objects."""

    hook: AdmissionWebhook
    view: ServedKind


class WebhookIndex:
    def __init__(self) -> None:
        self._hooks: Final[dict[Phase, dict[str, tuple[AdmissionWebhook, ...]]]] = {"mutating": {}, "validating": {}}
        self._seen: Revision | None = None
        self._kinds: KindTable | None = None
        self._matches: Final[dict[tuple[Phase, WebhookRuleTarget], tuple[WebhookMatch, ...]]] = {}
        self._awake = True

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Inside nothing matches."""
        self._awake = False
        try:
            yield
        finally:
            self._awake = True

    def matching(
        self, store: Store, kinds: KindTable, phase: Phase, operation: str, kind: ServedKind, subresource: str
    ) -> tuple[WebhookMatch, ...]:
        """In the order of the configurations' names, then as they stand there.

        What configures webhooks is never sent to one: a webhook that fails must not prevent its own removal.
        """
        self._follow(store, kinds)
        if not self._hooks[phase] or not self._awake or kind.group == _EXEMPT_GROUP:
            return ()
        endpoint = _endpoint(operation, kind, subresource)
        found = self._matches.get((phase, endpoint))
        if found is None:
            found = self._matches[phase, endpoint] = self._find(phase, endpoint, kind, kinds)
        return found

    def _find(
        self, phase: Phase, endpoint: WebhookRuleTarget, kind: ServedKind, kinds: KindTable
    ) -> tuple[WebhookMatch, ...]:
        others = _Equivalents(
            endpoint,
            [
                each
                for each in kinds.by_storage(kind.resource)
                if each is not kind and (not endpoint.subresource or each.subresource(endpoint.subresource))
            ],
        )
        found = []
        for name in sorted(self._hooks[phase]):
            for hook in self._hooks[phase][name]:
                view = _view(hook, endpoint, kind, others)
                if view is not None:
                    found.append(WebhookMatch(hook, view))
        return tuple(found)

    def _follow(self, store: Store, kinds: KindTable) -> None:
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
    """The other views of a resource.

    A definition may have as many versions as a webhook has rules, so a rule is not compared with every version: views
    that differ only in their version are kept together, and only the versions that the rule names are looked up.
    """

    def __init__(self, endpoint: WebhookRuleTarget, views: list[ServedKind]) -> None:
        self._views: Final = views
        self._alike: Final[
            dict[WebhookRuleTarget, dict[str, int]]
        ] = {}  # by the endpoint without version: version to index
        for i, view in enumerate(views):
            at = _endpoint(endpoint.operation, view, endpoint.subresource)
            self._alike.setdefault(at._replace(version=""), {})[at.version] = i

    def first(self, rule: WebhookRule) -> ServedKind | None:
        """The first view that the rule asks for."""
        found: list[int] = []
        for at, versions in self._alike.items():
            if ANY in rule.versions:
                named = [next(iter(versions.values()))]
            else:
                named = [versions[version] for version in rule.versions if version in versions]
            if named and rule.matches(at._replace(version=self._views[named[0]].version)):
                found.append(min(named))
        return self._views[min(found)] if found else None


def _view(
    hook: AdmissionWebhook, endpoint: WebhookRuleTarget, kind: ServedKind, others: _Equivalents
) -> ServedKind | None:
    """The version that the webhook's rules name; failing that, if equivalents will do, the first that they name."""
    if any(rule.matches(endpoint) for rule in hook.rules):
        return kind
    if not hook.equivalent:
        return None
    return next((view for rule in hook.rules if (view := others.first(rule)) is not None), None)
