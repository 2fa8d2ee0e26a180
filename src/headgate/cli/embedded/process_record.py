"""The record of the process that serves a data folder: ``headgate.pid``.

A process id alone does not identify a process: the kernel gives the ids of ended processes to new ones. The record
therefore has the start time of the process, too. Whether a process serves the folder is decided by the lock of the
store (``store/io/database_file.py``), never by this file. ``cli/embedded/stopping.py`` reads it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from headgate.apiserver.io.certificate_files import FileProblem, read_file, write_file

FILE_NAME: Final = "headgate.pid"
_PROC: Final = Path("/proc")
_STATE, _START_TIME = 0, 19
"""Fields of ``/proc/PID/stat`` after the name of the program."""
_ENDED: Final = ("Z", "X", "x")


class ProcessRecord(msgspec.Struct, frozen=True):
    pid: int
    started: str
    """When the process started, as :func:`start_time` has it."""
    url: str = ""
    kubeconfig: str = ""


def start_time(pid: int) -> str:
    """A text that no other process with this id has; empty if no process with this id runs."""
    if (_PROC / "self" / "stat").exists():
        try:
            text = (_PROC / str(pid) / "stat").read_text(errors="replace")
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""
        fields = text.rpartition(")")[2].split()  # the name of the program may have spaces and parentheses
        return "" if fields[_STATE] in _ENDED else f"{boot} {fields[_START_TIME]}"
    done = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = done.stdout.strip().partition(" ")
    return "" if state[:1] in _ENDED else started.strip()


def own_record(url: str, kubeconfig: Path) -> ProcessRecord:
    return ProcessRecord(os.getpid(), start_time(os.getpid()), url, str(kubeconfig.absolute()))


def write_record(data: Path, record: ProcessRecord) -> None:
    """Only the process that has locked the folder calls it. Raises ``OSError``."""
    write_file(data / FILE_NAME, msgspec.json.encode(record) + b"\n", 0o600)


def read_record(data: Path) -> ProcessRecord | str | None:
    """The record; None if there is none; a message if it is damaged or cannot be read."""
    try:
        found = read_file(data / FILE_NAME)
    except FileProblem as problem:
        return str(problem)
    if found is None:
        return None
    try:
        return msgspec.json.decode(found, type=ProcessRecord)
    except msgspec.DecodeError as problem:
        return f"{data / FILE_NAME} is damaged: {problem}"


def remove_record(data: Path) -> None:
    with contextlib.suppress(OSError):
        (data / FILE_NAME).unlink(missing_ok=True)
