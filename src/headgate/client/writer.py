"""Carries writes to the server until their outcome is known, and not one step further than we may write.

Before every attempt the fence is asked, also after a wait. What the server did not do is tried again, after the time it
asked for; what may have been done is repeated only if repeating it is harmless, and a bind is settled by reading the
pod. The caller gets a ``Verdict`` and never an exception. Which answer means what: ``client/outcome.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate.client import picking, writes
from headgate.client.backoff import Backoff
from headgate.client.outcome import Outcome, Verdict, judge, judge_silence
from headgate.client.transport import Request, Transport, Unreachable
from headgate.client.writes import How
from headgate.kube.resource import PODS, Resource

Object = dict[str, Any]
Sleep = Callable[[float], Awaitable[None]]

ATTEMPTS: Final = 5
_WRITE_S: Final = 30.0
_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 5.0
_STEPS_DO_NOT_FIT: Final = "the server rejected our request due to an error in our request"
_NOT_THIS_TIME: Final = (Outcome.LATER, Outcome.REFUSED, Outcome.FENCED)
_read_pod: Final = picking.decoder(("spec.nodeName",))


def unfenced() -> float:
    """The fence of who needs no election."""
    return _WRITE_S


class Writer:
    """``room_s`` says how long a write that starts now may take; 0 or less: it may not start."""

    def __init__(
        self,
        transport: Transport,
        *,
        room_s: Callable[[], float] = unfenced,
        jitter: Callable[[], float],
        sleep: Sleep,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._transport = transport
        self._room_s = room_s
        self._jitter = jitter
        self._sleep = sleep
        self._attempts = attempts

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Verdict:
        """DONE also means: it was bound to that node already. Whoever is told UNKNOWN must not give its room away."""
        request = writes.bind(namespace, name, uid, node)
        verdict = await self.write(request)
        in_doubt = False
        for _ in range(self._attempts):
            if verdict.outcome not in (Outcome.UNKNOWN, Outcome.CONFLICT):
                break
            in_doubt |= verdict.outcome is Outcome.UNKNOWN
            settled = await self._settle(verdict, namespace, name, uid, node)
            if settled is not None:
                return settled
            verdict = await self.write(request)
        if in_doubt and verdict.outcome in _NOT_THIS_TIME:  # but maybe an earlier one
            return msgspec.structs.replace(verdict, outcome=Outcome.UNKNOWN)
        return verdict

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        body: Object,
        how: How = "merge",
        subresource: str = "",
    ) -> Verdict:
        """A merge or strategic patch that may be applied twice: what it sets, it sets to what it says."""
        request = writes.patch(resource, namespace, name, uid, body, how, subresource)
        return await self.write(request, repeatable=True)

    async def patch_steps(
        self, resource: Resource, namespace: str, name: str, uid: str, steps: list[Object], subresource: str = ""
    ) -> Verdict:
        """A JSON patch, never repeated. CONFLICT: one of its steps, maybe the test of the uid, does not fit."""
        verdict = await self.write(writes.patch_steps(resource, namespace, name, uid, steps, subresource))
        failed = verdict.status == 422 and verdict.message == _STEPS_DO_NOT_FIT
        return msgspec.structs.replace(verdict, outcome=Outcome.CONFLICT) if failed else verdict

    async def evict(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> Verdict:
        return await self.write(writes.evict(namespace, name, uid, grace_s), repeatable=True)

    async def delete(
        self, resource: Resource, namespace: str, name: str, uid: str, options: Object | None = None
    ) -> Verdict:
        return await self.write(writes.delete(resource, namespace, name, uid, options), repeatable=True)

    async def create(self, resource: Resource, namespace: str, obj: Object) -> Verdict:
        """Of an object with a name of its own: after a lost answer CONFLICT may mean that it is ours."""
        return await self.write(writes.create(resource, namespace, obj), repeatable="name" in obj["metadata"])

    async def write(self, request: Request, *, repeatable: bool = False) -> Verdict:
        """Until the outcome is known, or as often as we try; then the last one counts."""
        backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        verdict = await self._try(request)
        for _ in range(self._attempts - 1):
            again = verdict.outcome is Outcome.LATER or (repeatable and verdict.outcome is Outcome.UNKNOWN)
            if not again:
                break
            await self._sleep(max(verdict.wait_s, backoff.next(self._jitter())))
            verdict = await self._try(request)
        return verdict

    async def _try(self, request: Request) -> Verdict:
        room_s = self._room_s()
        if room_s <= 0:
            return Verdict(Outcome.FENCED, message="not sent: another process leads, or may soon")
        timeout_s = min(room_s, _WRITE_S)
        try:
            return judge(await self._transport.request(msgspec.structs.replace(request, timeout_s=timeout_s)))
        except Unreachable as error:
            return judge_silence(error)

    async def _settle(self, verdict: Verdict, namespace: str, name: str, uid: str, node: str) -> Verdict | None:
        """What became of a bind, by reading the pod; None: nothing, it can be bound still."""
        request = Request("GET", PODS.object(namespace, name), "", writes.ACCEPT)
        read = await self.write(request, repeatable=True)
        if not read.done:
            return read if read.outcome is Outcome.GONE else verdict
        try:
            pod = _read_pod(read.body)
        except msgspec.DecodeError:
            return verdict
        if (pod.get("metadata") or {}).get("uid") != uid:
            return Verdict(Outcome.REPLACED, message=f"pod {namespace}/{name} is another one by now")
        bound = (pod.get("spec") or {}).get("nodeName")
        if bound == node:
            return Verdict(Outcome.DONE, read.status)
        if bound or verdict.outcome is Outcome.CONFLICT:
            return msgspec.structs.replace(verdict, outcome=Outcome.CONFLICT)
        return None
