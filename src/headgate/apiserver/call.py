"""One request in progress: its content, its kind, its user, and the warnings that it has collected so far.

Verbs (``reading``, ``creating``, ``updating``, ``patching``, ``deleting``) take a :class:`Call` and return a response.
The call is the only mutable object that they share; only its warnings and its waiting time change.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from headgate.apimachinery.api_errors import GroupResource
from headgate.apimachinery.apply import manager_name
from headgate.apimachinery.strategy import Strategy, StrategyContext
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Moment, ServerRequest
from headgate.apiserver.request.negotiation import Output
from headgate.apiserver.request.request_info import RequestInfo
from headgate.apiserver.state import ServerState
from headgate.kube import timestamps

Object = dict[str, Any]

APPLY_TYPE: Final = "application/apply-patch"
_MAX_WRITE_S: Final = 34.0
_MAX_DELETE_COLLECTION_S: Final = 60.0  # many objects are deleted by one request


class Call:
    def __init__(
        self,
        api: ServerState,
        request: ServerRequest,
        moment: Moment,
        info: RequestInfo,
        kind: ServedKind,
        user: UserInfo,
        output: Output,
    ) -> None:
        self.api: Final = api
        self.request: Final = request
        self.moment: Final = moment
        self.info: Final = info
        self.kind: Final = kind
        self.user: Final = user
        self.output: Final = output
        self.query: Final = options.parse_query(request.query)
        self.warnings: Final[list[str]] = []
        self._warned: Final[set[str]] = set()
        self._waited_s = 0.0

    @cached_property
    def context(self) -> StrategyContext:
        namespace = self.api.store.peek("namespaces", "", self.namespace) if self.namespace else None
        return StrategyContext(
            now=timestamps.format_time(self.moment.epoch_s),
            now_micro=timestamps.format_micro_time(self.moment.epoch_s),
            features=self.api.features,
            user=self.user.name,
            time_zones=self.api.time_zones,
            namespace_labels={} if namespace is None else namespace.labels,
        )

    @property
    def now(self) -> str:
        return self.context.now

    @cached_property
    def strategy(self) -> Strategy:
        return self.api.scheme_of(self.kind).strategy

    @property
    def resource(self) -> GroupResource:
        """The resource in errors: ``deployments.apps``."""
        return GroupResource(self.kind.group, self.kind.plural)

    @property
    def named_kind(self) -> GroupResource:
        """The kind in validation errors: ``Deployment.apps``, with the group that it is stored under."""
        return GroupResource(self.kind.stored_as[0], self.kind.kind)

    @property
    def namespace(self) -> str:
        """The namespace of the requested objects; empty for a Namespace, although its path has one."""
        return self.info.namespace if self.kind.namespaced else ""

    @property
    def manager(self) -> str:
        """The default field manager: the client program."""
        return manager_name("", self.request.header("user-agent"))

    @property
    def is_apply(self) -> bool:
        """Whether this is a server-side apply."""
        return self.info.verb == "patch" and self.request.header("content-type").startswith(APPLY_TYPE)

    @property
    def time_left_s(self) -> float:
        """How long the request may still wait."""
        return self._limit_s - self._waited_s

    @cached_property
    def _limit_s(self) -> float:
        requested = timestamps.parse_duration((self.query.get("timeout") or ["0"])[0])
        max_s = _MAX_DELETE_COLLECTION_S if self.info.verb == "deletecollection" else _MAX_WRITE_S
        return min(requested / 1e9, max_s) if isinstance(requested, int) and requested > 0 else max_s

    def wait(self, seconds: float) -> None:
        self._waited_s += seconds

    def warn(self, *texts: str) -> None:
        for text in texts:
            if text not in self._warned:
                self._warned.add(text)
                self.warnings.append(text)
