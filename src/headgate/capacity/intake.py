"""What the API shows, brought into the book: queues, groups, namespaces, pods. Nothing here raises, whatever it shows.

What shows nothing new costs nothing. Everything that decides to which group and queue a pod belongs is heard with every
event, as if the pod were new; only a promise fixes the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.book import Book
from headgate.capacity.groups import Gang, PodGroup, read_group
from headgate.capacity.names import DEFAULT, QUEUE_NAME
from headgate.capacity.queue import Queue, read_queue
from headgate.capacity.record import Record
from headgate.capacity.task import Task

Wire = Mapping[str, Any]

_IMPLIED: Final[Wire] = {"metadata": {"name": DEFAULT}}
"""The default queue is there, open and unlimited, even before anybody made it: pods that name no queue need one."""


class Intake:
    def __init__(self, book: Book) -> None:
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
            branch = book.tree.branches.get(name)
            book.ledger.move(name, book.tree.path(name))
            book.touch(name)
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
            gang.let_in = False
            self._book.forget_if_empty(gang)

    def _respecify(self, gang: Gang, group: PodGroup | None) -> None:
        book, before = self._book, gang.spec
        gang.spec = group
        book.mark(gang)
        if before is None or group is None or msgspec.structs.replace(before, phase=group.phase) != group:
            book.respecified[gang.key] = None

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
                book.lift(record)
                book.settle(record)
            else:
                book.mark(book.gangs[unit])

    def apply_task(self, task: Task) -> None:
        book = self._book
        record = book.records.get(task.uid)
        if record is None:
            record = book.records[task.uid] = Record(task)
            record.hear(task)
            self._join(record)
            book.settle(record)
        elif record.task != task:
            if record.task.requests != task.requests:
                book.regrouped[task.uid] = None
            book.lift(record)
            record.hear(task)
            left = self._rejoin(record)
            book.settle(record)
            if left is not None:
                book.forget_if_empty(left)

    def _join(self, record: Record) -> None:
        task = record.task
        if task.group:
            record.gang = self._book.gang(task.namespace, task.group)
            record.gang.members[task.uid] = record
            if record.is_bound:
                self._book.respecified[record.gang.key] = None

    def _rejoin(self, record: Record) -> Gang | None:
        """Follow what the pod says of its group now; the group that it left, if so."""
        task, left = record.task, record.gang
        if task.group == ("" if left is None else left.key[1]):
            return None
        if left is not None:
            del left.members[task.uid]
            record.gang = None
            self._book.respecified[left.key] = None
        self._join(record)
        if record.gang is not None:
            self._book.respecified[record.gang.key] = None
        self._book.regrouped[task.uid] = None
        return left

    def remove_task(self, uid: str) -> None:
        book = self._book
        record = book.records.get(uid)
        if record is None:
            return
        book.lift(record)
        del book.records[uid]
        book.stirred.pop(uid, None)
        book.regrouped.pop(uid, None)
        book.moved.pop(uid, None)
        book.withdrawn.pop(uid, None)
        book.unfollow(record.task)
        for line in book.lines:
            line.discard(uid)
        if record.gang is not None:
            del record.gang.members[uid]
            book.forget_if_empty(record.gang)

    def _note(self, key: str, problem: str) -> None:
        if problem:
            self.problems[key] = problem
        else:
            self.problems.pop(key, None)
