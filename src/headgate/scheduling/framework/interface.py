"""The plugin interface: one small protocol per extension point, and the results that plugins return.

A plugin rejects a pod with a :class:`Rejection`: the plugin's name, a reason for users, and the events that may change
the result. The plugin is not called again for that pod before one of these events. If a plugin raises or returns an
invalid result (``result_checks.py``), the pod counts as rejected by that plugin, so a broken plugin stops the pods it
is called for and not the scheduler.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, runtime_checkable

import msgspec

from headgate.kube.api_resources import APIResource
from headgate.scheduling.cache.change_log import ChangeLog, NodeChange
from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo, PodLike
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import effects
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.effects import ObjectPatch
from headgate.waiting.queueing_hints import ClusterEventWithHint


class Rejection(msgspec.Struct, frozen=True):
    """``pending``: the plugin waits for something that is in progress, so the pod gets no backoff when it happens.
    ``expires``: retry after a time-out even without an event, in case the registered events are incomplete.
    ``look_again_s``: the plugin wants to be called again after this time. It is finite and above 0; the queue waits at
    least ``scheduling_queue.LEAST_WAIT_S``."""

    plugin: str
    reason: str
    wakers: tuple[ClusterEventWithHint, ...] = ()
    pending: bool = False
    expires: bool = True
    look_again_s: float | None = None


class ErrorRejection(Rejection, frozen=True):
    """The rejection by a plugin that raised, or that returned an invalid result (``result_checks.py``)."""


class PreEnqueuePlugin(Protocol):
    """Decides whether a pod may be tried at all. It must be fast and reserve nothing, because it is called often.

    A pod's annotations are not kept. A plugin (at any point) that reads some names them in an attribute
    ``annotations``, and finds those, and no others, in ``pod.annotations``."""

    @property
    def name(self) -> str: ...

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None: ...


class QueueSortPlugin(Protocol):
    """Orders the pods of the queue: the least key first. ``since_s`` is when the pod was added or last failed."""

    @property
    def name(self) -> str: ...

    def order_key(self, pod: PodLike, since_s: float, /) -> tuple[Any, ...]: ...


# -- filters and scores: called per shape, for many nodes at once --------------------------------------------
#
# A plugin is called with a *shape* and with rows of the node matrix, and returns an array. The result depends only on
# the shape, the nodes and the pods on them; a plugin that reads more of a pod declares a `key`. The scheduling cycle
# keeps the results and calls the plugin again only for rows that changed, so a plugin declares what it `reads`:
#
#   NODE     the node object alone (labels, taints): called again when that object changes;
#   PODS     the pods on that node too (resources, ports): called again when a pod is added there or removed.
#
# A plugin whose result for one node depends on pods on *other* nodes (spreading, affinity between pods) reads PODS and
# keeps a state per shape: counts per topology domain, made once by `pre_filter` or `pre_score` from all pods and then
# updated. That state has a method `follow(change)`. It receives every change of the matrix in order, adds the pod to
# the count of its domain or removes it, and returns the other rows whose result or score may have changed (the nodes of
# that domain), or None for all rows (another domain is the smallest now). Only that plugin is called for these rows;
# the results of plugins that read one node at a time have not changed there. `matrix.labels.column(key).ids` gives each
# row's domain as a small integer. The matrix is ahead of the changes that are followed: so the state keeps per row what
# was counted there and its domain, and reads a row's node again when a change without a pod names the row (and
# `relabels` it). The same method serves dry runs: a change is followed, then its opposite. The smallest such plugins
# are in `tests/property/test_incremental_results.py`.

READS_NODE: Final = 1
READS_PODS: Final = 2
Reads = Literal[1, 2]
State = Any


class FilterReason(msgspec.Struct, frozen=True):
    """``unresolvable``: removing pods from the node would not help, so preemption skips it."""

    text: str
    unresolvable: bool = False


class Skip(msgspec.Struct, frozen=True):
    """The plugin does not apply to the shape."""


SKIP: Final = Skip()


class PreFilterRejection(msgspec.Struct, frozen=True):
    """No node fits."""

    reason: FilterReason


class PreFilterResult(msgspec.Struct, frozen=True):
    """Only the nodes with these names are evaluated."""

    names: frozenset[str]
    state: State = None


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Runs before any node is evaluated: any result other than the above is the state for its filter. A state is no
    bool and no text, which would look like a result; a plugin without a filter has none.

    The state serves all pods of the same shape and ``key``, now and later, so the plugin may read nothing else of the
    pod, and a skip must not depend on the cluster (unless on its ``stamp``)."""

    def pre_filter(
        self, pod: PodInfo, matrix: NodeMatrix, /
    ) -> Skip | PreFilterRejection | PreFilterResult | State: ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Rejects nodes. ``rows`` of ``None`` are all rows in use (``matrix.size``).

    The result has one integer per row: zero passes, bit *i* means the *i*-th of the plugin's ``reasons`` for the shape.
    ``None`` means that every row passes."""

    @property
    def reads(self) -> Reads: ...

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None: ...

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]: ...


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Runs before nodes are scored; returns the state for its score, as ``pre_filter`` does."""

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | State: ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Scores nodes: one integer per row, 0 to 100 unless it is normalized below."""

    @property
    def reads(self) -> Reads: ...

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints: ...


@runtime_checkable
class ScoreExtensions(Plugin, Protocol):
    """Normalizes raw scores to 0..100 relative to all feasible nodes, which ``scale`` summarizes in a value."""

    def scale(self, feasible: Ints, /) -> Hashable: ...

    def normalize(self, raw: Ints, scale: Any, /) -> Ints: ...


@runtime_checkable
class KeyedPlugin(Plugin, Protocol):
    """Depends on more of the pod than its shape: pods with different keys are evaluated separately."""

    def key(self, pod: PodInfo, /) -> Hashable: ...


@runtime_checkable
class ClusterVersionedPlugin(Plugin, Protocol):
    """Depends on the cluster as a whole: while the stamp is equal, results for unchanged rows are, too."""

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable: ...


@runtime_checkable
class IncrementalState(Protocol):
    """A state that follows changes of pods and nodes; see above."""

    def follow(self, change: NodeChange, /) -> Iterable[int] | None: ...


@runtime_checkable
class FeasibleNodesState(Protocol):
    """The state of a score that depends on the feasible nodes (``mask`` over all rows in use).

    Returns whether the scores of unchanged rows may have changed."""

    def see(self, mask: Mask, /) -> bool: ...


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """Registers the events that may help a pod of this shape that the plugin rejected."""

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]: ...


# -- around the choice of a node -----------------------------------------------------------------------------


class PostFilterNomination(msgspec.Struct, frozen=True):
    """The pod fits the node once the victims are gone."""

    node_name: str
    victims: tuple[PodInfo, ...] = ()


class PostFilterUnschedulable(msgspec.Struct, frozen=True):
    """No node can be made to fit; an earlier nomination of the pod is cleared."""

    reason: str


class PostFilterUnresolvable(msgspec.Struct, frozen=True):
    """PostFilter ends: earlier results do not count, and no further plugin is called."""

    reason: str


class DryRun(Protocol):
    """One node on which pods are added and removed for evaluation; the end of the ``with`` restores it."""

    def __enter__(self) -> DryRun: ...

    def __exit__(self, *raised: object) -> None: ...

    def put(self, pod: PodInfo, /) -> None: ...

    def take(self, pod: PodInfo, /) -> None: ...

    def reasons(self) -> tuple[FilterReason, ...]:
        """Why the pod would not fit the node now; empty if it would."""


class Handle(Protocol):
    """What a PostFilter plugin may use for dry runs: the cycle (``scheduling/framework/scheduling_cycle.py``)."""

    @property
    def matrix(self) -> NodeMatrix: ...

    def dry_run(self, pod: PodInfo, row: int, /) -> DryRun: ...

    def nominated_node(self, pod: PodInfo, /) -> str:
        """The node that the pod is nominated to; empty if none."""

    def nominated_pods(self, pod: PodInfo, /) -> Mapping[int, Hashable]:
        """By row, a value that identifies the nominated pods that count there when this pod is filtered."""

    def cycle_state_key(self, pod: PodInfo, /) -> tuple[Hashable, bool]:
        """A value that identifies all inputs of the filters for this pod, and whether their results depend on other
        nodes as well."""

    @property
    def nomination_log(self) -> ChangeLog[str]:
        """The nodes whose nominations changed, in order."""

    @property
    def epoch(self) -> Hashable:
        """A value that stays the same while no node, no pod on a node and no nomination changes."""


class PostFilterPlugin(Plugin, Protocol):
    """Searches for a nomination of a pod that fits no node. A text says why it does not search; nominations stay."""

    def post_filter(
        self, pod: PodInfo, unplaced: Unplaced, handle: Handle, /
    ) -> PostFilterNomination | PostFilterUnschedulable | PostFilterUnresolvable | str: ...


class ReservePlugin(Plugin, Protocol):
    """Reserves something for a pod that has a node, and releases it if the pod is not bound."""

    def reserve(self, pod: PodInfo, node_name: str, /) -> Rejection | None: ...

    def unreserve(self, pod: PodInfo, node_name: str, /) -> None: ...


class PermitWait(msgspec.Struct, frozen=True):
    """Hold the pod for at most this long; then it is rejected."""

    timeout_s: float


class PermitPlugin(Plugin, Protocol):
    def permit(self, pod: PodInfo, node_name: str, /) -> Rejection | PermitWait | None: ...


@runtime_checkable
class ReleasingPermitPlugin(Plugin, Protocol):
    """A Permit plugin that allows or rejects pods it held: by uid, since its last call.

    It is called after each pod that reached it: the last pod of a group may release the others."""

    def released(self) -> Mapping[str, Rejection | None]: ...


class PreBindPlugin(Plugin, Protocol):
    """Returns what must be written before the binding; ``runtime/scheduler/`` performs it in order.

    The first write that fails ends the attempt: the pod is unreserved and tried again."""

    def pre_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch] | Rejection: ...


class PreBindPending(msgspec.Struct, frozen=True):
    """Not ready: call again after one of these events."""

    wakers: tuple[ClusterEventWithHint, ...]


@runtime_checkable
class AwaitingPreBindPlugin(Plugin, Protocol):
    """A PreBind plugin whose writes start work that another component finishes, a volume that is provisioned, say.

    The scheduler calls ``awaited`` when all writes are done, and again after each event of the last
    :class:`PreBindPending`. ``None`` means that the pod may be bound; a text means that the work failed, and why. After
    ``timeout_s`` the scheduler gives up. After a failure the pod is unreserved and tried again.
    """

    @property
    def timeout_s(self) -> float: ...

    def awaited(self, pod: PodInfo, node_name: str, /) -> PreBindPending | str | None: ...


class BindPlugin(Plugin, Protocol):
    """Returns the write that binds the pod, or ``None`` if another plugin does."""

    def bind(self, pod: PodInfo, node_name: str, /) -> effects.Bind | ObjectPatch | None: ...


class PostBindPlugin(Plugin, Protocol):
    """Returns what is left to write for a bound pod."""

    def post_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch]: ...


class CyclePlugins(msgspec.Struct, frozen=True):
    """The plugins of a profile for the scheduling cycle, by extension point, in the order in which they are called."""

    pre_filters: tuple[PreFilterPlugin, ...] = ()
    filters: tuple[FilterPlugin, ...] = ()
    post_filters: tuple[PostFilterPlugin, ...] = ()
    pre_scores: tuple[PreScorePlugin, ...] = ()
    scores: tuple[tuple[ScorePlugin, int], ...] = ()
    """Each with its weight."""


class ScheduleResult(msgspec.Struct, frozen=True, gc=False):
    node_name: str
    row: int
    feasible: int
    """The number of feasible nodes."""


class Unplaced(msgspec.Struct, frozen=True):
    """``is_error``: the attempt failed with an error. Without ``rejections`` the pod is retried without an event."""

    message: str
    rejections: tuple[Rejection, ...] = ()
    is_error: bool = False
    is_early: bool = False
    """One plugin rejected the pod before the plugins after it were called."""
    resolvable: tuple[str, ...] = ()
    """Names of the nodes where preemption may help, in order."""
    nominated: PostFilterNomination | None = None
    promise: str | None = ""
    """The node that the pod is nominated to from now on; ``None`` keeps an earlier nomination."""
    awaits_room: bool = False
    """Capacity becomes free soon without preemption, so the pod is not reported as unschedulable."""


@runtime_checkable
class ResourceEventHandler(Protocol):
    """A plugin, or a part of the cluster's state, that receives objects of its choice.

    ``watched``: the resources it receives, and the fields it reads of each (``client/field_decoder.py``)."""

    @property
    def watched(self) -> Mapping[APIResource, tuple[str, ...]]: ...

    def applied(self, resource: APIResource, wire: Mapping[str, Any], /) -> Iterable[ClusterEvent]: ...

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]: ...
