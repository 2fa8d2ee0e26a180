"""Status conditions, of pods and of every other kind: find one, set one, drop one.

All functions return a new list and leave the old one alone; when nothing changes they return the very list they were
given, so that ``new is old`` tells a writer that there is nothing to write. ``now`` is a wire timestamp (see
``kube/timestamps.py``). The conditions of scheduling gates are in ``kube/scheduling_gates.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

Condition = dict[str, Any]

POD_SCHEDULED: Final = "PodScheduled"
POD_READY: Final = "Ready"
UNSCHEDULABLE: Final = "Unschedulable"
WAITING_FOR_TERMINATING_PODS: Final = "WaitingForTerminatingPods"
"""The pod fits when terminating pods are gone, and was promised the node: no autoscaler buys for this reason."""
SCHEDULER_ERROR: Final = "SchedulerError"
PRE_ENQUEUE_REJECTED: Final = "PreEnqueueRejected"
"""A PreEnqueue plugin does not let the pod be tried yet: no autoscaler buys for this reason."""
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

WAITING_ON_PERMIT: Final = "WaitingOnPermit"
"""A Permit plugin has the pod wait. Its node is kept for it: no autoscaler buys for this reason."""
WAITING_ON_PRE_BIND: Final = "WaitingOnPreBind"
"""A PreBind plugin waits for something before the pod is bound. Its node is kept for it."""
_PRE_ENQUEUE: Final = "PreEnqueue"
_HELD_BY: Final = f'{_PRE_ENQUEUE} plugin "'
_NO_REASON: Final = "no reason given"
# Of the points after PreEnqueue: as in held_message, and as a failure is told ('running PreFilter plugin "Name": ...').
_NAMED: Final = re.compile(r'(?:running )?(?:\w+ )?plugin "([^"]+)"(?: \(\w+\))?: (.*)', re.DOTALL)
_TIMES: Final = ("lastTransitionTime", "lastUpdateTime", "lastHeartbeatTime")


def held_message(plugin: str, reason: str, point: str = _PRE_ENQUEUE) -> str:
    """What ``PodScheduled`` says of a pod that a plugin holds at an extension point, or fails to judge."""
    return f'{point} plugin "{plugin}": {reason or _NO_REASON}'


def held_by(reason: str, message: str) -> tuple[str, str] | None:
    """The plugin, and its own words, if this is what ``PodScheduled`` says of a pod that a PreEnqueue plugin holds."""
    if reason not in (PRE_ENQUEUE_REJECTED, SCHEDULER_ERROR) or not message.startswith(_HELD_BY):
        return None
    plugin, _, words = message.removeprefix(_HELD_BY).partition('": ')
    return plugin, words


def refused_by(message: str) -> tuple[str, str] | None:
    """The plugin, and its own words, if the message of ``PodScheduled`` begins with the name of one, whatever the
    extension point."""
    found = _NAMED.fullmatch(message)
    return None if found is None else (found[1], found[2])


def find(conditions: Sequence[Condition] | None, type_: str) -> Condition | None:
    for each in conditions or ():
        if each.get("type") == type_:
            return each
    return None


def has_status(conditions: Sequence[Condition] | None, type_: str, status: str) -> bool:
    found = find(conditions, type_)
    return found is not None and found.get("status") == status


def is_true(conditions: Sequence[Condition] | None, type_: str) -> bool:
    return has_status(conditions, type_, "True")


def is_false(conditions: Sequence[Condition] | None, type_: str) -> bool:
    return has_status(conditions, type_, "False")


def with_condition(conditions: list[Condition] | None, condition: Mapping[str, Any], now: str) -> list[Condition]:
    """``conditions`` with ``condition`` in place of the one of its type, or at the end.

    ``lastTransitionTime`` says when the *status* last changed: a new reason or message does not move it. A
    transition time that the caller brings is used instead of ``now``.
    """
    old_list = conditions if conditions is not None else []
    moved = condition.get("lastTransitionTime") or now
    old = find(old_list, condition["type"])
    if old is None:
        return [*old_list, {**condition, "lastTransitionTime": moved}]
    is_same_status = old.get("status") == condition.get("status")
    new = {**condition, "lastTransitionTime": old.get("lastTransitionTime") if is_same_status else moved}
    if _without_times(old) == _without_times(new) and is_same_status:
        return old_list
    return [new if each is old else each for each in old_list]


def without_condition(conditions: list[Condition], type_: str) -> list[Condition]:
    kept = [each for each in conditions if each.get("type") != type_]
    return conditions if len(kept) == len(conditions) else kept


def _without_times(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in condition.items() if name not in _TIMES and value not in (None, "", 0)}
