"""Explains the object of a row: a unit that waits, or a queue, with the engines of the views.

The texts are made by the functions of ``headgate explain``, which the command passes: see :class:`DetailTexts`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from headgate.capacity.explanation import PodExplanation
from headgate.capacity.queue_explanation import QueueExplanation, explain_queue, known_queue
from headgate.dashboard.io.details import read_detail, read_object
from headgate.dashboard.io.feed import ViewsFeed
from headgate.kube.timestamps import human_age, parse_time
from headgate.quota.explain.description import WorkloadDescription
from headgate.quota.explain.queue_explanation import (
    QuotaQueueExplanation,
    explain_cluster_queue,
    explain_local_queue,
)
from headgate.quota.kinds.names import WORKLOADS
from headgate.terminal.top_screen import Target
from headgate.views.explanations import HistoryStep, UnitDetail
from headgate.views.waiting_pages import WaitingQuery


class DetailTexts(msgspec.Struct, frozen=True):
    """How explanations become lines; the second argument is the time."""

    pod: Callable[[PodExplanation, float], Iterable[str]]
    workload: Callable[[WorkloadDescription, float], Iterable[str]]
    queue: Callable[[QueueExplanation], Iterable[str]]
    quota: Callable[[QuotaQueueExplanation, float], Iterable[str]]


class DetailReader:
    def __init__(self, feed: ViewsFeed, texts: DetailTexts) -> None:
        self._feed: Final = feed
        self._texts: Final = texts

    async def read(self, target: Target) -> list[str]:
        """The lines about an object."""
        if target.kind == "queue":
            return list(self._queue_lines(target.name))
        if target.kind in ("clusterqueue", "localqueue"):
            return await self._quota_lines(target)
        found = await read_detail(self._feed, target.kind, target.namespace, target.name)
        name = f"{target.kind.removesuffix('s')} {target.namespace}/{target.name}"
        if found is None:
            return [f"{name} is gone, or cannot be read"]
        return list(self._unit_lines(found))

    def _unit_lines(self, detail: UnitDetail) -> Iterator[str]:
        now_s = time.time()
        if detail.pod is not None:
            yield from self._texts.pod(detail.pod, now_s)
        for each in detail.workloads:
            yield from self._texts.workload(each, now_s)
        yield ""
        yield "history"
        yield from history_lines(detail.history, now_s)
        yield ""
        yield "commands"
        yield from (f"  {each}" for each in detail.commands)

    def _queue_lines(self, name: str) -> Iterator[str]:
        queues = self._feed.views.queues
        if name not in queues.specs or not known_queue(queues.engine, name):
            yield f"queue {name} is gone"
            return
        yield from self._texts.queue(explain_queue(queues.engine, name, queues.specs[name].state))
        yield ""
        yield f"l lists its line; headgate explain queue {name} says the same"

    async def _quota_lines(self, target: Target) -> list[str]:
        engine, workloads = self._feed.views.quota.engine, await self._first_workload(target)
        if target.kind == "clusterqueue":
            found = explain_cluster_queue(engine, target.name, workloads, time.time())
        else:
            found = explain_local_queue(engine, f"{target.namespace}/{target.name}", workloads, time.time())
        if found is None:
            return [f"{target.kind} {target.name} is gone"]
        where = f" -n {target.namespace}" if target.namespace else ""
        same = f"headgate explain {target.kind} {target.name}{where} says the same"
        return [*self._texts.quota(found, time.time()), "", same]

    async def _first_workload(self, target: Target) -> dict[str, Any]:
        """The object of the first Workload in line, which the explanation describes."""
        engine = self._feed.views.quota.engine
        queue = target.name
        if target.kind == "localqueue":
            local = engine.cache.local_queues.get(f"{target.namespace}/{target.name}")
            queue = "" if local is None else local.cluster_queue
        query = WaitingQuery(queue=queue, kind="ClusterQueue", state="pending", limit=1)
        if target.kind == "localqueue":
            query = msgspec.structs.replace(query, namespace=target.namespace, limit=50)
        for entry in self._feed.pages.page(query).entries:
            row = entry.row
            if target.kind == "clusterqueue" or row.local_queue == target.name:
                obj = await read_object(self._feed, WORKLOADS, row.namespace, row.name)
                return {} if obj is None else {f"{row.namespace}/{row.name}": obj}
        return {}


def history_lines(history: Iterable[HistoryStep], now_s: float) -> Iterator[str]:
    for step in history:
        at_s = parse_time(step.at)
        ago = "" if isinstance(at_s, str) else f" ({human_age(now_s - float(at_s))} ago)"
        yield f"  {step.at or '-'}{ago}  {step.name}" + (f": {step.note}" if step.note else "")
