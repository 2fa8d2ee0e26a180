"""A cluster in one thread on a clock of its own: the embedded server and the real engines, and time that only jumps.

Controllers (``owners/contract.py``) and engines (``engines.py``) hear what the server's watches tell and write what
they decide, until nothing is left to do; then it is the next moment at which somebody has something to do. An hour
takes as long as what happens in it. There are no sockets, no disk and no faults: that is what the shells are for.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from headgate import schemas
from headgate.admission.policy import Policy
from headgate.apiserver import messages
from headgate.apiserver.access.user import User
from headgate.apiserver.api import Api
from headgate.apiserver.handle import handle
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.watching import Watch
from headgate.cli.admission import own_admission
from headgate.cli.credentials import SYSTEM
from headgate.client import writes
from headgate.client.transport import Request, Response
from headgate.control.requests import answer_of, request_of
from headgate.kube.features import Features
from headgate.kube.protobuf import Messages
from headgate.kube.resource import CUSTOM_RESOURCE_DEFINITIONS, Resource
from headgate.kube.schema import Schemas
from headgate.owners import effects
from headgate.owners.contract import Again, Controller, Done, Later, Verdict, Wake
from headgate.owners.effects import Answer, Discover, Effect, Emit, Together
from headgate.owners.served import Served
from headgate.quota.kinds.conversion import convert
from headgate.quota.kinds.definitions import definitions
from headgate.quota.names import GROUP
from headgate.store import Store

Object = dict[str, Any]
Job = tuple[Controller, Any]

DAWN_S: Final = 1_700_000_000.0
"""When stories begin, in seconds since 1970."""
_TOKEN: Final = "stage"
_FROM_THE_START: Final = {
    "watch": "1",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
_AGAIN_S: Final = 0.1


class Refused(Exception):
    """The server did not take what a story gave it."""


class Told(msgspec.Struct, frozen=True):
    """``obj`` is the last of it if it is ``gone``."""

    resource: Resource
    obj: Object
    gone: bool


class Write(msgspec.Struct, frozen=True):
    request: Request
    answered: Callable[[Response], None] = lambda response: None


class Engine(Protocol):
    """Somebody who is no controller: a scheduler, kubelets, an autoscaler."""

    @property
    def resources(self) -> Sequence[Resource]: ...

    def hear(self, told: Told, now_s: float) -> None: ...

    def due(self, now_s: float) -> list[Write]:
        """What is to be written now; asked until there is nothing."""

    def next_s(self) -> float | None: ...


class Stage:
    def __init__(self, features: Features, policy: Policy) -> None:
        store = Store()
        tables = Schemas.load(schemas.read())
        self.now_s = DAWN_S
        self.elapsed_s: Callable[[], float] = lambda: self.now_s - DAWN_S
        self._api = Api(
            schemas=tables,
            messages=Messages.load(tables, schemas.read_numbers()),
            kinds=BUILTIN,
            store=store,
            features=features,
            users={_TOKEN: User(SYSTEM.name, SYSTEM.groups)},
            version={},
            guests=own_admission(policy, store),
            conversions={GROUP: convert},
            disabled_plugins=("ServiceAccount",),  # nothing here makes service accounts
        )
        self._uids = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count(1))
        self._suffixes = (f"{number:05d}" for number in itertools.count(1))
        self._engines: list[Engine] = []
        self._listeners: dict[Resource, list[Callable[[Told], None]]] = {}
        self._watches: dict[Resource, Watch] = {}
        self._due: dict[Job, None] = {}
        self._later: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        for each in definitions(both=True):
            self.create(CUSTOM_RESOURCE_DEFINITIONS, each)

    # -- who plays -------------------------------------------------------------------------------------------------

    def enter(self, *players: Controller | Engine) -> None:
        served = Served.read([self._ask(Discover("/api")).body, self._ask(Discover("/apis")).body])
        for player in players:
            if isinstance(player, Controller):
                self._wake(player, player.learn(served))
                for interest in player.interests():
                    self._listen(interest.resource, self._controller_hears(player))
            else:
                self._engines.append(player)
                for resource in player.resources:
                    self._listen(resource, self._engine_hears(player))

    def _controller_hears(self, controller: Controller) -> Callable[[Told], None]:
        def hear(told: Told) -> None:
            metadata = told.obj["metadata"]
            if told.gone:
                place = metadata.get("namespace", ""), metadata["name"]
                self._wake(controller, controller.removed(told.resource, *place, metadata["uid"], self.now_s))
            else:
                self._wake(controller, controller.applied(told.resource, told.obj, self.now_s))

        return hear

    def _engine_hears(self, engine: Engine) -> Callable[[Told], None]:
        return lambda told: engine.hear(told, self.now_s)

    def _listen(self, resource: Resource, hear: Callable[[Told], None]) -> None:
        """All that there is, and all that comes."""
        self._listeners.setdefault(resource, []).append(hear)
        if resource not in self._watches:
            answer = self._handle(messages.Request("GET", resource.collection(), urlencode(_FROM_THE_START), _SENT))
            assert isinstance(answer, Watch), answer
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
            moved = self._tell()
            for engine in self._engines:
                for write in engine.due(self.now_s):
                    moved = True
                    write.answered(self.send(write.request))
            for controller, key in list(self._due):
                moved = True
                del self._due[controller, key]
                self._work(controller, key)

    def _tell(self) -> bool:
        moved = False
        for resource, watch in self._watches.items():
            for told in _heard(resource, watch):
                moved = True
                for hear in self._listeners[resource]:
                    hear(told)
        return moved

    def _wake(self, controller: Controller, wakes: Iterable[Wake]) -> None:
        for each in wakes:
            self._plan((controller, each.key), each.after_s)

    def _plan(self, job: Job, after_s: float) -> None:
        if after_s > 0:
            heapq.heappush(self._later, (self.now_s + after_s, next(self._numbers), job))
        else:
            self._due[job] = None

    def _work(self, controller: Controller, key: Any) -> None:
        steps = controller.work(key, self.now_s)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self._ask(effect))
        except StopIteration as done:
            verdict: Verdict = done.value
            match verdict:
                case Done(wakes):
                    self._wake(controller, wakes)
                case Later(after_s):
                    self._plan((controller, key), after_s)
                case Again():
                    self._plan((controller, key), _AGAIN_S)

    # -- the server ------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, obj: Object) -> None:
        answer = self.send(writes.create(resource, obj["metadata"].get("namespace", ""), obj))
        if not answer.ok:
            raise Refused(f"{obj['metadata']['name']}: {answer.body.decode(errors='replace')}")

    def list(self, resource: Resource) -> list[Object]:
        answer = self._ask(effects.List(resource, ""))
        return answer.items

    def send(self, request: Request) -> Response:
        sent = messages.Request(request.method, request.path, request.query, {**_SENT, **request.headers}, request.body)
        answer = self._handle(sent)
        assert isinstance(answer, messages.Response), "watches are opened elsewhere"
        return Response(answer.status, {}, answer.body)

    def _ask(self, effect: Effect) -> Answer:
        if isinstance(effect, Emit):
            return Answer(202, {}, self.now_s)
        if isinstance(effect, Together):
            return Answer(200, {}, self.now_s, tuple(map(self._ask, effect.requests)))
        return answer_of(effect, self.send(request_of(effect)), self.now_s)

    def _handle(self, request: messages.Request) -> messages.Response | Watch:
        moment = messages.Moment(self.now_s, lambda: next(self._uids), lambda: next(self._suffixes), lambda most: 0)
        steps = handle(self._api, request, moment)
        try:
            effect = next(steps)
            while True:
                if isinstance(effect, messages.Commit):
                    self._api.store.commit(self._api.store.applied)
                effect = steps.send(None)
        except StopIteration as done:
            answer: messages.Response | Watch = done.value
            return answer


_SENT: Final[Mapping[str, str]] = {"authorization": f"Bearer {_TOKEN}", "user-agent": "headgate-demo"}


def _heard(resource: Resource, watch: Watch) -> Iterator[Told]:
    for line in watch.pull():
        event = msgspec.json.decode(line)
        if event["type"] != "BOOKMARK":
            yield Told(resource, event["object"], event["type"] == "DELETED")
