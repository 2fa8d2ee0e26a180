"""PodGroups as the queue engine reads them from the API, and gangs: the pods that name one PodGroup.

A gang has its members, the waiting ones among them, and the next unit to grant. Until the gang has its minimum
(``minMember``), this unit is all the pods that it still needs to reach the minimum (feature gate
``GangAtomicUngate``); after that it is a single pod. ``capacity/grants/`` checks whether the queue has capacity for the
unit. :func:`gang_attempt_of` returns the pods that the scheduler tries together: all granted pods until the minimum is
on nodes, then single pods. Members of one role are interchangeable, so a member that fits no node does not block the
others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from heapq import nsmallest
from typing import Any, Final, NamedTuple

import msgspec

from headgate.capacity.api.queue import Amounts, read_created_s
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.api.times import read_sla_s
from headgate.capacity.cache.pod_record import NO_ORDER_KEYS, PROMISED, AllocationState, Ask, PodRecord
from headgate.capacity.kinds import unsupported
from headgate.capacity.kinds.definitions import MAX_MIN_RESOURCES
from headgate.kube.lenient_reader import find_integer, find_object, find_text
from headgate.kube.resource_amounts import is_requestable, read_amounts
from headgate.waiting.heap import Heap

DEFAULT_MIN_MEMBER: Final = 1
_ON_NODES_OR_SUCCEEDED: Final = (AllocationState.ALLOCATED, AllocationState.SUCCEEDED)
_COUNTED_AS_HELD: Final = (AllocationState.ALLOCATED, *PROMISED)
_READY: Final = (*_COUNTED_AS_HELD, AllocationState.SUCCEEDED)
_TRYABLE: Final = (AllocationState.RESERVED, AllocationState.RETURNED_GRANT)


class PodGroup(msgspec.Struct, frozen=True):
    """``min_task_member``: the minimum number of members per role; empty if their sum exceeds ``min_member``.
    ``problem``: why its pods get no capacity: the object is invalid, or (not ``is_supported``) it asks for something
    that Headgate does not do; otherwise empty. ``sla_s``: how long it may wait until it is
    protected, if the PodGroup sets it."""

    namespace: str
    name: str
    queue: str = ""
    min_member: int = DEFAULT_MIN_MEMBER
    min_task_member: Mapping[str, int] = {}
    min_resources: Amounts = {}
    phase: str = ""
    created_s: float = 0.0
    problem: str = ""
    sla_s: float | None = None
    is_supported: bool = True


def read_group(obj: Mapping[str, Any]) -> PodGroup:
    """Read a PodGroup from decoded JSON. It never raises: see ``PodGroup.problem``."""
    metadata, spec, status = (find_object(obj, part) for part in ("metadata", "spec", "status"))
    resources = read_amounts(spec.get("minResources"), "spec.minResources")
    minimum = find_integer(spec, "minMember", -1) if "minMember" in spec else DEFAULT_MIN_MEMBER
    roles = spec.get("minTaskMember")
    if not isinstance(resources, str) and len(resources) > MAX_MIN_RESOURCES:
        resources = f"spec.minResources: must not name more than {MAX_MIN_RESOURCES} resources"
    problem = resources if isinstance(resources, str) else ""
    if minimum < 0:
        problem, minimum = problem or "spec.minMember: must be a whole number, 0 or more", DEFAULT_MIN_MEMBER
    if roles is not None and not _are_roles(roles):
        problem, roles = problem or "spec.minTaskMember: must be a map of tasks to whole numbers", None
    hold = "" if problem else unsupported.find_hold(spec)
    return PodGroup(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        queue=find_text(spec, "queue"),
        min_member=minimum,
        min_task_member=roles if roles and sum(roles.values()) <= minimum else {},
        min_resources={} if isinstance(resources, str) else _counted(resources),
        phase=find_text(status, "phase"),
        created_s=read_created_s(metadata),
        problem=problem or hold,
        sla_s=read_sla_s(find_object(metadata, "annotations")),
        is_supported=not hold,
    )


def _counted(amounts: Amounts) -> Amounts:
    """The amounts that count in queues. Volcano also writes amounts for ResourceQuotas, such as ``requests.cpu``."""
    return {name: each for name, each in amounts.items() if each and is_requestable(name)}


def _are_roles(roles: Any) -> bool:
    return isinstance(roles, dict) and all(find_integer(roles, task, -1) >= 0 for task in roles)


class GrantRequest(NamedTuple):
    """The next unit of a gang, as it waits in ``QueueCache.grant_index`` (the index of units that wait for a grant)."""

    queue: str
    ask: Ask
    uids: tuple[str, ...]


class EnqueueRequest(NamedTuple):
    """A group that waits for Volcano's enqueue action, as it is in ``QueueCache.enqueue_index``."""

    queue: str
    ask: Ask


class Gang:
    """The pods that name one PodGroup. ``spec``: the PodGroup; None while the object does not exist.

    ``queue``: the queue in which the gang waits; ``named_queues``: the number of members that name each queue.
    ``task_key``: the sort key of a member within the gang. ``waiting``: the members that wait for a grant, in this
    order. ``counts``, ``roles`` and ``priorities``: the number of members by state, by state and role, and by priority.
    ``revoked``: the number of members whose promise is being revoked and still counts, by state and role.
    ``enqueued_by_engine``: the admission step enqueued the group in this process; the phase from the API is in
    ``spec``. ``held``: the amounts of members with a promise or a node; ``placed``: the part of ``held`` that is on
    nodes; ``foreign_gated``: the amounts of members with scheduling gates of other components. ``ledger_amounts``: the
    queue in whose account the ledger counts the gang, and the amounts in the columns INQUEUE and ELASTIC there.
    ``lapsed_s``: when promises of its members lapsed last, in seconds since 1970. ``order_keys``: as in
    :class:`PodRecord`. ``reported_…``: the value at the last change that was reported to the members or in the
    status."""

    __slots__ = (
        "counts",
        "enqueue_request",
        "enqueued_by_engine",
        "foreign_gated",
        "grant_request",
        "held",
        "key",
        "lapsed_s",
        "ledger_amounts",
        "members",
        "named_queues",
        "order_keys",
        "placed",
        "priorities",
        "queue",
        "reported_can_start",
        "reported_enqueued",
        "reported_lacks_pods",
        "revoked",
        "roles",
        "spec",
        "task_key",
        "waiting",
    )

    def __init__(self, namespace: str, name: str, task_key: Callable[[TaskInfo], Any]) -> None:
        self.key = (namespace, name)
        self.task_key = task_key
        self.spec: PodGroup | None = None
        self.enqueued_by_engine = False
        self.reported_can_start = True  # to its members
        self.reported_enqueued = False  # in the status of the group
        self.reported_lacks_pods = False  # to its members
        self.members: dict[str, PodRecord] = {}
        self.waiting: Heap[str] = Heap()
        self.counts: dict[AllocationState, int] = {}
        self.roles: dict[tuple[AllocationState, str], int] = {}
        self.priorities: dict[int, int] = {}
        self.revoked: dict[tuple[AllocationState, str], int] = {}
        self.held: dict[str, int] = {}
        self.placed: dict[str, int] = {}
        self.foreign_gated: dict[str, int] = {}
        self.named_queues: dict[str, int] = {}
        self.queue = ""
        self.order_keys = NO_ORDER_KEYS
        self.lapsed_s = 0.0
        self.ledger_amounts: tuple[str, Amounts, Amounts] = ("", {}, {})
        self.grant_request: GrantRequest | None = None
        self.enqueue_request: EnqueueRequest | None = None

    def count_member(self, record: PodRecord, sign: int) -> None:
        """Add a member in its current state to the counts (+1), or remove it (-1)."""
        task, state = record.task, record.state
        for counts, key in (
            (self.counts, state),
            (self.roles, (state, task.role)),
            (self.priorities, task.priority),
        ):
            _count(counts, key, sign)
        if task.queue and state is not AllocationState.GONE:
            _count(self.named_queues, task.queue, sign)
        if state in PROMISED and record.is_being_revoked:
            _count(self.revoked, (state, task.role), sign)
        if state in _COUNTED_AS_HELD:
            _add(self.held, record.counted_amounts, sign)
            if state is AllocationState.ALLOCATED:
                _add(self.placed, record.counted_amounts, sign)
        elif state is AllocationState.FOREIGN_GATE:
            _add(self.foreign_gated, record.counted_amounts, sign)
        elif state is AllocationState.WAITING:
            if sign > 0:
                self.waiting.put(task.uid, self.task_key(task))
            else:
                self.waiting.discard(task.uid)

    def most_named_queue(self) -> str:
        """The queue that most members name; if several queues have the same number, the first of them by name."""
        return min(self.named_queues, key=lambda name: (-self.named_queues[name], name), default="")

    @property
    def minimum(self) -> int:
        return DEFAULT_MIN_MEMBER if self.spec is None else self.spec.min_member

    @property
    def ready(self) -> int:
        """The number of members that are on nodes, have a promise, or succeeded."""
        return sum(self.counts.get(each, 0) for each in _READY)

    @property
    def is_placed(self) -> bool:
        """Whether its minimum is on nodes or succeeded."""
        missing, missing_by_role = self.missing_on_nodes()
        return not missing and not missing_by_role

    def missing_on_nodes(self) -> tuple[int, dict[str, int]]:
        """How many more members need a node until the minimum is on nodes: the number in all, and the number by
        role."""
        on_nodes = sum(self.counts.get(each, 0) for each in _ON_NODES_OR_SUCCEEDED)
        missing_by_role = self._missing_by_role(_ON_NODES_OR_SUCCEEDED)
        return max(self.minimum - on_nodes, sum(missing_by_role.values()), 0), {
            role: n for role, n in missing_by_role.items() if n
        }

    @property
    def is_valid(self) -> bool:
        """Whether its PodGroup exists and is valid."""
        return self.spec is not None and not self.spec.problem

    @property
    def can_start(self) -> bool:
        """Whether enough members may be tried now to bring the minimum of the gang onto nodes."""
        if not self.is_valid:
            return False
        missing, missing_by_role = self.missing_on_nodes()
        return self.tryable_count >= missing and all(
            sum(self.roles.get((each, role), 0) - self.revoked.get((each, role), 0) for each in _TRYABLE)
            >= missing_of_role
            for role, missing_of_role in missing_by_role.items()
        )

    @property
    def tryable_count(self) -> int:
        """The number of members without a node that have a grant that is not being revoked, or that request one again
        when they are tried."""
        revoked = sum(number for (state, _), number in self.revoked.items() if state in _TRYABLE)
        return sum(self.counts.get(each, 0) for each in _TRYABLE) - revoked

    @property
    def has_minimum(self) -> bool:
        """Whether its minimum is on nodes, promised, or succeeded. Members that returned a tentative grant count, too:
        they request it again when they are tried."""
        return self.is_valid and self.missing_count <= self.counts.get(AllocationState.RETURNED_GRANT, 0)

    @property
    def lacks_pods(self) -> bool:
        """Whether the minimum needs more pods than exist."""
        return self.existing < self.minimum and self.missing_count > 0

    @property
    def has_promises(self) -> bool:
        """Whether at least one member has a promise."""
        return any(self.counts.get(each, 0) for each in PROMISED)

    @property
    def existing(self) -> int:
        """The number of members that are not failed, terminating or evicted."""
        return len(self.members) - self.counts.get(AllocationState.GONE, 0)

    @property
    def priority(self) -> int:
        return max(self.priorities, default=0)

    @property
    def is_partial(self) -> bool:
        """Whether some members are ready and the minimum is not reached: then the missing members are granted before
        all other jobs."""
        return self.ready > 0 and self.missing_count > 0

    @property
    def missing_count(self) -> int:
        """How many more members need a grant until the gang has its minimum, over all roles."""
        return max(self.minimum - self.ready, sum(self._missing_by_role().values()), 0)

    def _missing_by_role(self, counted_states: tuple[AllocationState, ...] = _READY) -> dict[str, int]:
        """How many members of each role are missing to the minimum of the role, if the members in these states
        count."""
        if self.spec is None or not self.spec.min_task_member:
            return {}
        missing = {}
        for role, minimum in self.spec.min_task_member.items():
            counted = sum(self.roles.get((each, role), 0) for each in counted_states)
            missing[role] = max(minimum - counted, 0)
        return missing

    def next_unit(self, is_atomic: bool) -> tuple[str, ...]:
        """The members to grant together next, in order; empty if too few members wait to reach the minimum, or while a
        promise is being revoked: its member then waits for a grant, too. ``is_atomic``: whether the members that are
        missing to the minimum are granted together."""
        if is_atomic and self.revoked:
            return ()
        missing = self.missing_count if is_atomic else 0
        first = self.waiting.first()
        if first is None or len(self.waiting) < missing:
            return ()
        if missing == 0 or (missing == 1 and not self._missing_by_role()):
            return (first[1],)
        return self._choose_members(missing)

    def _choose_members(self, missing_count: int) -> tuple[str, ...]:
        in_order = sorted((self.task_key(self.members[uid].task), uid) for uid in self.waiting)
        chosen: set[str] = set()
        for role, missing in self._missing_by_role().items():
            of_role = [uid for _, uid in in_order if self.members[uid].task.role == role][:missing]
            if len(of_role) < missing:
                return ()
            chosen.update(of_role)
        others = (uid for _, uid in in_order if uid not in chosen)
        chosen.update(uid for uid, _ in zip(others, range(missing_count - len(chosen)), strict=False))
        return tuple(uid for _, uid in in_order if uid in chosen)

    def units_before(self, uid: str) -> int:
        """The number of grants that other members get before this one. It is 0 for a member of the next unit; other
        members wait for that unit and then, one by one, for each member before them."""
        unit = () if self.grant_request is None else self.grant_request.uids
        if uid in unit or uid not in self.waiting:
            return 0
        key = self.task_key(self.members[uid].task), uid
        rest = ((self.task_key(self.members[each].task), each) for each in self.waiting if each not in unit)
        return bool(unit) + sum(other < key for other in rest)

    def unmet_min_resources(self) -> tuple[Amounts, Amounts]:
        """Two values: the part of ``minResources`` that the gang does not hold yet, and what it holds beyond
        ``minResources``. The requests of members with gates of other components are subtracted from the first value,
        because the queue does not wait for them."""
        if self.spec is None:
            return {}, {}
        min_resources, held = self.spec.min_resources, self.held
        unmet = {
            name: amount - held.get(name, 0) - self.foreign_gated.get(name, 0) for name, amount in min_resources.items()
        }
        beyond = {name: amount - min_resources.get(name, 0) for name, amount in held.items()}
        return {name: each for name, each in unmet.items() if each > 0}, {k: v for k, v in beyond.items() if v > 0}

    def minimum_members(self) -> tuple[str, ...]:
        """The uids of as many members as the minimum needs: first members with a promise or a node, then waiting ones,
        in order."""
        candidates = (
            each
            for each in self.members.values()
            if each.state in _COUNTED_AS_HELD or each.state is AllocationState.WAITING
        )
        keyed = ((each.state not in _COUNTED_AS_HELD, self.task_key(each.task), each.task.uid) for each in candidates)
        return tuple(uid for _, _, uid in nsmallest(max(self.minimum, 1), keyed))


def _count(counts: dict[Any, int], key: Any, sign: int) -> None:
    counts[key] = counts.get(key, 0) + sign
    if not counts[key]:
        del counts[key]


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        _count(total, name, sign * amount)


class GangAttempt(msgspec.Struct, frozen=True):
    """The pods to schedule together, in order. ``min_member``: how many of them must get nodes; ``min_task_member``:
    how many of each role must. ``roles``: the role of each pod, by uid."""

    uids: tuple[str, ...]
    min_member: int = 1
    min_task_member: Mapping[str, int] = {}
    roles: Mapping[str, str] = {}

    @property
    def needs_several_pods(self) -> bool:
        """Whether one pod alone is not enough."""
        return self.min_member > 1 or bool(self.min_task_member)

    def is_enough(self, uids: Collection[str]) -> bool:
        """Whether it is enough if these pods get nodes."""
        if len(uids) < self.min_member:
            return False
        if not self.min_task_member:
            return True
        counts = Counter(self.roles[uid] for uid in uids)
        return all(counts[role] >= minimum for role, minimum in self.min_task_member.items())


def gang_attempt_of(record: PodRecord) -> GangAttempt:
    """The pods to schedule together with this pod."""
    gang, uid = record.gang, record.task.uid
    if gang is None or gang.is_placed:
        return GangAttempt((uid,))
    granted = [
        each.task
        for each in gang.members.values()
        if each.state is AllocationState.RESERVED and not each.is_being_revoked
    ]
    granted.sort(key=gang.task_key)
    uids = tuple(task.uid for task in granted)
    if uid not in uids:
        return GangAttempt((uid,))
    missing, missing_by_role = gang.missing_on_nodes()
    return GangAttempt(uids, missing, missing_by_role, {task.uid: task.role for task in granted})
