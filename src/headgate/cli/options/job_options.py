"""The options that say which jobs wait in Kueue's queues, for all commands that manage jobs."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from headgate.cli.options.config_text import decode_text, text_problems
from headgate.cli.options.input_files import read_input
from headgate.cli.options.parsed_text import ParsedText
from headgate.jobs.kinds.custom import parse_kinds
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.settings import (
    DEFAULT_FRAMEWORKS,
    MANAGED_NAMESPACES,
    MIN_FORCE_DELETE_AFTER_S,
    REPORT_TERMINATING_AFTER_S,
    JobSettings,
    Release,
    kinds_named,
    managed_kinds,
    parse_frameworks,
    parse_quota_release,
)
from headgate.kube.labels import Selector, parse_selector
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S
from headgate.kube.serializer.yaml_lines import field_lines
from headgate.kube.timestamps import parse_duration
from headgate.quota.api.pods_ready import WaitForPodsReady

F = TypeVar("F", bound=Callable[..., Any])


def _seconds(text: str) -> float | str:
    nanos = parse_duration(text)
    if isinstance(nanos, str) or nanos <= 0:
        return f"{text!r} is no time above zero: write one such as 5m or 90s"
    return nanos / 10**9


def _force_delete_after(text: str) -> float | str | None:
    seconds = _seconds(text) if text else None
    if isinstance(seconds, float) and seconds < MIN_FORCE_DELETE_AFTER_S:
        return f"{text!r} is too short: the clocks of nodes may differ; write at least {MIN_FORCE_DELETE_AFTER_S:g}s"
    return seconds


def _pods_ready(text: str) -> WaitForPodsReady | str | None:
    seconds = _seconds(text) if text else None
    if seconds is None or isinstance(seconds, str):
        return seconds
    return WaitForPodsReady(timeout_s=seconds, recovery_timeout_s=seconds)


def read_kinds(text: bytes) -> tuple[JobKind, ...] | list[str]:
    """The kinds of a file, or its errors with line numbers."""
    parsed = decode_text(text)
    if problems := text_problems(text, parsed):
        return [each.text if each.line is None else f"line {each.line}: {each.text}" for each in problems]
    read = parse_kinds(parsed.value)
    if isinstance(read, tuple):
        return read
    lines = field_lines(text)
    found = sorted((lines.line_of(each.path), str(each)) for each in read)
    return [f"line {line}: {error}" for line, error in found]


class _KindsFile(click.Path):
    """The kinds of a file, or built-in kinds by name. Kinds that the configuration file contains are read already."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        if named := kinds_named(str(value)):
            return named
        file = pathlib.Path(str(super().convert(value, param, ctx)))
        text = read_input(file)
        if isinstance(text, str):
            self.fail(text, param, ctx)
        read = read_kinds(text)
        if isinstance(read, list):
            self.fail("\n".join(f"{file}: {each}" for each in read), param, ctx)
        return read


def kinds_option(command: F, *, with_gated: bool = False) -> F:
    """Adds the parameter ``kinds`` to a command. ``with_gated``: also kinds whose pods wait; their objects have no
    Workloads."""

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> tuple[JobKind, ...]:
        return tuple(each for each in value or () if with_gated or each.gate is None)

    return click.option(
        "--job-kinds",
        "kinds",
        type=_KindsFile(exists=True, dir_okay=False),
        callback=read,
        metavar="FILE|NAME,…",
        help="Further kinds of jobs that wait in queues: a YAML file, or names of built-in kinds, such as"
        " jobset.x-k8s.io/jobset (docs/job-kinds.md).",
    )(command)


def job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the parameter ``job_settings`` to a command."""

    @click.option(
        "--manage-jobs-without-queue-name/--no-manage-jobs-without-queue-name",
        "manages_all",
        default=False,
        help="Jobs and pods that name no queue wait for quota, too.",
    )
    @click.option(
        "--managed-jobs-namespace-selector",
        "namespaces",
        default=str(MANAGED_NAMESPACES),
        show_default=True,
        type=ParsedText("selector", parse_selector),
        metavar="SELECTOR",
        help="Only jobs and pods in namespaces with these labels wait in queues.",
    )
    @click.option(
        "--job-frameworks",
        "frameworks",
        default=",".join(DEFAULT_FRAMEWORKS),
        show_default=True,
        type=ParsedText("list", parse_frameworks),
        metavar="LIST",
        help="The built-in kinds that wait in queues, by their names in Kueue's configuration (docs/job-kinds.md).",
    )
    @click.option(
        "--quota-release",
        default="",
        type=ParsedText("list", parse_quota_release),
        metavar="KIND=WHEN,…",
        help="When quota is released: OnTerminating (its last pod begins to terminate) or OnTerminal (it has ended) for"
        " batch/job and pod. [default: for pods what the feature gate says, for jobs OnTerminating]",
    )
    @functools.partial(kinds_option, with_gated=True)
    @click.option(
        "--wait-for-pods-ready",
        "pods_ready",
        default="",
        type=ParsedText("duration", _pods_ready),
        metavar="DURATION",
        help="Evict a workload whose pods are not all ready this long after it was admitted (5m). [default: never]",
    )
    @click.option(
        "--max-wait-for-terminating-pods",
        "max_wait_s",
        default=f"{MAX_TERMINATION_WAIT_S / 60:g}m",
        show_default=True,
        type=ParsedText("duration", _seconds),
        metavar="DURATION",
        help="How long an admitted workload waits at most for terminating pods that still use its quota, regardless of"
        " their grace periods (docs/kueue.md).",
    )
    @click.option(
        "--report-terminating-pods-after",
        "report_terminating_after_s",
        default=f"{REPORT_TERMINATING_AFTER_S / 60:g}m",
        show_default=True,
        type=ParsedText("duration", _seconds),
        metavar="DURATION",
        help="How long after the end of its grace period a terminating pod whose quota is released is reported by an"
        " Event and a metric (docs/kueue.md).",
    )
    @click.option(
        "--force-delete-terminating-pods-after",
        "force_delete_after_s",
        default="",
        type=ParsedText("duration", _force_delete_after),
        metavar="DURATION",
        help="Delete pods that still terminate on a Ready node without a grace period, this long after twice their"
        " grace period, if they have the annotation kueue.x-k8s.io/safe-to-forcefully-delete: true (10m)."
        " [default: never]",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        manages_all: bool,
        namespaces: Selector,
        frameworks: tuple[str, ...],
        quota_release: Mapping[str, Release],
        kinds: tuple[JobKind, ...],
        pods_ready: WaitForPodsReady | None,
        max_wait_s: float,
        report_terminating_after_s: float,
        force_delete_after_s: float | None,
        **kwargs: Any,
    ) -> None:
        settings = JobSettings(
            manages_all=manages_all,
            namespaces=namespaces,
            quota_release=quota_release,
            kinds=managed_kinds(frameworks, kinds),
            pods_ready=pods_ready,
            max_wait_s=max_wait_s,
            frameworks=frozenset(frameworks),
            report_terminating_after_s=report_terminating_after_s,
            force_delete_after_s=force_delete_after_s,
        )
        command(*args, job_settings=settings, **kwargs)

    return wrapped
