"""A pod as the status of its group uses it: its state, and whether it is reported as Unschedulable.

The queue engine has its own view of a pod (``capacity/api/task.py``, ``capacity/cache/pod_record.py``): for a queue, a
pod that ended holds nothing; for the status of its group it still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.pod_group_phase import WAITING_FOR_QUEUE, TaskCounts, TaskStatus
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, STAMP, TASK_SPEC
from headgate.kube.conditions import POD_SCHEDULED, UNSCHEDULABLE

FIELDS: Final = (
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "spec.schedulerName",
    "spec.nodeName",
    "spec.schedulingGates",
    "status.phase",
    "status.conditions",
)
"""The fields of a pod that this module reads."""

_ENDED: Final = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED}


class PodGroupMember(msgspec.Struct, frozen=True, gc=False):
    """``group``: the PodGroup in the pod's namespace; empty for a pod without one. ``is_admitted``: its queue admitted
    it. ``waits_for_queue``: only the queue gate holds it, or it has no gate and its condition says that it waits for
    its queue."""

    uid: str
    namespace: str
    name: str
    scheduler_name: str
    group: str = ""
    role: str = ""
    status: TaskStatus = TaskStatus.PENDING
    is_unschedulable: bool = False
    is_admitted: bool = False
    waits_for_queue: bool = False


def read_member(obj: Mapping[str, Any]) -> PodGroupMember | None:
    """Read a pod from decoded JSON; None if it is not a valid pod."""
    try:
        return _read(obj)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _read(obj: Mapping[str, Any]) -> PodGroupMember:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    annotations = metadata.get("annotations") or {}
    has_node, is_terminating = bool(spec.get("nodeName")), bool(metadata.get("deletionTimestamp"))
    task_status = _ENDED.get(status.get("phase") or "")
    if task_status is None and is_terminating:
        task_status = TaskStatus.RELEASING if has_node else TaskStatus.WITHDRAWN
    if task_status is None:
        task_status = (
            TaskStatus.PENDING
            if not has_node
            else TaskStatus.RUNNING
            if status.get("phase") == "Running"
            else TaskStatus.BOUND
        )
    gates = [each.get("name") for each in spec.get("schedulingGates") or ()]
    return PodGroupMember(
        uid=str(metadata["uid"]),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        scheduler_name=str(spec.get("schedulerName") or "default-scheduler"),
        group=next((str(annotations[each]) for each in GROUP_NAMES if annotations.get(each)), ""),
        role=str(annotations.get(TASK_SPEC) or ""),
        status=task_status,
        is_unschedulable=task_status is TaskStatus.PENDING and not gates and _has_reason(status, UNSCHEDULABLE),
        is_admitted=read_stamp(annotations.get(STAMP), str(metadata["uid"])) is not None,
        waits_for_queue=gates == [GATE] or (not gates and _has_reason(status, WAITING_FOR_QUEUE)),
    )


def _has_reason(status: Mapping[str, Any], reason: str) -> bool:
    return any(
        each.get("type") == POD_SCHEDULED and each.get("status") == "False" and each.get("reason") == reason
        for each in status.get("conditions") or ()
    )


def count_members(members: Iterable[PodGroupMember]) -> tuple[TaskCounts, dict[str, int]]:
    """The counts by status, and the number of members of each role that count towards the minimum."""
    by_status: dict[TaskStatus, int] = {}
    roles: dict[str, int] = {}
    unschedulable = 0
    for each in members:
        by_status[each.status] = by_status.get(each.status, 0) + 1
        unschedulable += each.is_unschedulable
        if each.status not in (TaskStatus.RELEASING, TaskStatus.WITHDRAWN, TaskStatus.FAILED):
            roles[each.role] = roles.get(each.role, 0) + 1
    return TaskCounts(by_status, unschedulable), roles
