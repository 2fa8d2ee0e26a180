"""The state that all requests share: the tables, the store, the feature gates, and the authenticators.

A :class:`ServerState` is built once, by ``cli/`` or by a test, and passed to ``apiserver/handler.py`` with each
request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from headgate.apimachinery.protobuf import MessageDecoder
from headgate.apiserver.admission_plugins.plugin_table import AdmissionPlugins, builtin
from headgate.apiserver.allocations import Allocations
from headgate.apiserver.authn.authenticator import TokenAuthenticator
from headgate.apiserver.authn.service_account_tokens import ServiceAccountTokens
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.authz.rbac import RBACAuthorizer
from headgate.apiserver.custom.catalog import Catalog
from headgate.apiserver.custom.name_index import CRDNameIndex
from headgate.apiserver.health_checks import HealthChecks
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.scheme import ConvertObject, KindScheme, scheme_from_schemas
from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.long_objects import LongObjectCache
from headgate.apiserver.request.messages import AuditLevel
from headgate.apiserver.webhooks.index import WebhookIndex
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.schema import Schemas
from headgate.store import Item, Store


class ServerState:
    """The state that all requests share.

    ``kinds``: the built-in kinds. ``users``: users by bearer token. ``version``: the document at ``/version``. Without
    ``time_zones`` only the form of a CronJob's time zone is checked. Without ``accounts`` there are no tokens for
    service accounts. ``tracks_quota_usage``: this server counts the usage of ResourceQuotas, otherwise a
    kube-controller-manager does. ``audit_level``: how much of each write is recorded. ``extra_plugins``: admission
    plugins from outside this package. ``conversions``: by group, conversions between versions of custom kinds that need
    no webhook. ``disabled_plugins``: built-in admission plugins that do not run.
    """

    def __init__(
        self,
        *,
        schemas: Schemas,
        messages: MessageDecoder,
        kinds: KindTable,
        store: Store,
        features: FeatureGates,
        users: Mapping[str, UserInfo],
        version: dict[str, Any],
        time_zones: frozenset[str] | None = None,
        accounts: ServiceAccountTokens | None = None,
        tracks_quota_usage: bool = False,
        audit_level: AuditLevel | None = None,
        extra_plugins: AdmissionPlugins | None = None,
        conversions: Mapping[str, ConvertObject] | None = None,
        disabled_plugins: Collection[str] = (),
    ) -> None:
        self.schemas: Final = schemas
        self.messages: Final = messages
        self._catalog: Final = Catalog(kinds, schemas, store, conversions or {})
        self.crd_name_index: Final = CRDNameIndex()
        self.store: Final = store
        self.features: Final = features
        self.accounts: Final = accounts
        self.audit_level: Final = audit_level
        self.plugins: Final = builtin(disabled_plugins)
        self.disabled_plugins: Final = frozenset(disabled_plugins)
        self.extra_plugins: Final = extra_plugins or AdmissionPlugins()
        self.tokens: Final = TokenAuthenticator(users, accounts)
        self.authorizer: Final = RBACAuthorizer(store)
        self.version: Final = version
        self.time_zones: Final = time_zones
        self.tracks_quota_usage: Final = tracks_quota_usage
        self.webhooks: Final = WebhookIndex()
        self.allocations: Final = Allocations(store)
        self.health: Final = HealthChecks()
        self.long_objects: Final = LongObjectCache()
        self._schemes: Final[dict[str, KindScheme]] = {}

    @property
    def kinds(self) -> KindTable:
        """All kinds that are served now, including custom ones."""
        return self._catalog.table

    def compile_staged_crd(self, item: Item) -> None:
        """Compiles the staged CustomResourceDefinition ``item``, so that its kinds are ready when it is committed."""
        self._catalog.compile_staged_crd(item)

    def catch_up(self) -> None:
        """Updates the table of kinds and the RBAC rules from committed changes. Until the next commit they stay the
        same, so the worker thread can use them."""
        self._catalog.catch_up()
        self.authorizer.catch_up()

    def scheme_of(self, kind: ServedKind) -> KindScheme:
        """How objects of ``kind`` are decoded, defaulted, validated and encoded."""
        scheme = kind.scheme or self._schemes.get(kind.type_name)
        if scheme is None:
            scheme = self._schemes[kind.type_name] = scheme_from_schemas(self.schemas, kind.type_name, kind.gvk)
        return scheme
