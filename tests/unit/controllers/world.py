"""Controllers on the embedded server without sockets and clock: the test decides when events and steps happen.

`settle` delivers events and reconciles keys until nothing is due, in an order that the test may choose. `crash` starts
a new process, which knows only the state of the server. Time passes only in `advance`.
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
MAX_STEPS = 20_000


class Feed:
    """One watch and what it is for."""

    def __init__(self, watch: WatchCursor, resource: APIResource, fields: Iterable[str]) -> None:
        self.resource = resource
        self.decode = field_decoder.decoder(fields)
        self.listeners: list[Controller] = []
        self.is_listed = True
        """False until the listeners know that they have all existing objects."""
        self.known: dict[tuple[str, str], Object] = {}
        self._watch = watch
        self._pulled_at: int | None = None
        self._pending: list[tuple[str, Object]] = []

    def pull(self) -> list[tuple[str, Object]]:
        for line in self._watch.pull():
            event = msgspec.json.decode(line)
            if event["type"] != "BOOKMARK":
                self._pending.append((event["type"], self.decode(msgspec.json.encode(event["object"]))))
        return self._pending

    def pull_after(self, revision: int | None) -> None:
        """Pulls if the resource has changed. ``revision``: of its last change, if it is known."""
        if revision is None or revision != self._pulled_at:
            self._pulled_at = revision
            self.pull()

    def has_events(self) -> bool:
        return bool(self._pending)

    def next(self) -> tuple[str, Object]:
        """The next event."""
        kind, item = self._pending.pop(0)
        if kind == "DELETED":
            self.known.pop(key_of(item), None)
        else:
            self.known[key_of(item)] = item
        return kind, item

    def relist(self, watch: WatchCursor) -> None:
        """Replaces a broken watch: undelivered events are lost, and the differences are delivered instead."""
        self._watch, self._pulled_at = watch, None
        self._pending = []
        listed = {key_of(item): item for _, item in self.pull()}
        deleted = [item for place, item in self.known.items() if _uid(listed.get(place)) != _uid(item)]
        changed = [item for place, item in listed.items() if self.known.get(place) != item]
        self._pending = [*(("DELETED", item) for item in deleted), *(("MODIFIED", item) for item in changed)]


def key_of(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _uid(item: Object | None) -> str | None:
    return None if item is None else item["metadata"]["uid"]


class World:
    announces_lists = False
    """Whether controllers are told when a watch starts and when its list is complete."""

    def __init__(
        self, *makers: Callable[[], Controller], kinds: Collection[str] = (), server: Embedded | None = None
    ) -> None:
        """`kinds`: the plurals that discovery lists; all if empty."""
        self.server = server or Embedded(namespace="")
        self._kinds = kinds
        self.emitted: list[EmitEvent] = []
        self.requests: list[tuple[str, str]] = []
        self.refuse: Callable[[Effect], EffectResponse | None] = lambda effect: None
        self.loses_response: Callable[[Effect], bool] = lambda effect: False
        """Whether the response to a performed request is lost."""
        self.watch_is_first: Callable[[Effect], bool] = lambda effect: False
        """Whether the watch delivers a write before its response."""
        self.is_cut_off = False
        """Whether the server does not answer, and no watch delivers events."""
        self.silent: Collection[APIResource] = ()
        """Resources whose watches deliver no events."""
        self._makers = makers
        self.crash()

    # -- the process -----------------------------------------------------------------------------------------------

    def crash(self) -> World:
        """Starts a new process with empty memory."""
        self.controllers = [make() for make in self._makers]
        self._feeds: dict[tuple[APIResource, str], Feed] = {}
        self._due: dict[tuple[Controller, Any], None] = {}
        self._later: list[tuple[float, int, tuple[Controller, Any]]] = []
        self._numbers = itertools.count()
        self._failures: dict[tuple[Controller, Any], int] = {}
        self._pulled_at: int | None = None
        self.discover()
        return self

    def discover(self) -> None:
        served = DiscoveredKinds.read([self.perform(Discover("/api")).body, self.perform(Discover("/apis")).body])
        if self._kinds:
            kept = tuple(row for row in served.preferred if row.resource.plural in self._kinds)
            served = msgspec.structs.replace(served, preferred=kept)
        for controller in self.controllers:
            self.enqueue(controller, controller.discovered(served))
        for controller in self.controllers:
            for spec in controller.watches():
                self._subscribe(controller, spec.resource, spec.field_selector)

    def _subscribe(self, controller: Controller, resource: APIResource, selector: str) -> None:
        feed = self._feeds.get((resource, selector))
        if feed is None:
            wanted = watched_fields(
                spec
                for other in self.controllers
                for spec in other.watches()
                if (spec.resource, spec.field_selector) == (resource, selector)
            )
            feed = Feed(self._open(resource, selector), resource, wanted)
            self._feeds[resource, selector] = feed
            self._pulled_at = None  # the watch starts with the existing objects
        if controller not in feed.listeners:
            feed.listeners.append(controller)
            if self.announces_lists:
                feed.is_listed = False
                self.enqueue(controller, controller.listing(resource))

    def _open(self, resource: APIResource, selector: str) -> WatchCursor:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        return self.server.watch(
            resource.collection_path(), **query, **({"fieldSelector": selector} if selector else {})
        )

    def break_watch(self, resource: APIResource) -> None:
        """Breaks the watches of a resource and lists it again."""
        for (each, selector), feed in self._feeds.items():
            if each == resource:
                feed.relist(self._open(resource, selector))
                while feed.pull():
                    self._deliver(feed)
                revision = str(self.server.api.store.committed)
                for controller in feed.listeners:
                    self.enqueue(controller, controller.synced(resource, revision, self.server.epoch_s))

    # -- running ---------------------------------------------------------------------------------------------------

    def settle(
        self,
        choose: Choose = lambda options: options[0],
        steps: int = MAX_STEPS,
        delayed: Collection[APIResource] = (),
    ) -> World:
        """Delivers events and reconciles until nothing is due. ``delayed``: no events of these resources."""
        for _ in range(steps):
            options: list[Any] = [each for each in self._feeds_with_events() if each.resource not in delayed]
            options += list(self._due)
            if not options:
                return self
            chosen = choose(options)
            if isinstance(chosen, Feed):
                self._deliver(chosen)
            else:
                del self._due[chosen]
                self._reconcile(*chosen)
        assert steps < MAX_STEPS, "it does not settle"
        return self

    def _feeds_with_events(self) -> list[Feed]:
        """The feeds with undelivered events. Watches have new events only after a commit."""
        committed = self.server.api.store.committed
        if committed != self._pulled_at:
            self._pulled_at = committed
            for each in self._feeds.values():
                each.pull_after(self._newest(each.resource))
        found = (each for each in self._feeds.values() if each.has_events() or not each.is_listed)
        return [each for each in found if self._is_watched(each.resource)]

    def _is_watched(self, resource: APIResource) -> bool:
        return not self.is_cut_off and resource not in self.silent

    def _newest(self, resource: APIResource) -> int | None:
        """The revision of the last change of a resource; None if it is stored under another name."""
        if resource.group == "events.k8s.io":
            return None
        return self.server.api.store.newest(
            f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        )

    def deliver_all(self) -> World:
        for feed in self._feeds.values():
            while self._is_watched(feed.resource) and feed.pull():
                self._deliver(feed)
        return self

    def advance(self, seconds: float) -> World:
        """Lets time pass and reconciles keys that become due."""
        end_s = self.server.epoch_s + seconds
        self.settle()
        while self._later and self._later[0][0] <= end_s:
            due_s, _, job = heapq.heappop(self._later)
            self.server.epoch_s = max(self.server.epoch_s, due_s)
            self._due[job] = None
            self.settle()
        self.server.epoch_s = end_s
        return self.settle()

    def enqueue(self, controller: Controller, enqueues: Iterable[Enqueue]) -> None:
        for each in enqueues:
            self._enqueue_key((controller, each.key), each.after_s)

    def _enqueue_key(self, job: tuple[Controller, Any], after_s: float) -> None:
        if after_s > 0:
            heapq.heappush(self._later, (self.server.epoch_s + after_s, next(self._numbers), job))
        else:
            self._due[job] = None

    def _deliver(self, feed: Feed) -> None:
        if not feed.has_events():
            feed.is_listed = True
            for controller in feed.listeners:
                revision = str(self.server.api.store.committed)
                self.enqueue(controller, controller.synced(feed.resource, revision, self.server.epoch_s))
            return
        kind, item = feed.next()
        metadata = item["metadata"]
        for controller in feed.listeners:
            now_s = self.server.epoch_s
            if kind == "DELETED":
                place = metadata.get("namespace", ""), metadata["name"]
                self.enqueue(controller, controller.removed(feed.resource, *place, metadata["uid"], now_s))
            else:
                self.enqueue(controller, controller.applied(feed.resource, item, now_s))

    def _reconcile(self, controller: Controller, key: Any) -> None:
        steps = controller.reconcile(key, self.server.epoch_s)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self.perform(effect))
        except StopIteration as done:
            self._handle_result((controller, key), done.value)

    def _handle_result(self, job: tuple[Controller, Any], result: Result) -> None:
        match result:
            case Done(wakes):
                self._failures.pop(job, None)
                self.enqueue(job[0], wakes)
            case RequeueAfter(after_s):
                self._failures.pop(job, None)
                self._enqueue_key(job, after_s)
            case RequeueWithBackoff(_, wakes):
                self.enqueue(job[0], wakes)
                self._failures[job] = self._failures.get(job, 0) + 1
                self._enqueue_key(job, 0.005 * 2.0 ** min(self._failures[job], 14))

    # -- the server ------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> EffectResponse:
        if isinstance(effect, EmitEvent):
            self.emitted.append(effect)
            return EffectResponse(202, {}, self.server.epoch_s)
        if isinstance(effect, ParallelRequests):
            return EffectResponse(200, {}, self.server.epoch_s, tuple(map(self._request, effect.requests)))
        return self._request(effect)

    def _request(self, effect: effects.RequestEffect) -> EffectResponse:
        if self.is_cut_off:
            return self._unreachable()
        refused = self.refuse(effect)
        if refused is not None:
            return refused
        request = request_of(effect)
        self.requests.append((request.method, request.path))
        headers = {**request.headers, "authorization": f"Bearer {TOKEN}", "user-agent": "kube-controller-manager"}
        response = self.server.send(ServerRequest(request.method, request.path, request.query, headers, request.body))
        assert isinstance(response, ServerResponse)
        if self.watch_is_first(effect):
            self.deliver_all()
        if self.loses_response(effect):
            return self._unreachable()
        return response_of(effect, transport.HTTPResponse(response.status, {}, response.body), self.server.epoch_s)

    def _unreachable(self) -> EffectResponse:
        return EffectResponse(UNREACHABLE, {"message": "cut off"}, self.server.epoch_s)


def config_map(name: str, *owners: Object, **metadata: Any) -> Object:
    metadata = {"name": name, **metadata}
    return {"metadata": {**metadata, "ownerReferences": list(owners)} if owners else metadata}


def reference(owner: Object, *, block: bool | None = None, **changes: str) -> Object:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, **({} if block is None else {"blockOwnerDeletion": block}), **changes}
