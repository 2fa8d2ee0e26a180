"""The configuration of queues: Volcano's actions in order, and its plugins in tiers.

The names are those of ``volcano-scheduler.conf``, which ``scheduling/config/volcano_conf.py`` reads into these values.
A plugin is enabled at its extension points (:data:`EXTENSION_POINTS`) unless an option disables it there. For a yes or
no decision all plugins of a tier must agree, and the first tier with a plugin for it decides. For an order, the first
plugin that distinguishes two items decides. ``scheduling/`` reads the plugins that filter and score nodes; this package
reads all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

ENQUEUE: Final = "enqueue"
ALLOCATE: Final = "allocate"
BACKFILL: Final = "backfill"
PREEMPT: Final = "preempt"
RECLAIM: Final = "reclaim"

PRIORITY: Final = "priority"
GANG: Final = "gang"
DRF: Final = "drf"
CONFORMANCE: Final = "conformance"
CAPACITY: Final = "capacity"
PROPORTION: Final = "proportion"
SLA: Final = "sla"
SLA_WAITING_TIME: Final = "sla-waiting-time"
ACTIONS: Final = (ENQUEUE, ALLOCATE, BACKFILL, PREEMPT, RECLAIM)

EXTENSION_POINTS: Final[Mapping[str, tuple[str, ...]]] = {
    PRIORITY: ("jobOrder", "taskOrder", "preemptable"),
    GANG: ("jobOrder", "jobReady", "jobPipelined", "jobStarving", "preemptable", "reclaimable"),
    CONFORMANCE: ("preemptable", "reclaimable"),
    "overcommit": ("jobEnqueued",),
    SLA: ("jobOrder", "jobPipelined"),
    DRF: ("jobOrder",),
    "predicates": ("predicate",),
    CAPACITY: ("queueOrder", "allocatable", "jobEnqueued", "preemptive", "reclaimable"),
    PROPORTION: ("queueOrder", "allocatable", "jobEnqueued", "overused", "preemptive", "reclaimable"),
    "nodeorder": ("nodeOrder",),
    "binpack": ("nodeOrder",),
}
"""All plugins, and the extension points of each."""
ENABLE_OPTIONS: Final = frozenset(
    {"jobOrder", "taskOrder", "queueOrder", "jobEnqueued", "preemptable", "reclaimable", "predicate", "nodeOrder"}
)
"""The extension points at which a plugin can be disabled separately."""

Argument = bool | int | float | str


class PluginOption(msgspec.Struct, frozen=True):
    """A plugin in a tier. ``off``: the extension points at which it is disabled. ``arguments``: those in the
    configuration, by name; validated, except those of a plugin of another package. ``external_points``: the extension
    points of such a plugin, as ``scheduling/config/plugin_registry.py`` names them."""

    name: str
    off: frozenset[str] = frozenset()
    arguments: Mapping[str, Any] = {}
    external_points: tuple[str, ...] = ()

    @property
    def points(self) -> tuple[str, ...]:
        return EXTENSION_POINTS.get(self.name, self.external_points)


Tiers = tuple[tuple[PluginOption, ...], ...]

DEFAULT_ACTIONS: Final = (ENQUEUE, ALLOCATE, BACKFILL, PREEMPT)
DEFAULT_TIERS: Final[Tiers] = (
    (PluginOption(PRIORITY), PluginOption(GANG, frozenset({"preemptable"})), PluginOption(CONFORMANCE)),
    (PluginOption(DRF), PluginOption("predicates"), PluginOption(CAPACITY), PluginOption("nodeorder")),
)


class SchedulerConf(msgspec.Struct, frozen=True):
    """``gang_atomic``: the feature gate GangAtomicUngate. ``has_leases``: the feature gate ReservationLease.
    ``action_arguments``: by action, like those of a plugin. The methods scan the tiers and are for use at start, not in
    hot paths."""

    actions: tuple[str, ...] = DEFAULT_ACTIONS
    tiers: Tiers = DEFAULT_TIERS
    action_arguments: Mapping[str, Mapping[str, Argument]] = {}
    gang_atomic: bool = True
    has_leases: bool = False

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins of all tiers."""
        return frozenset(each.name for tier in self.tiers for each in tier)

    @property
    def external_plugins(self) -> tuple[PluginOption, ...]:
        """The plugins of other packages, in order."""
        return tuple(each for tier in self.tiers for each in tier if each.name not in EXTENSION_POINTS)

    @property
    def enqueues(self) -> bool:
        """Whether the enqueue action runs: a group waits until its minimum fits before its pods are considered."""
        return self.runs(ENQUEUE)

    def runs(self, action: str) -> bool:
        return action in self.actions

    def plugin(self, name: str) -> PluginOption | None:
        """The first plugin of this name. Its arguments are the same in all tiers."""
        return next((each for tier in self.tiers for each in tier if each.name == name), None)

    def is_enabled_at(self, plugin: str, point: str) -> bool:
        return any(plugin in tier for tier in self.plugins_by_tier(point))

    def plugins_by_tier(self, point: str) -> tuple[tuple[str, ...], ...]:
        """The plugins that are enabled at the extension point, by tier; tiers without such a plugin are left out."""
        tiers = (
            tuple(each.name for each in tier if point in each.points and point not in each.off) for tier in self.tiers
        )
        return tuple(tier for tier in tiers if tier)

    def order(self, point: str) -> tuple[str, ...]:
        """The plugins that define an order, by its extension point (``queueOrder``, ``jobOrder``, ``taskOrder``)."""
        return tuple(dict.fromkeys(name for tier in self.plugins_by_tier(point) for name in tier))

    @property
    def has_limits(self) -> bool:
        """Whether queues have limits: ``capacity`` or ``proportion`` is enabled."""
        return bool(self.plugins_by_tier("allocatable"))

    @property
    def ancestor_reclaim_level(self) -> int:
        """How many ancestors of a leaf may reclaim for it with their deserved amounts."""
        return int(self._argument(CAPACITY, "ancestorReclaimLevel", 0))

    @property
    def overcommit_factor(self) -> float | None:
        """The plugin ``overcommit``: groups that did not opt in are enqueued up to this multiple of the cluster's
        capacity; ``None``: without a limit."""
        if not self.is_enabled_at("overcommit", "jobEnqueued"):
            return None
        return float(self._argument("overcommit", "overcommit-factor", 1.2))

    @property
    def has_sla(self) -> bool:
        """Whether a unit that has waited for its time is protected (the plugin ``sla``)."""
        return SLA in self.plugins

    @property
    def sla_s(self) -> float | None:
        """The waiting time of units that set none; None: they are never protected."""
        return (self._argument(SLA, SLA_WAITING_TIME, 0.0) or None) if self.has_sla else None

    def _argument(self, plugin: str, name: str, default: float) -> float:
        found = self.plugin(plugin)
        value = default if found is None else found.arguments.get(name, default)
        return default if isinstance(value, str) else value


DEFAULTS: Final = SchedulerConf()
