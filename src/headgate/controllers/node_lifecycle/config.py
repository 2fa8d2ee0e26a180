"""Timeouts and rates of the node controllers: kube-controller-manager's flags and their defaults."""

from __future__ import annotations

import msgspec


class NodeLifecycleConfig(msgspec.Struct, frozen=True):
    monitor_s: float = 5.0
    """How long a node must be unready before its pods are evicted."""
    grace_s: float = 50.0
    """How long a node may send no heartbeat."""
    startup_s: float = 60.0
    """How long a new node may take to send its first heartbeat."""
    evictions_per_s: float = 0.1
    """The rate at which nodes of a zone get NoExecute taints."""
    secondary_evictions_per_s: float = 0.01
    """The rate in a large zone where most nodes are unready."""
    large_zone: int = 50
    unhealthy_share: float = 0.55


def config_for_grace_period(grace_s: float) -> NodeLifecycleConfig:
    """The configuration for another grace period. A shorter one shortens the other times; a longer one does not
    lengthen them."""
    defaults = NodeLifecycleConfig()
    ratio = min(grace_s / defaults.grace_s, 1.0)
    return NodeLifecycleConfig(
        grace_s=grace_s, monitor_s=defaults.monitor_s * ratio, startup_s=max(defaults.startup_s * ratio, grace_s)
    )
