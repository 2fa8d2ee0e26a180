"""Event handlers: apply queues, groups, namespaces and pods from the API to the queue cache. They never raise.

An unchanged object costs nothing. Every event re-evaluates the group and the queue of a pod as if the pod were new;
only a promise fixes the queue.
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

Wire = Mapping[str, Any]

_DEFAULT_QUEUE: Final[Wire] = {"metadata": {"name": DEFAULT}}
"""The default queue counts as existing, open and unlimited until its object is created: pods without a queue use it."""


class QueueEventHandlers:
    def __init__(self, cache: QueueCache) -> None:
        self._cache = cache
        self.problems: dict[str, str] = {}
        self.apply_queue(_DEFAULT_QUEUE)

    def apply_queue(self, wire: Wire) -> None:
        self.replace_queue(read_queue(wire))

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
            queue_node = cache.tree.nodes.get(name)
            cache.ledger.move(name, cache.tree.path(name))
            cache.mark_queue_changed(name)
            cache.mark_gangs_in(name)
            self._set_problem(
                f"queue/{name}", "" if queue_node is None or queue_node.queue is None else queue_node.problem
            )

    def apply_group(self, wire: Wire) -> None:
        group = read_group(wire)
        if not group.name:
            return
        self._set_problem(f"podgroup/{group.namespace}/{group.name}", group.problem)
        gang = self._cache.gang(group.namespace, group.name)
        if gang.spec != group:
            self._set_spec(gang, group)

    def remove_group(self, namespace: str, name: str) -> None:
        self._set_problem(f"podgroup/{namespace}/{name}", "")
        gang = self._cache.gangs.get((namespace, name))
        if gang is not None and gang.spec is not None:
            self._set_spec(gang, None)
            gang.enqueued_by_us = False
            self._cache.forget_if_empty(gang)

    def _set_spec(self, gang: Gang, group: PodGroup | None) -> None:
        cache, before = self._cache, gang.spec
        gang.spec = group
        cache.mark_gang_changed(gang)
        if before is None or group is None or msgspec.structs.replace(before, phase=group.phase) != group:
            cache.changed_groups[gang.key] = None

    def apply_namespace(self, wire: Wire) -> None:
        metadata = find_object(wire, "metadata")
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
            cache.add_to_counts(record)
        elif record.task != task:
            if record.task.requests != task.requests:
                cache.regrouped[task.uid] = None
            cache.remove_from_counts(record)
            record.update(task)
            left_gang = self._update_gang(record)
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
        self._cache.regrouped[task.uid] = None
        return left_gang

    def remove_task(self, uid: str) -> None:
        cache = self._cache
        record = cache.records.get(uid)
        if record is None:
            return
        cache.remove_from_counts(record)
        del cache.records[uid]
        cache.pods_to_retry.pop(uid, None)
        cache.regrouped.pop(uid, None)
        cache.pods_with_new_queue.pop(uid, None)
        cache.withdrawn.pop(uid, None)
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
