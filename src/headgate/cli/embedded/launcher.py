"""Starts ``headgate up`` as another process, and waits until it serves or has ended.

``headgate up --detach`` leaves the process running; ``headgate.testing`` keeps a pipe to it, so that it stops when the
tests end. ``cli/embedded/stopping.py`` stops a process that was left running.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.cli.embedded.start_report import StartReport, read_report

LOG_NAME: Final = "headgate.log"
_TAIL_BYTES: Final = 4096
_SHOWN_LINES: Final = 5
_STOP_S: Final = 10.0


class LaunchFailed(Exception):
    """The process did not start to serve. The text says why; ``exit_code`` is that of the process."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class LaunchedServer(msgspec.Struct, frozen=True):
    process: subprocess.Popen[bytes]
    report: StartReport
    log: Path


def open_log(data: Path) -> int:
    """Creates the data folder if necessary, and opens its log for more lines. Raises ``LaunchFailed``."""
    path = data / LOG_NAME
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)  # it may have names of objects
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise LaunchFailed(
            f"the log file {path} cannot be written: {error.strerror}; choose another folder with --data"
        ) from error
    return descriptor


def launch(arguments: Sequence[str], data: Path, *, lifeline: int | None = None) -> LaunchedServer:
    """Runs ``headgate up`` with the arguments. ``lifeline``: the server stops when the other end of this pipe is
    closed. Raises ``LaunchFailed``, and ``KeyboardInterrupt`` after it has stopped the process."""
    log = data / LOG_NAME
    log_descriptor = open_log(data)
    written_before = os.fstat(log_descriptor).st_size
    reading, writing = os.pipe()
    inherited = [writing] if lifeline is None else [writing, lifeline]
    command = [sys.executable, "-m", "headgate", "up", *arguments, "--notify-fd", str(writing)]
    if lifeline is not None:
        command += ["--stop-fd", str(lifeline)]
    try:
        with _closed_at_end(log_descriptor, writing):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log_descriptor,
                stderr=log_descriptor,
                pass_fds=inherited,
                start_new_session=True,  # neither Ctrl-C nor the end of the terminal reaches it
            )
    except OSError as error:
        os.close(reading)
        raise LaunchFailed(f"{sys.executable} cannot be started: {error.strerror}") from error
    try:
        with open(reading, "rb") as pipe:
            report = read_report(pipe.readline())
    except BaseException:
        stop_child(process)
        raise
    if report is not None and not report.problem:
        return LaunchedServer(process, report, log)
    exit_code = process.wait()
    if report is not None:
        raise LaunchFailed(report.problem, exit_code or 1)
    said = "\n".join(_last_lines(log, written_before))
    how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
    raise LaunchFailed(f"the server {how} before it was ready; {log} ends with:\n{said}", max(exit_code, 1))


def stop_child(process: subprocess.Popen[bytes], timeout_s: float = _STOP_S) -> None:
    """Stops a child of this process; it is killed if it does not stop in time."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _closed_at_end(*descriptors: int) -> Iterator[None]:
    try:
        yield
    finally:
        for each in descriptors:
            os.close(each)


def _last_lines(log: Path, since: int) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(since, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-_SHOWN_LINES:]
    except OSError as error:
        return [f"(it cannot be read: {error.strerror})"]
