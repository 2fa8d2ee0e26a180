"""The context of one request: its content, the requested kind, the user, and the warnings for the response.

The functions of ``apiserver/verbs/`` take a :class:`RequestContext`, always named ``call``, and return a response. It
is mutable, because it collects warnings and the time that the request has waited; nothing else in it changes.
``moment`` has the time, uids and random numbers of the request (``apiserver/request/messages.py``).
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
_MAX_WRITE_S: Final = 34.0  # as in kube-apiserver
_MAX_DELETE_COLLECTION_S: Final = 60.0  # many objects are deleted by one request


class RequestContext:
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
    def strategy_context(self) -> StrategyContext:
        # read_applied: also from writes that are not on disk yet, as every writer does
        namespace = self.api.store.read_applied("namespaces", "", self.namespace) if self.namespace else None
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
        return self.strategy_context.now

    @cached_property
    def strategy(self) -> Strategy:
        return self.api.scheme_of(self.kind).strategy

    @property
    def resource(self) -> GroupResource:
        """The resource as error texts name it: ``deployments.apps``."""
        return GroupResource(self.kind.group, self.kind.plural)

    @property
    def group_kind(self) -> GroupResource:
        """The kind as validation errors name it: ``Deployment.apps``, with the group that it is stored under."""
        return GroupResource(self.kind.stored_as[0], self.kind.kind)

    @property
    def namespace(self) -> str:
        """The namespace of the requested objects. It is empty for Namespace objects: they have none, although the path
        ``/namespaces/NAME`` looks as if they did."""
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
        """How long the request may still wait for webhooks."""
        return self._max_wait_s - self._waited_s

    @cached_property
    def _max_wait_s(self) -> float:
        """The ``timeout`` of the query, up to the limit of the server."""
        requested = timestamps.parse_duration((self.query.get("timeout") or ["0"])[0])
        max_s = _MAX_DELETE_COLLECTION_S if self.info.verb == "deletecollection" else _MAX_WRITE_S
        return min(requested / 1e9, max_s) if isinstance(requested, int) and requested > 0 else max_s

    def add_waited(self, seconds: float) -> None:
        """Counts time that the request has waited."""
        self._waited_s += seconds

    def warn(self, *texts: str) -> None:
        """Adds warnings to the response, each text once."""
        for text in texts:
            if text not in self._warned:
                self._warned.add(text)
                self.warnings.append(text)
