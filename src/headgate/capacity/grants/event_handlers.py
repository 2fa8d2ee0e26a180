"""Event handlers: apply queues, groups, namespaces and pods from the API to the queue cache. They never raise.

An unchanged object costs nothing. The group and the queue of a pod are found again at every event of the pod, because
annotations may change; only a promise fixes the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.queue import Queue, read_queue
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.gang import Gang, PodGroup, read_group
from headgate.capacity.cache.pod_record import PodRecord
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import DEFAULT, QUEUE_NAME
from headgate.kube.lenient_reader import find_object, find_text

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""

_DEFAULT_QUEUE: Final[JSONObject] = {"metadata": {"name": DEFAULT}}
"""The default queue counts as existing, open and unlimited until its object is created: pods without a queue use it."""


class QueueEventHandlers:
    """``problems``: the problem texts of all invalid objects, by ``queue/NAME`` or ``podgroup/NAMESPACE/NAME``."""

    def __init__(self, cache: QueueCache) -> None:
        self._cache = cache
        self.problems: dict[str, str] = {}
        self.apply_queue(_DEFAULT_QUEUE)

    def apply_queue(self, obj: JSONObject) -> None:
        self.replace_queue(read_queue(obj))

    def replace_queue(self, queue: Queue) -> None:
        if queue.name:
            self._queues_changed(self._cache.tree.apply(queue))

    def remove_queue(self, name: str) -> None:
        self._queues_changed(self._cache.tree.remove(name))
        if name == DEFAULT:
            self.apply_queue(_DEFAULT_QUEUE)

    def _queues_changed(self, names: list[str]) -> None:
        cache = self._cache
        for name in names:
            tree_queue = cache.tree.queues.get(name)
            cache.ledger.set_path(name, cache.tree.path(name))
            cache.run_times.set_path(name, cache.tree.path(name))
            cache.windows.timeouts.queue_changed(name)
            cache.queue_applied(name)
            cache.mark_gangs_in(name)
            if cache.conf.has_leases:
                cache.lease_changes.update(dict.fromkeys(cache.promises.uids(name)))
            self._set_problem(
                f"queue/{name}", "" if tree_queue is None or tree_queue.queue is None else tree_queue.problem
            )

    def apply_group(self, obj: JSONObject) -> None:
        group = read_group(obj)
        if not group.name:
            return
        # A field that is not supported has a condition of its own (``capacity/kinds/unsupported.py``).
        problem = group.problem if group.is_supported else ""
        self._set_problem(f"podgroup/{group.namespace}/{group.name}", problem)
        gang = self._cache.gang(group.namespace, group.name)
        if gang.spec != group:
            self._set_spec(gang, group)

    def remove_group(self, namespace: str, name: str) -> None:
        self._set_problem(f"podgroup/{namespace}/{name}", "")
        gang = self._cache.gangs.get((namespace, name))
        if gang is not None and gang.spec is not None:
            self._set_spec(gang, None)
            gang.enqueued_by_engine = False
            self._cache.forget_if_empty(gang)

    def _set_spec(self, gang: Gang, group: PodGroup | None) -> None:
        cache, before = self._cache, gang.spec
        gang.spec = group
        cache.mark_gang_changed(gang)
        if before is None or group is None or msgspec.structs.replace(before, phase=group.phase) != group:
            cache.changed_groups[gang.key] = None

    def apply_namespace(self, obj: JSONObject) -> None:
        metadata = find_object(obj, "metadata")
        self._set_namespace_queue(str(metadata.get("name") or ""), find_text(metadata, "annotations", QUEUE_NAME))

    def remove_namespace(self, name: str) -> None:
        self._set_namespace_queue(name, "")

    def _set_namespace_queue(self, namespace: str, queue: str) -> None:
        """Pods and groups of the namespace that name no queue inherit the queue of the namespace."""
        cache = self._cache
        if cache.namespaces.get(namespace, "") == queue:
            return
        if queue:
            cache.namespaces[namespace] = queue
        else:
            del cache.namespaces[namespace]
        for unit in list(cache.inheriting_units.get(namespace, ())):
            if isinstance(unit, str):
                record = cache.records[unit]
                cache.remove_from_counts(record)
                cache.add_to_counts(record)
            else:
                cache.mark_gang_changed(cache.gangs[unit])

    def apply_task(self, task: TaskInfo) -> None:
        cache = self._cache
        record = cache.records.get(task.uid)
        if record is None:
            record = cache.records[task.uid] = PodRecord(task)
            record.update(task)
            self._join_gang(record)
            cache.observe_lapse(record)
            cache.add_to_counts(record)
        elif record.task != task:
            if record.task.requests != task.requests:
                cache.changed_pods[task.uid] = None
            cache.remove_from_counts(record)
            record.update(task)
            left_gang = self._update_gang(record)
            cache.observe_lapse(record)
            cache.add_to_counts(record)
            if left_gang is not None:
                cache.forget_if_empty(left_gang)

    def _join_gang(self, record: PodRecord) -> None:
        task = record.task
        if task.group:
            record.gang = self._cache.gang(task.namespace, task.group)
            record.gang.members[task.uid] = record
            if record.is_bound:
                self._cache.changed_groups[record.gang.key] = None

    def _update_gang(self, record: PodRecord) -> Gang | None:
        """Move the pod to the group that it names now. Returns the gang that it left, if any."""
        task, left_gang = record.task, record.gang
        if task.group == ("" if left_gang is None else left_gang.key[1]):
            return None
        if left_gang is not None:
            del left_gang.members[task.uid]
            record.gang = None
            self._cache.changed_groups[left_gang.key] = None
        self._join_gang(record)
        if record.gang is not None:
            self._cache.changed_groups[record.gang.key] = None
        self._cache.changed_pods[task.uid] = None
        return left_gang

    def remove_task(self, uid: str) -> None:
        cache = self._cache
        record = cache.records.get(uid)
        if record is None:
            return
        cache.remove_from_counts(record)
        del cache.records[uid]
        if cache.admission is not None:
            cache.admission.pod_removed(uid)
        cache.pods_to_retry.pop(uid, None)
        cache.changed_pods.pop(uid, None)
        cache.pods_with_new_queue.pop(uid, None)
        cache.revoked_pods.pop(uid, None)
        cache.promises_to_end.pop(uid, None)
        if cache.conf.has_leases:
            cache.lease_changes[uid] = None
        cache.stop_inheriting(record.task)
        for granted_pods in cache.granted_pod_queues:
            granted_pods.discard(uid)
        if record.gang is not None:
            del record.gang.members[uid]
            cache.forget_if_empty(record.gang)

    def _set_problem(self, key: str, problem: str) -> None:
        if problem:
            self.problems[key] = problem
        else:
            self.problems.pop(key, None)
