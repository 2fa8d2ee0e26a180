"""Status conditions of all kinds: functions to find, set and remove one.

All functions return a new list and do not change their argument. If nothing changes they return the same list, so that
``new is old`` means that there is nothing to write. ``now`` is a wire timestamp (see ``kube/timestamps.py``). The
conditions of scheduling gates are in ``kube/scheduling_gates.py``.
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
"""The pod fits when terminating pods are gone, and is nominated to the node. Autoscalers do not scale up for it."""
SCHEDULER_ERROR: Final = "SchedulerError"
PRE_ENQUEUE_REJECTED: Final = "PreEnqueueRejected"
"""A PreEnqueue plugin rejects the pod. Autoscalers do not scale up for it."""
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

WAITING_FOR_QUEUE: Final = "WaitingForQueue"
"""The queue of a pod without a gate has no capacity, or a queue plugin holds the pod. Autoscalers do not scale up for
it."""
QUEUE_ADMISSION_REJECTED: Final = "QueueAdmissionRejected"
"""The reason of the Event of a pod that a queue plugin holds."""
WAITING_ON_PERMIT: Final = "WaitingOnPermit"
"""A Permit plugin lets the pod wait with its node reserved. Autoscalers do not scale up for it."""
WAITING_ON_PRE_BIND: Final = "WaitingOnPreBind"
"""A PreBind plugin delays the binding of the pod. Its node is reserved."""
_PRE_ENQUEUE: Final = "PreEnqueue"
_PRE_ENQUEUE_PREFIX: Final = f'{_PRE_ENQUEUE} plugin "'
_NO_REASON: Final = "no reason given"
# For extension points after PreEnqueue: the form of plugin_message, and of an error ('running PreFilter plugin "Name":
# ...').
_RUNNING: Final = "running "
_PLUGIN_MESSAGE: Final = re.compile(r'(?:running )?(?:\w+ )?plugin "([^"]+)"(?: \(\w+\))?: (.*)', re.DOTALL)
_TIMES: Final = ("lastTransitionTime", "lastUpdateTime", "lastHeartbeatTime")


def plugin_message(plugin: str, reason: str, point: str = _PRE_ENQUEUE) -> str:
    """The message of ``PodScheduled`` for a pod that a plugin rejects or delays, or for which a PreEnqueue plugin
    fails."""
    return f'{point} plugin "{plugin}": {reason or _NO_REASON}'


def plugin_error_message(plugin: str, error: str, point: str) -> str:
    """The message of ``PodScheduled`` for a pod for which a plugin of another extension point fails."""
    return _RUNNING + plugin_message(plugin, error, point)


def is_plugin_error(message: str) -> bool:
    """Whether the message says that a plugin failed; the reason of the condition may be that of a waiting pod."""
    return message.startswith(_RUNNING) and parse_plugin_message(message) is not None


def parse_pre_enqueue_message(reason: str, message: str) -> tuple[str, str] | None:
    """The plugin and its reason, if this ``PodScheduled`` condition is of a pod that a PreEnqueue plugin rejects."""
    if reason not in (PRE_ENQUEUE_REJECTED, SCHEDULER_ERROR) or not message.startswith(_PRE_ENQUEUE_PREFIX):
        return None
    plugin, _, text = message.removeprefix(_PRE_ENQUEUE_PREFIX).partition('": ')
    return plugin, text


def parse_plugin_message(message: str) -> tuple[str, str] | None:
    """The plugin and its reason, if the message of ``PodScheduled`` names a plugin of any extension point."""
    found = _PLUGIN_MESSAGE.fullmatch(message)
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

    ``lastTransitionTime`` is the time of the last change of the *status*: a new reason or message does not change it. A
    transition time in ``condition`` is used instead of ``now``.
    """
    old_list = conditions if conditions is not None else []
    transition_time = condition.get("lastTransitionTime") or now
    old = find(old_list, condition["type"])
    if old is None:
        return [*old_list, {**condition, "lastTransitionTime": transition_time}]
    is_same_status = old.get("status") == condition.get("status")
    new = {**condition, "lastTransitionTime": old.get("lastTransitionTime") if is_same_status else transition_time}
    if _without_times(old) == _without_times(new) and is_same_status:
        return old_list
    return [new if each is old else each for each in old_list]


def without_condition(conditions: list[Condition], type_: str) -> list[Condition]:
    kept = [each for each in conditions if each.get("type") != type_]
    return conditions if len(kept) == len(conditions) else kept


def _without_times(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in condition.items() if name not in _TIMES and value not in (None, "", 0)}
