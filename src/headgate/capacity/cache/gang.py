"""PodGroups as the engine reads them from the API, and the gangs that their pods form.

A gang knows its members, the waiting ones, and the next unit to admit: all pods that the minimum still lacks, or none
(``GangAtomicUngate``); beyond the minimum, single pods. ``capacity/grants/`` checks whether the queue has capacity.
:func:`gang_attempt_of` returns the pods to schedule together: all granted pods until the minimum is on nodes, then
single pods. Any members are enough if their number and roles are, so one that fits nowhere does not block the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from heapq import nsmallest
from typing import Any, Final

import msgspec

from headgate.capacity.api.queue import Amounts, read_created_s
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.pod_record import PROMISED, AllocationState, Ask, PodRecord
from headgate.kube.lenient_reader import find_integer, find_object, find_text
from headgate.kube.resource_amounts import read_amounts
from headgate.waiting.heap import Heap

DEFAULT_MIN_MEMBER: Final = 1
_ON_NODES: Final = (AllocationState.ALLOCATED, AllocationState.SUCCEEDED)
_HOLDING: Final = (AllocationState.ALLOCATED, *PROMISED)
_READY: Final = (*_HOLDING, AllocationState.SUCCEEDED)
_TRIABLE: Final = (AllocationState.RESERVED, AllocationState.RESTING)


class PodGroup(msgspec.Struct, frozen=True):
    """``min_task_member``: the minimum members per role; empty if their sum exceeds ``min_member``."""

    namespace: str
    name: str
    queue: str = ""
    min_member: int = DEFAULT_MIN_MEMBER
    min_task_member: Mapping[str, int] = {}
    min_resources: Amounts = {}
    phase: str = ""
    created_s: float = 0.0
    problem: str = ""


def read_group(wire: Mapping[str, Any]) -> PodGroup:
    """From its JSON value."""
    metadata, spec, status = (find_object(wire, part) for part in ("metadata", "spec", "status"))
    resources = read_amounts(spec.get("minResources"), "spec.minResources")
    minimum = find_integer(spec, "minMember", -1) if "minMember" in spec else DEFAULT_MIN_MEMBER
    roles = spec.get("minTaskMember")
    problem = resources if isinstance(resources, str) else ""
    if minimum < 0:
        problem, minimum = problem or "spec.minMember: must be a whole number, 0 or more", DEFAULT_MIN_MEMBER
    if roles is not None and not _are_roles(roles):
        problem, roles = problem or "spec.minTaskMember: must be a map of tasks to whole numbers", None
    return PodGroup(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        queue=find_text(spec, "queue"),
        min_member=minimum,
        min_task_member=roles if roles and sum(roles.values()) <= minimum else {},
        min_resources={} if isinstance(resources, str) else {name: each for name, each in resources.items() if each},
        phase=find_text(status, "phase"),
        created_s=read_created_s(metadata),
        problem=problem,
    )


def _are_roles(roles: Any) -> bool:
    return isinstance(roles, dict) and all(find_integer(roles, task, -1) >= 0 for task in roles)


class Gang:
    """The pods that name one PodGroup. ``spec`` is None until the object exists.

    ``queue``: the queue that the gang waits in; ``named``: the number of members that name each queue.
    ``enqueued_by_us``: the admission step enqueued it in this process; the state from the API is in ``spec``.
    ``held``: amounts of members with a grant or a node; ``placed``: the part of it on nodes; ``foreign``: amounts of
    members with gates of other components. ``entry``: queue, ask and pods of the next unit. ``enqueue_request``: queue
    and ask while the group waits to be enqueued. ``indexed_in``: queue, inqueue and elastic amounts in the ledger."""

    __slots__ = (
        "could_start",
        "counts",
        "enqueue_request",
        "enqueued_by_us",
        "entry",
        "foreign",
        "held",
        "indexed_in",
        "key",
        "lacked_pods",
        "members",
        "named",
        "placed",
        "priorities",
        "queue",
        "roles",
        "spec",
        "task_key",
        "waiting",
        "was_enqueued",
    )

    def __init__(self, namespace: str, name: str, task_key: Callable[[TaskInfo], Any]) -> None:
        self.key = (namespace, name)
        self.task_key = task_key
        self.spec: PodGroup | None = None
        self.enqueued_by_us = False
        self.could_start = True  # as last reported to its members
        self.was_enqueued = False  # as last reported in the status of the group
        self.lacked_pods = False  # as last reported to its members
        self.members: dict[str, PodRecord] = {}
        self.waiting: Heap[str] = Heap()
        self.counts: dict[AllocationState, int] = {}
        self.roles: dict[tuple[AllocationState, str], int] = {}
        self.priorities: dict[int, int] = {}
        self.held: dict[str, int] = {}
        self.placed: dict[str, int] = {}  # the part of it that is on nodes
        self.foreign: dict[str, int] = {}
        self.named: dict[str, int] = {}
        self.queue = ""
        self.indexed_in: tuple[str, Amounts, Amounts] = (
            "",
            {},
            {},
        )  # queue, inqueue and elastic, as the ledger has them
        self.entry: tuple[str, Ask, tuple[str, ...]] | None = None  # queue, ask and pods of the unit that waits
        self.enqueue_request: tuple[str, Ask] | None = None  # queue and ask while it waits to be enqueued

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
            _count(self.named, task.queue, sign)
        if state in _HOLDING:
            _add(self.held, record.counted, sign)
            if state is AllocationState.ALLOCATED:
                _add(self.placed, record.counted, sign)
        elif state is AllocationState.FOREIGN:
            _add(self.foreign, record.counted, sign)
        elif state is AllocationState.WAITING:
            if sign > 0:
                self.waiting.put(task.uid, self.task_key(task))
            else:
                self.waiting.discard(task.uid)

    def named_by_members(self) -> str:
        """The queue that most members name; on a tie the first by name."""
        return min(self.named, key=lambda name: (-self.named[name], name), default="")

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
        """How many members still need a node to reach the minimum, in all and by role."""
        on_nodes = sum(self.counts.get(each, 0) for each in _ON_NODES)
        missing_by_role = self._lacking_roles(_ON_NODES)
        return max(self.minimum - on_nodes, sum(missing_by_role.values()), 0), {
            role: n for role, n in missing_by_role.items() if n
        }

    @property
    def is_valid(self) -> bool:
        """Whether its PodGroup exists and is valid."""
        return self.spec is not None and not self.spec.problem

    @property
    def can_start(self) -> bool:
        """Whether the members that may be tried are enough to reach the minimum on nodes."""
        if not self.is_valid:
            return False
        missing, missing_by_role = self.missing_on_nodes()
        return self.tryable_count >= missing and all(
            sum(self.roles.get((each, role), 0) for each in _TRIABLE) >= lacking
            for role, lacking in missing_by_role.items()
        )

    @property
    def tryable_count(self) -> int:
        """The number of members without a node that have a grant, or that request one again when they are tried."""
        return sum(self.counts.get(each, 0) for each in _TRIABLE)

    @property
    def has_minimum(self) -> bool:
        """Whether its minimum is on nodes, promised, or succeeded. Members that gave a tentative grant back count as
        present: they request it again when they are tried."""
        return self.is_valid and self.missing_count <= self.counts.get(AllocationState.RESTING, 0)

    @property
    def lacks_pods(self) -> bool:
        """Whether the minimum needs more pods than exist."""
        return self.existing < self.minimum and self.missing_count > 0

    @property
    def has_promises(self) -> bool:
        """Whether members without a node have promises."""
        return any(self.counts.get(each, 0) for each in PROMISED)

    @property
    def existing(self) -> int:
        return len(self.members) - self.counts.get(AllocationState.GONE, 0)

    @property
    def priority(self) -> int:
        return max(self.priorities, default=0)

    @property
    def is_partial(self) -> bool:
        """Whether only a part of the minimum has grants: the rest comes before all other jobs."""
        return self.ready > 0 and self.missing_count > 0

    @property
    def missing_count(self) -> int:
        """How many members the minimum lacks, in all roles."""
        return max(self.minimum - self.ready, sum(self._lacking_roles().values()), 0)

    def _lacking_roles(self, ready_as: tuple[AllocationState, ...] = _READY) -> dict[str, int]:
        if self.spec is None or not self.spec.min_task_member:
            return {}
        lacking = {}
        for role, minimum in self.spec.min_task_member.items():
            ready = sum(self.roles.get((each, role), 0) for each in ready_as)
            lacking[role] = max(minimum - ready, 0)
        return lacking

    def next_unit(self, is_atomic: bool) -> tuple[str, ...]:
        """The members to admit together next, in order; empty if the minimum is not available."""
        missing = self.missing_count if is_atomic else 0
        first = self.waiting.first()
        if first is None or len(self.waiting) < missing:
            return ()
        if missing == 0 or (missing == 1 and not self._lacking_roles()):
            return (first[1],)
        return self._choose_members(missing)

    def _choose_members(self, lacks: int) -> tuple[str, ...]:
        in_order = sorted((self.task_key(self.members[uid].task), uid) for uid in self.waiting)
        chosen: set[str] = set()
        for role, missing in self._lacking_roles().items():
            of_role = [uid for _, uid in in_order if self.members[uid].task.role == role][:missing]
            if len(of_role) < missing:
                return ()
            chosen.update(of_role)
        others = (uid for _, uid in in_order if uid not in chosen)
        chosen.update(uid for uid, _ in zip(others, range(lacks - len(chosen)), strict=False))
        return tuple(uid for _, uid in in_order if uid in chosen)

    def units_before(self, uid: str) -> int:
        """The number of grants to other members before this one. It is 0 for a member of the next unit; other members
        wait for that unit and then, one by one, for each member before them."""
        unit = () if self.entry is None else self.entry[2]
        if uid in unit or uid not in self.waiting:
            return 0
        key = self.task_key(self.members[uid].task), uid
        rest = ((self.task_key(self.members[each].task), each) for each in self.waiting if each not in unit)
        return bool(unit) + sum(other < key for other in rest)

    def unmet_min_resources(self) -> tuple[Amounts, Amounts]:
        """The part of ``minResources`` that it does not hold yet, and what it holds beyond them. The requests of
        members with foreign gates are not waited for."""
        if self.spec is None:
            return {}, {}
        min_resources, held = self.spec.min_resources, self.held
        unmet = {name: amount - held.get(name, 0) - self.foreign.get(name, 0) for name, amount in min_resources.items()}
        beyond = {name: amount - min_resources.get(name, 0) for name, amount in held.items()}
        return {name: each for name, each in unmet.items() if each > 0}, {k: v for k, v in beyond.items() if v > 0}

    def minimum_members(self) -> tuple[str, ...]:
        """The members that form the minimum: first those with a grant or a node, then waiting ones, in order."""
        candidates = (
            each for each in self.members.values() if each.state in _HOLDING or each.state is AllocationState.WAITING
        )
        keyed = ((each.state not in _HOLDING, self.task_key(each.task), each.task.uid) for each in candidates)
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
    how many of each role."""

    uids: tuple[str, ...]
    min_member: int = 1
    min_task_member: Mapping[str, int] = {}
    roles: Mapping[str, str] = {}

    @property
    def needs_several_pods(self) -> bool:
        """Whether one pod alone is not enough."""
        return self.min_member > 1 or bool(self.min_task_member)

    def is_enough(self, uids: Collection[str]) -> bool:
        if len(uids) < self.min_member:
            return False
        if not self.min_task_member:
            return True
        have = Counter(self.roles[uid] for uid in uids)
        return all(have[role] >= minimum for role, minimum in self.min_task_member.items())


def gang_attempt_of(record: PodRecord) -> GangAttempt:
    gang, uid = record.gang, record.task.uid
    if gang is None or gang.is_placed:
        return GangAttempt((uid,))
    granted = [each.task for each in gang.members.values() if each.state is AllocationState.RESERVED]
    granted.sort(key=gang.task_key)
    uids = tuple(task.uid for task in granted)
    if uid not in uids:
        return GangAttempt((uid,))
    missing, missing_by_role = gang.missing_on_nodes()
    return GangAttempt(uids, missing, missing_by_role, {task.uid: task.role for task in granted})
