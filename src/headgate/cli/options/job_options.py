"""The options that say which jobs wait in Kueue's queues, for all commands that manage jobs."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.custom import parse_kinds
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.settings import MANAGED_NAMESPACES, JobSettings, Release, parse_quota_release
from headgate.kube.labels import Selector, parse_selector
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S
from headgate.kube.serializer.yaml_decoder import decode_yaml
from headgate.kube.serializer.yaml_lines import field_lines
from headgate.kube.timestamps import parse_duration

F = TypeVar("F", bound=Callable[..., Any])


def _selector(context: click.Context, parameter: click.Parameter, value: str) -> Selector:
    read = parse_selector(value)
    if isinstance(read, str):
        raise click.BadParameter(read)
    return read


def _release(context: click.Context, parameter: click.Parameter, value: str) -> dict[str, Release]:
    read = parse_quota_release(value)
    if isinstance(read, str):
        raise click.BadParameter(read)
    return read


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if not value:
        return None
    nanos = parse_duration(value)
    if isinstance(nanos, str) or nanos <= 0:
        raise click.BadParameter(f"{value!r} is no time above zero: write one such as 5m or 90s")
    return nanos / 10**9


def read_kinds(text: bytes) -> tuple[JobKind, ...] | list[str]:
    """The kinds of a file, or its errors with line numbers."""
    parsed = decode_yaml(text)
    if parsed.error is not None:
        return [f"this is neither YAML nor JSON: {parsed.error}"]
    if parsed.duplicates:
        return list(parsed.duplicates)
    read = parse_kinds(parsed.value)
    if isinstance(read, tuple):
        return read
    lines = field_lines(text)
    found = sorted((lines.line_of(each.path), str(each)) for each in read)
    return [f"line {line}: {error}" for line, error in found]


def _kinds(context: click.Context, parameter: click.Parameter, value: pathlib.Path | None) -> tuple[JobKind, ...]:
    if value is None:
        return ()
    read = read_kinds(value.read_bytes())
    if isinstance(read, list):
        raise click.BadParameter("\n".join(f"{value}: {each}" for each in read))
    return read


def kinds_option(command: F) -> F:
    """The command gets ``kinds``."""
    return click.option(
        "--job-kinds",
        "kinds",
        type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
        callback=_kinds,
        metavar="FILE",
        help="Further kinds of jobs that wait in queues, as YAML (docs/job-kinds.md).",
    )(command)


def job_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command gets ``job_settings``."""

    @click.option(
        "--manage-jobs-without-queue-name",
        "manages_all",
        is_flag=True,
        help="Jobs and pods that name no queue wait for quota, too.",
    )
    @click.option(
        "--managed-jobs-namespace-selector",
        "namespaces",
        default=str(MANAGED_NAMESPACES),
        show_default=True,
        callback=_selector,
        metavar="SELECTOR",
        help="Only jobs and pods in namespaces with these labels wait in queues.",
    )
    @click.option(
        "--quota-release",
        default="",
        callback=_release,
        metavar="KIND=WHEN,…",
        help="When quota is free again: OnTerminating (the last pod was told to end) or OnTerminal (it has ended), for"
        " batch/job and pod. [default: for pods what the feature gate says, for jobs OnTerminating]",
    )
    @kinds_option
    @click.option(
        "--wait-for-pods-ready",
        "pods_ready_s",
        callback=_seconds,
        metavar="DURATION",
        help="Evict a workload whose pods are not all ready this long after it was admitted (5m). [default: never]",
    )
    @click.option(
        "--max-wait-for-terminating-pods",
        "max_wait_s",
        default=f"{MAX_TERMINATION_WAIT_S / 60:g}m",
        show_default=True,
        callback=_seconds,
        metavar="DURATION",
        help="How long an admitted workload waits at most for pods that were told to end and still use its quota,"
        " whatever their grace periods (docs/kueue.md).",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        manages_all: bool,
        namespaces: Selector,
        quota_release: Mapping[str, Release],
        kinds: tuple[JobKind, ...],
        pods_ready_s: float | None,
        max_wait_s: float | None,
        **kwargs: Any,
    ) -> None:
        wait_s = MAX_TERMINATION_WAIT_S if max_wait_s is None else max_wait_s
        settings = JobSettings(manages_all, namespaces, quota_release, (*BUILTIN_KINDS, *kinds), pods_ready_s, wait_s)
        command(*args, job_settings=settings, **kwargs)

    return wrapped
