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

from headgate.capacity.api.queue import Amounts, read_created_s, read_integer
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.pod_record import PROMISED, AllocationState, Ask, PodRecord
from headgate.kube.resource_amounts import read_amounts
from headgate.waiting.heap import Heap

DEFAULT_MIN_MEMBER: Final = 1
_THERE: Final = (AllocationState.ALLOCATED, AllocationState.SUCCEEDED)
_HOLDING: Final = (AllocationState.ALLOCATED, *PROMISED)
_READY: Final = (*_HOLDING, AllocationState.SUCCEEDED)
_TRIABLE: Final = (AllocationState.RESERVED, AllocationState.RESTING)


class PodGroup(msgspec.Struct, frozen=True):
    """``min_task_member``: the minimum members per role, where the roles' minima fit into the group's."""

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
    metadata, spec, status = (
        part if isinstance(part := wire.get(name), Mapping) else {} for name in ("metadata", "spec", "status")
    )
    resources = read_amounts(spec.get("minResources"), "spec.minResources")
    minimum = spec.get("minMember", DEFAULT_MIN_MEMBER)
    roles = spec.get("minTaskMember")
    problem = resources if isinstance(resources, str) else ""
    if read_integer(minimum, -1) < 0:
        problem, minimum = problem or "spec.minMember: must be a whole number, 0 or more", DEFAULT_MIN_MEMBER
    if roles is not None and not _are_roles(roles):
        problem, roles = problem or "spec.minTaskMember: must be a map of tasks to whole numbers", None
    return PodGroup(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        queue=queue if isinstance(queue := spec.get("queue"), str) else "",
        min_member=minimum,
        min_task_member=roles if roles and sum(roles.values()) <= minimum else {},
        min_resources={} if isinstance(resources, str) else {name: each for name, each in resources.items() if each},
        phase=phase if isinstance(phase := status.get("phase"), str) else "",
        created_s=read_created_s(metadata),
        problem=problem,
    )


def _are_roles(roles: Any) -> bool:
    return isinstance(roles, Mapping) and all(read_integer(least, -1) >= 0 for least in roles.values())


class Gang:
    """The pods that name one PodGroup. ``spec`` is None until the object exists.

    ``queue``: the queue that it waits in; ``named``: how many members name which queue. ``enqueued_by_us``: the
    admission step enqueued it in this process; the API's own state is in ``spec``."""

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
        self.enqueue_request: tuple[str, Ask] | None = None  # queue and ask under which it waits to be let in

    def count_member(self, record: PodRecord, sign: int) -> None:
        """A member with its present standing comes (+1) or goes."""
        task, standing = record.task, record.state
        for counts, key in (
            (self.counts, standing),
            (self.roles, (standing, task.role)),
            (self.priorities, task.priority),
        ):
            _count(counts, key, sign)
        if task.queue and standing is not AllocationState.GONE:
            _count(self.named, task.queue, sign)
        if standing in _HOLDING:
            _add(self.held, record.counted, sign)
            if standing is AllocationState.ALLOCATED:
                _add(self.placed, record.counted, sign)
        elif standing is AllocationState.FOREIGN:
            _add(self.foreign, record.counted, sign)
        elif standing is AllocationState.WAITING:
            if sign > 0:
                self.waiting.put(task.uid, self.task_key(task))
            else:
                self.waiting.discard(task.uid)

    def named_by_members(self) -> str:
        """The queue that most of them name; of equals, the first by name."""
        return min(self.named, key=lambda name: (-self.named[name], name), default="")

    @property
    def minimum(self) -> int:
        return DEFAULT_MIN_MEMBER if self.spec is None else self.spec.min_member

    @property
    def ready(self) -> int:
        """Members that are on nodes, promised, or done."""
        return sum(self.counts.get(each, 0) for each in _READY)

    @property
    def is_placed(self) -> bool:
        """Whether its minimum is on nodes, or done."""
        least, least_of = self.missing_on_nodes()
        return not least and not least_of

    def missing_on_nodes(self) -> tuple[int, dict[str, int]]:
        """How many are missing to the minimum that is on nodes, or done; and of which roles."""
        there = sum(self.counts.get(each, 0) for each in _THERE)
        least_of = self._lacking_roles(_THERE)
        return max(self.minimum - there, sum(least_of.values()), 0), {role: n for role, n in least_of.items() if n}

    @property
    def is_valid(self) -> bool:
        """Whether its object is there, and can be counted with."""
        return self.spec is not None and not self.spec.problem

    @property
    def can_start(self) -> bool:
        """Whether those that may be tried are enough for what is missing to the minimum on nodes."""
        if not self.is_valid:
            return False
        least, least_of = self.missing_on_nodes()
        return self.tryable_count >= least and all(
            sum(self.roles.get((each, role), 0) for each in _TRIABLE) >= lacking for role, lacking in least_of.items()
        )

    @property
    def tryable_count(self) -> int:
        """Members without a node that may be tried, or ask for it by themselves when they are about to be."""
        return sum(self.counts.get(each, 0) for each in _TRIABLE)

    @property
    def has_minimum(self) -> bool:
        """Whether its minimum is on nodes, promised, or done. Members that gave a tentative grant back are not missed:
        they ask for it whenever they are about to be tried."""
        return self.is_valid and self.missing_count <= self.counts.get(AllocationState.RESTING, 0)

    @property
    def lacks_pods(self) -> bool:
        """Whether more pods have to be created before its minimum can be had."""
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
        """Part of the minimum was let in, and the others are due before anybody else."""
        return self.ready > 0 and self.missing_count > 0

    @property
    def missing_count(self) -> int:
        """How many are missing to the minimum, of all roles."""
        return max(self.minimum - self.ready, sum(self._lacking_roles().values()), 0)

    def _lacking_roles(self, ready_as: tuple[AllocationState, ...] = _READY) -> dict[str, int]:
        if self.spec is None or not self.spec.min_task_member:
            return {}
        lacking = {}
        for role, least in self.spec.min_task_member.items():
            ready = sum(self.roles.get((each, role), 0) for each in ready_as)
            lacking[role] = max(least - ready, 0)
        return lacking

    def next_unit(self, is_atomic: bool) -> tuple[str, ...]:
        """The members to admit together next, in order; empty if the minimum is not available."""
        lacks = self.missing_count if is_atomic else 0
        first = self.waiting.first()
        if first is None or len(self.waiting) < lacks:
            return ()
        if lacks == 0 or (lacks == 1 and not self._lacking_roles()):
            return (first[1],)
        return self._pick(lacks)

    def _pick(self, lacks: int) -> tuple[str, ...]:
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
        """How many grants its other members get before this one: none for a member of the unit that is next, else that
        unit, and each member before it in order, for those go on one by one."""
        unit = () if self.entry is None else self.entry[2]
        if uid in unit or uid not in self.waiting:
            return 0
        key = self.task_key(self.members[uid].task), uid
        rest = ((self.task_key(self.members[each].task), each) for each in self.waiting if each not in unit)
        return bool(unit) + sum(other < key for other in rest)

    def unmet_min_resources(self) -> tuple[Amounts, Amounts]:
        """What of its least resources it does not hold yet, and what it holds beyond them. Members that somebody else
        holds back will not come soon: theirs is not waited for."""
        if self.spec is None:
            return {}, {}
        least, held = self.spec.min_resources, self.held
        left = {name: amount - held.get(name, 0) - self.foreign.get(name, 0) for name, amount in least.items()}
        beyond = {name: amount - least.get(name, 0) for name, amount in held.items()}
        return {name: each for name, each in left.items() if each > 0}, {k: v for k, v in beyond.items() if v > 0}

    def minimum_members(self) -> tuple[str, ...]:
        """The minimum: those who hold something first, then those who wait, in order."""
        alive = (
            each for each in self.members.values() if each.state in _HOLDING or each.state is AllocationState.WAITING
        )
        keyed = ((each.state not in _HOLDING, self.task_key(each.task), each.task.uid) for each in alive)
        return tuple(uid for _, _, uid in nsmallest(max(self.minimum, 1), keyed))


def _count(counts: dict[Any, int], key: Any, sign: int) -> None:
    counts[key] = counts.get(key, 0) + sign
    if not counts[key]:
        del counts[key]


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        _count(total, name, sign * amount)


class GangAttempt(msgspec.Struct, frozen=True):
    """``uids`` in order. ``least``: how many of them must get nodes, and ``least_of`` how many of each role."""

    uids: tuple[str, ...]
    least: int = 1
    least_of: Mapping[str, int] = {}
    roles: Mapping[str, str] = {}

    @property
    def needs_several_pods(self) -> bool:
        """Whether any single one of them would not be enough."""
        return self.least > 1 or bool(self.least_of)

    def is_enough(self, uids: Collection[str]) -> bool:
        if len(uids) < self.least:
            return False
        if not self.least_of:
            return True
        have = Counter(self.roles[uid] for uid in uids)
        return all(have[role] >= least for role, least in self.least_of.items())


def gang_attempt_of(record: PodRecord) -> GangAttempt:
    gang, uid = record.gang, record.task.uid
    if gang is None or gang.is_placed:
        return GangAttempt((uid,))
    granted = [each.task for each in gang.members.values() if each.state is AllocationState.RESERVED]
    granted.sort(key=gang.task_key)
    uids = tuple(task.uid for task in granted)
    if uid not in uids:
        return GangAttempt((uid,))
    least, least_of = gang.missing_on_nodes()
    return GangAttempt(uids, least, least_of, {task.uid: task.role for task in granted})
