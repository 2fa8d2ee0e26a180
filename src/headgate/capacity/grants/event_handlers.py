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

Wire = Mapping[str, Any]

_IMPLIED: Final[Wire] = {"metadata": {"name": DEFAULT}}
"""The default queue is there, open and unlimited, even before anybody made it: pods that name no queue need one."""


class QueueEventHandlers:
    def __init__(self, book: QueueCache) -> None:
        self._book = book
        self.problems: dict[str, str] = {}
        self.apply_queue(_IMPLIED)

    def apply_queue(self, wire: Wire) -> None:
        self.replace_queue(read_queue(wire))

    def replace_queue(self, queue: Queue) -> None:
        if queue.name:
            self._replant(self._book.tree.apply(queue))

    def remove_queue(self, name: str) -> None:
        self._replant(self._book.tree.remove(name))
        if name == DEFAULT:
            self.apply_queue(_IMPLIED)

    def _replant(self, names: list[str]) -> None:
        book = self._book
        for name in names:
            branch = book.tree.nodes.get(name)
            book.ledger.move(name, book.tree.path(name))
            book.mark_queue_changed(name)
            book.mark_gangs_in(name)
            self._note(f"queue/{name}", "" if branch is None or branch.queue is None else branch.problem)

    def apply_group(self, wire: Wire) -> None:
        group = read_group(wire)
        if not group.name:
            return
        self._note(f"podgroup/{group.namespace}/{group.name}", group.problem)
        gang = self._book.gang(group.namespace, group.name)
        if gang.spec != group:
            self._respecify(gang, group)

    def remove_group(self, namespace: str, name: str) -> None:
        self._note(f"podgroup/{namespace}/{name}", "")
        gang = self._book.gangs.get((namespace, name))
        if gang is not None and gang.spec is not None:
            self._respecify(gang, None)
            gang.enqueued_by_us = False
            self._book.forget_if_empty(gang)

    def _respecify(self, gang: Gang, group: PodGroup | None) -> None:
        book, before = self._book, gang.spec
        gang.spec = group
        book.mark_gang_changed(gang)
        if before is None or group is None or msgspec.structs.replace(before, phase=group.phase) != group:
            book.changed_groups[gang.key] = None

    def apply_namespace(self, wire: Wire) -> None:
        metadata = wire.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        annotations = metadata.get("annotations")
        named = annotations.get(QUEUE_NAME) if isinstance(annotations, Mapping) else None
        name = str(metadata.get("name") or "")
        self._name_queue(name, named if isinstance(named, str) else "")

    def remove_namespace(self, name: str) -> None:
        self._name_queue(name, "")

    def _name_queue(self, namespace: str, queue: str) -> None:
        """Pods and groups there that name no queue themselves go to the one that the namespace names."""
        book = self._book
        if book.namespaces.get(namespace, "") == queue:
            return
        if queue:
            book.namespaces[namespace] = queue
        else:
            del book.namespaces[namespace]
        for unit in list(book.followers.get(namespace, ())):
            if isinstance(unit, str):
                record = book.records[unit]
                book.remove_from_counts(record)
                book.add_to_counts(record)
            else:
                book.mark_gang_changed(book.gangs[unit])

    def apply_task(self, task: TaskInfo) -> None:
        book = self._book
        record = book.records.get(task.uid)
        if record is None:
            record = book.records[task.uid] = PodRecord(task)
            record.update(task)
            self._join(record)
            book.add_to_counts(record)
        elif record.task != task:
            if record.task.requests != task.requests:
                book.regrouped[task.uid] = None
            book.remove_from_counts(record)
            record.update(task)
            left = self._rejoin(record)
            book.add_to_counts(record)
            if left is not None:
                book.forget_if_empty(left)

    def _join(self, record: PodRecord) -> None:
        task = record.task
        if task.group:
            record.gang = self._book.gang(task.namespace, task.group)
            record.gang.members[task.uid] = record
            if record.is_bound:
                self._book.changed_groups[record.gang.key] = None

    def _rejoin(self, record: PodRecord) -> Gang | None:
        """Follow what the pod says of its group now; the group that it left, if so."""
        task, left = record.task, record.gang
        if task.group == ("" if left is None else left.key[1]):
            return None
        if left is not None:
            del left.members[task.uid]
            record.gang = None
            self._book.changed_groups[left.key] = None
        self._join(record)
        if record.gang is not None:
            self._book.changed_groups[record.gang.key] = None
        self._book.regrouped[task.uid] = None
        return left

    def remove_task(self, uid: str) -> None:
        book = self._book
        record = book.records.get(uid)
        if record is None:
            return
        book.remove_from_counts(record)
        del book.records[uid]
        book.pods_to_retry.pop(uid, None)
        book.regrouped.pop(uid, None)
        book.moved.pop(uid, None)
        book.withdrawn.pop(uid, None)
        book.unfollow(record.task)
        for line in book.granted_pod_queues:
            line.discard(uid)
        if record.gang is not None:
            del record.gang.members[uid]
            book.forget_if_empty(record.gang)

    def _note(self, key: str, problem: str) -> None:
        if problem:
            self.problems[key] = problem
        else:
            self.problems.pop(key, None)
