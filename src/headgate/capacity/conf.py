"""The configuration of queues: actions in order, and plugins in tiers with the functions they are enabled for.

The names are those of ``volcano-scheduler.conf``, which ``scheduling/config/volcano_conf.py`` reads into these values.
A plugin is enabled at its extension points (:data:`EXTENSION_POINTS`) unless an option disables it there. Within a tier
all plugins must agree, and the first tier with a result decides; for orders the first plugin that distinguishes two
items does. ``scheduling/`` reads the plugins that filter and score nodes; this package reads all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
ACTIONS: Final = (ENQUEUE, ALLOCATE, BACKFILL, PREEMPT, RECLAIM)

EXTENSION_POINTS: Final[Mapping[str, tuple[str, ...]]] = {
    PRIORITY: ("jobOrder", "taskOrder", "preemptable"),
    GANG: ("jobOrder", "jobReady", "jobPipelined", "jobStarving", "preemptable", "reclaimable"),
    CONFORMANCE: ("preemptable", "reclaimable"),
    "overcommit": ("jobEnqueued",),
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
    """``off``: the extension points where it is disabled. ``arguments``: the given ones, validated, by name."""

    name: str
    off: frozenset[str] = frozenset()
    arguments: Mapping[str, Argument] = {}


Tiers = tuple[tuple[PluginOption, ...], ...]

DEFAULT_ACTIONS: Final = (ENQUEUE, ALLOCATE, BACKFILL, PREEMPT)
DEFAULT_TIERS: Final[Tiers] = (
    (PluginOption(PRIORITY), PluginOption(GANG, frozenset({"preemptable"})), PluginOption(CONFORMANCE)),
    (PluginOption(DRF), PluginOption("predicates"), PluginOption(CAPACITY), PluginOption("nodeorder")),
)


class SchedulerConf(msgspec.Struct, frozen=True):
    """``gang_atomic``: the feature gate GangAtomicUngate. ``action_arguments``: by action, like those of a plugin. The
    methods scan the tiers and are for use at start, not in hot paths."""

    actions: tuple[str, ...] = DEFAULT_ACTIONS
    tiers: Tiers = DEFAULT_TIERS
    action_arguments: Mapping[str, Mapping[str, Argument]] = {}
    gang_atomic: bool = True

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins of all tiers."""
        return frozenset(each.name for tier in self.tiers for each in tier)

    @property
    def enqueues(self) -> bool:
        """Whether the enqueue action runs: a group waits until its minimum fits before its pods are considered."""
        return self.runs(ENQUEUE)

    def runs(self, action: str) -> bool:
        return action in self.actions

    def plugin(self, name: str) -> PluginOption | None:
        """The first plugin of this name: its arguments are the same in all tiers."""
        return next((each for tier in self.tiers for each in tier if each.name == name), None)

    def is_enabled_at(self, plugin: str, point: str) -> bool:
        return any(plugin in tier for tier in self.plugins_by_tier(point))

    def plugins_by_tier(self, point: str) -> tuple[tuple[str, ...], ...]:
        """The plugins that are enabled at the point, by tier; empty tiers are left out."""
        tiers = (
            tuple(each.name for each in tier if point in EXTENSION_POINTS[each.name] and point not in each.off)
            for tier in self.tiers
        )
        return tuple(tier for tier in tiers if tier)

    def order(self, point: str) -> tuple[str, ...]:
        """The plugins that define the order at the point (``queueOrder``, ``jobOrder``, ``taskOrder``)."""
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
        """How much of the cluster's capacity groups that did not opt in may be enqueued for; ``None``: unlimited."""
        if not self.is_enabled_at("overcommit", "jobEnqueued"):
            return None
        return float(self._argument("overcommit", "overcommit-factor", 1.2))

    def _argument(self, plugin: str, name: str, default: float) -> float:
        found = self.plugin(plugin)
        value = default if found is None else found.arguments.get(name, default)
        return default if isinstance(value, str) else value


DEFAULTS: Final = SchedulerConf()
