"""PodGroups as the engine reads them from the API, and the gangs that their pods form.

A gang knows its members, which of them wait, and which of them are let in together next: all that the minimum still
lacks, or nobody (``GangAtomicUngate``); beyond the minimum, one by one. Whether the queue has room is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nsmallest
from typing import Any, Final

import msgspec

from headgate.capacity.queue import Amounts, read_created_s, read_integer
from headgate.capacity.record import PROMISED, Ask, Record, Standing
from headgate.capacity.task import Task
from headgate.kube.amounts import read_amounts
from headgate.waiting.heap import Heap

LEAST_MINIMUM: Final = 1
_THERE: Final = (Standing.ALLOCATED, Standing.SUCCEEDED)
_HOLDING: Final = (Standing.ALLOCATED, *PROMISED)
_READY: Final = (*_HOLDING, Standing.SUCCEEDED)
_TRIABLE: Final = (Standing.RESERVED, Standing.RESTING)


class PodGroup(msgspec.Struct, frozen=True):
    """``min_task_member``: the least members of a role, where the roles' minima fit into the group's."""

    namespace: str
    name: str
    queue: str = ""
    min_member: int = LEAST_MINIMUM
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
    minimum = spec.get("minMember", LEAST_MINIMUM)
    roles = spec.get("minTaskMember")
    problem = resources if isinstance(resources, str) else ""
    if read_integer(minimum, -1) < 0:
        problem, minimum = problem or "spec.minMember: must be a whole number, 0 or more", LEAST_MINIMUM
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
    """The pods that name one PodGroup. ``spec`` is None until the object is there.

    ``place``: the queue that it waits in; ``named``: how many members name which queue. ``let_in``: by the admission
    step, as long as we remember; the API's own word is in ``spec``."""

    __slots__ = (
        "asks_in",
        "could_start",
        "counts",
        "entry",
        "foreign",
        "held",
        "key",
        "let_in",
        "members",
        "named",
        "place",
        "placed",
        "posted",
        "priorities",
        "roles",
        "spec",
        "task_key",
        "waiting",
        "was_in",
        "was_short",
    )

    def __init__(self, namespace: str, name: str, task_key: Callable[[Task], Any]) -> None:
        self.key = (namespace, name)
        self.task_key = task_key
        self.spec: PodGroup | None = None
        self.let_in = False
        self.could_start = True  # as its members were last told
        self.was_in = False  # as the status of the group was last told
        self.was_short = False  # as its members were last told
        self.members: dict[str, Record] = {}
        self.waiting: Heap[str] = Heap()
        self.counts: dict[Standing, int] = {}
        self.roles: dict[tuple[Standing, str], int] = {}
        self.priorities: dict[int, int] = {}
        self.held: dict[str, int] = {}
        self.placed: dict[str, int] = {}  # the part of it that is on nodes
        self.foreign: dict[str, int] = {}
        self.named: dict[str, int] = {}
        self.place = ""
        self.posted: tuple[str, Amounts, Amounts] = ("", {}, {})  # queue, inqueue and elastic, as the ledger has them
        self.entry: tuple[str, Ask, tuple[str, ...]] | None = None  # queue, ask and pods of the unit that waits
        self.asks_in: tuple[str, Ask] | None = None  # queue and ask under which it waits to be let in

    def counted(self, record: Record, sign: int) -> None:
        """A member with its present standing comes (+1) or goes."""
        task, standing = record.task, record.standing
        for counts, key in (
            (self.counts, standing),
            (self.roles, (standing, task.role)),
            (self.priorities, task.priority),
        ):
            _count(counts, key, sign)
        if task.queue and standing is not Standing.GONE:
            _count(self.named, task.queue, sign)
        if standing in _HOLDING:
            _add(self.held, record.counted, sign)
            if standing is Standing.ALLOCATED:
                _add(self.placed, record.counted, sign)
        elif standing is Standing.FOREIGN:
            _add(self.foreign, record.counted, sign)
        elif standing is Standing.WAITING:
            if sign > 0:
                self.waiting.put(task.uid, self.task_key(task))
            else:
                self.waiting.discard(task.uid)

    def named_by_members(self) -> str:
        """The queue that most of them name; of equals, the first by name."""
        return min(self.named, key=lambda name: (-self.named[name], name), default="")

    @property
    def minimum(self) -> int:
        return LEAST_MINIMUM if self.spec is None else self.spec.min_member

    @property
    def ready(self) -> int:
        """Members that are on nodes, promised, or done."""
        return sum(self.counts.get(each, 0) for each in _READY)

    @property
    def is_placed(self) -> bool:
        """Whether its minimum is on nodes, or done."""
        least, least_of = self.lacks_on_nodes()
        return not least and not least_of

    def lacks_on_nodes(self) -> tuple[int, dict[str, int]]:
        """How many are missing to the minimum that is on nodes, or done; and of which roles."""
        there = sum(self.counts.get(each, 0) for each in _THERE)
        least_of = self._lacking_roles(_THERE)
        return max(self.minimum - there, sum(least_of.values()), 0), {role: n for role, n in least_of.items() if n}

    @property
    def is_sound(self) -> bool:
        """Whether its object is there, and can be counted with."""
        return self.spec is not None and not self.spec.problem

    @property
    def can_start(self) -> bool:
        """Whether those that may be tried are enough for what is missing to the minimum on nodes."""
        if not self.is_sound:
            return False
        least, least_of = self.lacks_on_nodes()
        return self.triable >= least and all(
            sum(self.roles.get((each, role), 0) for each in _TRIABLE) >= lacking for role, lacking in least_of.items()
        )

    @property
    def triable(self) -> int:
        """Members without a node that may be tried, or ask for it by themselves when they are about to be."""
        return sum(self.counts.get(each, 0) for each in _TRIABLE)

    @property
    def is_whole(self) -> bool:
        """Whether its minimum is on nodes, promised, or done. Members that gave a tentative grant back are not missed:
        they ask for it whenever they are about to be tried."""
        return self.is_sound and self.lacks <= self.counts.get(Standing.RESTING, 0)

    @property
    def is_short(self) -> bool:
        """Whether more pods have to be created before its minimum can be had."""
        return self.existing < self.minimum and self.lacks > 0

    @property
    def has_promises(self) -> bool:
        """Whether members without a node were promised something."""
        return any(self.counts.get(each, 0) for each in PROMISED)

    @property
    def existing(self) -> int:
        return len(self.members) - self.counts.get(Standing.GONE, 0)

    @property
    def priority(self) -> int:
        return max(self.priorities, default=0)

    @property
    def is_partial(self) -> bool:
        """Part of the minimum was let in, and the others are due before anybody else."""
        return self.ready > 0 and self.lacks > 0

    @property
    def lacks(self) -> int:
        """How many are missing to the minimum, of all roles."""
        return max(self.minimum - self.ready, sum(self._lacking_roles().values()), 0)

    def _lacking_roles(self, ready_as: tuple[Standing, ...] = _READY) -> dict[str, int]:
        if self.spec is None or not self.spec.min_task_member:
            return {}
        lacking = {}
        for role, least in self.spec.min_task_member.items():
            ready = sum(self.roles.get((each, role), 0) for each in ready_as)
            lacking[role] = max(least - ready, 0)
        return lacking

    def next_unit(self, is_atomic: bool) -> tuple[str, ...]:
        """Who is let in together next, in order; nobody if the minimum cannot be had."""
        lacks = self.lacks if is_atomic else 0
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

    def minimum_left(self) -> tuple[Amounts, Amounts]:
        """What of its least resources it does not hold yet, and what it holds beyond them. Members that somebody else
        holds back will not come soon: theirs is not waited for."""
        if self.spec is None:
            return {}, {}
        least, held = self.spec.min_resources, self.held
        left = {name: amount - held.get(name, 0) - self.foreign.get(name, 0) for name, amount in least.items()}
        beyond = {name: amount - least.get(name, 0) for name, amount in held.items()}
        return {name: each for name, each in left.items() if each > 0}, {k: v for k, v in beyond.items() if v > 0}

    def first_members(self) -> tuple[str, ...]:
        """The minimum: those who hold something first, then those who wait, in order."""
        alive = (
            each for each in self.members.values() if each.standing in _HOLDING or each.standing is Standing.WAITING
        )
        keyed = ((each.standing not in _HOLDING, self.task_key(each.task), each.task.uid) for each in alive)
        return tuple(uid for _, _, uid in nsmallest(max(self.minimum, 1), keyed))


def _count(counts: dict[Any, int], key: Any, sign: int) -> None:
    counts[key] = counts.get(key, 0) + sign
    if not counts[key]:
        del counts[key]


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        _count(total, name, sign * amount)
