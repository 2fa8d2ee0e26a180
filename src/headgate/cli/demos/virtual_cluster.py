"""A cluster in one thread on a virtual clock: the embedded server and the real engines.

Controllers (``controllers/framework/reconcile.py``) and engines (``virtual_engines.py``) receive the server's watch
events and write what they decide, until nothing is left to do; then the clock jumps to the next deadline. An hour takes
as long as the work in it. There are no sockets, no disk and no faults.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from headgate import schemas
from headgate.admission.policy import AdmissionPolicy
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
Job = tuple[Controller, Any]

START_S: Final = 1_700_000_000.0
"""When scenarios begin, in seconds since 1970."""
_TOKEN: Final = "stage"
_FROM_THE_START: Final = {
    "watch": "1",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
_AGAIN_S: Final = 0.1


class DemoRequestRefused(Exception):
    """The server refused an object of the scenario."""


class ObservedChange(msgspec.Struct, frozen=True):
    """``obj`` is the last state if it is ``gone``."""

    resource: APIResource
    obj: Object
    gone: bool


class EngineWrite(msgspec.Struct, frozen=True):
    request: HTTPRequest
    answered: Callable[[HTTPResponse], None] = lambda response: None


class VirtualEngine(Protocol):
    """An engine that is not a controller: a scheduler, kubelets, an autoscaler."""

    @property
    def resources(self) -> Sequence[APIResource]: ...

    def observe(self, told: ObservedChange, now_s: float) -> None: ...

    def due(self, now_s: float) -> list[EngineWrite]:
        """What is to be written now; asked until there is nothing."""

    def next_s(self) -> float | None: ...


class VirtualCluster:
    def __init__(self, features: FeatureGates, policy: AdmissionPolicy) -> None:
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
            guests=own_admission(policy, store),
            conversions={GROUP: convert},
            disabled_plugins=("ServiceAccount",),  # nothing here makes service accounts
        )
        self._uids = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count(1))
        self._suffixes = (f"{number:05d}" for number in itertools.count(1))
        self._engines: list[VirtualEngine] = []
        self._listeners: dict[APIResource, list[Callable[[ObservedChange], None]]] = {}
        self._watches: dict[APIResource, WatchCursor] = {}
        self._due: dict[Job, None] = {}
        self._later: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        for each in definitions(both=True):
            self.create(CUSTOM_RESOURCE_DEFINITIONS, each)

    # -- who plays -------------------------------------------------------------------------------------------------

    def add(self, *players: Controller | VirtualEngine) -> None:
        served = DiscoveredKinds.read([self._request(Discover("/api")).body, self._request(Discover("/apis")).body])
        for player in players:
            if isinstance(player, Controller):
                self._enqueue(player, player.discovered(served))
                for interest in player.watches():
                    self._listen(interest.resource, self._controller_observer(player))
            else:
                self._engines.append(player)
                for resource in player.resources:
                    self._listen(resource, self._engine_observer(player))

    def _controller_observer(self, controller: Controller) -> Callable[[ObservedChange], None]:
        def hear(told: ObservedChange) -> None:
            metadata = told.obj["metadata"]
            if told.gone:
                place = metadata.get("namespace", ""), metadata["name"]
                self._enqueue(controller, controller.removed(told.resource, *place, metadata["uid"], self.now_s))
            else:
                self._enqueue(controller, controller.applied(told.resource, told.obj, self.now_s))

        return hear

    def _engine_observer(self, engine: VirtualEngine) -> Callable[[ObservedChange], None]:
        return lambda told: engine.observe(told, self.now_s)

    def _listen(self, resource: APIResource, hear: Callable[[ObservedChange], None]) -> None:
        """All that there is, and all that comes."""
        self._listeners.setdefault(resource, []).append(hear)
        if resource not in self._watches:
            answer = self._handle(
                messages.ServerRequest("GET", resource.collection_path(), urlencode(_FROM_THE_START), _SENT)
            )
            assert isinstance(answer, WatchCursor), answer
            self._watches[resource] = answer

    # -- what happens ----------------------------------------------------------------------------------------------

    def run(self, is_over: Callable[[], bool], look: Callable[[], None], longest_s: float) -> bool:
        """From moment to moment until it is over; whether it was before time ran out. ``look`` is called at each."""
        end_s = self.now_s + longest_s
        self._settle()
        look()
        while not is_over():
            moment_s = self._next_s()
            if moment_s is None or moment_s > end_s:
                return False
            self.now_s = max(self.now_s, moment_s)
            while self._later and self._later[0][0] <= self.now_s:
                self._due[heapq.heappop(self._later)[2]] = None
            self._settle()
            look()
        return True

    def _next_s(self) -> float | None:
        moments = [engine.next_s() for engine in self._engines]
        moments += [self._later[0][0]] if self._later else []
        return min((each for each in moments if each is not None), default=None)

    def _settle(self) -> None:
        moved = True
        while moved:
            moved = self._deliver_changes()
            for engine in self._engines:
                for write in engine.due(self.now_s):
                    moved = True
                    write.answered(self.send(write.request))
            for controller, key in list(self._due):
                moved = True
                del self._due[controller, key]
                self._reconcile(controller, key)

    def _deliver_changes(self) -> bool:
        moved = False
        for resource, watch in self._watches.items():
            for told in _changes(resource, watch):
                moved = True
                for hear in self._listeners[resource]:
                    hear(told)
        return moved

    def _enqueue(self, controller: Controller, wakes: Iterable[Enqueue]) -> None:
        for each in wakes:
            self._plan((controller, each.key), each.after_s)

    def _plan(self, job: Job, after_s: float) -> None:
        if after_s > 0:
            heapq.heappush(self._later, (self.now_s + after_s, next(self._numbers), job))
        else:
            self._due[job] = None

    def _reconcile(self, controller: Controller, key: Any) -> None:
        steps = controller.reconcile(key, self.now_s)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self._request(effect))
        except StopIteration as done:
            verdict: Result = done.value
            match verdict:
                case Done(wakes):
                    self._enqueue(controller, wakes)
                case RequeueAfter(after_s):
                    self._plan((controller, key), after_s)
                case RequeueWithBackoff():
                    self._plan((controller, key), _AGAIN_S)

    # -- the server ------------------------------------------------------------------------------------------------

    def create(self, resource: APIResource, obj: Object) -> None:
        answer = self.send(write_requests.create(resource, obj["metadata"].get("namespace", ""), obj))
        if not answer.ok:
            raise DemoRequestRefused(f"{obj['metadata']['name']}: {answer.body.decode(errors='replace')}")

    def list(self, resource: APIResource) -> list[Object]:
        answer = self._request(effects.List(resource, ""))
        return answer.items

    def send(self, request: HTTPRequest) -> HTTPResponse:
        sent = messages.ServerRequest(
            request.method, request.path, request.query, {**_SENT, **request.headers}, request.body
        )
        answer = self._handle(sent)
        assert isinstance(answer, messages.ServerResponse), "watches are opened elsewhere"
        return HTTPResponse(answer.status, {}, answer.body)

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
            answer: messages.ServerResponse | WatchCursor = done.value
            return answer


_SENT: Final[Mapping[str, str]] = {"authorization": f"Bearer {_TOKEN}", "user-agent": "headgate-demo"}


def _changes(resource: APIResource, watch: WatchCursor) -> Iterator[ObservedChange]:
    for line in watch.pull():
        event = msgspec.json.decode(line)
        if event["type"] != "BOOKMARK":
            yield ObservedChange(resource, event["object"], event["type"] == "DELETED")
