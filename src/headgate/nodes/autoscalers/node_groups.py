"""Node groups of Cluster Autoscaler: target sizes, machines that were ordered, and back-off.

A group's target is its present machines that are not being removed, plus the ordered ones that have not joined yet. A
machine that did not join in time is dropped, and its group backs off (CA-20, CA-21). ``cluster_autoscaler.py`` decides
which group to scale up.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headgate.kube.backoff import ExponentialBackoff
from headgate.nodes.autoscalers.instance_types import AutoscalerNode, InstanceType


class NodeGroup(msgspec.Struct, frozen=True):
    name: str
    instance_type: InstanceType
    min_size: int = 0
    max_size: int = 200


class NodeGroupTimeouts(msgspec.Struct, frozen=True):
    provision_s: float = 900.0
    """How long an ordered machine may take to join."""
    startup_s: float = 900.0
    """How long a machine that joined may take to be Ready."""
    backoff: ExponentialBackoff = ExponentialBackoff(300.0, 1800.0)


class NodeGroups:
    def __init__(self, groups: Iterable[NodeGroup], timeouts: NodeGroupTimeouts) -> None:
        self.all = tuple(sorted(groups, key=lambda group: group.name))
        self._timeouts = timeouts
        self._ordered: dict[str, dict[str, float]] = {group.name: {} for group in self.all}  # by group and name: when
        self._members: dict[str, dict[str, AutoscalerNode]] = {group.name: {} for group in self.all}
        self._marked_for_removal: set[str] = set()
        self._backoff: dict[str, tuple[float, int]] = {}  # until when, and after how many failures in a row

    # -- events ----------------------------------------------------------------------------------------------------

    def node_joined(self, node: AutoscalerNode) -> None:
        if node.group in self._members:
            self._ordered[node.group].pop(node.name, None)
            self._members[node.group][node.name] = node
            if node.counts_as_ready:
                self._backoff.pop(node.group, None)

    def node_left(self, node: AutoscalerNode) -> None:
        self._marked_for_removal.discard(node.name)
        self._members.get(node.group, {}).pop(node.name, None)

    def order(self, group: str, name: str, now_s: float) -> None:
        self._ordered[group][name] = now_s

    def mark_for_removal(self, name: str) -> None:
        self._marked_for_removal.add(name)

    def unmark_for_removal(self, name: str) -> None:
        self._marked_for_removal.discard(name)

    def expire_orders(self, now_s: float) -> list[str]:
        """Drops orders that have timed out, and returns their groups."""
        failed = []
        for group, ordered in self._ordered.items():
            late = [name for name, since_s in ordered.items() if now_s - since_s > self._timeouts.provision_s]
            for name in late:
                del ordered[name]
            if late:
                failures = self._backoff.get(group, (0.0, 0))[1] + 1
                self._backoff[group] = (now_s + self._timeouts.backoff.delay_s(failures), failures)
                failed.append(group)
        return failed

    # -- queries ---------------------------------------------------------------------------------------------------

    def is_marked_for_removal(self, name: str) -> bool:
        return name in self._marked_for_removal

    def staying(self, group: str) -> list[AutoscalerNode]:
        """The group's nodes that are not being removed, by name."""
        return [
            node
            for name, node in sorted(self._members[group].items())
            if name not in self._marked_for_removal and not node.deleting
        ]

    def target(self, group: str) -> int:
        return len(self.staying(group)) + len(self._ordered[group])

    def upcoming(self, group: str, now_s: float) -> int:
        """The number of machines that are ordered, or have joined and are still starting."""
        if self.is_backed_off(group, now_s):
            return 0
        starting = sum(
            not node.counts_as_ready and now_s - node.created_s <= self._timeouts.startup_s
            for node in self.staying(group)
        )
        return starting + len(self._ordered[group])

    def is_backed_off(self, group: str, now_s: float) -> bool:
        return now_s < self._backoff.get(group, (0.0, 0))[0]

    def max_increase(self, group: NodeGroup, now_s: float) -> int:
        """How many more machines the group may have now."""
        return 0 if self.is_backed_off(group.name, now_s) else max(group.max_size - self.target(group.name), 0)
