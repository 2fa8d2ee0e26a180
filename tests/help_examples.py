"""The examples in the ``--help`` of every command, as one table: where each stands, and the command line."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator

import click

from headgate.cli.main import main

_EXAMPLE = re.compile(r"^Example:.*\n", re.MULTILINE)
_COMMENT = re.compile(r"\s{2,}\S.*$")
_END = re.compile(r"\s+(\||\|\||&&|>|>>)\s.*$")


def commands(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command and group, with its words after ``headgate``."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from commands(found, (*path, name))


def example_lines(command: click.Command) -> list[str]:
    """The lines below the line ``Example:``, until an empty one. A line that ends in a backslash goes on in the
    next."""
    found = _EXAMPLE.split(inspect.cleandoc(command.help or ""), maxsplit=1)
    block = found[1].split("\n\n")[0].replace("\\\n", " ") if len(found) > 1 else ""
    return [line.strip() for line in block.splitlines() if line.strip()]


def headgate_words(line: str) -> list[str]:
    """The words after ``headgate`` of an example; without its comment, and without what follows a pipe. Empty for a
    command of another program."""
    if not line.startswith("headgate "):
        return []
    return shlex.split(_END.sub("", _COMMENT.sub("", line)))[1:]


def examples() -> list[str]:
    """All examples that run ``headgate``, each once."""
    lines = [line for _, command in commands() for line in example_lines(command)]
    return list(dict.fromkeys(shlex.join(words) for line in lines if (words := headgate_words(line))))
