"""The load of Kueue's benchmark in small, decided by Kueue's scheduler and by Headgate's engine on a virtual clock.

Both have all the time they need in every tick, so what differs is decisions and not speed. Kueue evicts some of the
workloads that it admitted in the same tick, because it admits one workload of each queue at a time; Headgate withdraws
those admissions. Apart from them both admit and evict the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from quota_load import BACKLOG, EngineDecider, run
from real.kueue_load import kueue_decider

pytestmark = pytest.mark.real

TICKS = 31


def test_the_engine_decides_as_kueue_and_evicts_no_workload_in_the_tick_of_its_admission(
    kube_binaries: Path, kueue_binaries: Path, tmp_path: Path
) -> None:
    ours = run(BACKLOG, EngineDecider(), TICKS)
    with kueue_decider(tmp_path, kube_binaries, kueue_binaries) as decider:
        kueue = run(BACKLOG, decider, TICKS)
    assert {tick: ours.lasting(tick) for tick in ours.ticks} == {tick: kueue.lasting(tick) for tick in kueue.ticks}
    lasting = sum(kueue.lasting(tick)[1].total() for tick in kueue.ticks)
    assert 0 < ours.evictions == lasting <= kueue.evictions
