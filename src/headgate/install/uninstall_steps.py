"""The requests of an uninstallation as steps of a generator: reads, and writes that a dry run leaves out."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, TypeVar

import msgspec

from headgate.client.installer import DelayedRequest
from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.client.write_requests import ACCEPT
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.install.access_reviews import AccessRight, UnknownRights, missing_rights, right_of
from headgate.install.names import SELECTOR
from headgate.kube.api_resources import PODS
from headgate.kube.serializer import wire_json

Object = dict[str, Any]
R = TypeVar("R")


class OmittedWrite(msgspec.Struct, frozen=True):
    """A write that a dry run leaves out. ``line``: what is printed when it is done."""

    request: HTTPRequest
    line: str


UninstallSteps = Generator[DelayedRequest | OmittedWrite | str, HTTPResponse, R]
"""Requests, whose responses are sent back, and planned writes and lines to print, to which any response may be
sent."""
NO_RESPONSE: Final = HTTPResponse(200, {}, b"")
"""What is sent after a planned write or a line."""

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_ABSENT: Final = HTTPResponse(_NOT_FOUND, {}, b"{}")
_DONE: Final = 200
_ENDED: Final = ("Succeeded", "Failed")
_SHOWN_FAILURES: Final = 20
_decode_page: Final = wire_json.WireDecoder(ListResponse[Object])


class UninstallError(Exception):
    """A step failed; the text says which and what to do."""


def read(path: str) -> UninstallSteps[Object | None]:
    """The object; None if it does not exist, or if its kind is not served."""
    response = yield DelayedRequest(HTTPRequest("GET", path, "", ACCEPT))
    if response.status == _NOT_FOUND:
        return None
    if response.status == _FORBIDDEN and not (yield from _is_served(path)):
        return None
    if not response.ok:
        raise UninstallError(f"cannot read {path}: {response.status}: {message_of(response)}")
    return wire_json.WireDecoder(Object).decode(response.body)


def read_items(path: str, **query: str) -> UninstallSteps[list[Object]]:
    """All objects of a list; none if the kind is not served."""
    steps = list_all(path, _decode_page.decode, query)
    try:
        request = next(steps)
        while True:
            request = steps.send((yield DelayedRequest(request)))
    except StopIteration as done:
        found = done.value
    if isinstance(found, ListRefused):
        if found.status == _NOT_FOUND:
            return []
        if found.status == _FORBIDDEN and not (yield from _is_served(path)):
            return []
        raise UninstallError(f"cannot list {path}: {found.status}: {found.text}")
    items: list[Object] = found.items
    return items


def _is_served(path: str) -> UninstallSteps[bool]:
    """Whether the server has the kind of this path. It answers 403 for a kind that it does not have, too, if the user
    has no right to that kind."""
    resource = right_of(HTTPRequest("GET", path)).resource
    if not resource.group:
        return True
    response = yield DelayedRequest(HTTPRequest("GET", f"/apis/{resource.group}/{resource.version}", "", ACCEPT))
    if not response.ok:
        return response.status != _NOT_FOUND
    found = wire_json.WireDecoder(Object).decode(response.body)
    return resource.plural in [each["name"] for each in found.get("resources") or ()]


def without_refused_reads(steps: UninstallSteps[R], refused: list[HTTPRequest]) -> UninstallSteps[R]:
    """The same steps, for which an object that the user may not read does not exist. Its request is added to
    ``refused``."""
    try:
        step = next(steps)
        while True:
            response = yield step
            if isinstance(step, DelayedRequest) and step.request.method == "GET" and response.status == _FORBIDDEN:
                if (yield from _is_served(step.request.path)):
                    refused.append(step.request)
                response = _ABSENT
            step = steps.send(response)
    except StopIteration as done:
        result: R = done.value
        return result


def running_pods(namespace: str) -> UninstallSteps[list[Object]]:
    """The pods of the Deployment that have not ended. A pod that was evicted, or whose process was killed, stays until
    its ReplicaSet is deleted."""
    selector = ",".join(f"{key}={value}" for key, value in SELECTOR.items())
    found = yield from read_items(PODS.collection_path(namespace), labelSelector=selector)
    return [each for each in found if (each.get("status") or {}).get("phase") not in _ENDED]


def write(request: HTTPRequest, line: str, dry_run: bool, accepted: tuple[int, ...] = ()) -> UninstallSteps[int]:
    """Sends the request and yields the line. An object that is gone counts as done. Returns the status. ``accepted``:
    statuses that the caller handles."""
    if dry_run:
        yield OmittedWrite(request, line)
        return _DONE
    response = yield DelayedRequest(request)
    if response.ok:
        yield line
    elif response.status not in (_NOT_FOUND, *accepted):
        raise UninstallError(f"not done: {line}: {response.status}: {message_of(response)}")
    return response.status


def perform_all(parts: Iterable[UninstallSteps[Any]]) -> UninstallSteps[None]:
    """Performs each part, also after one that fails, and then raises one :class:`UninstallError` for all failures."""
    failures: list[str] = []
    for part in parts:
        try:
            yield from part
        except UninstallError as failed:
            failures.append(str(failed))
    if failures:
        more = [f"and {len(failures) - _SHOWN_FAILURES} more"] if len(failures) > _SHOWN_FAILURES else []
        raise UninstallError("\n".join([*failures[:_SHOWN_FAILURES], *more]))


def planned_writes(steps: UninstallSteps[None]) -> UninstallSteps[list[HTTPRequest]]:
    """The writes of a dry run; its lines are left out."""
    found: list[HTTPRequest] = []
    try:
        step = next(steps)
        while True:
            if isinstance(step, DelayedRequest):
                step = steps.send((yield step))
                continue
            if isinstance(step, OmittedWrite):
                found.append(step.request)
            step = steps.send(NO_RESPONSE)
    except StopIteration:
        return found


def refuse_without_rights(requests: Iterable[HTTPRequest]) -> UninstallSteps[None]:
    """Raises :class:`UninstallError` with all rights to these requests that the user lacks. Where the server answers no
    reviews, the requests are tried."""
    found = yield from missing_rights(map(right_of, requests))
    if not isinstance(found, UnknownRights) and found:
        raise UninstallError(missing_rights_text(found))


def missing_rights_text(rights: Iterable[AccessRight]) -> str:
    listed = "".join(f"\n  {each}" for each in rights)
    return f"nothing was changed, because you lack these rights:{listed}\nask a cluster administrator"
