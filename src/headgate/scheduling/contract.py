"""What a plugin is: one small protocol per extension point, and the words plugins and engines share.

A plugin that turns a pod away says so with a :class:`Rejection`: its name, a reason for people, and what may change its
mind. Who built the rejection is never asked again before one of those wakers comes up. A plugin that raises, or whose
answer is of another type than is said here (``plugin_answers.py``), has rejected the pod with its own name, so a broken
plugin stops the pods it looks at, not the scheduler.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, runtime_checkable

import msgspec

from headgate.scheduling import effects
from headgate.scheduling.changes import Change, ChangeLog
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.effects import Write
from headgate.scheduling.labels import Mask
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.podlike import PodLike
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker


class Rejection(msgspec.Struct, frozen=True):
    """``pending``: the plugin waits for something of its own that is under way, so when it comes the pod pays no
    backoff. ``expires``: look again after a while even if no waker came up, in case the wakers are not all there is.
    ``look_again_s``: the plugin waits for a moment that is this far away, and wants to be asked again then. It is
    finite and above 0; the queue asks again after ``queue.LEAST_WAIT_S`` at the earliest.
    """

    plugin: str
    reason: str
    wakers: tuple[Waker, ...] = ()
    pending: bool = False
    expires: bool = True
    look_again_s: float | None = None


class Failed(Rejection, frozen=True):
    """Stands for the answer of a plugin that raised, or that returned what is no answer (``plugin_answers.py``)."""


class PreEnqueue(Protocol):
    """Decides whether a pod may be tried at all. It must be quick, and reserves nothing: it is asked often.

    A pod's annotations are not kept. A plugin (at any point) that reads some names them in an attribute
    ``annotations``, and finds those, and no others, in ``pod.annotations``.
    """

    @property
    def name(self) -> str: ...

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None: ...


class QueueSort(Protocol):
    """Decides which pod is tried first: the one with the least key. ``since_s`` is when it was added or last failed."""

    @property
    def name(self) -> str: ...

    def order_key(self, pod: PodLike, since_s: float, /) -> tuple[Any, ...]: ...


# -- filters and scores: asked per shape, about many nodes at once -------------------------------------------
#
# A plugin is asked about a *shape* and about rows of the node matrix, and answers with an array. Its answer depends
# on the shape, on the nodes, on the pods there, and on nothing else; whoever looks at more of a pod says so by a `key`.
# The cycle keeps the answers and asks again only about rows that changed, so a plugin says what it `reads`:
#
#   NODE     the node object alone (labels, taints): asked again when that object changes;
#   PODS     the pods on that node too (resources, ports): asked again when a pod comes or goes there.
#
# A plugin whose answer about one node depends on pods on *other* nodes (spreading, affinity between pods) reads PODS
# and keeps a state of its own per shape: counts per topology domain, made once by `pre_filter` or `pre_score` from all
# pods, and from then on carried along. That state has a method `follow(change)`: it is given every change of the
# matrix in order, adds the pod to the count of its domain or takes it away, and returns the further rows whose verdict
# or score may now be another (the nodes of that domain), or None for all of them (another domain is the smallest now).
# Only that plugin is asked about the further rows: those who look at one node at a time have nothing new to say there.
# `matrix.labels.column(key).ids` gives each row's domain as a small integer. The matrix is ahead of the changes that
# are followed: so keep per row what was counted there and its domain, and read a row's node again when a change
# without a pod names it (and `relabels` it). The same method serves trials: a change is followed, then its opposite.
# The smallest such plugins are in `tests/property/test_standing.py`.

READS_NODE: Final = 1
READS_PODS: Final = 2
Reads = Literal[1, 2]
State = Any


class Reason(msgspec.Struct, frozen=True):
    """``unresolvable``: taking pods away from the node would not help, so preemption need not look at it."""

    text: str
    unresolvable: bool = False


class Skip(msgspec.Struct, frozen=True):
    """The plugin has nothing to say about the shape."""


SKIP: Final = Skip()


class Refusal(msgspec.Struct, frozen=True):
    """No node will do."""

    reason: Reason


class Only(msgspec.Struct, frozen=True):
    """Only the nodes with these names come into question."""

    names: frozenset[str]
    state: State = None


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


@runtime_checkable
class PreFilter(Plugin, Protocol):
    """Looks at a pod before any node: what it returns, if none of the above, is the state for its filter. A state is no
    bool and no text, which would be taken for a verdict; a plugin without a filter has none.

    It serves all pods of the same shape and ``key``, now and later, so nothing else of the pod may be read, and a skip
    must not depend on the cluster (unless on its ``stamp``).
    """

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | Refusal | Only | State: ...


@runtime_checkable
class Filter(Plugin, Protocol):
    """Says which nodes will not do. ``rows`` of ``None`` are all rows in use (``matrix.size``).

    The answer has one integer per row: zero passes, bit *i* means the *i*-th of the plugin's ``reasons`` for the
    shape. ``None`` means that every row passes.
    """

    @property
    def reads(self) -> Reads: ...

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None: ...

    def reasons(self, shape: Shape, /) -> Sequence[Reason]: ...


@runtime_checkable
class PreScore(Plugin, Protocol):
    """Looks at a pod before nodes are scored; returns the state for its score, as ``pre_filter`` does."""

    def pre_score(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | State: ...


@runtime_checkable
class Score(Plugin, Protocol):
    """Says how good nodes are: one integer per row, 0 to 100 unless it is normalized below."""

    @property
    def reads(self) -> Reads: ...

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints: ...


@runtime_checkable
class Normalize(Plugin, Protocol):
    """Brings raw scores to 0..100 relative to those of all feasible nodes, which ``scale`` sums up in a value."""

    def scale(self, feasible: Ints, /) -> Hashable: ...

    def normalize(self, raw: Ints, scale: Any, /) -> Ints: ...


@runtime_checkable
class Keyed(Plugin, Protocol):
    """Depends on more of the pod than its shape: pods with different keys are asked about apart."""

    def key(self, pod: Pod, /) -> Hashable: ...


@runtime_checkable
class Stamped(Plugin, Protocol):
    """Depends on the cluster as a whole: while the stamp stays the same, so do answers about unchanged rows."""

    def stamp(self, shape: Shape, matrix: NodeMatrix, /) -> Hashable: ...


@runtime_checkable
class Follows(Protocol):
    """A state that is carried along with the pods; see above."""

    def follow(self, change: Change, /) -> Iterable[int] | None: ...


@runtime_checkable
class SeesFeasible(Protocol):
    """A state of a score that depends on which nodes are feasible (``mask`` over all rows in use).

    Returns whether scores of unchanged rows may now be others.
    """

    def see(self, mask: Mask, /) -> bool: ...


@runtime_checkable
class Wakes(Plugin, Protocol):
    """Names the events that may help a pod of this shape that the plugin turned away."""

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]: ...


# -- around the choice of a node -----------------------------------------------------------------------------


class Nominated(msgspec.Struct, frozen=True):
    """Room will be there once the victims are gone."""

    node_name: str
    victims: tuple[Pod, ...] = ()


class NoWay(msgspec.Struct, frozen=True):
    """There is no node where room can be made; what the pod was promised before is void."""

    reason: str


class Ends(msgspec.Struct, frozen=True):
    """The search for a way out is over: nothing that was said before counts, and nobody else is asked."""

    reason: str


class Trial(Protocol):
    """One node while pods are moved there and away in thought; at the end of the ``with`` all is as it was."""

    def __enter__(self) -> Trial: ...

    def __exit__(self, *raised: object) -> None: ...

    def put(self, pod: Pod, /) -> None: ...

    def take(self, pod: Pod, /) -> None: ...

    def reasons(self) -> tuple[Reason, ...]:
        """Why the pod in question would not do there now; nothing if it would."""


class Ground(Protocol):
    """What a plugin may try things out on: the cycle (``scheduling/cycle.py``)."""

    @property
    def matrix(self) -> NodeMatrix: ...

    def trial(self, pod: Pod, row: int, /) -> Trial: ...

    def promised_node(self, pod: Pod, /) -> str:
        """Where room was made for the pod before; empty if nowhere."""

    def promised(self, pod: Pod, /) -> Mapping[int, Hashable]:
        """By row, what stands for those who were promised the node, and count there when this pod asks."""

    def question(self, pod: Pod, /) -> tuple[Hashable, bool]:
        """What stands for all that is asked of nodes for this pod, and whether answers look at other nodes as well."""

    @property
    def promise_log(self) -> ChangeLog[str]:
        """The nodes whose promises changed, in order."""

    @property
    def epoch(self) -> Hashable:
        """As long as it is the same, no node, pod on a node, or promise has changed."""


class PostFilter(Plugin, Protocol):
    """Looks for a way out for a pod that fits nowhere. A text says why none is looked for; promises stand then."""

    def post_filter(self, pod: Pod, unplaced: Unplaced, ground: Ground, /) -> Nominated | NoWay | Ends | str: ...


class Reserve(Plugin, Protocol):
    """Sets something aside for a pod that has a node, and gives it back if the pod does not get there."""

    def reserve(self, pod: Pod, node_name: str, /) -> Rejection | None: ...

    def unreserve(self, pod: Pod, node_name: str, /) -> None: ...


class Wait(msgspec.Struct, frozen=True):
    """Hold the pod back for at most this long; then it is turned away."""

    timeout_s: float


class Permit(Plugin, Protocol):
    def permit(self, pod: Pod, node_name: str, /) -> Rejection | Wait | None: ...


@runtime_checkable
class Releases(Plugin, Protocol):
    """A Permit plugin that lets pods go that it held, or turns them away: by uid, since it was last asked.

    It is asked after each pod that came to it: the last of a group may let the others go.
    """

    def released(self) -> Mapping[str, Rejection | None]: ...


class PreBind(Plugin, Protocol):
    """What has to be written before the binding; the shell does it, in order.

    The first write that fails ends the attempt: the pod is unreserved and tried again.
    """

    def pre_bind(self, pod: Pod, node_name: str, /) -> Sequence[Write] | Rejection: ...


class Pending(msgspec.Struct, frozen=True):
    """Not yet: ask again when one of these comes up."""

    wakers: tuple[Waker, ...]


@runtime_checkable
class Awaits(Plugin, Protocol):
    """A ``PreBind`` whose writes begin what somebody else finishes, a volume being made, say.

    When all its writes are made, and again whenever one of the wakers of the last :class:`Pending` comes up, it is
    asked whether the pod may be bound: ``None`` means yes, a text that it will not come to that, and why. After
    ``timeout_s`` the engine gives up. In both cases of failure the pod is unreserved and tried again.
    """

    @property
    def timeout_s(self) -> float: ...

    def awaited(self, pod: Pod, node_name: str, /) -> Pending | str | None: ...


class Bind(Plugin, Protocol):
    """What binds the pod, or ``None`` if another plugin does."""

    def bind(self, pod: Pod, node_name: str, /) -> effects.Bind | Write | None: ...


class PostBind(Plugin, Protocol):
    """What is left to write for a pod that is bound."""

    def post_bind(self, pod: Pod, node_name: str, /) -> Sequence[Write]: ...


class Lineup(msgspec.Struct, frozen=True):
    """The plugins of a profile for finding a node, point by point, in the order in which they are asked."""

    pre_filters: tuple[PreFilter, ...] = ()
    filters: tuple[Filter, ...] = ()
    post_filters: tuple[PostFilter, ...] = ()
    pre_scores: tuple[PreScore, ...] = ()
    scores: tuple[tuple[Score, int], ...] = ()
    """Each with its weight."""


class Placement(msgspec.Struct, frozen=True, gc=False):
    node_name: str
    row: int
    feasible: int
    """How many nodes would have done."""


class Unplaced(msgspec.Struct, frozen=True):
    """``is_error``: not for want of a node. Without ``rejections`` the pod is tried again and waits for no event."""

    message: str
    rejections: tuple[Rejection, ...] = ()
    is_error: bool = False
    is_early: bool = False
    """One plugin turned the pod away before those behind it had looked at it at all."""
    resolvable: tuple[str, ...] = ()
    """Names of the nodes where taking pods away may help, in order."""
    nominated: Nominated | None = None
    promise: str | None = ""
    """The node that the pod is promised from now on; ``None`` lets an earlier promise stand."""
    awaits_room: bool = False
    """There will be room soon, without anybody else having to go: it is no shortage."""
