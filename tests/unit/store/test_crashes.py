"""A crash at every named point; ``make torture`` runs the same for longer (``torture/crash_points.py``)."""

from __future__ import annotations

from pathlib import Path

from torture import crash_points


def test_a_crash_at_any_point_loses_no_acknowledged_or_visible_write(fast_folder: Path) -> None:
    reached = crash_points.run(fast_folder, writes=25)
    assert all(reached[point] >= 3 for point in crash_points.POINTS), reached


def test_a_crash_during_a_backup_loses_no_write(fast_folder: Path) -> None:
    reached = crash_points.run_backup(fast_folder)
    assert all(reached[point] >= 1 for point in crash_points.BACKUP_POINTS), reached
