"""``headgate audit``: checks a live cluster, a recording or a store, and computes the bill."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from headgate.audit.auditor import AuditResult, AuditSettings, audit
from headgate.audit.prices import PriceTable, read_prices
from headgate.audit.report import document, text_lines
from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, rest_config_or_exit
from headgate.cli.options.data_folder import progress_line
from headgate.cli.options.durations import read_seconds
from headgate.cli.options.listing import document_text
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import YAML, output_option
from headgate.cli.options.suggestions import SuggestingChoice
from headgate.cli.wiring.live_audit import WatchOptions, missing_rights_text, watch_cluster
from headgate.cli.wiring.snapshot_files import read_documents
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Unreachable
from headgate.recording.changes import HistoryEvent
from headgate.recording.history import Survey, ordered_changes, survey
from headgate.recording.io.discovery import MissingRights, list_cluster
from headgate.recording.io.recording_file import RecordingError, RecordingReader, file_problem, is_recording
from headgate.recording.io.store_file import read_store
from headgate.recording.resources import BY_NAME, RECORDED
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS

_BROKEN: Final = 1
_UNKNOWN: Final = 2
_NOT_NEEDED: Final = "events"
"""An audit of a live cluster does not read Events."""


class _Outcome(msgspec.Struct, frozen=True):
    result: AuditResult
    found: Survey
    damage: str = ""


@click.command(short_help="Check every invariant of a cluster, a recording or a store, and compute the bill.")
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option("--prices", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Prices (YAML).")
@click.option(
    "--stuck-after", default="10m", show_default=True, metavar="TIME", help="How long gates and quota may be left over."
)
@click.option(
    "--starved-after",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="How long a passed unit may wait.",
)
@click.option(
    "--scheduler-name",
    "served",
    multiple=True,
    default=sorted(QUEUE_SCHEDULERS),
    show_default=True,
    metavar="NAME",
    help="Pods of this scheduler are in Volcano-style queues. May be repeated.",
)
@click.option("--strict", is_flag=True, help="Also exit with 1 if an invariant is only perhaps broken.")
@click.option(
    "--skip",
    multiple=True,
    type=SuggestingChoice(sorted(BY_NAME)),
    metavar="RESOURCE",
    help="On a live cluster: do not read this resource. May be repeated.",
)
@click.option("--watch", is_flag=True, help="Go on: report findings of the live cluster as they appear.")
@click.option("--for", "duration", default="", metavar="TIME", help="With --watch: stop after this time (12h, 7d).")
@click.option(
    "--metrics-listen",
    default="",
    metavar="HOST:PORT",
    help="With --watch: the address for /metrics, /healthz, /livez and /readyz, over HTTP without authentication."
    " [default: not served]",
)
@output_option
@cluster_options
@log_options
def command(
    source: Path | None,
    prices: Path | None,
    stuck_after: str,
    starved_after: str,
    served: tuple[str, ...],
    strict: bool,
    skip: tuple[str, ...],
    watch: bool,
    duration: str,
    metrics_listen: str,
    output: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Check SOURCE: a recording (headgate record), a data folder or backup of the embedded server (headgate up), or,
    without SOURCE, the cluster as it is now.

    A recording and a store are checked at every revision. A list of the cluster shows states only: which invariants are
    broken now, not how it happened. What follows from missing states is never reported as certain.

    With --watch the audit of the live cluster goes on until Ctrl-C: it checks every change, prints findings as they
    appear (with -o json as JSON lines), serves metrics, and prints the sums at the end. It needs the rights to list
    and to watch.

    The exit code is 0 if no invariant is broken, 1 if one is, and 2 if SOURCE cannot be read to its end.

    \b
    Example:
      headgate audit week.hgr
      headgate audit week.hgr --prices prices.yaml -o json | jq .bill
      headgate audit .headgate
      headgate audit
      headgate audit --watch --metrics-listen 127.0.0.1:10260
    """
    stuck_s, starved_s = _seconds("--stuck-after", stuck_after), _seconds("--starved-after", starved_after)
    settings = AuditSettings(frozenset(served), stuck_s, starved_s, _prices(prices))
    if watch:
        if source is not None:
            raise click.UsageError("--watch audits the live cluster: leave SOURCE out")
        if output == YAML:
            raise click.UsageError("--watch prints text or JSON lines: use -o json")
        for_s = _seconds("--for", duration) if duration else 0.0
        options = WatchOptions(for_s, metrics_listen, strict, output == "json")
        resources = [each for each in RECORDED if each.name not in skip and each.name != _NOT_NEEDED]
        sys.exit(watch_cluster(rest_config_or_exit("audit", kubeconfig, context), resources, settings, options))
    if duration or metrics_listen:
        raise click.UsageError("--for and --metrics-listen are for --watch")
    if source is not None and skip:
        raise click.UsageError("--skip is for a live cluster: a recording and a store are audited whole")
    if source is None:
        outcome = _audit_cluster(rest_config_or_exit("audit", kubeconfig, context), skip, settings)
        name = "the cluster"
    else:
        outcome, name = _audit_file(source, settings), str(source)
    result, found = outcome.result, outcome.found
    if output != "text":
        click.echo(document_text(document(result, found, name, outcome.damage), output))
    else:
        click.echo("\n".join((name, *text_lines(result, found, outcome.damage))))
    if result.certain or (strict and result.findings):
        sys.exit(_BROKEN)
    if outcome.damage:
        sys.exit(_UNKNOWN)


def _seconds(option: str, text: str) -> float:
    found = read_seconds(text, allows_zero=option != "--for")
    if isinstance(found, str):
        raise click.UsageError(f"{option} {found}")
    return found


def _prices(path: Path | None) -> PriceTable:
    if path is None:
        return PriceTable()
    documents = read_documents(path)
    if isinstance(documents, str):
        raise click.UsageError(f"--prices {documents}")
    if len(documents) != 1:
        raise click.UsageError(f"--prices {path}: it has {len(documents)} documents, and must have one")
    found = read_prices(documents[0])
    if isinstance(found, str):
        raise click.UsageError(f"--prices {path}: {found}")
    return found


def _audit_cluster(rest_config: RESTConfig, skipped: Iterable[str], settings: AuditSettings) -> _Outcome:
    now_s = time.time()
    resources = [each for each in RECORDED if each.name not in skipped and each.name != _NOT_NEEDED]

    async def read() -> list[HistoryEvent]:
        async with connect(rest_config) as transport:
            return await list_cluster(transport, resources, now_s)

    try:
        events = asyncio.run(read())
    except Unreachable as problem:
        exit_with_error("audit", str(problem))
    except MissingRights as problem:
        exit_with_error("audit", missing_rights_text(problem))
    found = msgspec.structs.replace(survey(lambda: events), skipped=tuple(skipped))
    return _Outcome(audit(ordered_changes(lambda: events, found), settings, now_s), found)


def _audit_file(path: Path, settings: AuditSettings) -> _Outcome:
    damage = ""
    try:
        if problem := file_problem(path):
            _fail(problem)
        if path.is_file() and is_recording(path):
            reader = RecordingReader(path)
            found = survey(reader.events)
            if not found.to_s and reader.damage is not None:
                _fail(f"{path}: {reader.damage}")
            result = audit(ordered_changes(reader.events, found), settings, found.to_s)
            damage = "" if reader.damage is None else str(reader.damage)
        elif path.exists():
            events = list(read_store(path, progress_line("reading")))
            found = survey(lambda: events)
            result = audit(ordered_changes(lambda: events, found), settings, found.to_s)
        else:
            _fail(f"{path} does not exist: name a recording, a data folder or a backup")
    except (RecordingError, OSError) as error:
        _fail(str(error))
    return _Outcome(result, found, damage)


def _fail(text: str) -> Any:
    click.echo(f"headgate audit: {text}", err=True)
    sys.exit(_UNKNOWN)
