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
    """``plugin``: the name of the plugin that rejects the pod. ``reason``: a text for users. ``wakers``: the events
    after which the plugin is called again for the pod. ``pending``: the plugin waits for something that is in progress,
    so the pod has no back-off after such an event. ``expires``: the pod is also retried after a time-out, in case
    ``wakers`` is incomplete. ``look_again_s``: the plugin is also called again after this time. It is finite and above
    0; the queue waits at least ``scheduling_queue.MIN_WAIT_S``."""

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

    The scheduler keeps only the annotations of pods that plugins read: a plugin (of any extension point) lists their
    names in its attribute ``annotations`` and finds only these in ``pod.annotations``."""

    @property
    def name(self) -> str: ...

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None: ...


class QueueSortPlugin(Protocol):
    """Orders the pods of the queue: the least key first. ``since_s`` is when the pod was added or last failed."""

    @property
    def name(self) -> str: ...

    def order_key(self, pod: PodLike, since_s: float, /) -> tuple[Any, ...]: ...


# -- queues: called for units, in profiles with queues and in the component gates ------------------------------------


class QueueUnit(msgspec.Struct, frozen=True):
    """Pods that a queue lets in together: one pod, or the pods that a PodGroup needs to reach its minimum.
    ``ancestors``: the queues above ``queue``, the nearest first. ``group``: the name of the PodGroup; empty for a pod
    without one. ``is_restored``: the pod holds capacity already. An earlier process, or another client, let it in, so
    it cannot be rejected."""

    queue: str
    ancestors: tuple[str, ...]
    namespace: str
    group: str
    pods: tuple[PodInfo, ...]
    is_restored: bool = False


class QueueAdmissionPlugin(Protocol):
    """Decides whether a unit may be let in now. It is called for a unit that its queue has capacity for, and reserves
    nothing. ``now_s``: the seconds since 1970."""

    @property
    def name(self) -> str: ...

    def admit_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None: ...


class QueueReservePlugin(Protocol):
    """Reserves something for the pods of a unit that is let in, and releases it.

    If ``reserve_unit`` returns None, ``release_pod`` is called exactly once for each pod of the unit: when the pod
    holds capacity of its queue no more, or when a later plugin rejects the unit. If it rejects the unit, raises, or
    returns an invalid result, it has reserved nothing, and ``release_pod`` is not called. ``pod`` and ``queue``: as
    ``reserve_unit`` received them."""

    @property
    def name(self) -> str: ...

    def reserve_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None: ...

    def release_pod(self, pod: PodInfo, queue: str, now_s: float, /) -> None: ...


class QueueOrderPlugin(Protocol):
    """Orders the units of a queue: the least key first. The result depends on the unit alone: the plugin is called
    again only when the unit changes."""

    @property
    def name(self) -> str: ...

    def unit_order_key(self, unit: QueueUnit, /) -> tuple[Any, ...]: ...


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
# that domain), or None for all rows (if another domain has the smallest count now). Only that plugin is called for
# these rows; the results of plugins that read one node at a time have not changed there.
# `matrix.labels.column(key).ids` gives each row's domain as a small integer. When `follow` is called, the matrix may
# already contain later changes: so the state keeps per row what it counted there and its domain, and reads the node
# again only when a change without a pod names the row (and `relabels` it). The same method serves dry runs: a change is
# followed, then its opposite. The smallest such plugins are in `tests/property/test_incremental_results.py`.

READS_NODE: Final = 1
READS_PODS: Final = 2
Reads = Literal[1, 2]
State = Any
"""What ``pre_filter`` or ``pre_score`` of a plugin returned for a shape, for ``filter`` or ``score`` of that plugin."""


class FilterReason(msgspec.Struct, frozen=True):
    """``unresolvable``: removing pods from the node would not help, so preemption skips it."""

    text: str
    unresolvable: bool = False


class Skip(msgspec.Struct, frozen=True):
    """The plugin does not apply to the shape: its ``filter`` or ``score`` is not called."""


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
    """Runs before any node is evaluated. A result that is none of :class:`Skip`, :class:`PreFilterRejection` and
    :class:`PreFilterResult` is the *state* that the plugin's ``filter`` receives. A state is neither a bool nor a text,
    because these are usually returned by mistake. Only a plugin with a ``filter`` may return a state.

    The result is used for all pods of the same shape and ``key``, now and later, so the plugin may read nothing else of
    the pod. Whether it returns :class:`Skip` must not depend on the cluster, except on what its ``stamp`` depends
    on."""

    def pre_filter(
        self, pod: PodInfo, matrix: NodeMatrix, /
    ) -> Skip | PreFilterRejection | PreFilterResult | State: ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Rejects nodes. ``rows``: the rows to evaluate; ``None`` means all rows in use (``matrix.size``).

    The result of ``filter`` has one integer per row: 0 if the node passes, otherwise bit *i* is set for the *i*-th of
    the plugin's ``reasons`` for the shape. ``None`` means that every row passes."""

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
    """Normalizes raw scores to 0..100. ``scale`` receives the raw scores of all feasible nodes and returns what
    ``normalize`` needs to know of them, such as the largest score."""

    def scale(self, feasible: Ints, /) -> Hashable: ...

    def normalize(self, raw: Ints, scale: Any, /) -> Ints: ...


@runtime_checkable
class KeyedPlugin(Plugin, Protocol):
    """A plugin whose results depend on more of the pod than its shape: pods with different keys are evaluated
    separately."""

    def key(self, pod: PodInfo, /) -> Hashable: ...


@runtime_checkable
class ClusterVersionedPlugin(Plugin, Protocol):
    """A plugin whose results depend on more of the cluster than single nodes, such as the number of nodes with an
    image."""

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        """A version of the cluster state that the plugin reads for this shape: while it is equal, the kept results for
        unchanged rows are valid. It is not related to the stamp of a pod (``capacity/api/stamp.py``)."""
        ...


@runtime_checkable
class IncrementalState(Protocol):
    """A state that is updated with each change of pods and nodes; see the comment before :data:`READS_NODE`."""

    def follow(self, change: NodeChange, /) -> Iterable[int] | None:
        """Apply a change. Returns the other rows whose results may have changed; None for all rows."""
        ...


@runtime_checkable
class FeasibleNodesState(Protocol):
    """The state of a score that depends on the feasible nodes (``mask`` over all rows in use)."""

    def see(self, mask: Mask, /) -> bool:
        """Set the feasible nodes. Returns whether the scores of unchanged rows may have changed."""
        ...


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """``wakers`` returns the events after which a pod of this shape, that this plugin rejected, is tried again."""

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]: ...


# -- PostFilter and the binding cycle -----------------------------------------------------------------------------


class PostFilterNomination(msgspec.Struct, frozen=True):
    """The pod fits the node once the victims are gone."""

    node_name: str
    victims: tuple[PodInfo, ...] = ()


class PostFilterUnschedulable(msgspec.Struct, frozen=True):
    """No node can be made to fit; an earlier nomination of the pod is cleared."""

    reason: str


class PostFilterUnresolvable(msgspec.Struct, frozen=True):
    """No further PostFilter plugin is called, and the reasons of earlier ones are dropped."""

    reason: str


class DryRun(Protocol):
    """One node on which pods are added (``put``) and removed (``take``) for evaluation; the end of the ``with`` block
    restores it."""

    def __enter__(self) -> DryRun: ...

    def __exit__(self, *raised: object) -> None: ...

    def put(self, pod: PodInfo, /) -> None: ...

    def take(self, pod: PodInfo, /) -> None: ...

    def reasons(self) -> tuple[FilterReason, ...]:
        """Why the pod would not fit the node now; empty if it would."""


class Handle(Protocol):
    """What a PostFilter plugin may use: the nodes, dry runs, and values with which it can check whether an earlier
    result is still valid. ``scheduling/framework/scheduling_cycle.py`` implements it."""

    @property
    def matrix(self) -> NodeMatrix: ...

    def dry_run(self, pod: PodInfo, row: int, /) -> DryRun: ...

    def nominated_node(self, pod: PodInfo, /) -> str:
        """The node that the pod is nominated to; empty if none."""

    def nominated_pods(self, pod: PodInfo, /) -> Mapping[int, Hashable]:
        """By row, a value that identifies the nominated pods that count there when this pod is filtered."""

    def cycle_state_key(self, pod: PodInfo, /) -> tuple[Hashable, bool]:
        """Two values. The first is equal for pods for which all filters have the same results on equal nodes: it is
        made of the pod's shape, the keys and the stamps of the plugins. The second says whether the result of a filter
        for one node also depends on other nodes."""

    @property
    def nomination_log(self) -> ChangeLog[str]:
        """The nodes whose nominations changed, in order."""

    @property
    def epoch(self) -> Hashable:
        """A value that stays the same while no node, no pod on a node and no nomination changes."""


class PostFilterPlugin(Plugin, Protocol):
    """Searches for a node to which a pod that fits no node can be nominated. ``unplaced``: why no node fits. If the
    plugin does not search, it returns a text that says why; an earlier nomination then stays."""

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
    """Allows the binding of a pod that has a node (``None``), rejects it, or holds it."""

    def permit(self, pod: PodInfo, node_name: str, /) -> Rejection | PermitWait | None: ...


@runtime_checkable
class ReleasingPermitPlugin(Plugin, Protocol):
    """A Permit plugin that decides later about pods that wait for it. ``released`` returns its decisions since the last
    call, by uid: None allows a pod.

    The scheduler calls it after each pod that reached Permit, because the last pod of a group may allow the others."""

    def released(self) -> Mapping[str, Rejection | None]: ...


class PreBindPlugin(Plugin, Protocol):
    """Returns the writes that must be done before the binding; ``runtime/scheduler/`` performs them in order.

    The first write that fails ends the attempt: the pod is unreserved and tried again."""

    def pre_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch] | Rejection: ...


class PreBindPending(msgspec.Struct, frozen=True):
    """Not ready: call again after one of these events."""

    wakers: tuple[ClusterEventWithHint, ...]


@runtime_checkable
class AwaitingPreBindPlugin(Plugin, Protocol):
    """A PreBind plugin whose writes start work that another component finishes, such as the provisioning of a volume.

    The scheduler calls ``awaited`` when all writes are done, and again after each event of the last
    :class:`PreBindPending`. ``None`` means that the pod may be bound; a text means that the work failed, and why. After
    ``timeout_s`` the scheduler gives up. After a failure the pod is unreserved and tried again.
    """

    @property
    def timeout_s(self) -> float: ...

    def awaited(self, pod: PodInfo, node_name: str, /) -> PreBindPending | str | None: ...


class BindPlugin(Plugin, Protocol):
    """Returns the write that binds the pod, or ``None`` if another plugin has to bind it."""

    def bind(self, pod: PodInfo, node_name: str, /) -> effects.Bind | ObjectPatch | None: ...


class PostBindPlugin(Plugin, Protocol):
    """Returns further writes for a bound pod."""

    def post_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch]: ...


class CyclePlugins(msgspec.Struct, frozen=True):
    """The plugins of a profile for the scheduling cycle, by extension point, in the order in which they are called."""

    pre_filters: tuple[PreFilterPlugin, ...] = ()
    filters: tuple[FilterPlugin, ...] = ()
    post_filters: tuple[PostFilterPlugin, ...] = ()
    pre_scores: tuple[PreScorePlugin, ...] = ()
    scores: tuple[tuple[ScorePlugin, int], ...] = ()
    """The Score plugins, each with its weight."""


class ScheduleResult(msgspec.Struct, frozen=True, gc=False):
    """The result of an attempt in which the pod got a node, and the node's row."""

    node_name: str
    row: int
    feasible: int
    """The number of feasible nodes."""


class Unplaced(msgspec.Struct, frozen=True):
    """The result of a scheduling cycle in which no node fits the pod; ``post_filter`` receives it. ``message``: the
    text for the pod's condition. ``rejections``: one per plugin that rejected nodes; without any the pod is retried
    after its back-off and waits for no event. ``is_error``: a plugin failed."""

    message: str
    rejections: tuple[Rejection, ...] = ()
    is_error: bool = False
    is_early: bool = False
    """A PreFilter plugin rejected all nodes, so the plugins after it were not called."""
    resolvable: tuple[str, ...] = ()
    """Names of the nodes where preemption may help, in order."""
    nominated: PostFilterNomination | None = None
    """The result of the PostFilter plugin that nominated the pod."""
    promise: str | None = ""
    """The new nominated node, empty for none; ``None`` keeps an earlier nomination. (A nomination, not a promise of a
    queue.)"""
    awaits_room: bool = False
    """The pod fits a node after pods that already terminate there, so it is not reported as unschedulable."""


@runtime_checkable
class ResourceEventHandler(Protocol):
    """A plugin, or a part of the cluster's state, that receives watch events of other resources.

    ``watched``: the resources it receives, and the fields it reads of each (``client/field_decoder.py``). ``wire``: the
    object as decoded JSON, with these fields. Both methods return events that may wake waiting pods."""

    @property
    def watched(self) -> Mapping[APIResource, tuple[str, ...]]: ...

    def applied(self, resource: APIResource, wire: Mapping[str, Any], /) -> Iterable[ClusterEvent]: ...

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]: ...
