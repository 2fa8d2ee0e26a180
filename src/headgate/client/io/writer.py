"""Sends writes until their outcome is known, and only while this process may write as the leader (*fencing*).

``write_budget_s`` is called before every attempt, also after a wait. A write that the API server did not perform is
retried after the delay in the response (``Retry-After``). A write that may have been performed is repeated only if that
is harmless; the outcome of a bind is found by reading the pod. A 403 shortly after a refused connection is not final:
kube-apiserver refuses all accounts until it has read their permissions. The caller gets a ``WriteStatus`` and never an
exception. ``client/write_status.py`` maps responses to statuses.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate.client import field_decoder, write_requests
from headgate.client.backoff import Backoff
from headgate.client.write_requests import PatchType
from headgate.client.write_status import WriteOutcome, WriteStatus, status_of_no_response, status_of_response
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.api_resources import PODS, APIResource

Object = dict[str, Any]
Sleep = Callable[[float], Awaitable[None]]

ATTEMPTS: Final = 5
_WRITE_TIMEOUT_S: Final = 30.0
_FIRST_WAIT_S: Final = 0.05
_MAX_WAIT_S: Final = 5.0
_FORBIDDEN: Final = 403
_SERVER_START_S: Final = 30.0
"""For this long after a refused connection, the API server may not have read the permissions of accounts yet."""
_PATCH_FAILED_MESSAGE: Final = "the server rejected our request due to an error in our request"
_NOT_PERFORMED: Final = (WriteOutcome.LATER, WriteOutcome.REFUSED, WriteOutcome.FENCED)
_read_pod: Final = field_decoder.decoder(("spec.nodeName",))


def no_fence() -> float:
    """The ``write_budget_s`` of a writer without leader election."""
    return _WRITE_TIMEOUT_S


class Writer:
    """``write_budget_s`` returns how long a write that starts now may take; 0 or less: it may not start."""

    def __init__(
        self,
        transport: Transport,
        *,
        write_budget_s: Callable[[], float] = no_fence,
        jitter: Callable[[], float],
        sleep: Sleep,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._write_budget_s = write_budget_s
        self._jitter = jitter
        self._sleep = sleep
        self._attempts = attempts
        self._clock = clock
        self._last_refused_s = -math.inf  # when a connection was refused

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> WriteStatus:
        """DONE also if the pod was already bound to the node. After UNKNOWN the caller must keep the capacity."""
        request = write_requests.bind(namespace, name, uid, node)
        result = await self.write(request)
        may_be_bound = False
        for _ in range(self._attempts):
            if result.outcome not in (WriteOutcome.UNKNOWN, WriteOutcome.CONFLICT):
                break
            may_be_bound |= result.outcome is WriteOutcome.UNKNOWN
            found = await self._find_bind_outcome(result, namespace, name, uid, node)
            if found is not None:
                return found
            result = await self.write(request)
        return _after_unknown(result) if may_be_bound else result

    async def patch(
        self,
        resource: APIResource,
        namespace: str,
        name: str,
        uid: str,
        body: Object,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> WriteStatus:
        """A merge or strategic merge patch, which may be applied twice."""
        request = write_requests.patch(resource, namespace, name, uid, body, patch_type, subresource)
        return await self.write(request, repeatable=True)

    async def json_patch(
        self,
        resource: APIResource,
        namespace: str,
        name: str,
        uid: str,
        operations: list[Object],
        subresource: str = "",
    ) -> WriteStatus:
        """A JSON patch, never repeated. CONFLICT: one of its operations failed, perhaps the test of the uid. LATER also
        if other writes of the object came between at each attempt of the API server, which then answers 409 and has
        performed nothing."""
        result = await self.write(write_requests.json_patch(resource, namespace, name, uid, operations, subresource))
        if result.status == 422 and result.message == _PATCH_FAILED_MESSAGE:
            return msgspec.structs.replace(result, outcome=WriteOutcome.CONFLICT)
        if result.outcome is WriteOutcome.CONFLICT:
            return msgspec.structs.replace(result, outcome=WriteOutcome.LATER)
        return result

    async def evict(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> WriteStatus:
        return await self.write(write_requests.evict(namespace, name, uid, grace_s), repeatable=True)

    async def delete(
        self, resource: APIResource, namespace: str, name: str, uid: str, options: Object | None = None
    ) -> WriteStatus:
        return await self.write(write_requests.delete(resource, namespace, name, uid, options), repeatable=True)

    async def create(self, resource: APIResource, namespace: str, obj: Object) -> WriteStatus:
        """The create of a named object is repeated after a lost response, so CONFLICT may mean that it succeeded."""
        return await self.write(write_requests.create(resource, namespace, obj), repeatable="name" in obj["metadata"])

    async def write(self, request: HTTPRequest, *, repeatable: bool = False) -> WriteStatus:
        """Repeats the write until its outcome is known or all attempts are used, and returns the last status."""
        backoff = Backoff(_FIRST_WAIT_S, _MAX_WAIT_S)
        result = await self._try(request)
        may_be_done = False
        for _ in range(self._attempts - 1):
            again = result.outcome is WriteOutcome.LATER or (repeatable and result.outcome is WriteOutcome.UNKNOWN)
            if not again:
                break
            may_be_done |= result.outcome is WriteOutcome.UNKNOWN
            await self._sleep(max(result.wait_s, backoff.next(self._jitter())))
            result = await self._try(request)
        return _after_unknown(result) if may_be_done else result

    async def _try(self, request: HTTPRequest) -> WriteStatus:
        write_budget_s = self._write_budget_s()
        if write_budget_s <= 0:
            return WriteStatus(WriteOutcome.FENCED, message="not sent: another process is or may become the leader")
        timeout_s = min(write_budget_s, _WRITE_TIMEOUT_S)
        try:
            response = await self._transport.request(msgspec.structs.replace(request, timeout_s=timeout_s))
        except Unreachable as error:
            if not error.connected:
                self._last_refused_s = self._clock()
            return status_of_no_response(error)
        status = status_of_response(response)
        if response.status == _FORBIDDEN and self._clock() < self._last_refused_s + _SERVER_START_S:
            return msgspec.structs.replace(status, outcome=WriteOutcome.LATER)
        return status

    async def _find_bind_outcome(
        self, result: WriteStatus, namespace: str, name: str, uid: str, node: str
    ) -> WriteStatus | None:
        """Reads the pod to find the outcome of a bind; None: the pod is not bound, so the bind may be repeated."""
        request = HTTPRequest("GET", PODS.object_path(namespace, name), "", write_requests.ACCEPT)
        read = await self.write(request, repeatable=True)
        if not read.done:
            return read if read.outcome is WriteOutcome.GONE else result
        try:
            pod = _read_pod(read.body)
        except msgspec.DecodeError:
            return result
        if (pod.get("metadata") or {}).get("uid") != uid:
            return WriteStatus(WriteOutcome.REPLACED, message=f"pod {namespace}/{name} was replaced by another pod")
        bound = (pod.get("spec") or {}).get("nodeName")
        if bound == node:
            return WriteStatus(WriteOutcome.DONE, read.status)
        if bound or result.outcome is WriteOutcome.CONFLICT:
            return msgspec.structs.replace(result, outcome=WriteOutcome.CONFLICT)
        return None


def _after_unknown(result: WriteStatus) -> WriteStatus:
    """The status of a write after an attempt with an unknown outcome: that attempt may have been performed, also if the
    last one was not."""
    if result.outcome not in _NOT_PERFORMED:
        return result
    return msgspec.structs.replace(result, outcome=WriteOutcome.UNKNOWN)
