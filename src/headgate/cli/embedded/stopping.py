"""Stops the ``headgate up`` that serves a data folder, and no other process.

The lock of the store says whether a process serves the folder, and the record (``process_record.py``) which one. The
signal goes through a pidfd where the kernel has them: between the check and the signal no other process can get the id.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

import msgspec

from headgate.cli.embedded.process_record import ProcessRecord, read_record, remove_record, start_time
from headgate.store.io.database_file import StoreError, lock_owner

_POLL_S: Final = 0.05
_SETTLE_S: Final = 2.0
"""How long a process that has the lock and no record may take to write the record, or to end."""


class StopResult(msgspec.Struct, frozen=True):
    text: str
    is_stopped: bool
    """Whether nothing serves the folder now."""


def stop_server(data: Path, timeout_s: float, *, force: bool) -> StopResult:
    """``force``: the process is killed if it does not stop in time."""
    if not data.is_dir():
        return StopResult(f"nothing runs in {data}: there is no such folder", True)
    deadline_s = time.monotonic() + min(_SETTLE_S, timeout_s)
    while True:
        try:
            owner = lock_owner(data)
        except StoreError as problem:
            return StopResult(str(problem), False)
        record = read_record(data)
        if owner is None:
            return _nothing_runs(data, record)
        if isinstance(record, ProcessRecord) and start_time(record.pid) == record.started:
            return _stop(data, record, timeout_s, force)
        if time.monotonic() >= deadline_s:
            return StopResult(_unknown_owner(data, owner, record), False)
        time.sleep(_POLL_S)


def _nothing_runs(data: Path, record: ProcessRecord | str | None) -> StopResult:
    if record is None:
        return StopResult(f"nothing runs in {data}", True)
    remove_record(data)
    if isinstance(record, str):
        return StopResult(f"nothing runs in {data}; removed a record that could not be read: {record}", True)
    return StopResult(
        f"nothing runs in {data}: process {record.pid} has ended without a clean stop; nothing that the server "
        "acknowledged is lost",
        True,
    )


def _unknown_owner(data: Path, owner: str, record: ProcessRecord | str | None) -> str:
    if isinstance(record, str):
        why = record
    elif record is None:
        why = "it has no record of its own: it starts, it ends, it is another command, or an older version started it"
    else:
        why = f"the record in the folder is of process {record.pid}, which does not run on this machine"
    return (
        f"process {owner} uses {data} and was not stopped: {why}. Wait until it has ended, or stop it where it was "
        "started"
    )


def _stop(data: Path, record: ProcessRecord, timeout_s: float, force: bool) -> StopResult:
    try:
        _signal(record, signal.SIGTERM)
    except PermissionError:
        return StopResult(f"process {record.pid} belongs to another user: run this command as that user", False)
    if _has_ended(record, timeout_s):
        remove_record(data)
        return StopResult(f"stopped process {record.pid}; everything is kept in {data}", True)
    if not force:
        return StopResult(
            f"process {record.pid} still runs {timeout_s:g} s after SIGTERM: wait longer with --timeout, or kill it "
            "with --force (nothing that the server acknowledged is lost)",
            False,
        )
    _signal(record, signal.SIGKILL)
    if not _has_ended(record, max(timeout_s, _SETTLE_S)):
        return StopResult(
            f"process {record.pid} still runs after SIGKILL: it waits for a disk or another device", False
        )
    remove_record(data)
    return StopResult(
        f"killed process {record.pid}, which did not stop within {timeout_s:g} s; everything that the server "
        f"acknowledged is kept in {data}",
        True,
    )


def _signal(record: ProcessRecord, number: signal.Signals) -> None:
    """Nothing happens if the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            if start_time(record.pid) == record.started:
                os.kill(record.pid, number)
            return
        process = os.pidfd_open(record.pid)
        try:
            if start_time(record.pid) == record.started:
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)


def _has_ended(record: ProcessRecord, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while start_time(record.pid) == record.started:
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_POLL_S)
    return True
