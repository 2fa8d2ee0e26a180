"""Shared parts of ``headgate backup``, ``restore`` and ``check``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from headgate.cli.options.progress import ProgressBar
from headgate.store.io.database_file import Progress

F = TypeVar("F", bound=Callable[..., Any])

DATA: Final = Path(".headgate")


def data_option(help_text: str) -> Callable[[F], F]:
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        default=DATA,
        show_default=True,
        help=help_text,
    )


def progress_line(label: str) -> Progress:
    """The progress of one step; its bar begins with the first row and is removed after the last one."""
    bar: ProgressBar | None = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        bar = bar or ProgressBar(label, total, "rows")
        bar(done, total)
        if done >= total:
            bar.clear()

    return show


def fail(command: str, problem: Exception) -> NoReturn:
    click.echo(f"headgate {command}: {problem}", err=True)
    sys.exit(1)


def size(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f} KiB" if size_bytes < 1 << 20 else f"{size_bytes / (1 << 20):.1f} MiB"
