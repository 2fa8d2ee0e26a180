"""The phase and the conditions of a PodGroup, computed from the states of its pods.

The functions are pure. The queue engine decides when a group is Inqueue; ``capacity/status/status_reporter.py`` counts
the pods and reports the result. If a gang does not fit, every member without a node is Unschedulable with the same
message. Volcano does not report the members that would fit alone as Unschedulable (volcano-sh/volcano#3976).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from headgate.kube.conditions import UNSCHEDULABLE, Condition

PENDING: Final = "Pending"
INQUEUE: Final = "Inqueue"
RUNNING: Final = "Running"
UNKNOWN: Final = "Unknown"
COMPLETED: Final = "Completed"
PHASES: Final = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)

SCHEDULED: Final = "Scheduled"
NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
NOT_ENOUGH_PODS_OF_TASK: Final = "NotEnoughPodsOfTask"
WAITING_FOR_QUEUE: Final = "WaitingForQueue"
INVALID: Final = "Invalid"
READY: Final = "tasks in gang are ready to be scheduled"
"""Volcano uses this sentence as the reason, and clients compare it."""


class TaskStatus(Enum):
    """The state of one pod of a group."""

    PENDING = "Pending"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    """The pod is terminating and has a node."""
    WITHDRAWN = "Withdrawn"
    """The pod is terminating and has no node; it is not counted."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class TaskCounts(msgspec.Struct, frozen=True):
    """``by_status``: the number of the group's pods in each state. ``unschedulable``: pending pods with that reason."""

    by_status: Mapping[TaskStatus, int] = {}
    unschedulable: int = 0

    def of(self, *statuses: TaskStatus) -> int:
        return sum(self.by_status.get(each, 0) for each in statuses)

    @property
    def scheduled(self) -> int:
        """Pods that have, or had, a node."""
        return self.of(
            TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED
        )

    @property
    def ended(self) -> int:
        return self.of(TaskStatus.SUCCEEDED, TaskStatus.FAILED)

    @property
    def existing(self) -> int:
        """Pods that count towards the minimum of a gang, including gated ones."""
        return self.of(TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)

    @property
    def total(self) -> int:
        return sum(self.by_status.values())


def phase_of(before: str, minimum: int, counts: TaskCounts, *, is_enqueued: bool = False) -> str:
    """The new phase. ``before``: the current phase. ``is_enqueued``: the enqueue action has admitted the group, because
    its queue had capacity for its minimum."""
    if counts.of(TaskStatus.RUNNING) and counts.unschedulable:
        return UNKNOWN
    if counts.scheduled >= max(minimum, 1):
        return COMPLETED if counts.ended == counts.scheduled else RUNNING
    return INQUEUE if is_enqueued or before == INQUEUE else PENDING


def is_only_releasing(minimum: int, counts: TaskCounts) -> bool:
    """Whether the group is below its minimum only because members are terminating and their owner has not replaced them
    yet."""
    ready = counts.of(TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)
    releasing = counts.of(TaskStatus.RELEASING)
    return bool(releasing) and not counts.of(TaskStatus.PENDING) and ready + releasing >= minimum


def gang_text(minimum: int, counts: TaskCounts) -> str:
    """``3/6 tasks in gang unschedulable: pod group is not ready, 6 Pending, 6 minAvailable; Pending: …``."""
    by_name = sorted((each.value, number) for each, number in counts.by_status.items() if number)
    listed = ", ".join(f"{number} {word}" for word, number in by_name)
    pending = counts.of(TaskStatus.PENDING)
    text = f"{counts.unschedulable}/{counts.total} tasks in gang unschedulable: pod group is not ready"
    text = f"{text}, {listed}, {minimum} minAvailable" if listed else f"{text}, {minimum} minAvailable"
    fitting = pending - counts.unschedulable
    parts = [(counts.unschedulable, "Unschedulable"), (fitting, "Schedulable")]
    return f"{text}; Pending: {', '.join(f'{number} {word}' for number, word in parts if number)}" if pending else text


class TaskFit(Enum):
    """The result for one member of a gang that did not reach its minimum in an attempt."""

    FITS = "fits"
    AFTER_RELEASE = "fits when others have gone"
    NOWHERE = "fits nowhere"
    NOT_TRIED = "was not tried, since another one failed before it"


def member_text(pod: str, node: str, fit: TaskFit, problem: str, group: str) -> str:
    """The message for one member. ``pod``: its ``namespace/name``; ``problem``: why no node fits it; ``group``: the
    message for the whole group."""
    if fit is TaskFit.FITS:
        return f"Pod {pod} can possibly be assigned to {node}, once minAvailable is satisfied"
    if fit is TaskFit.AFTER_RELEASE:
        return f"Pod {pod} can possibly be assigned to {node}, once resource is released and minAvailable is satisfied"
    return problem if fit is TaskFit.NOWHERE and problem else group


def conditions_of(
    minimum: int,
    roles: Mapping[str, int],
    counts: TaskCounts,
    roles_existing: Mapping[str, int],
    *,
    problem: str = "",
    refusal: tuple[str, str] | None = None,
    waits_for: str = "",
) -> list[Condition]:
    """The conditions of a group, without times. ``roles``: the minimum number of members of each role;
    ``roles_existing``: the number of existing members of each role; ``refusal``: why the queue of the group admits
    nothing, as reason and message; ``waits_for``: the queue that has no capacity for the pods; empty if they also wait
    for something else."""
    if problem:
        return [_condition(UNSCHEDULABLE, "True", INVALID, problem)]
    if counts.scheduled >= max(minimum, 1):
        return [_condition(SCHEDULED, "True", READY, "")]
    if refusal is not None:
        return [_condition(SCHEDULED, "False", *refusal)]
    existing = counts.existing
    if existing < minimum and not is_only_releasing(minimum, counts):
        text = f"Not enough valid tasks for gang-scheduling, valid: {existing}, min: {minimum}"
        return [_condition(UNSCHEDULABLE, "True", NOT_ENOUGH_TASKS, text)]
    incomplete_roles = [
        name for name, minimum_of_role in sorted(roles.items()) if roles_existing.get(name, 0) < minimum_of_role
    ]
    if incomplete_roles:
        parts = ", ".join(f"{name}: {roles_existing.get(name, 0)} of {roles[name]}" for name in incomplete_roles)
        text = f"Not enough valid pods of each task for gang-scheduling, {parts}"
        return [_condition(UNSCHEDULABLE, "True", NOT_ENOUGH_PODS_OF_TASK, text)]
    if counts.unschedulable and not is_only_releasing(minimum, counts):
        return [_condition(UNSCHEDULABLE, "True", NOT_ENOUGH_RESOURCES, gang_text(minimum, counts))]
    if waits_for:
        return [
            _condition(SCHEDULED, "False", WAITING_FOR_QUEUE, f"its pods wait for capacity in the queue {waits_for}")
        ]
    return []


def _condition(type_: str, status: str, reason: str, message: str) -> Condition:
    return {"type": type_, "status": status, "reason": reason, "message": message}
