"""The first in line starts no later than without the units after it, on a virtual clock.

Units of one queue arrive, start as soon as they are granted capacity, and end. Pods with a run-time limit end between
their limit and the end of their grace period; the others end at a time that the engine does not know. When a unit
becomes the first in line, a slow reference computes when it would start if no unit after it got anything. If pods end
before their limits, the first starts no later than if they ran until their limits. The reference also knows which units
may pass: the engine grants exactly these, so capacity is not left idle without need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity_builders import a_group, a_queue
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.api.times import RunTime
from headgate.capacity.cache.pod_record import PROMISED, AllocationState
from headgate.capacity.conf import DEFAULT_ACTIONS, DEFAULT_TIERS, DEFAULTS, SLA, PluginOption, SchedulerConf
from headgate.capacity.engine import QueueEngine, WaitReason
from headgate.capacity.grants import head_of_line
from headgate.capacity.names import DEQUEUE_STRATEGY, GATE, MAX_PODS_WITHOUT_NODE
from headgate.kube.timestamps import format_time

_BEGIN_S = 1_000_000
_SLA_CONF = SchedulerConf(DEFAULT_ACTIONS, ((PluginOption(SLA),), *DEFAULT_TIERS))
_OTHER_QUEUE, _QUEUE, _PARENT = "other", "line", "parent"


class Unit(msgspec.Struct):
    """A pod, or a gang of equal pods. ``lasts_s``: how long it runs, from its start on. ``is_shown``: the API shows
    that it has started."""

    number: int
    arrives_s: int
    pods: int
    requests: dict[str, int]
    limit_s: int | None
    grace_s: int
    lasts_s: int
    queue: str = _QUEUE
    started_s: int | None = None
    is_shown: bool = False

    @property
    def asked(self) -> dict[str, int]:
        return {resource: amount * self.pods for resource, amount in self.requests.items()}

    @property
    def ends_s(self) -> int:
        assert self.started_s is not None
        return self.started_s + self.lasts_s

    def may_end_s(self) -> float:
        """When it may end; a pod without a limit may end at any time."""
        assert self.started_s is not None
        return 0 if self.limit_s is None else self.started_s + self.limit_s

    def gone_by_s(self) -> float:
        assert self.started_s is not None
        return float("inf") if self.limit_s is None else self.started_s + self.limit_s + self.grace_s


class World:
    """``limits``: by queue and resource, CPU in thousandths. ``has_early_ends``: pods may end before their limits."""

    def __init__(self, strategy: str, limits: Mapping[str, dict[str, int]], units: Iterable[Unit], early: bool) -> None:
        self.strategy, self.limits, self.has_early_ends = strategy, limits, early
        self.coming = sorted(units, key=lambda unit: unit.number)
        self.line: list[Unit] = []
        self.running: list[Unit] = []
        self.bounds: dict[int, float] = {}  # by number: the first unit in line starts then at the latest
        self.now_s = _BEGIN_S
        self.restart()

    # The engine's view.

    def restart(self) -> None:
        """A new engine gets all objects. The option writes nothing, so there is nothing else to restore."""
        self.engine = QueueEngine(_SLA_CONF if self.strategy == "sla" else DEFAULTS)
        self.engine.namespace_applied({"metadata": {"name": "ns"}})
        for name, parent in ((_PARENT, ""), (_QUEUE, _PARENT), (_OTHER_QUEUE, _PARENT)):
            has_strategy = name == _QUEUE and self.strategy != "sla"
            self.engine.queue_applied(
                a_queue(
                    name,
                    parent=parent,
                    capability={each: _written(each, amount) for each, amount in self.limits.get(name, {}).items()},
                    annotations={DEQUEUE_STRATEGY: self.strategy} if has_strategy else {},
                )
            )
        for unit in (*self.running, *self.line):
            self.show(unit)

    def tasks(self, unit: Unit) -> list[TaskInfo]:
        run_time = None if unit.limit_s is None else RunTime(unit.limit_s, unit.grace_s, unit.started_s)
        created_s = float(_BEGIN_S - 1000 + unit.number)
        return [
            TaskInfo(
                uid=f"u{unit.number}-{index}",
                namespace="ns",
                name=f"p{unit.number:03}-{index}",
                requests=unit.requests,
                created_s=created_s,
                group=f"g{unit.number:03}" if unit.pods > 1 else "",
                queue=unit.queue,
                opted_in=True,
                gates=(GATE,) if unit.started_s is None else (),
                node_name="" if unit.started_s is None else "n",
                run_time=run_time,
                sla_s=1.0,
            )
            for index in range(unit.pods)
        ]

    def show(self, unit: Unit) -> None:
        if unit.pods > 1:
            group = a_group(f"g{unit.number:03}", unit.queue, unit.pods, "Inqueue")
            group["metadata"]["creationTimestamp"] = format_time(_BEGIN_S - 1000 + unit.number)
            group["metadata"]["annotations"] = {"sla-waiting-time": "1s"}
            self.engine.group_applied(group)
        for task in self.tasks(unit):
            self.engine.task_applied(task)

    def show_start(self, unit: Unit) -> None:
        """The kubelet sets the start time."""
        if not unit.is_shown:
            unit.is_shown = True
            self.show(unit)

    def end(self, unit: Unit) -> None:
        self.running.remove(unit)
        for task in self.tasks(unit):
            self.engine.task_removed(task.uid)
        if unit.pods > 1:
            self.engine.group_removed("ns", f"g{unit.number:03}")

    # The reference.

    def places(self, unit: Unit) -> list[tuple[str, str]]:
        """The limits that hold for the unit."""
        names = (unit.queue, _PARENT)
        return [(name, each) for name in names for each in self.limits.get(name, {}) if unit.asked.get(each)]

    def holders(self, name: str) -> list[Unit]:
        return [unit for unit in self.running if name in (unit.queue, _PARENT)]

    def free(self, place: tuple[str, str], without: Iterable[Unit] = ()) -> int:
        name, resource = place
        held = sum(unit.asked.get(resource, 0) for unit in self.holders(name) if unit not in without)
        return self.limits[name][resource] - held

    def fits(self, unit: Unit, without: Iterable[Unit] = ()) -> bool:
        return all(unit.asked[place[1]] <= self.free(place, without) for place in self.places(unit))

    def in_line(self) -> list[Unit]:
        """The units that wait, in order, without those that never fit."""
        return [unit for unit in self.line if self.fits(unit, self.running)]

    def starts_by_s(self, unit: Unit) -> float:
        """When the unit would start if no other unit got anything: in fact, or if all ran until they must have left."""
        ends: dict[int, float] = {id(each): each.ends_s for each in self.running}
        if self.has_early_ends:
            ends = {id(each): each.ends_s if each.limit_s is None else each.gone_by_s() for each in self.running}
        for time_s in sorted({self.now_s, *(max(each, self.now_s) for each in ends.values())}):
            if self.fits(unit, [each for each in self.running if ends[id(each)] <= time_s]):
                return time_s
        raise AssertionError("it fits when all have ended")

    def may_pass(self, unit: Unit, first: Unit) -> bool:
        """Whether the unit delays the first in no case."""
        if self.strategy == "fifo":
            return False
        lacking = {place[0] for place in self.places(first) if first.asked[place[1]] > self.free(place)}
        times = sorted({float(self.now_s), *(max(each.may_end_s(), self.now_s) for each in self.running)})
        start_s = next(
            time_s
            for time_s in times
            if all(
                first.asked[place[1]] <= self.free(place, [each for each in self.running if each.may_end_s() <= time_s])
                for place in self.places(first)
                if place[0] in lacking
            )
        )
        if unit.limit_s is not None and self.now_s + unit.limit_s + unit.grace_s <= start_s:
            return True
        for place in self.places(first):
            gone = [each for each in self.running if each.is_shown and self.now_s < each.gone_by_s() <= start_s]
            spare = self.free(place, gone if place[0] in lacking else ()) - first.asked[place[1]]
            if unit.asked.get(place[1], 0) > max(spare, 0):
                return False
        return True

    # The course of time.

    def step(self) -> None:
        for unit in [each for each in self.running if each.ends_s <= self.now_s]:
            self.end(unit)
        while self.coming and self.coming[0].arrives_s <= self.now_s:
            self.line.append(self.coming.pop(0))
            self.show(self.line[-1])
        self.note_first()
        granted = [int(grant.uids[0][1:].split("-")[0]) for grant in self.engine.admit(self.now_s, 1000)]
        for number in granted:
            unit = next(each for each in self.line if each.number == number)
            line = self.in_line()
            assert self.fits(unit)
            assert unit is line[0] or not self.fits(line[0]), "the first fits and was passed"
            assert unit is line[0] or self.may_pass(unit, line[0]), (unit, line[0])
            self.start(unit)
        line = self.in_line()
        for unit in line[1:]:
            assert not self.fits(line[0]), "the first fits and waits"
            if self.fits(unit):
                assert not self.may_pass(unit, line[0]), (unit, line[0])
                wait = self.engine.peek_wait_reason(self.tasks(unit)[0].uid)
                assert wait is not None
                assert wait.why is WaitReason.BEHIND_FIRST

    def start(self, unit: Unit) -> None:
        if unit.number in self.bounds:
            assert self.now_s <= self.bounds[unit.number], unit
        self.line.remove(unit)
        unit.started_s = self.now_s
        self.running.append(unit)
        self.note_first()

    def note_first(self) -> None:
        line = self.in_line()
        if line and line[0].number not in self.bounds:
            self.bounds[line[0].number] = self.starts_by_s(line[0])

    def run(self, restarts_at: frozenset[int] = frozenset()) -> None:
        """``restarts_at``: the seconds from the beginning at which the engine is restarted."""
        for unit in [each for each in self.coming if each.queue == _OTHER_QUEUE]:
            self.coming.remove(unit)
            unit.started_s = self.now_s
            self.running.append(unit)
            self.show_start(unit)
        while True:
            self.step()
            for unit in self.running:
                self.show_start(unit)
            times = [each.ends_s for each in self.running] + [each.arrives_s for each in self.coming[:1]]
            if not times:
                break
            self.now_s = max(min(times), self.now_s)
            if self.now_s - _BEGIN_S in restarts_at:
                self.restart()
        assert not self.in_line(), "all that fit have started"


@st.composite
def unit_of(draw: Any, number: int, is_early: bool) -> Unit:
    limit_s = draw(st.sampled_from([None, 2, 5, 10, 20]))
    grace_s = draw(st.sampled_from([0, 0, 3]))
    lasts_s = draw(st.integers(1, 25))
    if limit_s is not None:
        lasts_s = draw(st.integers(1 if is_early else limit_s, limit_s + grace_s))
    is_other = draw(st.integers(0, 5)) == 0
    return Unit(
        number=number,
        arrives_s=_BEGIN_S + (0 if is_other else number // 3 * draw(st.sampled_from([1, 1, 2]))),
        pods=draw(st.sampled_from([1, 1, 1, 2, 3])),
        requests=draw(
            st.fixed_dictionaries(
                {"cpu": st.sampled_from([1000, 1000, 2000, 4000, 7000])},
                optional={"nvidia.com/gpu": st.integers(1, 3)},
            )
        ),
        limit_s=limit_s,
        grace_s=grace_s if limit_s is not None else 0,
        lasts_s=lasts_s,
        queue=_OTHER_QUEUE if is_other else _QUEUE,
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_the_first_in_line_starts_no_later_than_without_the_others(data: Any) -> None:
    draw = data.draw
    is_early = draw(st.booleans())
    units = [draw(unit_of(number, is_early)) for number in range(draw(st.integers(2, 14)))]
    for unit, later in pairwise(units):
        later.arrives_s = max(later.arrives_s, unit.arrives_s)
    limits = {
        _QUEUE: {"cpu": draw(st.sampled_from([6000, 8000, 10000])), "nvidia.com/gpu": draw(st.sampled_from([2, 4]))},
        _PARENT: draw(st.sampled_from([{}, {"cpu": 10_000}, {"cpu": 12_000, "nvidia.com/gpu": 4}])),
    }
    strategy = draw(st.sampled_from(["fifo", "backfill", "backfill", "sla"]))
    restarts_at = draw(st.frozensets(st.integers(1, 40), max_size=3))
    World(strategy, limits, units, is_early).run(restarts_at)


def _written(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == "cpu" else str(amount)


def test_the_reference_notices_a_delay() -> None:
    """Without protection small units delay a large one."""
    units = [
        Unit(0, _BEGIN_S, 1, {"cpu": 6000}, None, 0, 5),
        Unit(1, _BEGIN_S, 1, {"cpu": 8000}, None, 0, 5),
        Unit(2, _BEGIN_S, 1, {"cpu": 4000}, None, 0, 50),
    ]
    world = World("traverse", {_QUEUE: {"cpu": 10_000}}, units, early=False)
    with pytest.raises(AssertionError):
        world.run()


def check_what_is_kept(engine: QueueEngine, queues: Iterable[str]) -> None:
    """The first in line of each queue, its forecast, the units that are held back for it, and what pods with limits
    hold: as they would be found now."""
    cache = engine._cache
    cache.process_changes()
    now_s = cache.time_of_day_s
    for name in queues:
        kept = cache.protected_units.get(name)
        if kept is not None:
            assert kept == head_of_line._find_protected(cache, name)
            forecast = cache.forecaster.forecast(name, kept.ask, now_s, **head_of_line._forecast_options(kept))
            assert cache.protected_units.forecast(name, now_s, cache.ledger) in (None, forecast)
            indexes = (
                (cache.grant_index, cache.held_units.is_held),
                (cache.enqueue_index, cache.held_units.is_enqueue_held),
            )
            for is_enqueue, (index, is_held) in enumerate(indexes):
                for limited_ask, _, unit in index.heads(name):
                    if is_held(name, limited_ask) and not cache.reviews.is_due(name):
                        assert head_of_line._find_delay(cache, kept, forecast, unit, is_enqueue=bool(is_enqueue))
        held = [
            record
            for record in cache.records.values()
            if record.task.run_time is not None
            and record.state in (AllocationState.ALLOCATED, *PROMISED)
            and name in cache.tree.path(record.queue)
        ]
        for with_gangs in (False, True):
            counted = sum(each.counted_amounts["cpu"] for each in held if with_gangs or each.gang is None)
            assert cache.run_times.held(name, "cpu", with_gangs=with_gangs) == counted


class CrowdedWorld:
    """Four queues below one limit, with protected units. Pods start and end everywhere, with and without run-time
    limits. After each step, all units wait for a reason, and what is kept is as it would be found now."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.engine = QueueEngine()
        self.now_s = float(_BEGIN_S)
        self.limit = random.choice([20, 60, 300])
        self.strategy = random.choice(["backfill", "backfill", "fifo"])
        self.run_time_share = random.choice([0.0, 0.5, 1.0])
        self.queues = ["a", "b", "c", "d"]
        self.running: dict[str, TaskInfo] = {}
        self.waiting: dict[str, TaskInfo] = {}
        self.number = 0
        self.engine.queue_applied(a_queue("p", self.limit))
        for name in self.queues:
            cpu = random.choice([None, None, self.limit, self.limit // 2])
            self.engine.queue_applied(a_queue(name, cpu, "p", annotations={DEQUEUE_STRATEGY: self.strategy}))

    def create(self) -> None:
        self.number += 1
        random = self.random
        group = f"g{self.number}" if random.random() < 0.15 else ""
        queue = random.choice(self.queues)
        cpu = random.choice([1, 1, 2, 3, self.limit // 4, self.limit // 2])
        if group:
            phase = random.choice(["Pending", "Inqueue"])
            self.engine.group_applied(a_group(group, queue, 1, phase, minResources={"cpu": cpu}))
        limit_s = random.choice([5, 30, 30, 100]) if random.random() < self.run_time_share else None
        task = TaskInfo(
            uid=f"u{self.number}",
            namespace="ns",
            name=f"p{self.number}",
            requests={"cpu": cpu * 1000},
            created_s=float(_BEGIN_S + self.number),
            group=group,
            queue="" if group else queue,
            opted_in=True,
            gates=(GATE,),
            run_time=None if limit_s is None else RunTime(limit_s, random.choice([0.0, 0.0, 10.0])),
        )
        self.waiting[task.uid] = task
        self.engine.task_applied(task)

    def start(self, uid: str) -> None:
        task = self.running[uid]
        if task.node_name and (task.run_time is None or task.run_time.started_s is not None):
            return
        run_time = task.run_time
        if run_time is not None and task.node_name:
            run_time = msgspec.structs.replace(run_time, started_s=self.now_s)
        self.running[uid] = msgspec.structs.replace(task, node_name="n", gates=(), run_time=run_time)
        self.engine.task_applied(self.running[uid])

    def end(self, uid: str) -> None:
        del self.running[uid]
        self.engine.task_removed(uid)

    def admit(self) -> None:
        self.now_s += self.random.choice([0.0, 0.0, 1.0, 10.0, 90.0])
        for grant in self.engine.admit(self.now_s, 10_000):
            for uid in grant.uids:
                self.running[uid] = self.waiting.pop(uid)
        assert self.engine.next_deadline_s() is None
        for uid in self.waiting:
            wait = self.engine.peek_wait_reason(uid)
            assert wait is not None
            assert wait.why is not WaitReason.WAITING_TURN, (uid, wait)

    def run(self) -> None:
        for _ in range(120):
            action = self.random.random()
            if action < 0.35:
                self.create()
            elif action < 0.65:
                self.admit()
            elif self.running:
                uid = self.random.choice(list(self.running))
                (self.start if action < 0.85 else self.end)(uid)
            check_what_is_kept(self.engine, self.queues)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 32))
def test_units_are_held_back_no_longer_than_the_first_in_line_needs(seed: int) -> None:
    CrowdedWorld(Random(seed)).run()


class ProgressWorld:
    """Queues with strategies, windows and groups, under random changes. All units that can ever start do so in the
    end."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.engine = QueueEngine(draw(st.sampled_from([DEFAULTS, _SLA_CONF])))
        self.engine.namespace_applied({"metadata": {"name": "ns"}})
        self.now_s = float(_BEGIN_S)
        self.queues: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, TaskInfo] = {}
        self.number = 0
        for name in ("a", "b", "a1", "a2"):
            self.plant(name)

    def plant(self, name: str) -> None:
        """A queue is created, or changed."""
        draw = self.draw
        annotations = {DEQUEUE_STRATEGY: draw(st.sampled_from(["fifo", "backfill", "backfill", "traverse"]))}
        if draw(st.integers(0, 3)) == 0:
            annotations[MAX_PODS_WITHOUT_NODE] = str(draw(st.integers(1, 4)))
        limits = {"a": 8, "b": draw(st.sampled_from([3, 6])), "a1": draw(st.sampled_from([None, 4, 6])), "a2": None}
        parent = {"a1": "a", "a2": draw(st.sampled_from(["a", "a", ""]))}.get(name, "")
        self.queues[name] = a_queue(name, limits[name], parent, annotations=annotations)
        self.engine.queue_applied(self.queues[name])

    def regroup(self, name: str) -> None:
        minimum = self.draw(st.integers(1, 3))
        least = self.draw(st.sampled_from([{}, {"minResources": {"cpu": minimum}}, {"minResources": {"cpu": 5}}]))
        if name not in self.groups:
            queue = self.draw(st.sampled_from(["a1", "a2", "b"]))
            self.groups[name] = a_group(
                name, queue, minimum, self.draw(st.sampled_from(["Pending", "Inqueue"])), **least
            )
        self.engine.group_applied(self.groups[name])

    def create(self) -> None:
        self.number += 1
        draw = self.draw
        group = draw(st.sampled_from(["", "", "g", "h"]))
        opted_in = draw(st.integers(0, 4)) > 0
        limit_s = draw(st.sampled_from([None, None, 5, 20]))
        task = TaskInfo(
            uid=f"u{self.number}",
            namespace="ns",
            name=f"p{self.number}",
            requests={"cpu": draw(st.sampled_from([1000, 1000, 2000, 5000, 9000]))},
            priority=draw(st.sampled_from([0, 0, 5])),
            created_s=float(_BEGIN_S + self.number),
            group=group,
            queue="" if group else draw(st.sampled_from(["a1", "a2", "b"])),
            opted_in=opted_in,
            gates=(GATE,) if opted_in else (),
            run_time=None if limit_s is None else RunTime(limit_s),
            sla_s=draw(st.sampled_from([None, 1.0, 10.0])),
        )
        self.pods[task.uid] = task
        self.engine.task_applied(task)

    def admit(self) -> None:
        self.now_s += self.draw(st.sampled_from([0.0, 1.0, 10.0]))
        self.engine.admit(self.now_s, 10_000)
        for uid, task in self.pods.items():
            wait = self.engine.peek_wait_reason(uid)
            # A member of a group that fits may wait for a member before it that does not.
            is_next = wait is not None and wait.why is WaitReason.WAITING_TURN and "has capacity" not in wait.message
            assert not is_next, (uid, wait)
            assert task.group or wait is None or wait.why is not WaitReason.WAITING_TURN, (uid, wait)

    def place(self, uid: str) -> None:
        if self.engine.peek_wait_reason(uid) is None:
            self.engine.placed(uid)
            run_time = self.pods[uid].run_time
            started = None if run_time is None else msgspec.structs.replace(run_time, started_s=self.now_s)
            self.pods[uid] = msgspec.structs.replace(self.pods[uid], run_time=started)
            self.engine.task_applied(self.pods[uid])

    def resize(self, uid: str) -> None:
        self.pods[uid] = msgspec.structs.replace(self.pods[uid], requests={"cpu": 3000})
        self.engine.task_applied(self.pods[uid])

    def end(self, uid: str) -> None:
        del self.pods[uid]
        self.engine.task_removed(uid)

    def finish(self) -> None:
        """All pods that hold capacity end, and groups are deleted, until nothing changes."""
        while True:
            self.now_s += 1
            self.engine.admit(self.now_s, 10_000)
            holding = [uid for uid in self.pods if self.engine.peek_wait_reason(uid) is None]
            for uid in holding:
                self.end(uid)
            if holding:
                continue
            if not self.groups:
                break
            # A group that can never start may keep the capacity that is set aside for it.
            name, _ = self.groups.popitem()
            self.engine.group_removed("ns", name)

    def check_what_is_kept(self) -> None:
        check_what_is_kept(self.engine, self.queues)

    def check_that_no_strategy_blocks_the_rest(self) -> None:
        engine = QueueEngine()
        engine.namespace_applied({"metadata": {"name": "ns"}})
        for queue in self.queues.values():
            engine.queue_applied({**queue, "metadata": {"name": queue["metadata"]["name"]}})
        for group in self.groups.values():
            engine.group_applied(group)
        for task in self.pods.values():
            engine.task_applied(task)
        assert engine.admit(self.now_s, 10_000) == [], "without strategies a unit would start"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_protection_blocks_no_unit_without_end(data: Any) -> None:
    world = ProgressWorld(data.draw)
    for _ in range(data.draw(st.integers(5, 30))):
        action = data.draw(
            st.sampled_from(["create"] * 5 + ["admit"] * 3 + ["place", "end", "resize", "resize", "plant", "regroup"])
        )
        if action in ("create", "admit"):
            getattr(world, action)()
        elif action == "plant":
            world.plant(data.draw(st.sampled_from(["a", "b", "a1", "a2"])))
        elif action == "regroup":
            world.regroup(data.draw(st.sampled_from(["g", "h"])))
        elif world.pods:
            getattr(world, action)(data.draw(st.sampled_from(sorted(world.pods))))
        world.check_what_is_kept()
    world.finish()
    world.check_that_no_strategy_blocks_the_rest()
