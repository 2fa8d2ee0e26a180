"""The former public interface for scheduler plugins; ``headgate.scheduling.framework`` replaces it.

The names that this package had still work for one release, each with a DeprecationWarning that says what to import
instead. The entry point group keeps the name ``headgate.plugins``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.plugins.deprecation import moved
from headgate.scheduling import framework

_RENAMED: Final[Mapping[str, str]] = {
    "Awaits": "AwaitingPreBindPlugin",
    "Bind": "BindPlugin",
    "Binding": "Bind",
    "Change": "NodeChange",
    "Ends": "PostFilterUnresolvable",
    "Event": "ClusterEvent",
    "Filter": "FilterPlugin",
    "Follows": "IncrementalState",
    "Ground": "Handle",
    "Guard": "QueueingHint",
    "Image": "ContainerImage",
    "Keyed": "KeyedPlugin",
    "NoWay": "PostFilterUnschedulable",
    "Node": "NodeInfo",
    "Nominated": "PostFilterNomination",
    "Normalize": "ScoreExtensions",
    "Only": "PreFilterResult",
    "Pending": "PreBindPending",
    "Permit": "PermitPlugin",
    "Pod": "PodInfo",
    "PostBind": "PostBindPlugin",
    "PostFilter": "PostFilterPlugin",
    "PreBind": "PreBindPlugin",
    "PreEnqueue": "PreEnqueuePlugin",
    "PreFilter": "PreFilterPlugin",
    "PreScore": "PreScorePlugin",
    "QueueSort": "QueueSortPlugin",
    "Reason": "FilterReason",
    "Refusal": "PreFilterRejection",
    "Releases": "ReleasingPermitPlugin",
    "Reserve": "ReservePlugin",
    "Resource": "APIResource",
    "Scheduled": "PodScheduledCondition",
    "Score": "ScorePlugin",
    "SeesFeasible": "FeasibleNodesState",
    "Shape": "PodShape",
    "Stamped": "ClusterVersionedPlugin",
    "Trial": "DryRun",
    "Wait": "PermitWait",
    "Waker": "ClusterEventWithHint",
    "Wakes": "EnqueueExtensions",
    "Watches": "ResourceEventHandler",
    "Write": "ObjectPatch",
}
_UNCHANGED: Final = [
    "ADD",
    "ALL",
    "ASSIGNED_POD",
    "CSI_DRIVER",
    "CSI_NODE",
    "CSI_STORAGE_CAPACITY",
    "DELETE",
    "NODE",
    "NODE_ALLOCATABLE",
    "NODE_ANNOTATION",
    "NODE_CONDITION",
    "NODE_LABEL",
    "NODE_TAINT",
    "PERSISTENT_VOLUME",
    "PERSISTENT_VOLUME_CLAIM",
    "POD",
    "POD_GATES_ELIMINATED",
    "POD_LABEL",
    "POD_SCALE_DOWN",
    "POD_TOLERATION",
    "READS_NODE",
    "READS_PODS",
    "SKIP",
    "STORAGE_CLASS",
    "UNSCHEDULABLE_POD",
    "UPDATE",
    "VOLUME_ATTACHMENT",
    "ChangeLog",
    "Ints",
    "Mask",
    "NodeMatrix",
    "PodLike",
    "Reads",
    "Rejection",
    "Rows",
    "Skip",
    "State",
    "Unplaced",
    "allocatable",
    "asked_rows",
    "free",
    "label_values",
    "named",
    "nodes_at",
    "on",
    "on_one",
    "own_update",
]
_NEW_NAMES: Final[Mapping[str, str]] = {**{name: name for name in _UNCHANGED}, **_RENAMED}

__all__ = sorted(_NEW_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NEW_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return moved(__name__, name, framework, _NEW_NAMES[name])
