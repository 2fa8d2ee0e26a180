"""Which version of a recorded resource the cluster serves, and lists of all of them for a snapshot.

A resource that is not served is reported as absent; one that may not be read is a missing right, with the text that
names it. An absent resource is never confused with an empty list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from headgate.client.pager import ACCEPT, ListRefused, ListResponse, list_all
from headgate.client.permissions import refusal_text
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.kube.api_resources import APIResource
from headgate.kube.serializer import wire_json
from headgate.recording.changes import (
    HistoryEvent,
    Object,
    RecordedChange,
    ResourceAbsent,
    ResourceSynced,
    SessionStarted,
)
from headgate.recording.pruning import prune
from headgate.recording.records import revision_of
from headgate.recording.resources import RecordedResource

_NOT_FOUND: Final = 404


class _Resource(msgspec.Struct):
    name: str


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] = []


_decode_resources: Final = wire_json.WireDecoder(_ResourceList).decode
_decode_list: Final = wire_json.WireDecoder(ListResponse[Object]).decode


class MissingRights(Exception):
    """``texts``: one line for each request that was refused."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        super().__init__("; ".join(self.texts))


async def served_resource(transport: Transport, recorded: RecordedResource) -> APIResource | str | None:
    """The resource in the first version that is served; None if none is. A returned string is the error."""
    for candidate in recorded.candidates:
        root, _, _ = candidate.collection_path().rpartition("/")
        response = await transport.request(HTTPRequest("GET", root, "", ACCEPT))
        if response.status == _NOT_FOUND:
            continue
        names = _names(response)
        if isinstance(names, str):
            return f"{root}: {names}"
        if candidate.plural in names:
            return candidate
    return None


def _names(response: HTTPResponse) -> set[str] | str:
    if not response.ok:
        return f"the server returned {response.status}"
    try:
        return {each.name for each in _decode_resources(response.body).resources}
    except msgspec.DecodeError as error:
        return f"the server sent an invalid list of resources ({error})"


async def list_cluster(transport: Transport, resources: Iterable[RecordedResource], now_s: float) -> list[HistoryEvent]:
    """All objects as they are now. Raises ``MissingRights``."""
    wanted = tuple(resources)
    events: list[HistoryEvent] = [SessionStarted(now_s, "", False, tuple(each.name for each in wanted))]
    refused: list[str] = []
    for each in wanted:
        resource = await served_resource(transport, each)
        if resource is None:
            events.append(ResourceAbsent(now_s, each.name))
        elif isinstance(resource, str):
            refused.append(f"cannot read {each.name}: {resource}")
        else:
            found = await _list(transport, resource)
            if isinstance(found, str):
                refused.append(found)
            else:
                events += _states(each.name, found[0], found[1], now_s)
    if refused:
        raise MissingRights(refused)
    return events


def _states(name: str, items: Iterable[Object], revision: int, now_s: float) -> Iterator[HistoryEvent]:
    for obj in items:
        yield RecordedChange(name, prune(name, obj), now_s, revision_of(obj), observed=False, earliest_s=now_s)
    yield ResourceSynced(now_s, name, revision)


async def _list(transport: Transport, resource: APIResource) -> tuple[list[Object], int] | str:
    steps = list_all(resource.collection_path(), _decode_list)
    try:
        request = next(steps)
        while True:
            request = steps.send(await transport.request(request))
    except StopIteration as done:
        found = done.value
    if isinstance(found, ListRefused):
        return refusal_text("list", resource, None, found)
    revision = found.revision
    return found.items, int(revision) if revision.isdecimal() else 0
