"""Makes ``examples/bill/morning.hgr``, the recording of docs/the-bill.md: volcano#4710 with Headgate's own engines.

A queue admits two of six executors. They did not opt in to the queue gate, so an autoscaler buys a machine for each of
them. ``PYTHONPATH=tests python tests/recorded_example.py`` writes the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import headgate
from headgate.recording.blocks import MAGIC, encode_block
from headgate.recording.changes import RecordedChange, ResourceSynced, SessionEnded, SessionStarted
from headgate.recording.records import RecordTable, encode_records
from headgate.recording.resources import BY_NAME
from unit.audit.virtual_history import RecordedCluster

FILE: Final = Path(__file__).resolve().parents[1] / "examples" / "bill" / "morning.hgr"
START_S: Final = 1_790_150_400.0  # a Wednesday morning
EXECUTORS: Final = 6
LIMIT_CPU: Final = 2
RUN_S: Final = 1500
RECORDED_S: Final = 3 * 3600.0


def recorded_morning() -> list[RecordedChange]:
    cluster = RecordedCluster(autoscaler=True)
    cluster.cluster.now_s = START_S
    cluster.queue("etl", str(LIMIT_CPU))
    cluster.run(60)
    for number in range(1, EXECUTORS + 1):
        cluster.pod(f"executor-{number}", "etl", gated=False, run_s=RUN_S)
    cluster.run(RECORDED_S)
    return cluster.observer.ordered()


def encode(changes: list[RecordedChange]) -> bytes:
    """As ``headgate record`` writes it: the queue is there at the start, everything else is observed."""
    table, names = RecordTable(), tuple(BY_NAME)
    records = [table.record_notice(SessionStarted(START_S, headgate.__version__, False, names))]
    initial = [each for each in changes if each.at_s < START_S + 60]
    for each in initial:
        records += table.record_state(each.resource, each.object, START_S, observed=False)
    revision = max(each.revision for each in initial)
    records += [table.record_notice(ResourceSynced(START_S, name, revision)) for name in names]
    for each in changes[len(initial) :]:
        if each.deleted:
            records += table.record_deletion(each.resource, *each.key, each.at_s, each.revision)
        else:
            records += table.record_state(each.resource, each.object, each.at_s, observed=True)
    records.append(table.record_notice(SessionEnded(START_S + 60 + RECORDED_S)))
    return MAGIC + encode_block(encode_records(records))


if __name__ == "__main__":
    FILE.write_bytes(encode(recorded_morning()))
