"""Creates and removes the objects of a load, many at a time.

A request without a response, and one that the server asks to send again, is repeated with the same name. If the name is
taken then, the label of the object says whether this load has created it. When a stop is requested, requests that are
on their way are finished first, so that the result says what exists.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from headgate.cli.loads.load_objects import KINDS, LABEL, PlannedObject
from headgate.cli.options.cluster_access import perform
from headgate.client import write_requests
from headgate.client.backoff import Backoff
from headgate.client.pager import ListRefused, ListResponse, list_all, refusal_message
from headgate.client.permissions import NOT_FOUND, refusal_text
from headgate.client.write_status import retry_after_s, status_of_response
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport, Unreachable, encode_query
from headgate.kube.api_resources import APIResource
from headgate.kube.serializer import wire_json

Object = dict[str, Any]

CONFLICT: Final = 409
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERRORS: Final = 500
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 5.0
_BACKGROUND: Final = {"propagationPolicy": "Background"}
_decode: Final = wire_json.WireDecoder(dict[str, Any]).decode
_decode_list: Final = wire_json.WireDecoder(ListResponse[dict[str, Any]]).decode


class LoadResult(msgspec.Struct):
    """``done``: objects that this run created or removed. ``existed``: those of an earlier run of the same load.
    ``unknown``: names of objects whose last request has no response. ``problem``: why the run ended early."""

    done: Counter[str]
    existed: Counter[str]
    unknown: list[str]
    problem: str = ""
    is_interrupted: bool = False


class LoadRunner:
    """One run. ``concurrency``: requests at a time. ``rate``: objects per second; 0 for no limit."""

    def __init__(
        self,
        transport: Transport,
        load: str,
        *,
        concurrency: int,
        rate: float,
        retry_s: float,
        progress: Callable[[int], None],
    ) -> None:
        self._transport: Final = transport
        self._load: Final = load
        self._concurrency: Final = concurrency
        self._rate: Final = rate
        self._retry_s: Final = retry_s
        self._progress: Final = progress
        self._stop: Final = asyncio.Event()
        self._result = LoadResult(Counter(), Counter(), [])

    def interrupt(self) -> None:
        """No further object is begun; requests that are on their way end first."""
        self._result.is_interrupted = True
        self._stop.set()

    async def create(self, planned: Iterable[PlannedObject]) -> LoadResult:
        return await self._run(iter(planned), self._create)

    async def delete(self, found: Iterable[PlannedObject]) -> LoadResult:
        return await self._run(iter(found), self._delete)

    async def _run(self, items: Iterator[PlannedObject], action: Callable[[PlannedObject], Any]) -> LoadResult:
        began_s, numbers = asyncio.get_running_loop().time(), iter(range(1 << 62))

        async def work() -> None:
            for item in items:  # the workers share the iterator
                if self._rate:
                    await self._pause(began_s + next(numbers) / self._rate - asyncio.get_running_loop().time())
                if self._stop.is_set():
                    return
                await action(item)
                self._progress(self._result.done.total() + self._result.existed.total())

        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(work())
        return self._result

    async def _create(self, planned: PlannedObject) -> None:
        request = write_requests.create(planned.resource, planned.namespace, planned.obj)
        response, was_lost = await self._send(request, planned)
        if response is None:
            return
        if response.ok:
            self._result.done[planned.kind] += 1
        elif response.status == CONFLICT and status_of_response(response).reason == "AlreadyExists":
            await self._check_own(planned, was_lost)
        else:
            self._fail(planned, "create", response)

    async def _check_own(self, planned: PlannedObject, was_lost: bool) -> None:
        """The name is taken: by this run if an earlier request got no response, by an earlier run, or by others."""
        path = planned.resource.object_path(planned.namespace, planned.name)
        response, _ = await self._send(HTTPRequest("GET", path, "", write_requests.ACCEPT), planned)
        if response is None:
            return
        if not response.ok:
            self._fail(planned, "get", response)
        elif (_decode(response.body)["metadata"].get("labels") or {}).get(LABEL) != self._load:
            what = f"{planned.kind} {planned.name}"
            self._end(f"{what} exists already and is not of this load: choose another name for the load")
        elif was_lost:
            self._result.done[planned.kind] += 1
        else:
            self._result.existed[planned.kind] += 1

    async def _delete(self, found: PlannedObject) -> None:
        uid = found.obj["metadata"]["uid"]
        request = write_requests.delete(found.resource, found.namespace, found.name, uid, _BACKGROUND)
        response, _ = await self._send(request, found)
        if response is None:
            return
        # A conflict is about the uid: the object is gone, and another has its name.
        if response.ok or response.status in (NOT_FOUND, CONFLICT):
            self._result.done[found.kind] += 1
        else:
            self._fail(found, "delete", response)

    async def _send(self, request: HTTPRequest, item: PlannedObject) -> tuple[HTTPResponse | None, bool]:
        """The response, and whether an earlier attempt may have been executed. None: there is no response in time, or
        the run is to stop."""
        loop, backoff, was_lost = asyncio.get_running_loop(), Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S), False
        until_s = loop.time() + self._retry_s
        while True:
            try:
                response = await self._transport.request(request)
            except Unreachable as error:
                problem, wait_s, was_lost = str(error), 0.0, was_lost or error.sent
            else:
                if response.status != _TOO_MANY_REQUESTS and response.status < _SERVER_ERRORS:
                    return response, was_lost
                problem, wait_s = refusal_message(response), retry_after_s(response)
                was_lost = was_lost or response.status >= _SERVER_ERRORS
            wait_s = max(wait_s, backoff.next(random.random()))
            if loop.time() + wait_s >= until_s:
                self._end(f"{item.kind} {item.name}: no success in {self._retry_s:g} s: {problem}")
            if self._stop.is_set() or not await self._pause(wait_s):
                if was_lost:
                    self._result.unknown.append(f"{item.kind} {item.name}")
                return None, was_lost

    async def _pause(self, wait_s: float) -> bool:
        """False if the run is to stop meanwhile."""
        if wait_s > 0:
            try:
                async with asyncio.timeout(wait_s):
                    await self._stop.wait()
            except TimeoutError:
                pass
        return not self._stop.is_set()

    def _fail(self, item: PlannedObject, verb: str, response: HTTPResponse) -> None:
        refused = ListRefused(refusal_message(response), response.status)
        self._end(f"{item.kind} {item.name}: {refusal_text(verb, item.resource, item.namespace or None, refused)}")

    def _end(self, problem: str) -> None:
        self._result.problem = self._result.problem or problem
        self._stop.set()


async def check_on_server(transport: Transport, planned: PlannedObject) -> str:
    """Why the server would refuse the object; empty if it would create it. Nothing is written."""
    request = write_requests.create(planned.resource, planned.namespace, planned.obj)
    request = msgspec.structs.replace(request, query=encode_query({"dryRun": "All"}))
    response = await transport.request(request)
    if response.ok or response.status == CONFLICT:
        return ""
    refused = ListRefused(refusal_message(response), response.status)
    where = f"{planned.kind} {planned.name}"
    return f"{where}: {refusal_text('create', planned.resource, planned.namespace or None, refused)}"


async def find_load(
    transport: Transport, load: str, namespace: str | None, kinds: Iterable[str] = tuple(KINDS)
) -> tuple[list[PlannedObject], list[str]]:
    """The objects of a load, jobs before their pods, and the kinds that could not be listed, each with the reason.
    ``namespace``: None for all namespaces."""
    found: list[PlannedObject] = []
    problems: list[str] = []
    for kind in sorted(kinds, key=lambda each: ("job", "pod", "node", "queue").index(each)):
        resource: APIResource = KINDS[kind]
        path = resource.collection_path(namespace)
        listed = await perform(transport, list_all(path, _decode_list, {"labelSelector": f"{LABEL}={load}"}))
        if isinstance(listed, ListRefused):
            if listed.status != NOT_FOUND:  # a cluster without queues has none of this load
                problems.append(refusal_text("list", resource, namespace, listed))
            continue
        found += (
            PlannedObject(kind, obj["metadata"].get("namespace", ""), obj)
            for obj in listed.items
            if kind != "pod" or not obj["metadata"].get("ownerReferences")
        )
    return found, problems
