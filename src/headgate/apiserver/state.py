"""What all requests share: the tables, the store, the switches, and the authenticators.

A :class:`ServerState` is built once, by ``cli/`` or by a test, and passed to ``apiserver/handler.py`` with each
request. It decides nothing itself.
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
from headgate.apiserver.custom.name_index import DefinitionNameIndex
from headgate.apiserver.health_checks import HealthChecks
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.scheme import ConvertObject, KindScheme, scheme_from_schemas
from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.request.messages import AuditLevel
from headgate.apiserver.webhooks.index import WebhookIndex
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.schema import Schemas
from headgate.store import Item, Store


class ServerState:
    """What all requests share.

    ``kinds`` are the built-in kinds; ``users`` maps a bearer token to its user; ``version`` is the document at
    ``/version``; without ``time_zones`` the zone of a CronJob is only checked for its form; without ``accounts`` there
    are no tokens for service accounts. With ``keeps_quota`` this server counts the usage of quotas, otherwise a
    kube-controller-manager does. ``audit_level`` says how much of each write is recorded. ``guests`` are admission
    steps from outside this package, ``conversions`` are conversions between versions of custom kinds, by group, that
    need no webhook. ``disabled_plugins`` are built-in admission plugins that do not run.
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
        keeps_quota: bool = False,
        audit_level: AuditLevel | None = None,
        guests: AdmissionPlugins | None = None,
        conversions: Mapping[str, ConvertObject] | None = None,
        disabled_plugins: Collection[str] = (),
    ) -> None:
        self.schemas: Final = schemas
        self.messages: Final = messages
        self._catalog: Final = Catalog(kinds, schemas, store, conversions or {})
        self.definition_names: Final = DefinitionNameIndex()
        self.store: Final = store
        self.features: Final = features
        self.accounts: Final = accounts
        self.audit_level: Final = audit_level
        self.plugins: Final = builtin(disabled_plugins)
        self.disabled_plugins: Final = frozenset(disabled_plugins)
        self.extra_plugins: Final = guests or AdmissionPlugins()
        self.tokens: Final = TokenAuthenticator(users, accounts)
        self.policy: Final = RBACAuthorizer(store)
        self.version: Final = version
        self.time_zones: Final = time_zones
        self.keeps_quota: Final = keeps_quota
        self.webhooks: Final = WebhookIndex()
        self.allocations: Final = Allocations(store)
        self.health: Final = HealthChecks()
        self._forms: Final[dict[str, KindScheme]] = {}

    @property
    def kinds(self) -> KindTable:
        """Everything that is served now, custom kinds included."""
        return self._catalog.table

    def prepare_definition(self, item: Item) -> None:
        """``item`` is a CustomResourceDefinition that was just staged."""
        self._catalog.prepare(item)

    def catch_up(self) -> None:
        """Take in what was committed. Until the next commit the tables that readers share stay as they are."""
        self._catalog.catch_up()
        self.policy.catch_up()

    def scheme_of(self, kind: ServedKind) -> KindScheme:
        form = kind.scheme or self._forms.get(kind.type_name)
        if form is None:
            form = self._forms[kind.type_name] = scheme_from_schemas(self.schemas, kind.type_name, kind.gvk)
        return form
