"""The log of decisions: one line at level ``info`` for each, and nothing else from this logger.

Controllers call :func:`log_decision` with their own :class:`Decision`; the functions below make those of the scheduler
and of webhooks. At a higher level a decision costs one comparison: callers ask :func:`is_enabled` first. The fields are
in the attribute ``fields`` of the log record; ``cli/options/log_options.py`` writes them as text or JSON.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from headgate.admission.admission_review import AdmissionRequest
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.engine import WaitReason
from headgate.kube.decisions import Decision, Verb
from headgate.kube.resource_amounts import amount_text
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import Bind, Preempt, RemoveSchedulingGate, RemoveStamp, WriteResult

LOGGER: Final = "headgate.decisions"
_log: Final = logging.getLogger(LOGGER)
_FINAL: Final = (WriteResult.TAKEN, WriteResult.GATED, WriteResult.REFUSED)
"""Refusals. Other failed writes are repeated, or their pod is gone."""
_DIGITS: Final = 3


def is_enabled() -> bool:
    return _log.isEnabledFor(logging.INFO)


def log_decision(decision: Decision) -> None:
    """Logs the decision: the verb is the message, the other fields that are set follow."""
    if not is_enabled():
        return
    fields = msgspec.to_builtins(decision)
    verb = fields.pop("verb")
    for name in ("waitSeconds", "durationSeconds"):
        if name in fields:
            fields[name] = round(fields[name], _DIGITS)
    _log.info(verb, extra={"fields": fields})


def log_binding(bind: Bind, result: WriteResult, message: str, queue: str, took_s: float) -> None:
    """A binding that was done or refused. ``queue``: of the pod; empty if it uses none."""
    if result is not WriteResult.DONE and result not in _FINAL:
        return
    decision = _of_pod("bound" if result is WriteResult.DONE else "refused", bind.pod, took_s)
    decision = replace(decision, node=bind.node_name, queue=queue, resources=_resources(bind.pod.shape.requests))
    log_decision(decision if result is WriteResult.DONE else replace(decision, reason="Binding", message=message))


def log_gate_removal(removal: RemoveSchedulingGate, result: WriteResult, message: str, took_s: float) -> None:
    """The removal of the queue gate that was done or refused. The queue and the requests are those of the stamp."""
    if result is not WriteResult.DONE and result not in _FINAL:
        return
    decision = _of_pod("gate removed" if result is WriteResult.DONE else "refused", removal.pod, took_s)
    stamp = read_stamp(removal.stamp, removal.pod.uid)
    if stamp is not None:
        decision = replace(decision, queue=stamp.queue, resources=_resources(stamp.requests))
    log_decision(decision if result is WriteResult.DONE else replace(decision, reason="GateRemoval", message=message))


def log_revocation(removal: RemoveStamp, result: WriteResult) -> None:
    """A promise of capacity that was revoked: the pod waits for its queue again."""
    stamp = read_stamp(removal.stamp, removal.pod.uid)
    if result is WriteResult.DONE and stamp is not None:
        decision = replace(_of_pod("revoked", removal.pod), queue=stamp.queue, resources=_resources(stamp.requests))
        log_decision(replace(decision, reason=WaitReason.LAPSED.value) if removal.lapse else decision)


def log_preemption(effect: Preempt, evicted_uids: list[str], took_s: float) -> None:
    """The victims of a preemption that were deleted."""
    for victim in effect.victims:
        if victim.uid in evicted_uids:
            decision = _of_pod("preempted", victim, took_s)
            resources = _resources(victim.shape.requests)
            log_decision(replace(decision, node=victim.node_name, preemptor=effect.pod.key, resources=resources))


def log_refused_review(request: AdmissionRequest, message: str) -> None:
    """A write that a webhook refused."""
    metadata = request.obj.get("metadata") or request.old.get("metadata") or {}
    log_decision(
        Decision(
            verb="refused",
            kind=str(request.obj.get("kind") or request.old.get("kind") or request.resource),
            namespace=request.namespace,
            name=request.name or str(metadata.get("name") or metadata.get("generateName") or ""),
            reason=f"Webhook{request.operation.capitalize()}",
            message=message,
        )
    )


def _of_pod(verb: Verb, pod: PodInfo, took_s: float | None = None) -> Decision:
    return Decision(
        verb=verb,
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        wait_seconds=max(time.time() - pod.created_s, 0.0) if pod.created_s else None,
        duration_seconds=took_s,
    )


def _resources(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in amounts.items()}
