"""Sort keys of queues, jobs and pods: comparable tuples of API fields and usage, the least first.

Queues: priority, the smaller share of deserved, queues with a deserved amount, age, name; with ``proportion`` the share
is the usage per unit of weight, because the cluster's size may change. Jobs (a PodGroup, or a pod without one):
partially admitted ones, priority, gangs below their minimum, the smaller dominant share, age, name. Pods in a job:
priority, age, name. While grants are made, promised amounts count as used, otherwise one queue would be promised
everything; granted pods are ordered by what is *placed*, which changes with every pod that gets a node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.capacity.api.queue import Amounts
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.ledger import QueueAccount
from headgate.capacity.cache.queue_tree import QueueNode
from headgate.capacity.conf import DRF, GANG, PRIORITY, PROPORTION, SchedulerConf
from headgate.kube.resource_amounts import CPU, EPHEMERAL_STORAGE, MEMORY

Key = tuple[Any, ...]

_GI: Final = 1 << 30
_REFERENCE_AMOUNTS: Final = {CPU: 1000, MEMORY: 4 * _GI, EPHEMERAL_STORAGE: 32 * _GI}
"""The amounts that count as much as one device when a queue has no limits to compute a job's share from."""


def share_of(deserved: Amounts, used: Callable[[str], int]) -> float:
    """The largest ratio of used to deserved amounts; 1 for a queue without deserved amounts."""
    if not any(deserved.values()):
        return 1.0
    return max(_ratio(used(resource), amount) for resource, amount in deserved.items())


def _ratio(used: int, of: int) -> float:
    if of:
        return used / of
    return 1.0 if used else 0.0


class OrderingPolicy:
    """The sort keys, made from the plugins that are enabled for ordering, in their order."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._by_queue = bool(conf.order("queueOrder"))
        self.by_weight = PROPORTION in conf.order("queueOrder")
        self._by_priority = PRIORITY in conf.order("taskOrder")
        self._parts = tuple(_JOB_PARTS[name] for name in conf.order("jobOrder") if name in _JOB_PARTS)
        self.by_job_priority = PRIORITY in conf.order("jobOrder")
        self.is_atomic = conf.gang_atomic and GANG in conf.plugins
        self.enqueues = conf.enqueues

    def queue_key(self, queue_node: QueueNode, account: QueueAccount, *, placed: bool = False) -> Key:
        queue = queue_node.spec
        if not self._by_queue:
            return (0, 0.0, False, queue.created_s, queue_node.name)
        if self.by_weight:
            used = account.allocated if placed else account.all_used()
            share = dominant_share(used, {}) / max(queue.weight, 1)
            return (-queue.priority, share, False, queue.created_s, queue_node.name)
        share = share_of(queue_node.deserved, account.placed if placed else account.used)
        return (-queue.priority, share, not any(queue_node.deserved.values()), queue.created_s, queue_node.name)

    def gang_key(self, gang: Gang, limits: Amounts, *, placed: bool = False) -> Key:
        parts = (part(gang, limits, placed) for part in self._parts)
        created_s = 0.0 if gang.spec is None else gang.spec.created_s
        return (not gang.is_partial, *parts, created_s, *gang.key, "")

    def pod_key(self, task: TaskInfo) -> Key:
        """The key of a pod without a group: a gang of one that holds nothing yet."""
        parts = (-task.priority if part is _of_priority else 0 for part in self._parts)
        return (True, *parts, task.created_s, task.namespace, task.name, task.uid)

    def task_key(self, task: TaskInfo) -> Key:
        """The order of pods within a group."""
        return (-task.priority if self._by_priority else 0, task.created_s, task.name)


def created_s_of(job_key: Key) -> float:
    return float(job_key[-4])


def _of_priority(gang: Gang, limits: Amounts, placed: bool) -> int:
    return -gang.priority


def _of_gang_minimum(gang: Gang, limits: Amounts, placed: bool) -> int:
    return int(gang.is_placed if placed else gang.missing_count == 0)


def _of_share(gang: Gang, limits: Amounts, placed: bool) -> float:
    return dominant_share(gang.placed if placed else gang.held, limits)


_JOB_PARTS: Final = {PRIORITY: _of_priority, GANG: _of_gang_minimum, DRF: _of_share}


def dominant_share(held: Amounts, limits: Amounts) -> float:
    """The largest ratio of held amounts to the limits of the queue. The cluster's size is not used, because it may
    change. Without limits, reference amounts are used."""
    if not limits:
        return max((amount / _REFERENCE_AMOUNTS.get(name, 1) for name, amount in held.items()), default=0.0)
    return max((_ratio(held.get(name, 0), limit) for name, limit in limits.items()), default=0.0)
