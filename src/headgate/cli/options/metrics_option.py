"""The option ``--metrics-listen``, apart from the server for metrics, which takes long to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def metrics_option(command: F) -> F:
    """Adds the parameter ``metrics_listen`` to a command."""
    return click.option(
        "--metrics-listen",
        default="",
        metavar="HOST:PORT",
        help="The address for /metrics, /healthz, /livez and /readyz, over HTTP without authentication unless"
        " --metrics-secure is given. [default: not served]",
    )(command)
