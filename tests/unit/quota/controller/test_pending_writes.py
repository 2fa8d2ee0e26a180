"""Pending writes: the reason for waiting is written with a delay, once, and not at all after an admission."""

from __future__ import annotations

from headgate.quota import names
from headgate.quota.api.workload import Admission
from headgate.quota.controller.pending_writes import STATUS_DELAY_S, PendingWrites
from headgate.quota.effects import Admit, EmitWorkloadEvent, Evict, SetCondition

ADMIT = Admit("ns/w", "uid", Admission("cq", ()))


def waits(message: str, reason: str = names.WAITING_FOR_QUOTA) -> list[SetCondition | EmitWorkloadEvent]:
    condition = SetCondition("ns/w", "uid", names.QUOTA_RESERVED, False, reason, message)
    return [condition, EmitWorkloadEvent("ns/w", "uid", True, reason, message)]


def test_the_reason_for_waiting_is_written_with_a_delay() -> None:
    assert PendingWrites().add(waits("1 more needed")) == {"ns/w": STATUS_DELAY_S}


def test_of_several_reasons_only_the_last_is_written() -> None:
    asked = PendingWrites()
    asked.add(waits("1 more needed"))
    asked.add(waits("2 more needed"))
    assert list(asked.effects_of("ns/w")) == waits("2 more needed")


def test_an_admission_replaces_the_delayed_reason_and_is_due_at_once() -> None:
    asked = PendingWrites()
    asked.add(waits("1 more needed"))
    assert asked.add([ADMIT]) == {"ns/w": 0.0}
    assert list(asked.effects_of("ns/w")) == [ADMIT]


def test_the_condition_of_a_preemptor_is_written_at_once_and_kept() -> None:
    asked = PendingWrites()
    assert asked.add(waits("pending the preemption", names.WAITING_FOR_PREEMPTED)) == {"ns/w": 0.0}
    asked.add(waits("1 more needed"))
    assert len(asked.effects_of("ns/w")) == 4


def test_an_eviction_is_written_together_with_delayed_reasons() -> None:
    asked = PendingWrites()
    asked.add(waits("1 more needed"))
    evict = Evict("ns/w", "uid", names.BY_PREEMPTION, "")
    assert asked.add([evict]) == {"ns/w": 0.0}
    assert list(asked.effects_of("ns/w")) == [*waits("1 more needed"), evict]


def test_written_effects_are_dropped_and_new_ones_are_kept() -> None:
    asked = PendingWrites()
    asked.add([ADMIT])
    written = list(asked.effects_of("ns/w"))
    evict = Evict("ns/w", "uid", names.BY_PREEMPTION, "")
    asked.add([evict])
    asked.forget("ns/w", written)
    assert list(asked.effects_of("ns/w")) == [evict]
    asked.forget("ns/w", [evict])
    assert "ns/w" not in asked
    assert not asked
