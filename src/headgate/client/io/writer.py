"""Sends writes until their outcome is known, and only while the fence allows it.

The fence is checked before every attempt, also after a wait. A write that the server did not perform is retried after
the delay that the server asked for; a write that may have been performed is repeated only if that is harmless, and the
outcome of a bind is found by reading the pod. The caller gets a ``WriteStatus`` and never an exception.
``client/write_status.py`` maps responses to statuses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate.client import field_decoder, write_requests
from headgate.client.backoff import Backoff
from headgate.client.write_requests import How
from headgate.client.write_status import WriteOutcome, WriteStatus, status_of_no_response, status_of_response
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.api_resources import PODS, APIResource

Object = dict[str, Any]
Sleep = Callable[[float], Awaitable[None]]

ATTEMPTS: Final = 5
_WRITE_S: Final = 30.0
_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 5.0
_STEPS_DO_NOT_FIT: Final = "the server rejected our request due to an error in our request"
_NOT_THIS_TIME: Final = (WriteOutcome.LATER, WriteOutcome.REFUSED, WriteOutcome.FENCED)
_read_pod: Final = field_decoder.decoder(("spec.nodeName",))


def no_fence() -> float:
    """The fence of who needs no election."""
    return _WRITE_S


class Writer:
    """``room_s`` says how long a write that starts now may take; 0 or less: it may not start."""

    def __init__(
        self,
        transport: Transport,
        *,
        room_s: Callable[[], float] = no_fence,
        jitter: Callable[[], float],
        sleep: Sleep,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._transport = transport
        self._room_s = room_s
        self._jitter = jitter
        self._sleep = sleep
        self._attempts = attempts

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> WriteStatus:
        """DONE also means: it was bound to that node already. With UNKNOWN the caller must keep its capacity."""
        request = write_requests.bind(namespace, name, uid, node)
        verdict = await self.write(request)
        in_doubt = False
        for _ in range(self._attempts):
            if verdict.outcome not in (WriteOutcome.UNKNOWN, WriteOutcome.CONFLICT):
                break
            in_doubt |= verdict.outcome is WriteOutcome.UNKNOWN
            settled = await self._settle(verdict, namespace, name, uid, node)
            if settled is not None:
                return settled
            verdict = await self.write(request)
        if in_doubt and verdict.outcome in _NOT_THIS_TIME:  # but maybe an earlier one
            return msgspec.structs.replace(verdict, outcome=WriteOutcome.UNKNOWN)
        return verdict

    async def patch(
        self,
        resource: APIResource,
        namespace: str,
        name: str,
        uid: str,
        body: Object,
        how: How = "merge",
        subresource: str = "",
    ) -> WriteStatus:
        """A merge or strategic patch that may be applied twice: what it sets, it sets to what it says."""
        request = write_requests.patch(resource, namespace, name, uid, body, how, subresource)
        return await self.write(request, repeatable=True)

    async def patch_steps(
        self, resource: APIResource, namespace: str, name: str, uid: str, steps: list[Object], subresource: str = ""
    ) -> WriteStatus:
        """A JSON patch, never repeated. CONFLICT: one of its steps, maybe the test of the uid, does not fit."""
        verdict = await self.write(write_requests.patch_steps(resource, namespace, name, uid, steps, subresource))
        failed = verdict.status == 422 and verdict.message == _STEPS_DO_NOT_FIT
        return msgspec.structs.replace(verdict, outcome=WriteOutcome.CONFLICT) if failed else verdict

    async def evict(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> WriteStatus:
        return await self.write(write_requests.evict(namespace, name, uid, grace_s), repeatable=True)

    async def delete(
        self, resource: APIResource, namespace: str, name: str, uid: str, options: Object | None = None
    ) -> WriteStatus:
        return await self.write(write_requests.delete(resource, namespace, name, uid, options), repeatable=True)

    async def create(self, resource: APIResource, namespace: str, obj: Object) -> WriteStatus:
        """Of an object with a name of its own: after a lost answer CONFLICT may mean that it is ours."""
        return await self.write(write_requests.create(resource, namespace, obj), repeatable="name" in obj["metadata"])

    async def write(self, request: HTTPRequest, *, repeatable: bool = False) -> WriteStatus:
        """Until the outcome is known, or as often as we try; then the last one counts."""
        backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        verdict = await self._try(request)
        for _ in range(self._attempts - 1):
            again = verdict.outcome is WriteOutcome.LATER or (repeatable and verdict.outcome is WriteOutcome.UNKNOWN)
            if not again:
                break
            await self._sleep(max(verdict.wait_s, backoff.next(self._jitter())))
            verdict = await self._try(request)
        return verdict

    async def _try(self, request: HTTPRequest) -> WriteStatus:
        room_s = self._room_s()
        if room_s <= 0:
            return WriteStatus(WriteOutcome.FENCED, message="not sent: another process leads, or may soon")
        timeout_s = min(room_s, _WRITE_S)
        try:
            return status_of_response(
                await self._transport.request(msgspec.structs.replace(request, timeout_s=timeout_s))
            )
        except Unreachable as error:
            return status_of_no_response(error)

    async def _settle(self, verdict: WriteStatus, namespace: str, name: str, uid: str, node: str) -> WriteStatus | None:
        """What became of a bind, by reading the pod; None: nothing, it can be bound still."""
        request = HTTPRequest("GET", PODS.object_path(namespace, name), "", write_requests.ACCEPT)
        read = await self.write(request, repeatable=True)
        if not read.done:
            return read if read.outcome is WriteOutcome.GONE else verdict
        try:
            pod = _read_pod(read.body)
        except msgspec.DecodeError:
            return verdict
        if (pod.get("metadata") or {}).get("uid") != uid:
            return WriteStatus(WriteOutcome.REPLACED, message=f"pod {namespace}/{name} is another one by now")
        bound = (pod.get("spec") or {}).get("nodeName")
        if bound == node:
            return WriteStatus(WriteOutcome.DONE, read.status)
        if bound or verdict.outcome is WriteOutcome.CONFLICT:
            return msgspec.structs.replace(verdict, outcome=WriteOutcome.CONFLICT)
        return None
