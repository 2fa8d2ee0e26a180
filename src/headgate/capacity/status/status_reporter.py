"""The status reporter: keeps the status of queues and PodGroups up to date.

It counts groups by phase, closes and opens queues, reports invalid objects, and reports the allocated and reserved
amounts of the queue engine (``capacity/engine.py``). It decides nothing about pods. It creates the root and default
queues if they are missing. It does no I/O: ``due_patches`` returns frozen writes; the caller reports their outcome by
``patch_finished`` or ``patch_rejected``. ``status_throttle.py`` decides when to write, ``status_fields.py`` what;
``runtime/scheduler/status_writer.py`` sends the writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from headgate.capacity.api import queue_state
from headgate.capacity.api.pod_group_phase import PENDING, PHASES, TaskCounts, TaskStatus, conditions_of, phase_of
from headgate.capacity.api.queue import Amounts
from headgate.capacity.api.queue_state import DesiredQueueState
from headgate.capacity.cache.gang import PodGroup
from headgate.capacity.kinds import unsupported
from headgate.capacity.kinds.definitions import BUILTIN_QUEUES, group_of_one
from headgate.capacity.names import DEFAULT, POD_GROUPS, QUEUES
from headgate.capacity.status import status_fields
from headgate.capacity.status.pod_group_counters import (
    GroupKey,
    ObservedPodGroup,
    PodGroupCounters,
    QueuePhase,
    generated_name,
)
from headgate.capacity.status.pod_group_members import count_members
from headgate.capacity.status.status_throttle import Key, StatusThrottle
from headgate.kube.api_resources import APIResource
from headgate.kube.lenient_reader import find_object
from headgate.waiting.heap import DeadlineHeap

Object = dict[str, Any]
JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""

INTERVALS_S: Final = {QUEUES.plural: 2.0, POD_GROUPS.plural: 1.0}
"""The minimum interval between two writes of one object, by resource."""
BATCH_DELAY_S: Final = 0.25
"""How long changes are collected before a status is computed."""
_CREATE_RETRY_S: Final = 30.0
"""How long a created object may be missing from the watch before it is created again."""
_BUILTIN_QUEUES_BY_NAME: Final = {str(each["metadata"]["name"]): each for each in BUILTIN_QUEUES}
_VOLCANO: Final = "volcano"
"""A reporter for this scheduler name also reports groups without pods."""
_CONDITION_TIMES: Final = ("lastTransitionTime", "transitionID")


class _Usage(Protocol):
    @property
    def allocated(self) -> Amounts: ...

    @property
    def reserved(self) -> Amounts: ...

    @property
    def terminating(self) -> Amounts: ...


class _Limits(Protocol):
    @property
    def capability(self) -> Amounts: ...


class _Refusal(Protocol):
    @property
    def why(self) -> Enum: ...

    @property
    def message(self) -> str: ...


class QueueStatusSource(Protocol):
    """What the reporter reads from the queue engine (``capacity/engine.py``)."""

    def usage(self, queue: str, /) -> _Usage: ...

    def limits(self, queue: str, /) -> _Limits: ...

    def queue_of(self, uid: str, /) -> str: ...

    def is_inqueue(self, namespace: str, name: str, /) -> bool: ...

    def refusal(self, queue: str, /) -> _Refusal | None: ...

    def problems(self) -> Mapping[str, str]: ...

    def pods_with_new_queue(self) -> Iterable[str]: ...

    def changed_queues(self) -> Iterable[str]: ...

    def enqueued_groups(self) -> Iterable[tuple[str, str]]: ...


class StatusPatch(msgspec.Struct, frozen=True):
    """``patch``: a merge patch of the status. ``desired``: the fields of the status as they should be afterwards; the
    caller passes the whole value back to :meth:`StatusReporter.patch_finished`."""

    resource: APIResource
    namespace: str
    name: str
    uid: str
    patch: Object
    desired: Object

    @property
    def key(self) -> Key:
        return (self.resource.plural, self.namespace, self.name)


class CreateMissingObject(msgspec.Struct, frozen=True):
    """An object that should exist and does not."""

    resource: APIResource
    obj: Object


class _Queue:
    """What the API shows of a queue. ``desired``: the state, open or closed, that users request for it."""

    __slots__ = ("desired", "spec", "status", "uid")

    def __init__(self, obj: JSONObject, desired: DesiredQueueState) -> None:
        self.uid = str((obj.get("metadata") or {}).get("uid") or "")
        self.spec = obj.get("spec")
        self.status = find_object(obj, "status")
        self.desired = desired


class PodGroupProgress(NamedTuple):
    """The queue and phase of a group, the number of its members by status (``counts``), and the number of members of
    each role that count towards the minimum (``roles``)."""

    queue: str
    phase: str
    counts: TaskCounts
    roles: Mapping[str, int]


class StatusReporter:
    """``schedulers``: the scheduler names of this installation; groups of other schedulers' pods are not reported.
    ``creates_groups``: whether pods without a PodGroup get one of their own, as in Volcano."""

    def __init__(self, source: QueueStatusSource, schedulers: Collection[str], *, creates_groups: bool = False) -> None:
        self._source = source
        self._reports_empty_groups = _VOLCANO in schedulers
        self._queues: dict[str, _Queue] = {}
        self._children: dict[str, set[str]] = {}
        self._counters = PodGroupCounters(schedulers, source.queue_of, generates_groups=creates_groups)
        self._throttle = StatusThrottle(INTERVALS_S)
        self._to_create: DeadlineHeap[GroupKey] = DeadlineHeap()
        self._is_synced = False

    # Events from the API

    def queue_applied(self, obj: JSONObject, now_s: float) -> None:
        name = str(find_object(obj, "metadata").get("name") or "")
        before = self._queues.get(name)
        queue = self._queues[name] = _Queue(obj, queue_state.read_desired_state(name, obj))
        if before is None or before.desired.parent != queue.desired.parent:
            if before is not None:
                self._children[before.desired.parent].discard(name)
            self._children.setdefault(queue.desired.parent, set()).add(name)
        if before is not None and before.uid != queue.uid:
            self._throttle.forget((QUEUES.plural, "", name))
        is_new = before is None or before.desired != queue.desired
        self._mark_queue(name, now_s, urgent=is_new or (before is not None and before.spec != queue.spec))
        if is_new:
            for below in self._descendants(name):
                self._mark_queue(below, now_s, urgent=True)

    def queue_removed(self, name: str, now_s: float) -> None:
        queue = self._queues.pop(name, None)
        if queue is None:
            return
        self._children[queue.desired.parent].discard(name)
        self._throttle.forget((QUEUES.plural, "", name))
        for below in self._descendants(name):
            self._mark_queue(below, now_s, urgent=True)
        self._create_builtin_queues(now_s)

    def group_applied(self, obj: JSONObject, now_s: float) -> None:
        for replaced in self._counters.apply_group(obj):
            self._throttle.forget((POD_GROUPS.plural, *replaced))
        self._mark_touched(now_s)

    def group_removed(self, namespace: str, name: str, now_s: float) -> None:
        self._counters.remove_group((namespace, name))
        self._throttle.forget((POD_GROUPS.plural, namespace, name))
        self._mark_touched(now_s)

    def pod_applied(self, obj: JSONObject, now_s: float) -> None:
        """Apply a pod, live or terminal. The queue engine must have received it before."""
        self._counters.apply_pod(obj)
        self._mark_touched(now_s)

    def pod_removed(self, uid: str, now_s: float, *, from_terminal_watch: bool = False) -> None:
        """A watch reported the pod as deleted: the watch of live pods, or a watch of terminal pods. A pod that becomes
        terminal is deleted from the first and appears in the second."""
        self._counters.remove_pod(uid, from_terminal_watch=from_terminal_watch)
        self._mark_touched(now_s)

    def synced(self, now_s: float) -> None:
        """All existing objects were passed in."""
        self._is_synced = True
        self._counters.recount_single_pods()
        for key in self._counters.groups():
            self._progress_of(key, now_s)  # before any queue: a queue's status counts its groups
        self._mark_touched(now_s)
        self._create_builtin_queues(now_s)

    # Writes

    def due_patches(self, now_s: float, now: str, max_patches: int) -> list[StatusPatch | CreateMissingObject]:
        """The writes to send now, at most ``max_patches``. ``now``: the current time as an API timestamp, for
        conditions."""
        for uid in self._source.pods_with_new_queue():
            self._counters.queue_changed(uid)
        for name in self._source.changed_queues():
            self._mark_queue(name, now_s)
        for group_key in self._source.enqueued_groups():
            self._mark_group(group_key, now_s)
        self._mark_touched(now_s)
        if not self._is_synced:
            return []
        found: list[StatusPatch | CreateMissingObject] = [*self._create_missing(now_s, max_patches)]
        while len(found) < max_patches and (key := self._throttle.take(now_s)) is not None:
            report = self._group_report(key, now_s, now) if key[1] else self._queue_report(key[2], now_s, now)
            if report is not None:
                found.append(report)
        return found

    def patch_finished(self, report: StatusPatch, status: JSONObject | None, now_s: float) -> None:
        """The patch was sent. ``status``: the status on the server after it; None if the write failed, or its outcome
        is unknown, and it should be retried."""
        target = self._target_of(report)
        if target is None:
            return
        observed = None
        if status is not None:
            target.status = status
            observed = _comparable(status_fields.fields_of_desired(status, report.desired))
        self._throttle.write_finished(report.key, _comparable(report.desired), observed, now_s)

    def patch_rejected(self, report: StatusPatch, now_s: float) -> None:
        """The server refused the patch permanently: it is not sent again until the desired status changes."""
        target = self._target_of(report)
        if target is not None:
            observed = _comparable(status_fields.fields_of_desired(target.status, report.desired))
            self._throttle.write_finished(report.key, _comparable(report.desired), observed, now_s)

    def _target_of(self, report: StatusPatch) -> _Queue | ObservedPodGroup | None:
        """The object of the patch; None if it was replaced by another object of the same name."""
        queue = self._queues.get(report.name) if report.resource == QUEUES else None
        target = queue or self._counters.get((report.namespace, report.name))
        return target if target is not None and target.uid == report.uid else None

    def next_deadline_s(self) -> float | None:
        deadlines_s = (self._to_create.next_deadline_s(), self._throttle.next_deadline_s())
        return min((each for each in deadlines_s if each is not None), default=None) if self._is_synced else None

    # Queues

    def _queue_report(self, name: str, now_s: float, now: str) -> StatusPatch | None:
        queue = self._queues.get(name)
        if queue is None:
            return None
        closing_queue = queue_state.closed_by(
            name, lambda each: None if each not in self._queues else self._queues[each].desired
        )
        usage = self._source.usage(name)
        desired = status_fields.queue_status(
            queue.status,
            state=queue_state.state_of(closing_queue, self._group_count(name) if closing_queue else 0),
            phases=self._counters.phases(name),
            allocated=usage.allocated,
            reserved=usage.reserved,
            terminating=usage.terminating,
            conditions=(
                queue_state.condition_of(name, closing_queue),
                status_fields.validity_condition(self._source.problems().get(f"queue/{name}", "")),
                status_fields.capability_condition(usage.allocated, self._source.limits(name).capability),
                unsupported.queue_condition(queue.spec),
            ),
            now=now,
        )
        return self._status_patch(QUEUES, "", name, queue.uid, queue.status, desired, now_s)

    def _group_count(self, name: str) -> int:
        """The number of groups, and of pods without a group, in this queue and below it."""
        return sum(sum(self._counters.phases(each).values()) for each in (name, *self._descendants(name)))

    def _descendants(self, name: str) -> list[str]:
        """All queues below this one."""
        found: dict[str, None] = {}
        queue_names = [name]
        while queue_names:
            for child in sorted(self._children.get(queue_names.pop(), ())):
                if child not in found and child != name:
                    found[child] = None
                    queue_names.append(child)
        return list(found)

    def _mark_queue(self, name: str, now_s: float, *, urgent: bool = False) -> None:
        """The status of the queue may have changed. ``urgent``: do not wait for the write interval."""
        if name in self._queues:
            self._throttle.mark((QUEUES.plural, "", name), now_s, BATCH_DELAY_S, urgent=urgent)

    def _create_builtin_queues(self, now_s: float) -> None:
        if self._is_synced:
            for name in _BUILTIN_QUEUES_BY_NAME:
                if name not in self._queues and ("", name) not in self._to_create:
                    self._to_create.put(("", name), now_s)

    def _create_missing(self, now_s: float, max_patches: int) -> Iterable[CreateMissingObject]:
        """The missing objects to create now; an object that the watch does not show after a time is created again."""
        for _ in range(max_patches):
            key = next(self._to_create.due(now_s), None)
            if key is None:
                return
            created = self._missing_object(key)
            if created is not None:
                self._to_create.put(key, now_s + _CREATE_RETRY_S)
                yield created

    def _missing_object(self, key: GroupKey) -> CreateMissingObject | None:
        if not key[0]:
            return None if key[1] in self._queues else CreateMissingObject(QUEUES, _BUILTIN_QUEUES_BY_NAME[key[1]])
        pod = self._counters.pod_without_group(key)
        if pod is None:
            return None
        return CreateMissingObject(
            POD_GROUPS, group_of_one(pod.namespace, pod.name, pod.uid, self._source.queue_of(pod.uid) or DEFAULT)
        )

    # Groups

    def _progress_of(self, key: GroupKey, now_s: float) -> tuple[ObservedPodGroup, PodGroup, PodGroupProgress] | None:
        """Compute the progress of the group and count its phase in its queue. None if this reporter does not report
        the group."""
        found = self._counters.get(key)
        if found is None or found.group is None:
            return None
        group, seen = found.group, str(found.status.get("phase") or "")
        queue = group.queue or self._counters.queue_of_members(found) or DEFAULT
        if not found.members and not self._reports_empty_groups:
            self._set_phase(found, (queue, seen if seen in PHASES else PENDING), now_s)
            return None
        counts, roles = count_members(found.members.values())
        is_enqueued = self._source.is_inqueue(*key)
        if key[1] in map(generated_name, found.members):
            is_enqueued = any(each.is_admitted for each in found.members.values())
        phase = phase_of(seen, group.min_member, counts, is_enqueued=is_enqueued)
        self._set_phase(found, (queue, phase), now_s)
        return found, group, PodGroupProgress(queue, phase, counts, roles)

    def _group_report(self, key: Key, now_s: float, now: str) -> StatusPatch | None:
        progress = self._progress_of(key[1:], now_s)
        if progress is None:
            return None
        found, group, (queue, phase, counts, roles) = progress
        refusal = self._source.refusal(queue) if phase == PENDING else None
        pending = [each for each in found.members.values() if each.status is TaskStatus.PENDING]
        conditions = conditions_of(
            group.min_member,
            group.min_task_member,
            counts,
            roles,
            problem=self._source.problems().get(f"podgroup/{key[1]}/{key[2]}", ""),
            refusal=None if refusal is None else (str(refusal.why.value), refusal.message),
            waits_for=queue if pending and all(each.waits_for_queue for each in pending) else "",
        )
        desired = status_fields.group_status(
            found.status,
            phase=phase,
            running=counts.of(TaskStatus.RUNNING),
            succeeded=counts.of(TaskStatus.SUCCEEDED),
            failed=counts.of(TaskStatus.FAILED),
            conditions=(*conditions, unsupported.group_condition(found.spec)),
            now=now,
        )
        return self._status_patch(POD_GROUPS, key[1], key[2], found.uid, found.status, desired, now_s)

    def _set_phase(self, found: ObservedPodGroup, queue_phase: QueuePhase, now_s: float) -> None:
        self._counters.set_phase(found, queue_phase)
        self._mark_touched(now_s)

    def _mark_group(self, key: GroupKey, now_s: float) -> None:
        if self._counters.get(key) is not None:
            self._throttle.mark((POD_GROUPS.plural, *key), now_s, BATCH_DELAY_S)

    def _mark_touched(self, now_s: float) -> None:
        """Take the groups and queues that the counters have collected, and mark them for a new status."""
        counters = self._counters
        groups, counters.touched_groups = counters.touched_groups, {}
        queues, counters.touched_queues = counters.touched_queues, {}
        missing, counters.missing_groups = counters.missing_groups, {}
        for key in groups:
            self._mark_group(key, now_s)
        for name in queues:
            self._mark_upwards(name, now_s)
        for key in missing:
            if key not in self._to_create:
                self._to_create.put(key, now_s)

    def _mark_upwards(self, name: str, now_s: float) -> None:
        """Mark the queue, and those of its ancestors that are Closing, which become Closed when they are empty."""
        self._mark_queue(name, now_s)
        seen = {name}
        while (queue := self._queues.get(name)) is not None and queue.desired.parent not in seen:
            name = queue.desired.parent
            seen.add(name)
            if name in self._queues and self._queues[name].status.get("state") == queue_state.CLOSING:
                self._mark_queue(name, now_s)

    def _status_patch(
        self,
        resource: APIResource,
        namespace: str,
        name: str,
        uid: str,
        status: JSONObject,
        desired: Object,
        now_s: float,
    ) -> StatusPatch | None:
        """The write of the desired status; ``None`` if the status is up to date or was written too recently."""
        seen, key = _comparable(status_fields.fields_of_desired(status, desired)), (resource.plural, namespace, name)
        if not self._throttle.should_write(key, seen, _comparable(desired), now_s):
            return None
        return StatusPatch(resource, namespace, name, uid, status_fields.patch_of(status, desired), desired)


def _comparable(status: JSONObject) -> Object:
    """The status without the times of conditions: a different time alone is not written."""
    found = dict(status)
    conditions = found.get("conditions")
    if isinstance(conditions, list):
        found["conditions"] = [
            {name: value for name, value in each.items() if name not in _CONDITION_TIMES and value}
            for each in conditions
        ]
    return found
