"""A cluster in one thread on a virtual clock: the embedded API server with the engines of ``headgate up``.

Controllers (``controllers/framework/reconcile.py``) and other engines (``virtual_engines.py``) receive the watch events
of the server, and their writes are sent to it, until there is nothing left to do. Then the clock is set to the next
deadline, so the time between two deadlines costs nothing. There are no sockets, no disk and no failures.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from headgate import schemas
from headgate.admission.settings import AdmissionSettings
from headgate.apimachinery.protobuf import MessageDecoder
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.handler import handle
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.request import messages
from headgate.apiserver.state import ServerState
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.cli.embedded.admission import own_admission
from headgate.cli.embedded.credentials import SYSTEM
from headgate.client import write_requests
from headgate.controllers.framework import effects
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Discover, Effect, EffectResponse, EmitEvent, ParallelRequests
from headgate.controllers.framework.reconcile import Controller, Done, Enqueue, RequeueAfter, RequeueWithBackoff, Result
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.schema import Schemas
from headgate.quota.kinds.conversion import convert
from headgate.quota.kinds.definitions import definitions
from headgate.quota.names import GROUP
from headgate.runtime.effect_requests import request_of, response_of
from headgate.store import Store

Object = dict[str, Any]
QueueItem = tuple[Controller, Any]

START_S: Final = 1_700_000_000.0
"""The start of scenarios, in seconds since 1970."""
_TOKEN: Final = "stage"
_WATCH_QUERY: Final = {
    "watch": "1",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
_RETRY_S: Final = 0.1


class DemoRequestRefused(Exception):
    """The server refused an object of the scenario."""


class ObservedChange(msgspec.Struct, frozen=True):
    """A watch event. ``gone``: the object was deleted, and ``obj`` is its last state."""

    resource: APIResource
    obj: Object
    gone: bool


class EngineWrite(msgspec.Struct, frozen=True):
    """A request of an engine, and the function that receives the response."""

    request: HTTPRequest
    on_response: Callable[[HTTPResponse], None] = lambda response: None


class VirtualEngine(Protocol):
    """An engine that is not a controller: a scheduler, kubelets, an autoscaler."""

    @property
    def resources(self) -> Sequence[APIResource]: ...

    def observe(self, change: ObservedChange, now_s: float) -> None: ...

    def due(self, now_s: float) -> list[EngineWrite]:
        """The writes that are due now. It is called until it returns none."""

    def next_deadline_s(self) -> float | None: ...


class VirtualCluster:
    def __init__(self, features: FeatureGates, settings: AdmissionSettings) -> None:
        store = Store()
        tables = Schemas.load(schemas.read())
        self.now_s = START_S
        self.elapsed_s: Callable[[], float] = lambda: self.now_s - START_S
        self._api = ServerState(
            schemas=tables,
            messages=MessageDecoder.load(tables, schemas.read_numbers()),
            kinds=BUILTIN,
            store=store,
            features=features,
            users={_TOKEN: UserInfo(SYSTEM.name, SYSTEM.groups)},
            version={},
            extra_plugins=own_admission(settings, store),
            conversions={GROUP: convert},
            disabled_plugins=("ServiceAccount",),  # no controller here creates service accounts
        )
        self._uids = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count(1))
        self._suffixes = (f"{number:05d}" for number in itertools.count(1))
        self._engines: list[VirtualEngine] = []
        self._listeners: dict[APIResource, list[Callable[[ObservedChange], None]]] = {}
        self._watches: dict[APIResource, WatchCursor] = {}
        self._due: dict[QueueItem, None] = {}
        self._delayed: list[tuple[float, int, QueueItem]] = []
        self._numbers = itertools.count()
        for each in definitions(with_older=True):
            self.create(CUSTOM_RESOURCE_DEFINITIONS, each)

    # -- participants ----------------------------------------------------------------------------------------------

    def add(self, *participants: Controller | VirtualEngine) -> None:
        served = DiscoveredKinds.read([self._request(Discover("/api")).body, self._request(Discover("/apis")).body])
        for participant in participants:
            if isinstance(participant, Controller):
                self._enqueue(participant, participant.discovered(served))
                for spec in participant.watches():
                    self._subscribe(spec.resource, self._controller_observer(participant))
            else:
                self._engines.append(participant)
                for resource in participant.resources:
                    self._subscribe(resource, self._engine_observer(participant))

    def _controller_observer(self, controller: Controller) -> Callable[[ObservedChange], None]:
        def handle(change: ObservedChange) -> None:
            metadata = change.obj["metadata"]
            if change.gone:
                key = metadata.get("namespace", ""), metadata["name"]
                self._enqueue(controller, controller.removed(change.resource, *key, metadata["uid"], self.now_s))
            else:
                self._enqueue(controller, controller.applied(change.resource, change.obj, self.now_s))

        return handle

    def _engine_observer(self, engine: VirtualEngine) -> Callable[[ObservedChange], None]:
        return lambda change: engine.observe(change, self.now_s)

    def _subscribe(self, resource: APIResource, handle: Callable[[ObservedChange], None]) -> None:
        """Delivers all existing objects, and all later changes."""
        self._listeners.setdefault(resource, []).append(handle)
        if resource not in self._watches:
            response = self._handle(
                messages.ServerRequest("GET", resource.collection_path(), urlencode(_WATCH_QUERY), _HEADERS)
            )
            assert isinstance(response, WatchCursor), response
            self._watches[resource] = response

    # -- simulation ------------------------------------------------------------------------------------------------

    def run(self, is_done: Callable[[], bool], on_step: Callable[[], None], max_s: float) -> bool:
        """Runs until ``is_done``, at most ``max_s``, and returns whether it was done. ``on_step`` is called after each
        step."""
        end_s = self.now_s + max_s
        self._run_until_idle()
        on_step()
        while not is_done():
            deadline_s = self._next_s()
            if deadline_s is None or deadline_s > end_s:
                return False
            self.now_s = max(self.now_s, deadline_s)
            while self._delayed and self._delayed[0][0] <= self.now_s:
                self._due[heapq.heappop(self._delayed)[2]] = None
            self._run_until_idle()
            on_step()
        return True

    def _next_s(self) -> float | None:
        deadlines = [engine.next_deadline_s() for engine in self._engines]
        deadlines += [self._delayed[0][0]] if self._delayed else []
        return min((each for each in deadlines if each is not None), default=None)

    def _run_until_idle(self) -> None:
        changed = True
        while changed:
            changed = self._deliver_changes()
            for engine in self._engines:
                for write in engine.due(self.now_s):
                    changed = True
                    write.on_response(self.send(write.request))
            for controller, key in list(self._due):
                changed = True
                del self._due[controller, key]
                self._reconcile(controller, key)

    def _deliver_changes(self) -> bool:
        changed = False
        for resource, watch in self._watches.items():
            for change in _changes(resource, watch):
                changed = True
                for listener in self._listeners[resource]:
                    listener(change)
        return changed

    def _enqueue(self, controller: Controller, enqueues: Iterable[Enqueue]) -> None:
        for each in enqueues:
            self._add_item((controller, each.key), each.after_s)

    def _add_item(self, item: QueueItem, after_s: float) -> None:
        if after_s > 0:
            heapq.heappush(self._delayed, (self.now_s + after_s, next(self._numbers), item))
        else:
            self._due[item] = None

    def _reconcile(self, controller: Controller, key: Any) -> None:
        steps = controller.reconcile(key, self.now_s)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self._request(effect))
        except StopIteration as done:
            result: Result = done.value
            match result:
                case Done(enqueues):
                    self._enqueue(controller, enqueues)
                case RequeueAfter(after_s):
                    self._add_item((controller, key), after_s)
                case RequeueWithBackoff(_, enqueues):
                    self._enqueue(controller, enqueues)
                    self._add_item((controller, key), _RETRY_S)

    # -- server ----------------------------------------------------------------------------------------------------

    def create(self, resource: APIResource, obj: Object) -> None:
        response = self.send(write_requests.create(resource, obj["metadata"].get("namespace", ""), obj))
        if not response.ok:
            raise DemoRequestRefused(f"{obj['metadata']['name']}: {response.body.decode(errors='replace')}")

    def list(self, resource: APIResource) -> list[Object]:
        response = self._request(effects.List(resource, ""))
        return response.items

    def send(self, request: HTTPRequest) -> HTTPResponse:
        server_request = messages.ServerRequest(
            request.method, request.path, request.query, {**_HEADERS, **request.headers}, request.body
        )
        response = self._handle(server_request)
        assert isinstance(response, messages.ServerResponse), "watches are opened elsewhere"
        return HTTPResponse(response.status, {}, response.body)

    def _request(self, effect: Effect) -> EffectResponse:
        if isinstance(effect, EmitEvent):
            return EffectResponse(202, {}, self.now_s)
        if isinstance(effect, ParallelRequests):
            return EffectResponse(200, {}, self.now_s, tuple(map(self._request, effect.requests)))
        return response_of(effect, self.send(request_of(effect)), self.now_s)

    def _handle(self, request: messages.ServerRequest) -> messages.ServerResponse | WatchCursor:
        moment = messages.Moment(self.now_s, lambda: next(self._uids), lambda: next(self._suffixes), lambda most: 0)
        steps = handle(self._api, request, moment)
        try:
            effect = next(steps)
            while True:
                if isinstance(effect, messages.Commit):
                    self._api.store.commit(self._api.store.applied)
                effect = steps.send(None)
        except StopIteration as done:
            response: messages.ServerResponse | WatchCursor = done.value
            return response


_HEADERS: Final[Mapping[str, str]] = {"authorization": f"Bearer {_TOKEN}", "user-agent": "headgate-demo"}


def _changes(resource: APIResource, watch: WatchCursor) -> Iterator[ObservedChange]:
    for line in watch.pull():
        event = msgspec.json.decode(line)
        if event["type"] != "BOOKMARK":
            yield ObservedChange(resource, event["object"], event["type"] == "DELETED")
