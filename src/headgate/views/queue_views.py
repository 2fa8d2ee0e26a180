"""The queues of Volcano's kind: rows of the tree, and what is wrong with them.

The queue engine is the scheduler's; it receives all objects and never admits a pod here, as for ``headgate explain``
(``runtime/inspection/queues.py``). It says which queues changed, so a change of a pod costs the path of its queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.queue import Queue, read_queue
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.engine import QueueEngine, QueueLimits, QueueUsage
from headgate.capacity.names import GATE, QUEUES, STAMP
from headgate.kube.api_resources import APIResource
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.kube.resource_amounts import amount_text
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.gates.capacity_objects import (
    CapacityObjectHandler,
    asks_in_spite_of_lapse,
    counts_in_queue,
    leaves_capacity,
    task_of,
)
from headgate.views.rows import ProblemRow, QueueResource, QueueRow, Topic
from headgate.views.viewed_pod import ViewedPod
from headgate.waiting.heap import DeadlineHeap

Object = dict[str, Any]
Named = tuple[str, str]
"""A queue and a namespace whose waiting pods name it."""


class QueueViews:
    """``served``: the ``schedulerName`` values whose pods are in queues. ``gated``: the names of other schedulers, for
    which the component ``gates`` removes gates."""

    def __init__(self, served: frozenset[str], gated: frozenset[str], settings: SchedulerConf = DEFAULTS) -> None:
        # A pod that records a lapse waits for its back-off, which only the engine with leases knows.
        self.engine: Final = QueueEngine(msgspec.structs.replace(settings, has_leases=True))
        self.specs: Final[dict[str, Queue]] = {}
        self._served: Final = served
        self._gated: Final = gated
        self._objects: Final = CapacityObjectHandler(self.engine)
        self._leaving: Final[DeadlineHeap[str]] = DeadlineHeap()  # pods that terminate on their nodes
        self._queues: Final[dict[str, str]] = {}  # of waiting pods, by uid
        self._namespaces: Final[dict[str, str]] = {}  # of the same pods
        self._named: Final[Counter[Named]] = Counter()
        self._dirty: Final[dict[str, None]] = {}
        self._dirty_named: Final[dict[Named, None]] = {}
        self._dirty_pods: Final[dict[str, None]] = {}
        self._problems: dict[str, str] = {}

    def applied(self, resource: APIResource, obj: Object) -> None:
        """A Queue, a PodGroup or a namespace."""
        self._objects.applied(resource, obj)
        if resource == QUEUES:
            queue = read_queue(obj)
            if self.specs.get(queue.name) != queue:  # the status, which changes often, is not in it
                self.specs[queue.name] = queue
                self._queues_changed(queue.name)

    def removed(self, resource: APIResource, namespace: str, name: str) -> None:
        self._objects.removed(resource, namespace, name)
        if resource == QUEUES and self.specs.pop(name, None) is not None:
            self._queues_changed(name)

    def _queues_changed(self, name: str) -> None:
        """The state of a queue decides about all queues below it, so the problems of all named queues are found
        again: queues change rarely."""
        self._dirty[name] = None
        self._dirty.update(dict.fromkeys(self.specs))
        self._dirty_named.update(dict.fromkeys(self._named))

    def pod_applied(self, pod: PodInfo) -> None:
        if not self.counts(pod) or (pod.terminal and not task_of(pod).group):
            self.pod_removed(pod.uid)
            return
        self.engine.task_applied(task_of(pod))
        if asks_in_spite_of_lapse(pod):
            self.engine.end_backoff(pod.uid)
        is_of_other = pod.scheduler_name not in self._served
        if is_of_other and pod.annotations.get(STAMP):
            self.engine.commit(pod.uid)  # as the component ``gates`` does: its scheduler may bind the pod at any time
        if is_of_other and leaves_capacity(pod):
            self.engine.set_leaving(pod.uid, leaving=True)
            self._leaving.put(pod.uid, (pod.gone_by_s or 0.0) + OVERDUE_AFTER_S)
        self._dirty_pods[pod.uid] = None

    def counts(self, pod: PodInfo) -> bool:
        """Whether the pod is in queues."""
        if pod.scheduler_name in self._served:
            return True
        if pod.scheduler_name in self._gated:
            return counts_in_queue(pod)
        return GATE in pod.gates or bool(pod.annotations.get(STAMP))  # as for headgate explain: Headgate gated it

    def pod_removed(self, uid: str) -> None:
        self.engine.task_removed(uid)
        self._leaving.discard(uid)
        self._dirty_pods[uid] = None

    def changed_pods(self, now_s: float, pods: Mapping[str, ViewedPod]) -> list[str]:
        """The pods whose queue changed. Also applies what is due at this time."""
        for uid in self._leaving.due(now_s):
            self.engine.set_leaving(uid, leaving=False)
        self.engine.update_leases(0.0, now_s)
        self.engine.set_time_of_day(now_s)
        self._dirty_pods.update(dict.fromkeys(self.engine.pods_with_new_queue()))
        found = list(self._dirty_pods)
        self._dirty_pods.clear()
        for uid in found:
            self._name_queue(uid, pods.get(uid))
        return found

    def _name_queue(self, uid: str, pod: ViewedPod | None) -> None:
        queue = self.engine.queue_of(uid) if pod is not None and pod.waits else ""
        before = self._queues.pop(uid, "")
        if before:
            self._count((before, self._namespaces.pop(uid)), -1)
        if queue and pod is not None:
            self._queues[uid], self._namespaces[uid] = queue, pod.namespace
            self._count((queue, pod.namespace), +1)

    def _count(self, named: Named, sign: int) -> None:
        self._named[named] += sign
        if not self._named[named]:
            del self._named[named]
        self._dirty_named[named] = None

    def flush(self) -> Iterator[tuple[str, QueueRow | None]]:
        """The rows that changed since the last call. Called after :meth:`changed_pods`."""
        self._dirty.update(dict.fromkeys(self.engine.changed_queues()))
        changed = list(self._dirty)
        self._dirty.clear()
        for name in changed:
            spec = self.specs.get(name)
            yield name, None if spec is None else self._row(spec)

    def _row(self, spec: Queue) -> QueueRow:
        usage, limits = self.engine.usage(spec.name), self.engine.limits(spec.name)
        refusal = self.engine.refusal(spec.name)
        is_leaf_refusal = refusal is not None and refusal.why.name != "NOT_LEAF"
        names = sorted(
            {
                *usage.allocated,
                *usage.reserved,
                *usage.waiting_amounts,
                *usage.terminating,
                *limits.capability,
                *limits.deserved,
                *limits.guarantee,
            }
        )
        resources = [_resource(name, usage, limits) for name in names]
        return QueueRow(
            spec.name,
            spec.parent,
            spec.state,
            spec.priority,
            spec.weight,
            round(usage.share, 4),
            usage.waiting,
            refusal.message if refusal is not None and is_leaf_refusal else "",
            tuple(each for each in resources if each is not None),
        )

    def flush_problems(self) -> Iterator[tuple[str, ProblemRow | None]]:
        for queue, namespace in list(self._dirty_named):
            yield f"named {queue} {namespace}", self._named_problem(queue, namespace)
        self._dirty_named.clear()
        found = {**self.engine.problems(), **{f"queue/{k}": v.ignored for k, v in self.specs.items() if v.ignored}}
        for key in {**self._problems, **found}:
            if self._problems.get(key) != found.get(key):
                yield f"object {key}", _object_problem(key, found[key]) if key in found else None
        self._problems = found

    def _named_problem(self, queue: str, namespace: str) -> ProblemRow | None:
        count, refusal = self._named.get((queue, namespace), 0), self.engine.refusal(queue)
        if not count or refusal is None:
            return None
        pods = f"{count} waiting {'pod names' if count == 1 else 'pods name'} it"
        fix = "create the queue, open it, or name another one"
        key = f"named {queue} {namespace}"
        return ProblemRow(
            key, "error", refusal.why.value, f"queue/{queue}", f"{refusal.message}; {pods}", namespace, fix, "waiting"
        )


def _resource(name: str, usage: QueueUsage, limits: QueueLimits) -> QueueResource | None:
    used, reserved = usage.allocated.get(name, 0), usage.reserved.get(name, 0)
    limit, waiting = limits.capability.get(name), usage.waiting_amounts.get(name, 0)
    deserved, guarantee = limits.deserved.get(name, 0), limits.guarantee.get(name, 0)
    terminating = usage.terminating.get(name, 0)
    if limit is None and not (used or reserved or waiting or deserved or guarantee or terminating):
        return None

    def text(amount: int) -> str:
        return amount_text(name, amount)

    parts = [f"{text(used)} of {text(limit)} used" if limit is not None else f"{text(used)} used, no limit"]
    parts += [f"{text(reserved)} reserved"] if reserved else []
    parts += [f"{text(waiting)} waiting"] if waiting else []
    parts += [f"{text(terminating)} terminating"] if terminating else []
    parts += [f"deserves {text(deserved)}"] if deserved else []
    return QueueResource(name, used, reserved, limit, deserved, guarantee, waiting, terminating, ", ".join(parts))


def _object_problem(key: str, text: str) -> ProblemRow:
    kind, _, rest = key.partition("/")
    namespace, _, name = rest.rpartition("/")
    fix = f"correct it: kubectl edit {kind} {name}" + (f" -n {namespace}" if namespace else "")
    topic: Topic = "waiting" if namespace else "queues"
    return ProblemRow(f"object {key}", "error", "InvalidObject", key, text, namespace, fix, topic)
