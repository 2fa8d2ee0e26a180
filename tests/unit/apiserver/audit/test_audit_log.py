"""The audit log file: one line per event, rotated, and never a reason for a request to wait."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.apiserver.io.audit_log import AuditLog


def eventually(holds: Callable[[], bool]) -> None:
    """The log is written by a thread of its own."""
    ends_s = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < ends_s
        time.sleep(0.005)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0)
    yield tmp_path / "audit.log"
    os.umask(before)


def test_each_event_is_a_line_in_order_and_for_the_owner_only(path: Path) -> None:
    log = AuditLog(path)
    for number in range(1200):
        log.write({"n": number})
    log.close()
    assert [line["n"] for line in lines(path)] == list(range(1200))
    assert all(line["stageTimestamp"].endswith("Z") for line in lines(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_is_continued_after_a_restart(path: Path) -> None:
    for number in range(2):
        log = AuditLog(path)
        log.write({"n": number})
        log.close()
    assert [line["n"] for line in lines(path)] == [0, 1]


def test_a_large_file_is_set_aside_and_few_are_kept(path: Path) -> None:
    for number in range(6):
        log = AuditLog(path, max_bytes=10)
        log.write({"n": number})
        log.close()
    assert [line["n"] for line in lines(path)] == [5]
    kept = sorted(each.name for each in path.parent.iterdir())
    assert kept == ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"]
    assert [line["n"] for line in lines(path.with_name("audit.log.1"))] == [4]


def test_a_file_that_was_moved_away_is_opened_again(path: Path) -> None:
    log = AuditLog(path)
    log.write({"n": 1})
    eventually(lambda: bool(path.read_text()))
    path.rename(path.with_name("moved"))
    log.write({"n": 2})
    log.close()
    assert [line["n"] for line in lines(path.with_name("moved"))] == [1]
    assert [line["n"] for line in lines(path)] == [2]


def test_a_full_disk_loses_events_and_their_number_is_logged_when_there_is_space(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")  # only Linux has that device; a full disk without it: test_full_disk.py
    path.symlink_to(full)
    log = AuditLog(path)

    def has_lost(events: int) -> bool:
        return log.lost_events == events

    for number in range(3):
        log.write({"n": number})
        eventually(partial(has_lost, number + 1))
    path.unlink()
    log.write({"n": 3})
    log.close()
    assert [line.get("n", line.get("lostEvents")) for line in lines(path)] == [3, 3]
    assert "lostEvents" in lines(path)[0]
    first, second = (record.getMessage() for record in caplog.records)
    assert "cannot be written" in first
    assert "is written again; 3 events are lost" in second


def test_a_missing_folder_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AuditLog(tmp_path / "none" / "audit.log")
