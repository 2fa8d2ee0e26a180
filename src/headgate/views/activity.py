"""How often things happened since these views began: counters that only grow, for rates.

The first lists are counted, too. A reader takes differences between two times at which the views were complete.
"""

from __future__ import annotations

import msgspec

from headgate.views.viewed_pod import ViewedPod


class Activity(msgspec.Struct, frozen=True):
    """Pods that were ``created``; that their queue ``admitted``; that were ``bound`` to a node. ``workloads``: that got
    quota."""

    created: int = 0
    admitted: int = 0
    bound: int = 0
    workloads: int = 0


class ActivityCounter:
    def __init__(self) -> None:
        self.created = 0
        self.admitted = 0
        self.bound = 0

    def pod_changed(self, before: ViewedPod | None, after: ViewedPod | None) -> None:
        if after is None:
            return
        if before is None:
            self.created += 1
        elif before.state == "queued" and after.state in ("without_node", "unschedulable", "running"):
            self.admitted += 1
        if after.node and (before is None or not before.node):
            self.bound += 1
