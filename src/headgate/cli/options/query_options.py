"""The option that says which pods use queues: the cluster itself does not record it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS

F = TypeVar("F", bound=Callable[..., Any])


def served_option(command: F) -> F:
    """Adds the parameters ``served`` and ``gated`` to a command."""
    command = click.option(
        "--gated-scheduler-name",
        "gated",
        multiple=True,
        metavar="NAME",
        help="Pods of this scheduler are ungated by `headgate run --components gates`. May be repeated.",
    )(command)
    return click.option(
        "--scheduler-name",
        "served",
        multiple=True,
        default=sorted(QUEUE_SCHEDULERS),
        show_default=True,
        metavar="NAME",
        help="Pods of this scheduler use queues. May be repeated.",
    )(command)


def output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The output format.",
    )(command)
