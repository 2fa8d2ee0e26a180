"""The lifecycle of a pod in the scheduler: one table of states, events, transitions and effects.

A pod of a profile of this scheduler that has no node is in exactly one :class:`PodState`. The state changes only by
:func:`next_state`, so a change that is not in :data:`TRANSITIONS` is an error. ``queue/scheduling_queue.py`` moves pods
between the queues, ``binding_cycle.py`` moves pods that have a node, and ``schedule_one.py`` returns the effects.
``tools/pod_lifecycle.py`` writes the table and its diagram to ARCHITECTURE.md.

The removal of the queue gate has states of its own (``gates/gate_removals.py``): it may be in progress in any state
after ``GATED``, and a pod stays in ``PRE_BIND_WAIT`` until the removal is confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    EmitPodEvent,
    ObjectPatch,
    PreBindWrites,
    Preempt,
    RemoveSchedulingGate,
    RemoveStamp,
    SetStatus,
)


class PodState(StrEnum):
    """Absence from the scheduler (a pod that is not known yet, bound, or deleted) is ``None``."""

    GATED = "gated"
    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error-backoff"
    UNSCHEDULABLE = "unschedulable"
    SCHEDULING = "scheduling"
    PERMIT = "permit"
    PRE_BIND_WRITES = "pre-bind-writes"
    PRE_BIND_WAIT = "pre-bind-wait"
    BIND = "bind"
    BIND_RETRY = "bind-retry"


MEANINGS: Final[Mapping[PodState, str]] = {
    PodState.GATED: "a PreEnqueue plugin rejected the pod; parked until an event that the rejection names",
    PodState.ACTIVE: "the pod may be tried",
    PodState.BACKOFF: "plugins rejected the pod, and an event made a new attempt useful; its back-off lasts",
    PodState.ERROR_BACKOFF: "the last attempt failed with an error; its back-off lasts",
    PodState.UNSCHEDULABLE: "plugins rejected the pod; parked until an event that a rejection names",
    PodState.SCHEDULING: "the scheduling cycle searches for a node; Reserve and Permit plugins run",
    PodState.PERMIT: "the pod has a node and waits for Permit plugins",
    PodState.PRE_BIND_WRITES: "writes of a PreBind plugin are in progress",
    PodState.PRE_BIND_WAIT: "a PreBind plugin waits for another component: volumes, the removal of the queue gate",
    PodState.BIND: "the binding is in progress",
    PodState.BIND_RETRY: "the outcome of the binding is unknown; it is repeated on the same node after a delay",
}

QUEUED: Final = frozenset(
    {PodState.GATED, PodState.ACTIVE, PodState.BACKOFF, PodState.ERROR_BACKOFF, PodState.UNSCHEDULABLE}
)
PARKED: Final = frozenset({PodState.GATED, PodState.UNSCHEDULABLE})
BACKING_OFF: Final = frozenset({PodState.BACKOFF, PodState.ERROR_BACKOFF})
IN_FLIGHT: Final = frozenset(PodState) - QUEUED
"""The pod was popped: it is tried, or is in its binding cycle."""


class PodEvent(StrEnum):
    ADDED = "the pod is added"
    WOKEN = "an event matches a rejection of the pod, or its time-out has passed"
    ACTIVATED = "another component activates the pod"
    BACKOFF_OVER = "the back-off is over"
    POPPED = "the pod is popped"
    TAKEN = "the pod is tried together with its group"
    HELD = "its queue has revoked the grant"
    REJECTED = "plugins reject the pod"
    FAILED = "an error occurs"
    PERMIT_WAITS = "a Permit plugin asks to wait"
    WRITES = "a PreBind plugin returns writes"
    WAITS = "a PreBind plugin asks to wait"
    PREPARED = "all PreBind plugins are done"
    OUTCOME_UNKNOWN = "the outcome of the binding is unknown"
    RETRIED = "the delay is over"
    DELETED = "the pod is deleted, or another component binds it"
    ENDED = "the pod is bound, or it was deleted and its last response has arrived"


class Guard(StrEnum):
    """What decides between several transitions of one event."""

    ALWAYS = ""
    READY = "PreEnqueue plugins accept it, no back-off lasts"
    BACKOFF_LASTS = "its back-off lasts"
    PRE_ENQUEUE_REJECTS = "a PreEnqueue plugin rejects it"
    NOTHING_HELPS = "no event since the attempt began matches a rejection"


class Transition(msgspec.Struct, frozen=True):
    """``effects``: the types of effects that the scheduler may return together with the transition. Conditions and
    Events about a pod that waits for long follow later (``pod_conditions.py``)."""

    sources: frozenset[PodState | None]
    event: PodEvent
    guard: Guard
    target: PodState | None
    effects: tuple[type[Effect], ...] = ()


def _from(*states: PodState | None) -> frozenset[PodState | None]:
    return frozenset(states)


_NEW: Final = _from(None)
_PARKED: Final = _from(*PARKED)
_WAITING: Final = _from(*QUEUED - {PodState.ACTIVE})
_BACKING_OFF: Final = _from(*BACKING_OFF)
_TRIED: Final = _from(*IN_FLIGHT - {PodState.BIND_RETRY})
"""A repeated binding is in progress again (``BIND``) before it can fail."""
_WITH_NODE: Final = _from(PodState.SCHEDULING, PodState.PERMIT)
_FAILED: Final = (SetStatus, EmitPodEvent)
_REJECTED: Final = (SetStatus, EmitPodEvent, Preempt)

TRANSITIONS: Final = (
    Transition(_NEW, PodEvent.ADDED, Guard.READY, PodState.ACTIVE),
    Transition(_NEW, PodEvent.ADDED, Guard.PRE_ENQUEUE_REJECTS, PodState.GATED),
    Transition(_PARKED, PodEvent.WOKEN, Guard.READY, PodState.ACTIVE, (RemoveSchedulingGate,)),
    Transition(_PARKED, PodEvent.WOKEN, Guard.BACKOFF_LASTS, PodState.BACKOFF),
    Transition(_PARKED, PodEvent.WOKEN, Guard.PRE_ENQUEUE_REJECTS, PodState.GATED),
    Transition(_WAITING, PodEvent.ACTIVATED, Guard.READY, PodState.ACTIVE),
    Transition(_WAITING, PodEvent.ACTIVATED, Guard.PRE_ENQUEUE_REJECTS, PodState.GATED, (SetStatus, RemoveStamp)),
    Transition(_BACKING_OFF, PodEvent.BACKOFF_OVER, Guard.READY, PodState.ACTIVE),
    Transition(_BACKING_OFF, PodEvent.BACKOFF_OVER, Guard.PRE_ENQUEUE_REJECTS, PodState.GATED),
    Transition(_from(PodState.ACTIVE, PodState.BACKOFF), PodEvent.POPPED, Guard.ALWAYS, PodState.SCHEDULING),
    Transition(_from(*QUEUED - {PodState.GATED}), PodEvent.TAKEN, Guard.ALWAYS, PodState.SCHEDULING),
    Transition(_from(PodState.SCHEDULING), PodEvent.HELD, Guard.ALWAYS, PodState.GATED),
    Transition(_from(PodState.SCHEDULING), PodEvent.PERMIT_WAITS, Guard.ALWAYS, PodState.PERMIT),
    Transition(
        _WITH_NODE | {PodState.PRE_BIND_WRITES},
        PodEvent.WRITES,
        Guard.ALWAYS,
        PodState.PRE_BIND_WRITES,
        (PreBindWrites,),
    ),
    Transition(
        _WITH_NODE | {PodState.PRE_BIND_WRITES, PodState.PRE_BIND_WAIT},
        PodEvent.WAITS,
        Guard.ALWAYS,
        PodState.PRE_BIND_WAIT,
    ),
    Transition(
        _WITH_NODE | {PodState.PRE_BIND_WRITES, PodState.PRE_BIND_WAIT},
        PodEvent.PREPARED,
        Guard.ALWAYS,
        PodState.BIND,
        (Bind,),
    ),
    Transition(_from(PodState.BIND), PodEvent.OUTCOME_UNKNOWN, Guard.ALWAYS, PodState.BIND_RETRY),
    Transition(_from(PodState.BIND_RETRY), PodEvent.RETRIED, Guard.ALWAYS, PodState.BIND, (Bind,)),
    Transition(_TRIED, PodEvent.REJECTED, Guard.NOTHING_HELPS, PodState.UNSCHEDULABLE, _REJECTED),
    Transition(_TRIED, PodEvent.REJECTED, Guard.BACKOFF_LASTS, PodState.BACKOFF, _REJECTED),
    Transition(_TRIED, PodEvent.REJECTED, Guard.READY, PodState.ACTIVE, _REJECTED),
    Transition(_TRIED, PodEvent.REJECTED, Guard.PRE_ENQUEUE_REJECTS, PodState.GATED, _REJECTED),
    Transition(_TRIED, PodEvent.FAILED, Guard.BACKOFF_LASTS, PodState.ERROR_BACKOFF, _FAILED),
    Transition(_TRIED, PodEvent.FAILED, Guard.READY, PodState.ACTIVE, _FAILED),
    Transition(_TRIED, PodEvent.FAILED, Guard.PRE_ENQUEUE_REJECTS, PodState.GATED, _FAILED),
    Transition(_from(*QUEUED), PodEvent.DELETED, Guard.ALWAYS, None),
    Transition(_from(*IN_FLIGHT), PodEvent.ENDED, Guard.ALWAYS, None, (EmitPodEvent, ObjectPatch)),
)

_TARGETS: Final[Mapping[tuple[PodState | None, PodEvent, Guard], PodState | None]] = {
    (source, row.event, row.guard): row.target for row in TRANSITIONS for source in row.sources
}


class InvalidTransition(Exception):
    """A defect of the scheduler: it asked for a transition that the table does not have."""


def next_state(state: PodState | None, event: PodEvent, guard: Guard = Guard.ALWAYS) -> PodState | None:
    try:
        return _TARGETS[state, event, guard]
    except KeyError:
        raise InvalidTransition(f"a pod that is {state or 'unknown'}: {event} ({guard or 'always'})") from None
