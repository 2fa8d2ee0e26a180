"""What the API shows, brought into the book: queues, groups, namespaces, pods. Nothing here raises, whatever it shows.

What shows nothing new costs nothing. A pod that waits goes where its annotation, or its namespace's, sends it; with the
first promise its queue is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.capacity.book import Book
from headgate.capacity.groups import Gang, PodGroup, read_group
from headgate.capacity.names import DEFAULT, QUEUE_NAME
from headgate.capacity.queue import read_queue
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
        queue = read_queue(wire)
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
        book = self._book
        was_there, gang.spec = gang.spec is not None, group
        if not gang.members:
            gang.queue = ""
            book.fix(gang)
        book.mark(gang)
        if was_there:
            return
        for record in list(gang.members.values()):
            if not record.queue:
                book.lift(record)
                book.settle(record)

    def apply_namespace(self, wire: Wire) -> None:
        metadata = wire.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        annotations = metadata.get("annotations")
        named = annotations.get(QUEUE_NAME) if isinstance(annotations, Mapping) else None
        name = str(metadata.get("name") or "")
        queue, before = named if isinstance(named, str) else "", self._book.namespaces.get(name)
        self._book.namespaces[name] = queue
        self._fix_all(name)
        if before is not None and before != queue:
            self._move_all(name)

    def _move_all(self, namespace: str) -> None:
        """Those who wait there and name no queue go to the one that the namespace names now. Seldom, so all are looked
        at."""
        for record in self._book.records.values():
            task = record.task
            if task.namespace == namespace and not task.queue and record.may_move:
                self._book.lift(record)
                record.queue = ""
                self._book.settle(record)

    def remove_namespace(self, name: str) -> None:
        self._book.namespaces.pop(name, None)

    def _fix_all(self, namespace: str) -> None:
        """Pods that were seen before their namespace was."""
        book = self._book
        for uid in sorted(book.unfixed.pop(namespace, ())):
            record = book.records.get(uid)
            if record is not None and not record.queue:
                book.lift(record)
                book.settle(record)

    def apply_task(self, task: Task) -> None:
        book = self._book
        record = book.records.get(task.uid)
        if record is None:
            record = book.records[task.uid] = Record(task)
            record.hear(task)
            self._join(record)
            book.settle(record)
        elif record.task != task:
            book.lift(record)
            record.hear(task)
            if record.may_move:
                record.queue = ""
            book.settle(record)

    def _join(self, record: Record) -> None:
        task = record.task
        if task.group:
            record.gang = self._book.gang(task.namespace, task.group)
            record.gang.members[task.uid] = record

    def remove_task(self, uid: str) -> None:
        book = self._book
        record = book.records.get(uid)
        if record is None:
            return
        book.lift(record)
        del book.records[uid]
        book.stirred.pop(uid, None)
        unfixed = book.unfixed.get(record.task.namespace)
        if unfixed is not None:
            unfixed.discard(uid)
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
