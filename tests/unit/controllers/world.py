"""Controllers on the embedded server, with neither sockets nor a clock: each event and each step when the test says.

`settle` hears and works until nothing is due, in an order that the test may draw. `crash` is a new process: it knows
what the server says, and nothing else. Time stands still but for `advance`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from embedded import TOKEN, Embedded
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.client import field_decoder
from headgate.controllers.framework import effects
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import (
    UNREACHABLE,
    Discover,
    Effect,
    EffectResponse,
    EmitEvent,
    ParallelRequests,
)
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    RequeueAfter,
    RequeueWithBackoff,
    Result,
    watched_fields,
)
from headgate.http import transport
from headgate.kube.api_resources import APIResource
from headgate.runtime.effect_requests import request_of, response_of

Object = dict[str, Any]
Choose = Callable[[Sequence[Any]], Any]

T0_S = 1_700_000_000.0
PATIENCE = 20_000


class Feed:
    """One watch and what it is for."""

    def __init__(self, watch: WatchCursor, resource: APIResource, fields: Iterable[str]) -> None:
        self.resource = resource
        self.decode = field_decoder.decoder(fields)
        self.listeners: list[Controller] = []
        self.known: dict[tuple[str, str], Object] = {}
        self._watch = watch
        self._pulled_at: int | None = None
        self._heard: list[tuple[str, Object]] = []

    def pull(self) -> list[tuple[str, Object]]:
        for line in self._watch.pull():
            event = msgspec.json.decode(line)
            if event["type"] != "BOOKMARK":
                self._heard.append((event["type"], self.decode(msgspec.json.encode(event["object"]))))
        return self._heard

    def pull_after(self, revision: int | None) -> None:
        """``revision``: of the last change of the resource, if it is known. To ask for nothing new takes long, too."""
        if revision is None or revision != self._pulled_at:
            self._pulled_at = revision
            self.pull()

    def has_news(self) -> bool:
        return bool(self._heard)

    def next(self) -> tuple[str, Object]:
        """What is told next."""
        kind, item = self._heard.pop(0)
        if kind == "DELETED":
            self.known.pop(place_of(item), None)
        else:
            self.known[place_of(item)] = item
        return kind, item

    def list_again(self, watch: WatchCursor) -> None:
        """The watch was cut: what it had not told yet is lost, and the differences are told instead."""
        self._watch, self._pulled_at = watch, None
        self._heard = []
        there = {place_of(item): item for _, item in self.pull()}
        gone = [item for place, item in self.known.items() if _uid(there.get(place)) != _uid(item)]
        news = [item for place, item in there.items() if self.known.get(place) != item]
        self._heard = [*(("DELETED", item) for item in gone), *(("MODIFIED", item) for item in news)]


def place_of(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _uid(item: Object | None) -> str | None:
    return None if item is None else item["metadata"]["uid"]


class World:
    def __init__(
        self, *makers: Callable[[], Controller], kinds: Collection[str] = (), server: Embedded | None = None
    ) -> None:
        """`kinds` are the plurals that discovery tells of; without any, all."""
        self.server = server or Embedded(namespace="")
        self._kinds = kinds
        self.emitted: list[EmitEvent] = []
        self.requests: list[tuple[str, str]] = []
        self.refuse: Callable[[Effect], EffectResponse | None] = lambda effect: None
        self.lose: Callable[[Effect], bool] = lambda effect: False
        """Whether the answer to a request that was carried out is lost."""
        self.overtake: Callable[[Effect], bool] = lambda effect: False
        """Whether the watch tells of a write before its answer comes."""
        self._makers = makers
        self.crash()

    # -- the process -----------------------------------------------------------------------------------------------

    def crash(self) -> World:
        """Everything in memory is gone."""
        self.controllers = [make() for make in self._makers]
        self._feeds: dict[tuple[APIResource, str], Feed] = {}
        self._due: dict[tuple[Controller, Any], None] = {}
        self._later: list[tuple[float, int, tuple[Controller, Any]]] = []
        self._numbers = itertools.count()
        self._failures: dict[tuple[Controller, Any], int] = {}
        self._pulled_at: int | None = None
        self.learn()
        return self

    def learn(self) -> None:
        served = DiscoveredKinds.read([self.ask(Discover("/api")).body, self.ask(Discover("/apis")).body])
        if self._kinds:
            kept = tuple(row for row in served.preferred if row.resource.plural in self._kinds)
            served = msgspec.structs.replace(served, preferred=kept)
        for controller in self.controllers:
            self.wake(controller, controller.discovered(served))
        for controller in self.controllers:
            for interest in controller.watches():
                self._listen(controller, interest.resource, interest.field_selector)

    def _listen(self, controller: Controller, resource: APIResource, selector: str) -> None:
        feed = self._feeds.get((resource, selector))
        if feed is None:
            wanted = watched_fields(
                interest
                for other in self.controllers
                for interest in other.watches()
                if (interest.resource, interest.field_selector) == (resource, selector)
            )
            feed = Feed(self._open(resource, selector), resource, wanted)
            self._feeds[resource, selector] = feed
            self._pulled_at = None  # its watch tells first what is there already
        if controller not in feed.listeners:
            feed.listeners.append(controller)

    def _open(self, resource: APIResource, selector: str) -> WatchCursor:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        return self.server.watch(
            resource.collection_path(), **query, **({"fieldSelector": selector} if selector else {})
        )

    def cut(self, resource: APIResource) -> None:
        """The watches of a resource break and are listed again: what happened in between is told in one go."""
        for (each, selector), feed in self._feeds.items():
            if each == resource:
                feed.list_again(self._open(resource, selector))
                while feed.pull():
                    self._hear(feed)
                revision = str(self.server.api.store.committed)
                for controller in feed.listeners:
                    self.wake(controller, controller.synced(resource, revision, self.server.epoch_s))

    # -- running ---------------------------------------------------------------------------------------------------

    def settle(
        self,
        choose: Choose = lambda options: options[0],
        steps: int = PATIENCE,
        deaf: Collection[APIResource] = (),
    ) -> World:
        """Hear and work until there is nothing to do (or that many steps were made). ``deaf`` to: watches are late."""
        for _ in range(steps):
            options: list[Any] = [each for each in self._heard() if each.resource not in deaf]
            options += list(self._due)
            if not options:
                return self
            chosen = choose(options)
            if isinstance(chosen, Feed):
                self._hear(chosen)
            else:
                del self._due[chosen]
                self._work(*chosen)
        assert steps < PATIENCE, "it never comes to rest"
        return self

    def _heard(self) -> list[Feed]:
        """The feeds that have something to tell; watches have news only after a commit."""
        committed = self.server.api.store.committed
        if committed != self._pulled_at:
            self._pulled_at = committed
            for each in self._feeds.values():
                each.pull_after(self._newest(each.resource))
        return [each for each in self._feeds.values() if each.has_news()]

    def _newest(self, resource: APIResource) -> int | None:
        """The revision of the last change of a resource; None if it is stored under another name."""
        if resource.group == "events.k8s.io":
            return None
        return self.server.api.store.newest(
            f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        )

    def hear_all(self) -> World:
        for feed in self._feeds.values():
            while feed.pull():
                self._hear(feed)
        return self

    def advance(self, seconds: float) -> World:
        """Let time pass, working on what becomes due."""
        end_s = self.server.epoch_s + seconds
        self.settle()
        while self._later and self._later[0][0] <= end_s:
            due_s, _, job = heapq.heappop(self._later)
            self.server.epoch_s = max(self.server.epoch_s, due_s)
            self._due[job] = None
            self.settle()
        self.server.epoch_s = end_s
        return self.settle()

    def wake(self, controller: Controller, wakes: Iterable[Enqueue]) -> None:
        for each in wakes:
            self._plan((controller, each.key), each.after_s)

    def _plan(self, job: tuple[Controller, Any], after_s: float) -> None:
        if after_s > 0:
            heapq.heappush(self._later, (self.server.epoch_s + after_s, next(self._numbers), job))
        else:
            self._due[job] = None

    def _hear(self, feed: Feed) -> None:
        kind, item = feed.next()
        metadata = item["metadata"]
        for controller in feed.listeners:
            now_s = self.server.epoch_s
            if kind == "DELETED":
                place = metadata.get("namespace", ""), metadata["name"]
                self.wake(controller, controller.removed(feed.resource, *place, metadata["uid"], now_s))
            else:
                self.wake(controller, controller.applied(feed.resource, item, now_s))

    def _work(self, controller: Controller, key: Any) -> None:
        steps = controller.reconcile(key, self.server.epoch_s)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self.ask(effect))
        except StopIteration as done:
            self._judge((controller, key), done.value)

    def _judge(self, job: tuple[Controller, Any], verdict: Result) -> None:
        match verdict:
            case Done(wakes):
                self._failures.pop(job, None)
                self.wake(job[0], wakes)
            case RequeueAfter(after_s):
                self._failures.pop(job, None)
                self._plan(job, after_s)
            case RequeueWithBackoff():
                self._failures[job] = self._failures.get(job, 0) + 1
                self._plan(job, 0.005 * 2.0 ** min(self._failures[job], 14))

    # -- the server ------------------------------------------------------------------------------------------------

    def ask(self, effect: Effect) -> EffectResponse:
        if isinstance(effect, EmitEvent):
            self.emitted.append(effect)
            return EffectResponse(202, {}, self.server.epoch_s)
        if isinstance(effect, ParallelRequests):
            return EffectResponse(200, {}, self.server.epoch_s, tuple(map(self._request, effect.requests)))
        return self._request(effect)

    def _request(self, effect: effects.RequestEffect) -> EffectResponse:
        refused = self.refuse(effect)
        if refused is not None:
            return refused
        request = request_of(effect)
        self.requests.append((request.method, request.path))
        headers = {**request.headers, "authorization": f"Bearer {TOKEN}", "user-agent": "kube-controller-manager"}
        answer = self.server.send(ServerRequest(request.method, request.path, request.query, headers, request.body))
        assert isinstance(answer, ServerResponse)
        if self.overtake(effect):
            self.hear_all()
        if self.lose(effect):
            return EffectResponse(UNREACHABLE, {"message": "cut off"}, self.server.epoch_s)
        return response_of(effect, transport.HTTPResponse(answer.status, {}, answer.body), self.server.epoch_s)


def config_map(name: str, *owners: Object, **metadata: Any) -> Object:
    metadata = {"name": name, **metadata}
    return {"metadata": {**metadata, "ownerReferences": list(owners)} if owners else metadata}


def reference(owner: Object, *, block: bool | None = None, **changes: str) -> Object:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, **({} if block is None else {"blockOwnerDeletion": block}), **changes}
