"""What every request shares: the tables, the store, the switches, and who may come in.

An :class:`Api` is built once, by ``cli/`` or by a test, and handed to ``apiserver/handle.py`` with each request. It
decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from headgate.apiserver.access.accounts import Accounts
from headgate.apiserver.access.authentication import Tokens
from headgate.apiserver.access.policy import Policy
from headgate.apiserver.access.user import User
from headgate.apiserver.builtin.plugins import Table, builtin
from headgate.apiserver.custom.catalog import Catalog
from headgate.apiserver.custom.register import Register
from headgate.apiserver.health import HealthChecks
from headgate.apiserver.holdings import Holdings
from headgate.apiserver.kinds.form import ConvertObject, Form, table_form
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.messages import AuditLevel
from headgate.apiserver.webhooks.index import WebhookIndex
from headgate.kube.features import Features
from headgate.kube.protobuf import Messages
from headgate.kube.schema import Schemas
from headgate.store import Item, Store


class Api:
    """What all requests share.

    ``kinds`` are those that are always there; ``users`` maps a bearer token to who holds it; ``version`` is the
    document at ``/version``; without ``time_zones`` the zone of a CronJob is only checked for its form; without
    ``accounts`` there are no tokens for service accounts. With ``keeps_quota`` the usage of quotas is counted here,
    and not left to a kube-controller-manager. ``audit_level`` says how much of each write is recorded. ``guests`` are
    steps of admission that this room knows nothing about, ``conversions`` ways between the versions of custom kinds,
    by group, for which no webhook is asked. ``disabled_plugins`` are built-in steps of admission that are left out.
    """

    def __init__(
        self,
        *,
        schemas: Schemas,
        messages: Messages,
        kinds: KindTable,
        store: Store,
        features: Features,
        users: Mapping[str, User],
        version: dict[str, Any],
        time_zones: frozenset[str] | None = None,
        accounts: Accounts | None = None,
        keeps_quota: bool = False,
        audit_level: AuditLevel | None = None,
        guests: Table | None = None,
        conversions: Mapping[str, ConvertObject] | None = None,
        disabled_plugins: Collection[str] = (),
    ) -> None:
        self.schemas: Final = schemas
        self.messages: Final = messages
        self._catalog: Final = Catalog(kinds, schemas, store, conversions or {})
        self.register: Final = Register()
        self.store: Final = store
        self.features: Final = features
        self.accounts: Final = accounts
        self.audit_level: Final = audit_level
        self.plugins: Final = builtin(disabled_plugins)
        self.disabled_plugins: Final = frozenset(disabled_plugins)
        self.guests: Final = guests or Table()
        self.tokens: Final = Tokens(users, accounts)
        self.policy: Final = Policy(store)
        self.version: Final = version
        self.time_zones: Final = time_zones
        self.keeps_quota: Final = keeps_quota
        self.webhooks: Final = WebhookIndex()
        self.holdings: Final = Holdings(store)
        self.health: Final = HealthChecks()
        self._forms: Final[dict[str, Form]] = {}

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

    def form(self, kind: Kind) -> Form:
        form = kind.form or self._forms.get(kind.type_name)
        if form is None:
            form = self._forms[kind.type_name] = table_form(self.schemas, kind.type_name, kind.gvk)
        return form
