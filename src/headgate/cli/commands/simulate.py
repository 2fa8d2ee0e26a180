"""``headgate simulate``: runs a trace of jobs through the engines on a virtual clock, and compares variants."""

from __future__ import annotations

import gc
import hashlib
import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import click
import msgspec

import headgate
from headgate import schemas
from headgate.capacity.names import QUEUES
from headgate.cli.configuration.simulated import make_input
from headgate.cli.options.data_folder import progress_line
from headgate.cli.options.durations import read_seconds
from headgate.cli.options.log_options import log_options
from headgate.cli.options.parsed_text import ParsedText
from headgate.cli.options.suggestions import SuggestingChoice
from headgate.cli.wiring.scheduler import installed_plugins
from headgate.cli.wiring.snapshot_files import read_documents
from headgate.kube.api_resources import NODES
from headgate.kube.schema import Schemas
from headgate.kube.timestamps import human_duration
from headgate.quota.kinds.names import LOCAL_QUEUES
from headgate.recording.history import Source, ordered_changes, survey
from headgate.recording.io.recording_file import RecordingError, RecordingReader, file_problem, is_recording
from headgate.recording.io.store_file import read_store
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS
from headgate.simulate.comparison import verdict_text
from headgate.simulate.experiment import ExperimentOutput, Progress, output_of, run_experiment
from headgate.simulate.generator import MAX_JOBS, PROFILES, generate
from headgate.simulate.job_objects import AdmissionRefused, Queueing
from headgate.simulate.object_validation import ObjectValidation
from headgate.simulate.recorded_cluster import RecordedCluster, read_recorded_cluster, without_bought_nodes
from headgate.simulate.report import ReportHeader, report_html
from headgate.simulate.settings import machine_nodes
from headgate.simulate.simulation import JournalEntry, SimulationInput, SimulationStopped
from headgate.simulate.snapshot import Snapshot, SnapshotError, read_snapshot
from headgate.simulate.swf import SWFOptions, read_swf
from headgate.simulate.trace import (
    MAX_LINE_BYTES,
    MAX_TIME_S,
    JobCheck,
    TraceError,
    TraceJob,
    read_trace,
    shaken,
    trace_lines,
)
from headgate.simulate.variants import DEFAULT, ONLY, SimulationFile, VariantError, read_file, settings_of, snapshot_of

_PROGRESS_S: Final = 1.0
_CHECKED_EACH: Final = 64
_INTERRUPTED: Final = 130
_GC_THRESHOLDS: Final = (20_000, 20, 20)
"""Objects of a simulation live long and have no reference cycles, as in ``headgate run``."""
JobSource = Callable[[int], Iterable[TraceJob]]


def _parse_days(text: str) -> float | str:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    limit = MAX_TIME_S / 86_400
    return value if 0 < value <= limit else f"{text!r} is not a number of days: write one up to {limit:g}"


@click.command(short_help="Run a trace of jobs through the engines on a virtual clock, and compare variants.")
@click.option(
    "--snapshot",
    "snapshots",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Nodes, queues and other objects, as YAML or JSON; several times for several files.",
)
@click.option(
    "--recording",
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="The cluster and the jobs of a recording, or of the data folder of headgate up.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The jobs: one JSON object per line.",
)
@click.option(
    "--swf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The jobs, in the Standard Workload Format.",
)
@click.option(
    "--generate",
    "profile",
    type=SuggestingChoice(sorted(PROFILES)),
    help="Generate jobs like those of a known cluster.",
)
@click.option("--jobs", type=click.IntRange(1, MAX_JOBS), help="How many jobs are generated.")
@click.option(
    "--days", type=ParsedText("float", _parse_days), metavar="DAYS", help="Over how many days jobs are generated."
)
@click.option(
    "--variants",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Settings, and the variants to compare (kind Simulation of headgate.dev/v1alpha1).",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds.")
@click.option(
    "--until",
    type=ParsedText("duration", read_seconds),
    metavar="DURATION",
    help="Stop at this virtual time, such as 30d. [default: when all jobs have ended]",
)
@click.option(
    "--queueing",
    type=SuggestingChoice(["volcano", "kueue"]),
    help="Which queues the jobs name, if the snapshot has both kinds.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write the result as JSON; - is standard output.",
)
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as one HTML file."
)
@click.option(
    "--journal", type=click.Path(path_type=Path), metavar="FILE", help="Write everything that happens, as JSON lines."
)
@click.option(
    "--write-trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Only write the jobs of the first seed as a trace.",
)
@click.option(
    "--progress/--no-progress", default=None, help="Show progress on standard error. [default: on a terminal]"
)
@log_options
def command(
    snapshots: tuple[Path, ...],
    recording: Path | None,
    trace: Path | None,
    swf: Path | None,
    profile: str | None,
    jobs: int | None,
    days: float | None,
    file: Path | None,
    seed: int,
    seeds: int,
    until: float | None,
    queueing: Queueing | None,
    json_file: Path | None,
    html_file: Path | None,
    journal: Path | None,
    write_trace: Path | None,
    progress: bool | None,
) -> None:
    """Run a trace of jobs through Headgate's own scheduler and quota controllers, on a virtual clock: when would each
    job run, and what would the nodes cost?

    The snapshot has the nodes and queues, the trace the jobs; a recording has both. With --variants, the same jobs run
    once for each variant: other limits, weights, policies, flavors, nodes, prices, autoscaler settings, gates on and
    off. With --seeds, all variants run with several traces, and differences have confidence intervals. The same input
    gives the same output, byte for byte. Ctrl-C stops and writes nothing.

    What is not simulated is refused; docs/simulate.md and docs/limits.md list it.

    \b
    Example:
      headgate simulate --snapshot cluster.yaml --trace jobs.jsonl --html report.html
      headgate simulate --recording week.hgr --variants gates.yaml --html report.html
      headgate simulate --snapshot cluster.yaml --generate helios --jobs 2000 --variants gates.yaml --seeds 10 \\
        --html report.html --json result.json
      headgate simulate --generate philly --jobs 500 --write-trace jobs.jsonl
    """
    _refuse_equal_files({"--json": json_file, "--html": html_file, "--journal": journal, "--write-trace": write_trace})
    try:
        validation = ObjectValidation(Schemas.load(schemas.read()))
        given_file = _read_simulation_file(file)
        recorded: RecordedCluster | None = None
        if recording is not None:
            if snapshots or any(each is not None for each in (trace, swf, profile)):
                raise TraceError("--recording has the cluster and the jobs: leave out --snapshot and the other jobs")
            recorded = _read_recording(recording, queueing)
            recorded_jobs = recorded.jobs
            jobs_of, total = _shaken_source(lambda: recorded_jobs, seed), len(recorded_jobs)
        else:
            jobs_of, total = _job_source(given_file, trace, swf, profile, jobs, days, seed, validation)
        if write_trace is not None:
            _write_lines(write_trace, trace_lines(jobs_of(seed)))
            return
        snapshot = _read_snapshots(snapshots, validation) if recorded is None else recorded.snapshot
        kind = queueing or (_queueing(snapshot) if recorded is None else recorded.queueing)
        inputs = _inputs(given_file, snapshot, kind, file.parent if file else Path(), until, validation)
        seed_list = tuple(range(seed, seed + seeds))
        results = _run(inputs, seed_list, jobs_of, total, journal, _is_shown(progress))
    except (TraceError, SnapshotError, VariantError, AdmissionRefused, RecordingError) as problem:
        _exit(str(problem))
    except SimulationStopped:
        click.echo("headgate simulate: stopped; nothing is written", err=True)
        sys.exit(_INTERRUPTED)
    names = [*snapshots, *(each for each in (recording, trace, swf, file) if each is not None)]
    options = {
        "snapshot": snapshots,
        "recording": recording,
        "trace": trace,
        "swf": swf,
        "generate": profile,
        "jobs": jobs,
        "days": days,
    }
    options |= {"variants": file, "seed": seed, "seeds": seeds, "until": until, "queueing": queueing}
    header = ReportHeader(
        _command_text(options),
        headgate.__version__,
        {each.name: _digest(each) for each in names if each.is_file()},
        seed_list,
        recorded.remarks if recorded is not None else (),
    )
    _write_output(output_of(header, results), json_file, html_file)


def _exit(problem: str) -> NoReturn:
    click.echo(f"headgate simulate: {problem}", err=True)
    sys.exit(1)


def _refuse_equal_files(outputs: Mapping[str, Path | None]) -> None:
    """Two outputs in one file would overwrite each other."""
    seen: dict[object, str] = {}
    for option, file in outputs.items():
        if file is None or str(file) == "-":
            continue
        try:
            status = file.stat()
            identity: object = status.st_dev, status.st_ino
        except OSError:
            identity = file.resolve()
        if file.is_char_device():  # /dev/null
            continue
        first = seen.setdefault(identity, option)
        if first != option:
            raise click.UsageError(f"{first} and {option} name the same file, {file}: choose two")


def _command_text(options: Mapping[str, Any]) -> str:
    """The command, without the options that do not change the result."""
    words = ["headgate simulate"]
    for name, value in options.items():
        listed = value if isinstance(value, tuple) else () if value is None else (value,)
        words += [f"--{name} {each.name if isinstance(each, Path) else each}" for each in listed]
    return " ".join(words)


def _is_shown(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# Input


def _read_simulation_file(file: Path | None) -> SimulationFile:
    if file is None:
        return DEFAULT
    documents = read_documents(file)
    if isinstance(documents, str):
        raise VariantError(documents)
    if len(documents) != 1:
        raise VariantError(f"{file}: it has {len(documents)} documents, and must have one")
    try:
        return read_file(documents[0])
    except VariantError as error:
        raise VariantError(f"{file}: {error}") from error


def _read_snapshots(files: Iterable[Path], validation: ObjectValidation) -> Snapshot:
    documents: list[Any] = []
    for each in files:
        found = read_documents(each)
        if isinstance(found, str):
            raise SnapshotError(found)
        documents += found
    if not documents:
        raise SnapshotError("--snapshot is required: a simulation needs queues")
    snapshot = read_snapshot(documents, validation.object_problem)
    if snapshot.unknown:
        more = f", and {len(snapshot.unknown) - 1} more" if len(snapshot.unknown) > 1 else ""
        click.echo(f"headgate simulate: unknown fields have no effect: {snapshot.unknown[0]}{more}", err=True)
    return snapshot


def _read_recording(path: Path, queueing: Queueing | None) -> RecordedCluster:
    """It raises ``RecordingError`` and ``SnapshotError``."""
    if problem := file_problem(path):
        raise RecordingError(problem)
    if path.is_file() and is_recording(path):
        reader = RecordingReader(path)
        recorded = _read_source(reader.events, queueing)
        if reader.damage is not None:
            recorded = msgspec.structs.replace(recorded, remarks=(f"{path.name}: {reader.damage}", *recorded.remarks))
    else:
        rows = list(read_store(path, progress_line("reading")))
        recorded = _read_source(lambda: rows, queueing)
    for remark in recorded.remarks:
        click.echo(f"headgate simulate: {remark}", err=True)
    return recorded


def _read_source(source: Source, queueing: Queueing | None) -> RecordedCluster:
    found = survey(source)
    return read_recorded_cluster(ordered_changes(source, found), found, QUEUE_SCHEDULERS, queueing)


def _queueing(snapshot: Snapshot) -> Queueing:
    has_volcano, has_kueue = bool(snapshot.of(QUEUES)), bool(snapshot.of(LOCAL_QUEUES))
    if has_volcano and has_kueue:
        raise SnapshotError("the snapshot has Queues of Volcano and LocalQueues of Kueue: say --queueing")
    if not has_volcano and not has_kueue:
        raise SnapshotError("the snapshot has no Queue of Volcano and no LocalQueue of Kueue")
    return "kueue" if has_kueue else "volcano"


def _inputs(
    file: SimulationFile,
    snapshot: Snapshot,
    queueing: Queueing,
    folder: Path,
    until_s: float | None,
    validation: ObjectValidation,
) -> dict[str, SimulationInput]:
    plugins = installed_plugins(lambda problem: click.echo(f"headgate simulate: {problem}", err=True))
    inputs: dict[str, SimulationInput] = {}
    for variant in file.variants or (ONLY,):
        settings, changed = settings_of(file, variant), snapshot_of(snapshot, variant, validation.object_problem)
        for node in machine_nodes(settings):
            if problem := validation.object_problem(NODES, "Node", node).problem:
                raise VariantError(
                    f"variant {variant.name}: settings.autoscaler: {node['metadata']['name']}: {problem}"
                )
        if snapshot.recorded_from_s is not None and settings.autoscaler is not None:
            changed = without_bought_nodes(changed)
        made = make_input(settings, changed, queueing, plugins, folder, until_s)
        if isinstance(made, str):
            raise VariantError(f"variant {variant.name}: {made}")
        for remark in made.remarks:
            click.echo(f"headgate simulate: variant {variant.name}: {remark}", err=True)
        inputs[variant.name] = made.given
    return inputs


def _job_source(
    file: SimulationFile,
    trace: Path | None,
    swf: Path | None,
    profile: str | None,
    jobs: int | None,
    days: float | None,
    first_seed: int,
    validation: ObjectValidation,
) -> tuple[JobSource, int]:
    """The jobs by seed, and their number. A trace is read once before the simulation, so that a wrong line is reported
    at once."""
    if sum(each is not None for each in (trace, swf, profile)) != 1:
        raise TraceError("give exactly one of --trace, --swf and --generate")
    if profile is not None:
        options = msgspec.structs.replace(file.generator, profile=profile)
        options = options if jobs is None else msgspec.structs.replace(options, jobs=jobs)
        options = options if days is None else msgspec.structs.replace(options, days=days)
        return lambda seed: generate(options, seed), options.jobs
    if jobs is not None or days is not None:
        raise TraceError("--jobs and --days are for --generate")

    def read(
        on_left_out: Callable[[str], None] = lambda text: None, check: JobCheck = lambda job: ""
    ) -> Iterator[TraceJob]:
        source = trace or swf
        assert source is not None
        with source.open("rb") as opened:
            lines = iter(lambda: opened.readline(2 * MAX_LINE_BYTES), b"")
            try:
                if trace is not None:
                    yield from read_trace(lines, check)
                else:
                    section = file.swf
                    options = SWFOptions(
                        section.queue, section.queues, section.per_processor, section.processors_per_pod
                    )
                    yield from read_swf(lines, options, on_left_out, check)
            except TraceError as error:
                raise TraceError(f"{source}: {error}") from error

    left_out: list[str] = []
    total = sum(1 for _ in read(left_out.append, validation.job_problem))
    if left_out:
        click.echo(f"headgate simulate: {len(left_out)} jobs are left out; the first: {left_out[0]}", err=True)
    return _shaken_source(read, first_seed), total


def _shaken_source(read: Callable[[], Iterable[TraceJob]], first_seed: int) -> JobSource:
    return lambda seed: shaken(read(), seed) if seed != first_seed else read()


# Run


def _run(
    inputs: dict[str, SimulationInput],
    seeds: tuple[int, ...],
    jobs_of: JobSource,
    total_jobs: int,
    journal: Path | None,
    is_shown: bool,
) -> Any:
    stopped = False

    def stop(number: int, frame: Any) -> None:
        nonlocal stopped
        stopped = True

    shown = _ProgressLine(total_jobs) if is_shown else None
    calls = 0

    def on_progress(progress: Progress) -> bool:
        nonlocal calls
        calls += 1
        if shown is not None and calls % _CHECKED_EACH == 0:
            shown.update(progress)
        return not stopped

    before = signal.signal(signal.SIGINT, stop)
    thresholds = gc.get_threshold()
    gc.freeze()  # the input is never freed
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        if journal is None:
            return run_experiment(inputs, seeds, jobs_of, on_progress)
        partial = journal.with_name(f"{journal.name}.part")
        try:
            with partial.open("wb") as lines:
                encode = msgspec.json.encode

                def write(variant: str, seed: int, entry: JournalEntry) -> None:
                    fields = {"variant": variant, "seed": seed, **msgspec.structs.asdict(entry)}
                    lines.write(encode(fields) + b"\n")

                results = run_experiment(inputs, seeds, jobs_of, on_progress, write)
            partial.replace(journal)
            return results
        finally:
            partial.unlink(missing_ok=True)
    finally:
        signal.signal(signal.SIGINT, before)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        if shown is not None:
            shown.clear()


class _ProgressLine:
    """One line on standard error: how much is done, and how long the rest will take at the present rate."""

    def __init__(self, total_jobs: int) -> None:
        self._total_jobs = max(total_jobs, 1)
        self._started_s = self._shown_s = time.monotonic()
        self._width = 0

    def update(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s < _PROGRESS_S:
            return
        self._shown_s = now_s
        share = (progress.done + min(progress.ended_jobs / self._total_jobs, 1.0)) / progress.total
        left = human_duration((now_s - self._started_s) * (1 - share) / share) if share else "?"
        text = (
            f"{share:4.0%}  {progress.variant}, seed {progress.seed}: {progress.ended_jobs} of {self._total_jobs} jobs,"
            f" virtual time {human_duration(progress.virtual_s)}, time left {left}"
        )
        click.echo(f"\r{text:<{self._width}}", nl=False, err=True)
        self._width = len(text)

    def clear(self) -> None:
        if self._width:
            click.echo(f"\r{'':<{self._width}}\r", nl=False, err=True)


# Output


def _write_lines(file: Path, lines: Iterable[bytes]) -> None:
    """A file gets its content as a whole, or not at all."""
    partial = file if file.exists() and not file.is_file() else file.with_name(f"{file.name}.part")
    try:
        try:
            with partial.open("wb") as opened:
                opened.writelines(lines)
            if partial != file:
                partial.replace(file)
        finally:
            if partial != file:
                partial.unlink(missing_ok=True)
    except OSError as error:
        _exit(f"{file}: {error.strerror}")


def _write_output(output: ExperimentOutput, json_file: Path | None, html_file: Path | None) -> None:
    if html_file is not None:
        text = report_html(output.header, output.variants, output.comparison)
        _write_lines(html_file, [text.encode()])
    if json_file is not None:
        encoded = msgspec.json.format(msgspec.json.encode(output, order="deterministic"), indent=1) + b"\n"
        if str(json_file) == "-":
            sys.stdout.buffer.write(encoded)
            return
        _write_lines(json_file, [encoded])
    click.echo(verdict_text(output.variants, output.comparison))
    for each in output.variants:
        jobs = each.results[0].jobs
        if jobs.ended < jobs.submitted:
            click.echo(f"{each.name}: {jobs.submitted - jobs.ended} of {jobs.submitted} jobs did not end")
