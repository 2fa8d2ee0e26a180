"""``headgate record``: watches a cluster, read-only, and writes its changes to a file."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Final

import click

from headgate.cli.options.cluster_access import cluster_options, connect_component, exit_with_error, rest_config_or_exit
from headgate.cli.options.data_folder import size
from headgate.cli.options.durations import read_seconds
from headgate.cli.options.log_options import log_options
from headgate.cli.options.suggestions import SuggestingChoice
from headgate.cli.options.yaml_output import dump_all
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Unreachable
from headgate.kube.timestamps import format_time, human_duration
from headgate.recording.io.discovery import MissingRights
from headgate.recording.io.recorder import ClusterRecorder, RecorderStatus
from headgate.recording.io.recording_file import RecordingError, RecordingWriter, name_key
from headgate.recording.name_hashing import NameHasher
from headgate.recording.resources import BY_NAME, RECORDED, RecordedResource, read_role

PROGRESS_S: Final = 300.0
"""How often a progress line is printed if standard error is no terminal."""
_RIGHTS_HINT: Final = "`headgate record --rights` prints a ClusterRole with all of them; --skip leaves a resource out"


@click.command(short_help="Record the changes of a cluster to a file, for audit and simulate.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--for", "duration", default="", metavar="TIME", help="Stop after this time: 7d, 12h, 30m, 1d12h.")
@click.option(
    "--hash-names",
    is_flag=True,
    help="Record hashes in place of names. Messages of Events and conditions are left out.",
)
@click.option(
    "--skip",
    multiple=True,
    type=SuggestingChoice(sorted(BY_NAME)),
    metavar="RESOURCE",
    help="Leave this resource out, such as events. May be repeated.",
)
@click.option("--rights", is_flag=True, help="Print the ClusterRole that a recorder needs, and stop.")
@cluster_options
@log_options
def command(
    file: Path | None,
    duration: str,
    hash_names: bool,
    skip: tuple[str, ...],
    rights: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Watch pods, nodes, NodeClaims, Jobs, queues, PodGroups, Workloads and Events of a cluster, and append every
    change to FILE.

    Nothing is written to the cluster. FILE grows with the number of changes. Ctrl-C stops the recorder cleanly; if it
    is killed, at most the last few seconds are lost. With an existing FILE the recording continues, and the time
    between is recorded as a gap. Environment variables, commands, images, volumes and data are never recorded.

    With --hash-names the secret key is stored in FILE.key. Continuing the recording needs it; reading does not. Keep it
    secret.

    \b
    Example:
      headgate record week.hgr --for 7d
      headgate record week.hgr --for 7d --hash-names
      headgate record --rights | kubectl apply -f -
      headgate audit week.hgr
    """
    resources = tuple(each for each in RECORDED if each.name not in skip)
    if rights:
        click.echo(dump_all([read_role(resources)]), nl=False)
        return
    if file is None:
        raise click.UsageError("name the FILE to write")
    duration_s = read_seconds(duration) if duration else 0.0
    if isinstance(duration_s, str):
        raise click.UsageError(f"--for {duration_s}")
    rest_config = rest_config_or_exit("record", kubeconfig, context)
    try:
        writer = RecordingWriter(file, hashed=hash_names)
    except RecordingError as problem:
        exit_with_error("record", str(problem))
    try:
        hasher = NameHasher(name_key(file, is_new=writer.is_new)) if hash_names else None
        asyncio.run(_record(rest_config, writer, resources, skip, hasher, duration_s))
    except MissingRights as problem:
        lines = "\n  ".join(problem.texts)
        exit_with_error("record", f"nothing was recorded:\n  {lines}\n{_RIGHTS_HINT}")
    except (RecordingError, Unreachable) as problem:
        exit_with_error("record", str(problem))
    finally:
        with contextlib.suppress(RecordingError):
            writer.close()


async def _record(
    rest_config: RESTConfig,
    writer: RecordingWriter,
    resources: tuple[RecordedResource, ...],
    skipped: tuple[str, ...],
    hasher: NameHasher | None,
    duration_s: float,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if duration_s:
        loop.call_later(duration_s, stop.set)
    started_s = time.monotonic()
    next_line_s: float | None = None

    def show(status: RecorderStatus) -> None:
        nonlocal next_line_s
        now_s, is_terminal = time.monotonic(), sys.stderr.isatty()
        line = _progress("recording", status, writer, now_s - started_s, duration_s)
        for each in status.watches.take_lines():
            click.echo(f"\r\x1b[K{each}" if is_terminal else f"{_clock()} {each}", err=True)
        if is_terminal:
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)
        elif now_s >= (next_line_s or 0.0) and (
            next_line_s is not None or status.synced + status.absent == len(resources)
        ):
            click.echo(line, err=True)
            next_line_s = now_s + PROGRESS_S

    async with connect_component(rest_config) as transport:
        recorder = ClusterRecorder(transport, writer, resources, skipped=skipped, hasher=hasher)
        await recorder.run(stop, show)
    if sys.stderr.isatty():
        click.echo("", err=True)
    click.echo(f"{writer.path}: {_progress('recorded', recorder.status, writer, time.monotonic() - started_s, 0)}")


def _clock() -> str:
    return format_time(time.time())


def _progress(verb: str, status: RecorderStatus, writer: RecordingWriter, elapsed_s: float, duration_s: float) -> str:
    parts = [
        f"{verb} for {human_duration(elapsed_s)}",
        f"{status.changes} changes, {status.deletions} deletions",
        f"{status.synced} resources synced",
        *([f"{status.absent} not served"] if status.absent else []),
        size(writer.size_bytes),
        *([f"{human_duration(max(duration_s - elapsed_s, 0))} left"] if duration_s else []),
        *([f"not watched: {status.watches.lost_names()}"] if status.watches.lost else []),
        *([f"last problem: {status.problem}"] if status.problem else []),
    ]
    return ", ".join(parts)
