"""``headgate explain -f FILE``: what would happen to objects before they are submitted, with an exit code for scripts.

Nothing is created. ``estimates/submission.py`` decodes the objects and lets them pass admission; ``submitted_units.py``
asks the queues and the replays about them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from headgate import schemas
from headgate.cli.commands.submitted_units import Outcome, SubmittedUnit, explain_submitted
from headgate.cli.options.cluster_access import connect, exit_with_error
from headgate.cli.options.listing import document_text
from headgate.cli.options.terminal_text import echo_lines
from headgate.cli.wiring.expected_starts import estimate_lines
from headgate.cli.wiring.snapshot_files import parse_documents
from headgate.client.kubeconfig import RESTConfig
from headgate.estimates.submission import SubmissionError, SubmittedObject
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube.schema import Schemas

EXIT_CODES: Final[dict[Outcome, int]] = {"starts": 0, "queued": 3, "refused": 4, "unknown": 5}
_WORST_FIRST: Final[tuple[Outcome, ...]] = ("refused", "unknown", "queued", "starts")
_SUMMARIES: Final[dict[Outcome, str]] = {
    "starts": "it would start now",
    "queued": "it would wait",
    "refused": "it would be refused",
    "unknown": "it cannot be said whether it would start",
}


def explain_file(
    rest_config: RESTConfig,
    file: Path,
    namespace: str,
    kinds: Collection[JobKind],
    served: tuple[str, ...],
    gated: tuple[str, ...],
    output: str,
) -> int:
    """Prints the explanation, and returns the exit code."""
    documents = _read(file)
    now_s = time.time()
    if not documents:
        return _print_nothing(file, output)
    try:
        objects, units, problems = asyncio.run(
            _explain(rest_config, documents, file, namespace, kinds, served, gated, now_s)
        )
    except SubmissionError as problem:
        exit_with_error("explain", str(problem))
    outcome: Outcome = next(
        (
            each
            for each in _WORST_FIRST
            if any(unit.outcome == each for unit in units)
            or (each == "refused" and any(obj.refusal for obj in objects))
        ),
        "unknown",
    )
    if output != "text":
        document = {
            "outcome": outcome,
            "objects": [_object_fields(each) for each in objects],
            "units": units,
            "missing": problems,
        }
        click.echo(document_text(document, output))
    else:
        echo_lines(_lines(objects, units, problems, now_s))
    return EXIT_CODES[outcome]


def _print_nothing(file: Path, output: str) -> int:
    reason = f"{file}: it has no objects"
    document = {"outcome": "unknown", "objects": [], "units": [], "missing": [reason]}
    click.echo(reason if output == "text" else document_text(document, output))
    return EXIT_CODES["unknown"]


async def _explain(
    rest_config: RESTConfig,
    documents: list[Any],
    file: Path,
    namespace: str,
    kinds: Collection[JobKind],
    served: tuple[str, ...],
    gated: tuple[str, ...],
    now_s: float,
) -> tuple[list[SubmittedObject], list[SubmittedUnit], list[str]]:
    async with connect(rest_config) as transport:
        tables = Schemas.load(schemas.read())
        named = [(f"{file}, document {number}", each) for number, each in enumerate(documents, 1)]
        return await explain_submitted(transport, tables, named, namespace, kinds, served, gated, now_s)


def _read(file: Path) -> list[Any]:
    """The documents of the file, and the items of Lists."""
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        exit_with_error("explain", f"{file}: {error.strerror}")
    parsed = parse_documents(text, str(file), is_json=file.suffix == ".json")
    if isinstance(parsed, str):
        exit_with_error("explain", parsed)
    return list(_flat(parsed))


def _flat(documents: Iterable[Any]) -> Iterator[Any]:
    stack = [iter(documents)]  # Lists may contain Lists
    while stack:
        each = next(stack[-1], stack)
        if each is stack:
            stack.pop()
        elif isinstance(each, dict) and str(each.get("kind")).endswith("List") and isinstance(each.get("items"), list):
            stack.append(iter(each["items"]))
        elif each is not None:
            yield each


def _object_fields(each: SubmittedObject) -> dict[str, Any]:
    metadata = each.obj["metadata"]
    return {
        "kind": each.kind,
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "considered": each.role != "other",
        "note": each.note,
        "changes": each.changes,
        "refusal": each.refusal,
        "warnings": each.warnings,
    }


def _lines(
    objects: Iterable[SubmittedObject], units: Iterable[SubmittedUnit], problems: Iterable[str], now_s: float
) -> Iterator[str]:
    for each in objects:
        if each.role == "other":
            yield f"{each.title}: not considered: {each.note}"
        elif each.refusal:
            yield f"{each.title}: it would be refused: {each.refusal}"
        elif each.changes or each.warnings:
            yield f"{each.title}: admission would change it"
        if each.note and each.role != "other":
            yield f"{each.title}: {each.note}"
        yield from (f"  {change}" for change in each.changes)
        yield from (f"  warning: {warning}" for warning in each.warnings)
    for unit in units:
        why = f": {unit.reason}" if unit.reason else ""
        yield f"{unit.title}: {_SUMMARIES[unit.outcome]}{why}"
        yield from (f"  {change}" for change in unit.changes)
        yield from (f"  {line}" for line in unit.lines)
        if unit.estimate is not None and unit.outcome == "queued":
            yield from (f"  {line}" for line in estimate_lines(unit.estimate, now_s))
    yield from problems
