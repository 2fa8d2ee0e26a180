"""The frozen objects of the views, by topic. Every row has a key that is unique in its topic.

Amounts for bars are integers as in ``kube/resource_amounts.py``; each has a text beside it, so that no reader has to
format amounts. Times are seconds since 1970; 0 is unknown. An empty ``namespace`` belongs to a cluster-scoped object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from headgate.kube.resource_amounts import amount_text

Topic = Literal["overview", "queues", "cluster-queues", "waiting", "gates", "nodes", "problems"]
TOPICS: Final[tuple[Topic, ...]] = (
    *("overview", "queues", "cluster-queues", "waiting"),
    *("gates", "nodes", "problems"),
)


class OverviewRow(msgspec.Struct, frozen=True):
    """The pods and Workloads of one namespace; ``key`` is its name. ``gated``: pods with a gate of another controller.
    ``queued``: pods that wait for their queue or for the admission of their Workload. ``without_node``: pods without
    gates and without a node that may still fit; ``unschedulable``: pods that no node fits. ``pending``: Workloads
    without quota; ``admitted``: Workloads with quota; None if the reader may not see Workloads."""

    key: str
    gated: int = 0
    queued: int = 0
    without_node: int = 0
    unschedulable: int = 0
    running: int = 0
    terminating: int = 0
    pending: int | None = 0
    admitted: int | None = 0

    @property
    def namespace(self) -> str:
        return self.key


class QueueResource(msgspec.Struct, frozen=True):
    """One resource of a queue. ``used`` is on nodes, ``reserved`` is promised. ``limit``: None if unlimited.
    ``waiting``: what its waiting pods request. ``text`` says the same in words."""

    resource: str
    used: int
    reserved: int
    limit: int | None
    deserved: int
    guarantee: int
    waiting: int
    terminating: int
    text: str


class QueueRow(msgspec.Struct, frozen=True):
    """A queue of Volcano's kind; its amounts include all queues below it. ``waiting``: the number of waiting pods.
    ``refusal``: why it admits no pods at all, whatever its capacity."""

    key: str
    parent: str
    state: str
    priority: int
    weight: int
    share: float
    waiting: int
    refusal: str
    resources: tuple[QueueResource, ...]


class QuotaResource(msgspec.Struct, frozen=True):
    """One resource of one flavor. ``used``: held by Workloads; ``borrowed``: the part of it beyond the nominal quota.
    Limits are None if there are none."""

    flavor: str
    resource: str
    nominal: int
    used: int
    borrowed: int
    borrowing_limit: int | None
    lending_limit: int | None
    text: str


class QuotaRow(msgspec.Struct, frozen=True):
    """A ClusterQueue, Cohort or LocalQueue; ``parent`` is the key of the row above it, or empty. ``reason``: why it is
    not active."""

    key: str
    kind: Literal["ClusterQueue", "Cohort", "LocalQueue"]
    name: str
    namespace: str = ""
    parent: str = ""
    strategy: str = ""
    active: bool = True
    reason: str = ""
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    resources: tuple[QuotaResource, ...] = ()


WaitingState = Literal["gated", "queued", "without_node", "unschedulable", "pending", "checks", "waits_to_start"]


class WaitingRow(msgspec.Struct, frozen=True):
    """A unit that waits: a pod, a PodGroup or a Workload, with what the API shows about it. ``queue``: the Queue or the
    ClusterQueue; ``local_queue``: of a Workload. ``owner``: the job, as ``job.batch/train``. ``representative``: the
    uid of the pod whose position and reason are the unit's, and ``pod`` its name. ``reason`` and ``message``: of its
    condition."""

    key: str
    kind: Literal["Pod", "PodGroup", "Workload"]
    namespace: str
    name: str
    state: WaitingState
    queue: str = ""
    local_queue: str = ""
    pods: int = 1
    asks: Mapping[str, str] = {}
    since_s: float = 0.0
    priority: int = 0
    gates: tuple[str, ...] = ()
    owner: str = ""
    reason: str = ""
    message: str = ""
    representative: str = ""
    pod: str = ""


class WaitingEntry(msgspec.Struct, frozen=True):
    """A row with what changes without a change of the unit: ``position``, the number of units before it in its queue
    (None if it is not in line), and why it waits now, in one sentence."""

    row: WaitingRow
    position: int | None
    why: str
    sentence: str


class WaitingPage(msgspec.Struct, frozen=True):
    """``total``: how many rows match. ``offset``: of the first entry."""

    total: int
    offset: int
    entries: tuple[WaitingEntry, ...]


class GateRow(msgspec.Struct, frozen=True):
    """A gate in one namespace. ``owner``: which users may lift it, or the component that does. ``health``: of its
    GatePolicy. ``oldest``: the pod that has waited longest, since ``since_s``."""

    key: str
    gate: str
    namespace: str
    pods: int
    oldest: str
    since_s: float
    owner: str
    policy: str = ""
    health: str = ""


class NodeResource(msgspec.Struct, frozen=True):
    resource: str
    allocatable: int
    requested: int
    text: str


class NodeRow(msgspec.Struct, frozen=True):
    """``dominant``: the resource with the largest requested share, ``share``. ``group``: its zone or node pool."""

    key: str
    group: str
    ready: bool
    schedulable: bool
    pods: int
    share: float
    dominant: str
    resources: tuple[NodeResource, ...]


class ProblemRow(msgspec.Struct, frozen=True):
    """Something that is wrong. ``subject``: the object, as ``queue/team-a``. ``fix``: what to do. ``topic``: the topic
    whose right a viewer needs to see a problem of a cluster-scoped object."""

    key: str
    severity: Literal["error", "warning"]
    kind: str
    subject: str
    text: str
    namespace: str = ""
    fix: str = ""
    topic: Topic = "problems"


Row = OverviewRow | QueueRow | QuotaRow | WaitingRow | GateRow | NodeRow | ProblemRow


def asks_text(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(amounts.items()) if amount}
