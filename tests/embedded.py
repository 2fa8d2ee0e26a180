"""The embedded API server without sockets, clock or disk: requests go straight to ``handle``.

Commits succeed at once unless a test says otherwise; time stands still until a test moves it. Webhooks are functions
that a test puts at a URL (:attr:`Embedded.webhooks`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from headgate import schemas
from headgate.apimachinery import api_errors
from headgate.apimachinery.protobuf import MessageDecoder
from headgate.apiserver.admission_plugins.plugin_table import AdmissionPlugins
from headgate.apiserver.authn.jwt import SigningKey
from headgate.apiserver.authn.service_account_tokens import ServiceAccountTokens
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.handler import handle
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.request.messages import (
    AuditLevel,
    CallWebhooks,
    Commit,
    Moment,
    RecordAuditEvent,
    ServerRequest,
    ServerResponse,
    WebhookAnswer,
    WebhookCall,
)
from headgate.apiserver.state import ServerState
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.schema import Schemas
from headgate.store import Store

TOKEN = "token"


@cache
def all_schemas() -> Schemas:
    return Schemas.load(schemas.read())


@cache
def all_messages() -> MessageDecoder:
    return MessageDecoder.load(all_schemas(), schemas.read_numbers())


@cache
def signing_key() -> SigningKey:
    return SigningKey(ec.derive_private_key(4711, ec.SECP256R1()))


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: Any
    headers: tuple[tuple[str, str], ...]

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "Warning"]


class Embedded:
    def __init__(
        self,
        *,
        features: FeatureGates | None = None,
        store: Store | None = None,
        namespace: str = "t",
        keeps_quota: bool = False,
        users: Mapping[str, UserInfo] | None = None,
        audit_level: AuditLevel | None = None,
        guests: AdmissionPlugins | None = None,
        disabled_plugins: Collection[str] = ("ServiceAccount",),
        compiled_by: Embedded | None = None,
    ) -> None:
        """Pods are created without a service account, because no controller creates one, unless a test asks for it.

        ``compiled_by`` is a server with the same custom resource definitions, of whose store ``store`` is a copy. This
        server uses the compiled definitions of that one.
        """
        store = store or Store()
        self.audited: list[dict[str, Any]] = []
        self.api = ServerState(
            schemas=all_schemas(),
            messages=all_messages(),
            kinds=BUILTIN,
            store=store,
            features=features or FeatureGates(),
            users={TOKEN: UserInfo("admin", ("system:masters",)), **(users or {})},
            version={"gitVersion": "v1.35.8"},
            accounts=ServiceAccountTokens("https://issuer.example", signing_key(), store),
            tracks_quota_usage=keeps_quota,
            audit_level=audit_level,
            extra_plugins=guests,
            disabled_plugins=disabled_plugins,
        )
        if compiled_by is not None:
            self.api._catalog._table = compiled_by.api.kinds
            self.api._catalog._crds |= compiled_by.api._catalog._crds
            self.api._catalog._seen = compiled_by.api._catalog._seen
        self.epoch_s = 1_700_000_000.0
        self.disk_error: str | None = None
        self.webhooks: dict[str, Callable[[WebhookCall], WebhookAnswer]] = {}  # by URL, without the query
        self.uids = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count(1))
        self._suffixes = (f"{number:05d}" for number in itertools.count(1))
        if namespace:
            self.post("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def moment(self) -> Moment:
        return Moment(self.epoch_s, lambda: next(self.uids), lambda: next(self._suffixes), lambda limit: 0)

    def send(self, request: ServerRequest) -> ServerResponse | WatchCursor:
        steps = handle(self.api, request, self.moment())
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self._perform(effect))
        except StopIteration as done:
            answer: ServerResponse | WatchCursor = done.value
            if isinstance(answer, WatchCursor):
                answer.call_webhook = lambda call, tell: tell(self._webhook(call))
            return answer

    def _perform(self, effect: object) -> object:
        if isinstance(effect, CallWebhooks):
            return tuple(self._webhook(each) for each in effect.calls)
        if isinstance(effect, RecordAuditEvent):
            self.audited.append(effect.event)
            return None
        if not isinstance(effect, Commit):
            return False
        if self.disk_error is not None:
            self.api.store.rollback()
            return api_errors.internal_error(self.disk_error)
        self.api.store.commit(self.api.store.applied)  # as the committer does: one transaction for all that gathered
        return None

    def _webhook(self, call: WebhookCall) -> WebhookAnswer:
        answer = self.webhooks.get(call.url.partition("?")[0])
        return answer(call) if answer else WebhookAnswer(problem=f'Post "{call.url}": connection refused')

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> Reply:
        sent = {"authorization": f"Bearer {TOKEN}", "content-type": content_type, "user-agent": "test/1"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = self.send(ServerRequest(method, path, urlencode(query or {}, doseq=True), sent, data))
        assert isinstance(answer, ServerResponse), "this is a watch: use watch()"
        parsed = msgspec.json.decode(answer.body) if answer.content_type.startswith("application/json") else answer.body
        return Reply(answer.status, parsed, answer.headers)

    def get(self, path: str, **query: Any) -> Reply:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any, **query: Any) -> Reply:
        return self.call("POST", path, body, query=query)

    def put(self, path: str, body: Any, **query: Any) -> Reply:
        return self.call("PUT", path, body, query=query)

    def delete(self, path: str, body: Any = None, **query: Any) -> Reply:
        return self.call("DELETE", path, body, query=query)

    def patch(self, path: str, body: Any, how: str = "merge", **query: Any) -> Reply:
        types = {"json": "json-patch+json", "merge": "merge-patch+json", "strategic": "strategic-merge-patch+json"}
        return self.call("PATCH", path, body, query=query, content_type=f"application/{types.get(how, how)}")

    def apply(self, path: str, body: Any, manager: str, **query: Any) -> Reply:
        query = {"fieldManager": manager, **query}
        return self.call("PATCH", path, body, query=query, content_type="application/apply-patch+yaml")

    def watch(self, path: str, **query: Any) -> WatchCursor:
        sent = {"authorization": f"Bearer {TOKEN}"}
        answer = self.send(ServerRequest("GET", path, urlencode({"watch": "1", **query}), sent))
        assert isinstance(answer, WatchCursor), answer
        return answer


def events(watch: WatchCursor) -> list[tuple[str, Any]]:
    """What the watch has to say now, decoded."""
    decoded = [msgspec.json.decode(line) for line in watch.pull()]
    return [(event["type"], event["object"]) for event in decoded]


def a_pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
