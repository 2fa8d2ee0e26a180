"""Sort keys of queues, jobs and pods: comparable tuples of API fields and usage; the smallest key is first.

- Queues: higher priority, smaller share of the deserved amounts, queues that have deserved amounts, smaller usage, age,
  name. With the plugin ``proportion`` the share is the usage per unit of weight, because the size of the cluster may
  change. Volcano orders queues of equal shares by age only, so the oldest of the queues without deserved amounts would
  get capacity for all its pods before the others get any.
- Jobs (a PodGroup, or a pod without one): partially granted ones, higher priority, gangs below their minimum, smaller
  dominant share, age, name. With the plugin ``sla``: those whose waiting time ends first.
- Pods in a job: higher priority, age, name.

A plugin of another package that orders jobs adds a part to the key of jobs, at its place in the tiers.

The age of a job whose promise lapsed (``capacity/grants/leases.py``) begins at the lapse.

For grants, promised amounts count as used; otherwise one queue would be promised everything. Granted pods are ordered
by the amounts that are *placed* (on nodes), which change with every pod that gets a node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.capacity.api.queue import Amounts
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.ledger import QueueAccount
from headgate.capacity.cache.pod_record import PodRecord
from headgate.capacity.cache.queue_tree import TreeQueue
from headgate.capacity.conf import DRF, GANG, PRIORITY, PROPORTION, SLA, SchedulerConf
from headgate.kube.resource_amounts import CPU, EPHEMERAL_STORAGE, MEMORY

Key = tuple[Any, ...]
"""A sort key."""

_GI: Final = 1 << 30
_REFERENCE_AMOUNTS: Final = {CPU: 1000, MEMORY: 4 * _GI, EPHEMERAL_STORAGE: 32 * _GI}
"""The amounts that weigh as much as one device in the dominant share of a job whose queue has no limits."""


def share_of(deserved: Amounts, used: Callable[[str], int]) -> float:
    """The largest ratio of used to deserved amounts; 1 for a queue without deserved amounts."""
    if not any(deserved.values()):
        return 1.0
    return max(_ratio(used(resource), amount) for resource, amount in deserved.items())


def _ratio(used: int, whole: int) -> float:
    if whole:
        return used / whole
    return 1.0 if used else 0.0


class OrderingPolicy:
    """The sort keys, made from the plugins that are enabled for ordering, in their order."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._by_queue = bool(conf.order("queueOrder"))
        self.by_weight = PROPORTION in conf.order("queueOrder")
        self._by_priority = PRIORITY in conf.order("taskOrder")
        external = {each.name: _ExternalPart(each.name) for each in conf.external_plugins}
        parts: dict[str, Any] = {**external, **_JOB_KEY_PARTS, SLA: self._deadline_part}
        self._parts = tuple(parts[name] for name in conf.order("jobOrder") if name in parts)
        self.has_sla, self._default_sla_s = conf.has_sla, conf.sla_s
        self.by_job_priority = PRIORITY in conf.order("jobOrder")
        self.is_atomic = conf.gang_atomic and GANG in conf.plugins
        self.enqueues = conf.enqueues

    def queue_key(self, tree_queue: TreeQueue, account: QueueAccount, *, placed: bool = False) -> Key:
        queue = tree_queue.spec
        usage = dominant_share(account.allocated if placed else account.all_allocated_plus_reserved(), {})
        # Pods that request nothing add no usage, and fill the windows of ancestors all the same.
        turn = (usage, 0 if placed else account.pods_without_node, queue.created_s, tree_queue.name)
        if not self._by_queue:
            return (0, 0.0, False, *turn)
        if self.by_weight:
            return (-queue.priority, usage / max(queue.weight, 1), False, *turn)
        share = share_of(tree_queue.deserved, account.allocated_amount if placed else account.allocated_plus_reserved)
        return (-queue.priority, share, not any(tree_queue.deserved.values()), *turn)

    def gang_key(self, gang: Gang, limits: Amounts, *, placed: bool = False) -> Key:
        parts = (part(gang, limits, placed) for part in self._parts)
        created_s = max(0.0 if gang.spec is None else gang.spec.created_s, gang.lapsed_s)
        return (not gang.is_partial, *parts, created_s, *gang.key, "")

    def pod_key(self, record: PodRecord) -> Key:
        """The key of a pod without a group: a gang of one that holds nothing yet."""
        task = record.task
        parts = (self._pod_part(part, record) for part in self._parts)
        return (True, *parts, record.queued_s, task.namespace, task.name, task.uid)

    def _pod_part(self, part: Any, record: PodRecord) -> Any:
        if isinstance(part, _ExternalPart):
            return part.of(record if record.gang is None else record.gang)
        if part is _priority_part:
            return -record.task.priority
        return self.pod_deadline_s(record.task) if part == self._deadline_part else 0

    def _deadline_part(self, gang: Gang, limits: Amounts, placed: bool) -> float:
        return self.gang_deadline_s(gang)

    def pod_deadline_s(self, task: TaskInfo) -> float:
        """When a pod without a group has waited for its time (the plugin ``sla``), in seconds since 1970."""
        return self._deadline_s(task.created_s, task.sla_s)

    def gang_deadline_s(self, gang: Gang) -> float:
        return math.inf if gang.spec is None else self._deadline_s(gang.spec.created_s, gang.spec.sla_s)

    def _deadline_s(self, created_s: float, sla_s: float | None) -> float:
        sla_s = self._default_sla_s if sla_s is None else sla_s
        return math.inf if sla_s is None or not self.has_sla else created_s + sla_s

    def task_key(self, task: TaskInfo) -> Key:
        """The order of pods within a group."""
        return (-task.priority if self._by_priority else 0, task.created_s, task.name)


def created_s_of(job_key: Key) -> float:
    """The creation time in the key of a job."""
    return float(job_key[-4])


class _ExternalPart(msgspec.Struct, frozen=True):
    """The part of a key that a plugin of another package returned."""

    plugin: str

    def __call__(self, gang: Gang, limits: Amounts, placed: bool) -> Key:
        return self.of(gang)

    def of(self, unit: Gang | PodRecord) -> Key:
        return unit.order_keys.get(self.plugin, ())


def _priority_part(gang: Gang, limits: Amounts, placed: bool) -> int:
    return -gang.priority


def _minimum_part(gang: Gang, limits: Amounts, placed: bool) -> int:
    return int(gang.is_placed if placed else gang.missing_count == 0)


def _share_part(gang: Gang, limits: Amounts, placed: bool) -> float:
    return dominant_share(gang.placed if placed else gang.held, limits)


_JOB_KEY_PARTS: Final = {PRIORITY: _priority_part, GANG: _minimum_part, DRF: _share_part}


def dominant_share(held: Amounts, limits: Amounts) -> float:
    """The largest ratio of held amounts to the limits of the queue. The cluster's size is not used, because it may
    change. Without limits, reference amounts are used."""
    if not limits:
        return max((amount / _REFERENCE_AMOUNTS.get(name, 1) for name, amount in held.items()), default=0.0)
    return max((_ratio(held.get(name, 0), limit) for name, limit in limits.items()), default=0.0)
