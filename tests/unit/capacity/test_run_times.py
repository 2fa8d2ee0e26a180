"""When pods with a run-time limit release what they hold, compared with a slow, obvious reference."""

from __future__ import annotations

import math
from random import Random

import msgspec
import pytest

from capacity_builders import a_task
from headgate.capacity.api.times import RunTime
from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import PodRecord
from headgate.capacity.cache.run_times import RunTimes

_NOW_S = 1_000_000.1
_PATH = ("q", "p", "root")


def a_record(name: str, cpu: int, run_time: RunTime | None, *, queue: str = "q", is_in_gang: bool = False) -> PodRecord:
    record = PodRecord(msgspec.structs.replace(a_task(name), run_time=run_time))
    record.queue, record.counted_amounts = queue, {"cpu": cpu}
    record.gang = Gang("ns", "g", lambda task: task.name) if is_in_gang else None
    return record


def ends_s(record: PodRecord) -> float:
    run_time = record.task.run_time
    assert run_time is not None
    return run_time.limit_s + (_NOW_S if run_time.started_s is None else run_time.started_s)


def gone_s(record: PodRecord) -> float:
    run_time = record.task.run_time
    assert run_time is not None
    found_s = math.inf if run_time.started_s is None else ends_s(record) + run_time.grace_s
    return found_s if found_s > _NOW_S else math.inf


def held(records: list[PodRecord]) -> int:
    return sum(each.counted_amounts["cpu"] for each in records)


def released_at_s(records: list[PodRecord], amount: int) -> float:
    total, found_s = 0, _NOW_S
    for record in sorted(records, key=ends_s):
        if total >= amount:
            break
        total, found_s = total + held([record]), max(ends_s(record), _NOW_S)
    return found_s if total >= amount else math.inf


@pytest.mark.parametrize("seed", range(6))
def test_what_is_released_and_when_is_as_in_a_slow_reference(seed: int) -> None:
    random = Random(seed)
    spread = random.choice([1, 5, 1000])  # few times: many pods end together
    run_times, records = RunTimes(), list[PodRecord]()
    run_times.set_path("q", _PATH)
    for number in range(400):
        run_time = RunTime(
            float(random.randint(1, spread)),
            random.choice([0.0, 3.0]),
            random.choice([None, *(_NOW_S - back_s for back_s in (0.0, 2.0, 500.0))]),
        )
        records.append(a_record(f"p{number}", random.randint(1, 4), run_time, is_in_gang=random.random() < 0.3))
        run_times.add(records[-1])
        if random.random() < 0.4:
            run_times.remove(records.pop(random.randrange(len(records))))
        if number % 50 and number < 398:
            continue
        for queue in _PATH:
            for with_gangs in (False, True):
                counted = [each for each in records if with_gangs or each.gang is None]
                whole = held(counted)
                assert run_times.held(queue, "cpu", with_gangs=with_gangs) == whole
                for amount in (0, 1, whole // 3, whole // 2, whole, whole + 1):
                    found_s = run_times.released_at_s(queue, "cpu", amount, _NOW_S, with_gangs=with_gangs)
                    assert found_s == released_at_s(counted, amount)
                for until_s in (_NOW_S, _NOW_S + 2, _NOW_S + spread, math.inf):
                    surely = held([each for each in counted if gone_s(each) < math.inf and gone_s(each) <= until_s])
                    assert run_times.released_by(queue, "cpu", until_s, _NOW_S, with_gangs=with_gangs) == surely
        assert run_times.has_unstarted("p") is any(
            each.task.run_time is not None and each.task.run_time.started_s is None for each in records
        )
    for each in records:
        run_times.remove(each)
    assert run_times.held("root", "cpu", with_gangs=True) == 0
    assert not run_times.has_unstarted("root")


def test_pods_count_in_the_ancestors_that_their_queue_has_now() -> None:
    run_times = RunTimes()
    run_times.set_path("q", ("q", "p"))
    run_times.add(a_record("a", 2, RunTime(10.0, 0.0, _NOW_S)))
    run_times.add(a_record("b", 1, None))
    assert [run_times.held(name, "cpu", with_gangs=True) for name in ("q", "p", "r")] == [2, 2, 0]
    run_times.set_path("q", ("q", "r"))
    assert [run_times.held(name, "cpu", with_gangs=True) for name in ("q", "p", "r")] == [2, 0, 2]
    run_times.set_path("q", ("q",))
    assert [run_times.held(name, "cpu", with_gangs=True) for name in ("q", "p", "r")] == [2, 0, 0]
