"""The Progressing condition of a Deployment: created, progressing, complete, paused, or past its deadline.

The deadline runs from the last progress. It does not run while the rollout is paused, nor (unlike upstream) while pods
of the new ReplicaSet wait in a queue. Both are recorded in the condition, so that they survive a restart of the
controller; when the wait is over, the time of the deadline starts again.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.deployments.rolling_update import desired_replicas
from headgate.controllers.ownership.pods import seconds
from headgate.kube import conditions
from headgate.kube.conditions import Condition
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

PROGRESSING: Final = "Progressing"
CREATED: Final = "NewReplicaSetCreated"
FOUND: Final = "FoundNewReplicaSet"
CREATE_ERROR: Final = "ReplicaSetCreateError"
UPDATED: Final = "ReplicaSetUpdated"
AVAILABLE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"
WAITING: Final = "WaitingForQueue"

_NO_DEADLINE: Final = 2**31 - 1
_MARGIN_S: Final = 1.0
"""The check runs this long after the deadline, so that the deadline has passed at the check."""


def condition(type_: str, status: str, reason: str, message: str, now_s: float) -> Condition:
    now = format_time(now_s)
    return {
        "type": type_,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def with_condition(known: list[Condition], new: Condition) -> list[Condition]:
    """Replaces the condition of the same type and appends the new one. With the same status and reason nothing
    changes."""
    old = conditions.find(known, new["type"])
    if old is not None and old.get("status") == new["status"]:
        if old.get("reason") == new["reason"]:
            return known
        new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
    return [*conditions.without_condition(known, new["type"]), new]


def deadline_s(deployment: Object) -> int | None:
    seconds_: int | None = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds_ == _NO_DEADLINE else seconds_


def with_pause(deployment: Object, known: list[Condition], now_s: float) -> list[Condition]:
    """Records that the rollout was paused or resumed. The condition of a rollout past its deadline does not change."""
    reason = reason_of(known)
    if deadline_s(deployment) is None or reason == TIMED_OUT:
        return known
    paused = bool(deployment["spec"].get("paused"))
    if paused == (reason == PAUSED):
        return known
    new = (PAUSED, "Deployment is paused") if paused else (RESUMED, "Deployment is resumed")
    return with_condition(known, condition(PROGRESSING, "Unknown", *new, now_s))


def with_progress(
    deployment: Object, new: Object, known: list[Condition], name: str, has_queued_pods: bool, now_s: float
) -> list[Condition]:
    """The conditions with the present progress. ``new``: the present counts; the status of ``deployment`` has the
    previous ones. ``name``: the object that the messages are about. ``has_queued_pods``: pods of the new ReplicaSet
    wait in a queue."""
    if deadline_s(deployment) is None:
        return conditions.without_condition(known, PROGRESSING)
    reason = reason_of(known)
    if reason == AVAILABLE and new.get("replicas", 0) == new.get("updatedReplicas", 0):
        return known
    complete = condition(PROGRESSING, "True", AVAILABLE, f"{name} has successfully progressed.", now_s)
    if is_complete(deployment, new):
        return with_condition(known, complete)
    if has_queued_pods and reason != TIMED_OUT:
        message = f"{name} has pods that wait for their queue; the progress deadline does not run."
        return with_condition(known, {**complete, "reason": WAITING, "message": message})
    if has_progressed(deployment.get("status") or {}, new) or reason == WAITING:
        progressing = {**complete, "reason": UPDATED, "message": f"{name} is progressing."}
        old = conditions.find(known, PROGRESSING)
        if old is not None and old.get("status") == "True":
            progressing["lastTransitionTime"] = old.get("lastTransitionTime")
        return [*conditions.without_condition(known, PROGRESSING), progressing]
    if _is_out_of_time(deployment, known, now_s):
        timed_out = {"status": "False", "reason": TIMED_OUT, "message": f"{name} has timed out progressing."}
        return with_condition(known, {**complete, **timed_out})
    return known


def is_complete(deployment: Object, status: Object) -> bool:
    """Whether all replicas are updated and available, and no old one is left."""
    count = desired_replicas(deployment)
    counts = (status.get(each, 0) for each in ("updatedReplicas", "replicas", "availableReplicas"))
    observed: int = status.get("observedGeneration", 0)
    return all(each == count for each in counts) and observed >= deployment["metadata"].get("generation", 0)


def has_progressed(before: Object, now: Object) -> bool:
    """Whether there are more updated, ready or available pods, or fewer old pods, than before."""
    if _old_pod_count(now) < _old_pod_count(before):
        return True
    return any(
        now.get(each, 0) > before.get(each, 0) for each in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def next_deadline_check_s(deployment: Object, status: Object, now_s: float) -> float | None:
    """The seconds until the deadline must be checked; None if it does not run."""
    limit_s, found = deadline_s(deployment), conditions.find(status.get("conditions"), PROGRESSING)
    if limit_s is None or found is None or found.get("reason") in (AVAILABLE, TIMED_OUT, PAUSED, WAITING):
        return None
    since_s = seconds(found.get("lastUpdateTime"))
    if since_s is None or is_complete(deployment, status):
        return None
    return max(0.0, since_s + limit_s - now_s) + _MARGIN_S


def reason_of(known: list[Condition]) -> str:
    found = conditions.find(known, PROGRESSING)
    return "" if found is None else str(found.get("reason", ""))


def _is_out_of_time(deployment: Object, known: list[Condition], now_s: float) -> bool:
    limit_s, found = deadline_s(deployment), conditions.find(known, PROGRESSING)
    if limit_s is None or found is None or found.get("reason") == AVAILABLE:
        return False
    if found.get("reason") == TIMED_OUT:
        return True
    since_s = seconds(found.get("lastUpdateTime"))
    return since_s is not None and since_s + limit_s < now_s


def _old_pod_count(status: Object) -> int:
    count: int = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    return count
