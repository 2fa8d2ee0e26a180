"""The options that say which jobs wait in Kueue's queues, for all commands that keep jobs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from headgate.jobs.settings import MANAGED_NAMESPACES, JobSettings, Release, parse_quota_release
from headgate.kube.labels import Selector, parse_selector


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


def job_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command gets ``job_settings``."""

    @click.option(
        "--manage-jobs-without-queue-name",
        "manages_all",
        is_flag=True,
        help="Let jobs and pods wait that name no queue, too.",
    )
    @click.option(
        "--managed-jobs-namespace-selector",
        "namespaces",
        default=str(MANAGED_NAMESPACES),
        show_default=True,
        callback=_selector,
        metavar="SELECTOR",
        help="By the labels of namespaces: whose jobs and pods wait in queues.",
    )
    @click.option(
        "--quota-release",
        default="",
        callback=_release,
        metavar="KIND=WHEN,…",
        help="When quota is free again: OnTerminating (the last pod was told to end) or OnTerminal (it has ended), for"
        " batch/job and pod. [default: for pods what the feature gate says, for jobs OnTerminating]",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any, manages_all: bool, namespaces: Selector, quota_release: Mapping[str, Release], **kwargs: Any
    ) -> None:
        command(*args, job_settings=JobSettings(manages_all, namespaces, quota_release), **kwargs)

    return wrapped
