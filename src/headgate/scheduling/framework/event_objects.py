"""Objects that queueing hints read from a cluster event: the node before and after, the deleted pod, the pod itself.

A node in an event may be decoded JSON or a :class:`NodeInfo`. A node that cannot be read matches no hint.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.scheduling.cache.node import NodeInfo, read_node
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cluster_events import ClusterEvent


def old_node(event: ClusterEvent) -> NodeInfo | None:
    return _node(event.old)


def new_node(event: ClusterEvent) -> NodeInfo | None:
    return _node(event.new)


def _node(found: Any) -> NodeInfo | None:
    if found is None or isinstance(found, NodeInfo):
        return found
    decoded = read_node(found)
    return None if isinstance(decoded, str) else decoded


def freed_pod(event: ClusterEvent) -> PodInfo | None:
    """The deleted pod, if it had a node or a nominated node."""
    deleted = event.old
    return (
        deleted
        if isinstance(deleted, PodInfo) and event.new is None and (deleted.node_name or deleted.nominated_node)
        else None
    )


def own_pod(event: ClusterEvent) -> PodInfo | None:
    """The waiting pod as it now is, if the event is about that pod alone."""
    return event.new if event.target is not None and isinstance(event.new, PodInfo) else None


class PodRequestsChanged(msgspec.Struct, frozen=True):
    """The waiting pod's own specification changed. A condition that the scheduler wrote itself does not match."""

    def matches(self, event: ClusterEvent, /) -> bool:
        return not (
            isinstance(event.old, PodInfo) and isinstance(event.new, PodInfo) and event.old.shape is event.new.shape
        )
