"""Queue statuses are written in batches, small ones while admissions are pending; every queue is written in time."""

from __future__ import annotations

from headgate.quota.status.status_batches import StatusBatches
from headgate.quota.status.workload_counters import QueueRef


def queues(count: int) -> list[QueueRef]:
    return [("cluster queue", f"cq-{number:04}") for number in range(count)]


def test_a_few_queues_are_one_batch_when_idle() -> None:
    overdue = StatusBatches()
    overdue.add(queues(60))
    assert overdue.take(is_busy=False) == queues(60)
    assert not overdue


def test_while_there_are_admissions_to_write_batches_are_small() -> None:
    overdue = StatusBatches()
    overdue.add(queues(60))
    assert len(overdue.take(is_busy=True)) < 10


def test_the_oldest_queue_comes_first_however_often_others_change() -> None:
    overdue = StatusBatches()
    overdue.add(queues(60))
    seen: list[QueueRef] = []
    for _ in range(15):
        taken = overdue.take(is_busy=True)
        overdue.add(taken)  # they change again at once
        seen += taken
    assert seen == queues(60)


def test_of_two_thousand_queues_the_last_is_written_within_seconds() -> None:
    overdue = StatusBatches()
    overdue.add(queues(2_000))
    batches = 0
    while overdue:
        overdue.take(is_busy=True)
        batches += 1
    assert batches < 130


def test_a_queue_that_changes_twice_is_written_once() -> None:
    overdue = StatusBatches()
    overdue.add(queues(1))
    overdue.add(queues(1))
    assert overdue.take(is_busy=False) == queues(1)
    assert overdue.take(is_busy=False) == []
