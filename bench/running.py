"""The parts of a quota benchmark: one creates Workloads, one runs them, and one records the times.

The Workloads have no jobs: an admitted one is finished after the time that its class says; an evicted one releases its
quota at once. All states are read from one watch, as a job controller does it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from bench.cluster import CONNECTIONS, Stuck, access_to, send
from bench.loads import CLASS, Class, Load, cluster_queue, flavor, local_queue, workload
from headgate.client import write_requests
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable
from headgate.kube import conditions
from headgate.kube.api_resources import NAMESPACES
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS

Object = dict[str, Any]
Key = tuple[str, str]

_FIELDS: Final = ("metadata.labels", "status.conditions")
_CONFLICT: Final = 409
_GLANCE_S: Final = 0.05
_SETTLE_S: Final = 30.0
_OUT: Final = (names.QUOTA_RESERVED, "Pending", "Evicted by the test runner")
_UNADMITTED: Final = (names.ADMITTED, names.NO_RESERVATION, "The workload has no reservation")


class Diary:
    """When Workloads were created and first admitted, by perf_counter; which are finished; the number of evictions."""

    def __init__(self) -> None:
        self.created_s: Final[dict[Key, float]] = {}
        self.admitted_s: Final[dict[Key, float]] = {}
        self.classes: Final[dict[Key, str]] = {}
        self.finished: Final[set[Key]] = set()
        self.evictions = 0
        self.known = 0
        """How many Workloads were admitted before the watch began."""
        self.listened_s = 0.0

    def rate(self) -> float:
        """Admissions per second, from the first that the watch showed to the last."""
        shown_s = sorted(self.admitted_s.values())[self.known :]
        began_s = max(self.listened_s, shown_s[0])
        return sum(each_s > began_s for each_s in shown_s) / (shown_s[-1] - began_s)

    def waits_s(self) -> dict[str, list[float]]:
        """The times from the creation to the first admission, by class."""
        found: dict[str, list[float]] = {}
        for key, at_s in self.admitted_s.items():
            if key in self.created_s:
                found.setdefault(self.classes[key], []).append(at_s - self.created_s[key])
        return found


class Runner:
    """Must be created inside a running event loop. ``finishes``: whether admitted Workloads finish after their time."""

    def __init__(self, kubeconfig: str, load: Load, *, finishes: bool = True) -> None:
        self.transport = HTTPTransport(access_to(kubeconfig), pool=2 * CONNECTIONS)
        self.diary = Diary()
        self._load = load
        self._finishes = finishes
        self._runtimes = {each.name: each.runtime_s for each in load.classes}
        self._objects: dict[Key, Object] = {}
        self._ends: dict[Key, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self.trouble: Counter[str] = Counter()

    # -- before ----------------------------------------------------------------------------------------------------

    async def furnish(self) -> None:
        """Creates the flavor, the queues and their namespaces."""
        await self._until_served()
        await send(self.transport, write_requests.create(RESOURCE_FLAVORS, "", flavor()))
        await self.each(self._load.places, self._furnish_one)

    async def _furnish_one(self, place: tuple[str, str]) -> None:
        cohort, name = place
        await send(self.transport, write_requests.create(CLUSTER_QUEUES, "", cluster_queue(self._load, cohort, name)))
        await send(self.transport, write_requests.create(NAMESPACES, "", {"metadata": {"name": name}}))
        await send(self.transport, write_requests.create(LOCAL_QUEUES, name, local_queue(name)))

    async def _until_served(self) -> None:
        """A CustomResourceDefinition is accepted before its kind is served."""
        deadline_s = time.perf_counter() + _SETTLE_S
        while not (
            await self.transport.request(
                HTTPRequest("GET", WORKLOADS.collection_path(), "limit=1", write_requests.ACCEPT)
            )
        ).ok:
            if time.perf_counter() > deadline_s:
                raise Stuck("Workloads are not served")
            await asyncio.sleep(_GLANCE_S)

    # -- the load --------------------------------------------------------------------------------------------------

    async def create(self, objects: Iterable[Object]) -> None:
        """Creates all Workloads as fast as possible."""
        await self.each(objects, self._create_one)

    async def create_in_time(self) -> None:
        """Creates Workloads class by class and queue by queue, each class at its interval."""
        async with asyncio.TaskGroup() as group:
            for _, queue in self._load.places:
                for one in self._load.classes:
                    group.create_task(self._come(one, queue))

    async def _come(self, one: Class, queue: str) -> None:
        for number in range(one.count):
            await asyncio.sleep(one.interval_s)
            await self._create_one(workload(one, queue, number))

    async def _create_one(self, obj: Object) -> None:
        metadata = obj["metadata"]
        key = metadata["namespace"], metadata["name"]
        self.diary.created_s[key] = time.perf_counter()
        response = await self._ask(write_requests.create(WORKLOADS, key[0], obj))
        if not response.ok and response.status != _CONFLICT:  # it exists: the response to the first attempt was lost
            raise RuntimeError(f"{key}: {response.status} {response.body[:300]!r}")

    async def _ask(self, request: HTTPRequest) -> HTTPResponse:
        """Retries until the server accepts connections, also on a busy machine."""
        while True:
            try:
                return await self.transport.request(request)
            except Unreachable as error:
                self.trouble[str(error)] += 1
                await asyncio.sleep(_GLANCE_S)

    async def each(self, things: Iterable[Any], do: Callable[[Any], Any]) -> None:
        left = iter(things)

        async def work() -> None:
            for thing in left:
                await do(thing)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())

    # -- what happens ----------------------------------------------------------------------------------------------

    def listen(self) -> None:
        informer = Informer(
            self.transport,
            WORKLOADS.collection_path(),
            self._handle,
            jitter=random.random,
            sleep=asyncio.sleep,
            fields=_FIELDS,
            report=lambda problem: self.trouble.update([problem]),
        )
        self._watch = asyncio.create_task(informer.run())

    def _handle(self, event: InformerEvent) -> None:
        if isinstance(event, ListSynced) and not self.diary.listened_s:
            self.diary.listened_s, self.diary.known = time.perf_counter(), len(self.diary.admitted_s)
        if not isinstance(event, ObjectApplied):
            return
        metadata = event.object["metadata"]
        key = metadata["namespace"], metadata["name"]
        shown = (event.object.get("status") or {}).get("conditions") or []
        if conditions.is_true(shown, names.FINISHED):
            self.diary.finished.add(key)
            self._objects.pop(key, None)
            return
        self._objects[key] = event.object
        if not conditions.is_true(shown, names.QUOTA_RESERVED):
            return
        if conditions.is_true(shown, names.EVICTED):
            self.diary.evictions += 1
            self._begin(self._give_back(key))
        elif conditions.is_true(shown, names.ADMITTED) and key not in self._ends:
            self._admitted(key, (metadata.get("labels") or {}).get(CLASS, ""))

    def _admitted(self, key: Key, name: str) -> None:
        if key not in self.diary.admitted_s:
            self.diary.admitted_s[key] = time.perf_counter()
            self.diary.classes[key] = name
        if self._finishes:
            loop, runtime_s = asyncio.get_running_loop(), self._runtimes[name]
            self._ends[key] = loop.call_later(runtime_s, lambda: self._begin(self._finish(key)))

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, key: Key) -> None:
        del self._ends[key]
        while (obj := self._objects.get(key)) is not None:
            shown = obj["status"]["conditions"]
            if conditions.is_true(shown, names.EVICTED) or not conditions.is_true(shown, names.ADMITTED):
                return
            new = _condition(names.FINISHED, "True", "ByTest", "By test runner")
            if await self._write(obj, {"conditions": [*shown, new]}):
                return

    async def _give_back(self, key: Key) -> None:
        end = self._ends.pop(key, None)
        if end is not None:
            end.cancel()
        while (obj := self._objects.get(key)) is not None:
            shown = obj["status"]["conditions"]
            if not conditions.is_true(shown, names.QUOTA_RESERVED):
                return
            for type_, reason, message in (_OUT, _UNADMITTED):
                new = _condition(type_, "False", reason, message)
                shown = conditions.with_condition(shown, new, new["lastTransitionTime"])
            if await self._write(obj, {"conditions": shown, "admission": None}):
                return

    async def _write(self, obj: Object, status: Object) -> bool:
        """Whether no other client has written in the meantime; if one has, waits for its version."""
        metadata = obj["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        response = await self._ask(write_requests.patch(WORKLOADS, namespace, name, uid, body, subresource="status"))
        if response.ok:
            return True
        self.trouble[f"{response.status}"] += 1
        if response.status != _CONFLICT:
            raise RuntimeError(f"{namespace}/{name}: {response.status} {response.body[:300]!r}")
        while self._objects.get((namespace, name)) is obj:
            await asyncio.sleep(_GLANCE_S)
        return False

    # -- after -----------------------------------------------------------------------------------------------------

    async def until(self, happened: Callable[[], bool], limit_s: float, otherwise: str) -> float:
        """When the watch showed it."""
        began_s = time.perf_counter()
        while not happened():
            if time.perf_counter() - began_s > limit_s:
                raise Stuck(f"{otherwise} after {limit_s:.0f} s")
            await asyncio.sleep(_GLANCE_S)
        return time.perf_counter()

    async def close(self) -> None:
        for task in (self._watch, *self._tasks):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        for end in self._ends.values():
            end.cancel()
        await self.transport.close()


def _condition(type_: str, status: str, reason: str, message: str) -> Object:
    said = {"type": type_, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": format_time(time.time()), "observedGeneration": 1}
