"""Options of the commands that read a cluster: the output format, ``--watch``, and which pods use queues.

All commands that print a list have the same formats (:func:`list_output_option`), and so have all others that print
JSON (:func:`output_option`). ``listing.py`` writes a list in these formats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from headgate.cli.options.suggestions import SuggestingChoice
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS

F = TypeVar("F", bound=Callable[..., Any])

TABLE: Final = "table"
WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
_LIST_FORMATS: Final = (TABLE, WIDE, JSON, YAML, NAME)
_FORMER_TABLE: Final = "text"
"""The name that some lists had for ``table``."""


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
    """Adds the parameter ``output``: text, json or yaml."""
    return click.option(
        "-o",
        "--output",
        type=SuggestingChoice(["text", JSON, YAML]),
        default="text",
        show_default=True,
        help="The output format.",
    )(command)


class _ListFormat(SuggestingChoice):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(TABLE if value == _FORMER_TABLE else value, param, ctx))


def list_output_option(command: F) -> F:
    """Adds the parameter ``output`` to a command that prints a list."""
    return click.option(
        "-o",
        "--output",
        type=_ListFormat(_LIST_FORMATS),
        default=TABLE,
        show_default=True,
        help="The output format; name prints TYPE/NAME lines for kubectl.",
    )(command)


def watch_option(command: F) -> F:
    """Adds the parameter ``watch``."""
    return click.option(
        "-w",
        "--watch",
        is_flag=True,
        help="Print the list again when it changes: redrawn on a terminal, appended if the output is piped.",
    )(command)
