"""Which rows a viewer may see: those that ``kubectl get`` would show to the same user, and nothing else.

Each row needs the right to list some resources, in its namespace or in all. What is not known to be allowed is hidden.
A row that also says something about objects of others is shown without that part. ``redaction.py`` does the same for
texts. ``io/viewers.py`` asks the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.gate_policies.names import GATE_POLICIES
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.quota.kinds.names import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.views.rows import (
    GateRow,
    NodeRow,
    OverviewRow,
    ProblemRow,
    QueueRow,
    QuotaRow,
    Row,
    WaitingEntry,
    WaitingRow,
)

E = TypeVar("E", bound=WaitingEntry)
Need = tuple[APIResource, str]
"""A resource to list, and the namespace; an empty one stands for all namespaces."""

CLUSTER_SCOPED: Final = (QUEUES, CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, GATE_POLICIES, NODES)
NAMESPACED: Final = (PODS, POD_GROUPS, WORKLOADS, LOCAL_QUEUES)
_KINDS: Final[Mapping[str, APIResource]] = {
    "ClusterQueue": CLUSTER_QUEUES,
    "Cohort": COHORTS,
    "LocalQueue": LOCAL_QUEUES,
    "ResourceFlavor": RESOURCE_FLAVORS,
    "Workload": WORKLOADS,
    "Pod": PODS,
    "pod": PODS,
    "gate": PODS,
    "queue": QUEUES,
    "podgroup": POD_GROUPS,
    "node": NODES,
}


class ViewerRights(msgspec.Struct, frozen=True):
    """``everything``: the viewer started this process, and sees what it sees. ``everywhere``: resources that the viewer
    may list in all namespaces. ``namespaces``: in which namespaces each other resource may be listed."""

    everything: bool = False
    everywhere: frozenset[APIResource] = frozenset()
    namespaces: Mapping[APIResource, frozenset[str]] = {}

    def allow(self, resource: APIResource, namespace: str = "") -> bool:
        if self.everything or resource in self.everywhere:
            return True
        return bool(namespace) and namespace in self.namespaces.get(resource, ())

    def allow_all(self, needs: Iterable[Need]) -> bool:
        return self.everything or all(self.allow(*need) for need in needs)

    @property
    def identity(self) -> object:
        """Equal for viewers that see the same rows."""
        return self.everything or (self.everywhere, tuple(sorted((k.plural, v) for k, v in self.namespaces.items())))


EVERYTHING: Final = ViewerRights(everything=True)


def needs_of(row: Row) -> Iterator[Need]:
    """What a viewer must be allowed to list in order to see the row at all."""
    match row:
        case OverviewRow():
            yield PODS, row.namespace
        case QueueRow():
            yield QUEUES, ""
        case QuotaRow():
            yield _KINDS[row.kind], row.namespace
        case WaitingRow():
            yield (WORKLOADS if row.kind == "Workload" else PODS), row.namespace
            if row.kind == "PodGroup":
                yield POD_GROUPS, row.namespace
        case GateRow():
            yield PODS, row.namespace
        case NodeRow():
            yield NODES, ""
            yield PODS, ""  # what is requested on a node is the sum over pods of all namespaces
        case ProblemRow():
            yield from _needs_of_problem(row)


def _needs_of_problem(row: ProblemRow) -> Iterator[Need]:
    if row.kind == "MissingRight":
        return  # it is about this process
    resource = _KINDS.get(row.subject.partition("/")[0])
    if resource is None:
        yield NODES, ""
        yield PODS, ""
        yield QUEUES, ""
        yield CLUSTER_QUEUES, ""
        return
    yield resource, row.namespace
    if row.topic == "waiting" and row.namespace and resource in (QUEUES, LOCAL_QUEUES):
        yield (PODS if resource == QUEUES else WORKLOADS), row.namespace


def visible(row: Row, rights: ViewerRights) -> Row | None:
    """The row as the viewer may see it; None if it is hidden."""
    if rights.everything:
        return row
    if not rights.allow_all(needs_of(row)):
        return None
    if isinstance(row, OverviewRow) and not rights.allow(WORKLOADS, row.namespace):
        return msgspec.structs.replace(row, pending=None, admitted=None)
    if isinstance(row, GateRow) and row.policy and not rights.allow(GATE_POLICIES):
        return msgspec.structs.replace(row, owner="", policy="", health="")
    return row


def visible_entry(entry: WaitingEntry, rights: ViewerRights) -> WaitingEntry:
    """The entry without what follows from objects of others: the place in line, and the amounts in its queue. The row
    itself is visible. The message of its condition is, too, because it is a part of the object."""
    is_workload = entry.row.kind == "Workload"
    if rights.allow(CLUSTER_QUEUES if is_workload else QUEUES):
        return entry
    if is_workload:
        return msgspec.structs.replace(entry, position=None)
    message = entry.row.message or "why its queue does not admit it is not shown, because you may not list queues"
    if entry.row.state == "gated":
        message = entry.sentence
    return msgspec.structs.replace(entry, position=None, why=entry.row.reason or "Waiting", sentence=message)
