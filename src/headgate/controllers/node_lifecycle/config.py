"""Timeouts and rates of the node controllers: kube-controller-manager's flags and their defaults."""

from __future__ import annotations

import msgspec


class NodeLifecycleConfig(msgspec.Struct, frozen=True):
    monitor_s: float = 5.0
    """How long a node must be unready before its pods are evicted: a node that returns at once loses none."""
    grace_s: float = 50.0
    """How long a node may be silent."""
    startup_s: float = 60.0
    """How long a new node may take to say anything."""
    evictions_per_s: float = 0.1
    """How many nodes of a zone are tainted so that their pods leave."""
    secondary_evictions_per_s: float = 0.01
    """The same where most of a large zone is unready."""
    large_zone: int = 50
    unhealthy_share: float = 0.55


def config_for_grace_period(grace_s: float) -> NodeLifecycleConfig:
    """For who is more or less patient than usual: the other times shrink with the grace, and do not grow with it."""
    defaults = NodeLifecycleConfig()
    ratio = min(grace_s / defaults.grace_s, 1.0)
    return NodeLifecycleConfig(
        grace_s=grace_s, monitor_s=defaults.monitor_s * ratio, startup_s=max(defaults.startup_s * ratio, grace_s)
    )
