"""Tells the victims of a preemption to go: the condition that says why, then the deletion, each by the pod's uid.

A few at a time. A victim that is not there any more, or is another pod by now, has gone already: that is no failure.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from headgate.client.outcome import Outcome, Verdict
from headgate.client.writer import Writer
from headgate.kube import conditions
from headgate.kube.resource import PODS
from headgate.kube.timestamps import format_time
from headgate.scheduling.effects import Preempt
from headgate.scheduling.pod import Pod

_AT_ONCE: Final = 8
_GONE: Final = (Outcome.GONE, Outcome.REPLACED)


async def preempt(writer: Writer, wanted: Preempt) -> tuple[list[str], bool]:
    """The uids of victims that were there still and were told to go; and whether that is all that had to be done."""
    turn = asyncio.Semaphore(_AT_ONCE)
    verdicts = await asyncio.gather(*(_tell(writer, wanted.pod, victim, turn) for victim in wanted.victims))
    told = [victim.uid for victim, verdict in zip(wanted.victims, verdicts, strict=True) if verdict.done]
    return told, all(verdict.done or verdict.outcome in _GONE for verdict in verdicts)


async def _tell(writer: Writer, preemptor: Pod, victim: Pod, turn: asyncio.Semaphore) -> Verdict:
    async with turn:
        body = {"status": {"conditions": [_condition(preemptor, victim)]}}
        place = (PODS, victim.namespace, victim.name, victim.uid)
        verdict = await writer.patch(*place, body, "strategic", "status")
        return await writer.delete(*place) if verdict.done else verdict


def _condition(preemptor: Pod, victim: Pod) -> dict[str, Any]:
    condition = {
        "type": conditions.DISRUPTION_TARGET,
        "status": "True",
        "reason": conditions.PREEMPTION_BY_SCHEDULER,
        "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
        "observedGeneration": victim.generation,
    }
    if not victim.disruption:
        condition["lastTransitionTime"] = format_time(time.time())
    return condition
