"""What guards read off an event: the node before and after, the pod that went, the pod itself.

Nodes may come in their wire form or already read. A node that cannot be read helps nobody.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.scheduling.events import Event
from headgate.scheduling.node import Node, read_node
from headgate.scheduling.pod import Pod


def old_node(event: Event) -> Node | None:
    return _node(event.old)


def new_node(event: Event) -> Node | None:
    return _node(event.new)


def _node(found: Any) -> Node | None:
    if found is None or isinstance(found, Node):
        return found
    read = read_node(found)
    return None if isinstance(read, str) else read


def freed_pod(event: Event) -> Pod | None:
    """The pod that was deleted, if it took room on a node or was about to."""
    gone = event.old
    return gone if isinstance(gone, Pod) and event.new is None and (gone.node_name or gone.nominated_node) else None


def own_pod(event: Event) -> Pod | None:
    """The waiting pod as it now is, if the event is about that pod alone."""
    return event.new if event.target is not None and isinstance(event.new, Pod) else None


class AsksOtherwise(msgspec.Struct, frozen=True):
    """The waiting pod itself asks for something else than before. A condition that we wrote ourselves is no reason."""

    def matches(self, event: Event, /) -> bool:
        return not (isinstance(event.old, Pod) and isinstance(event.new, Pod) and event.old.shape is event.new.shape)
