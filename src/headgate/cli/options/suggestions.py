"""Errors for a name that does not exist: the most similar command, or the most similar value of an option.

click itself names the most similar option. ``kube/serializer/strict_decoding.py`` finds similar names, as for the
fields of a configuration file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from headgate.kube.serializer.strict_decoding import similar


class SuggestingGroup(click.Group):
    """A group that names the most similar command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = closest(args[0], self.list_commands(ctx))
            if not close:
                raise
            text = f"No such command '{args[0]}'. Did you mean '{close}'?"
            raise click.UsageError(text, ctx) from error


class SuggestingChoice(click.Choice[str]):
    """A choice that names the most similar value."""

    def __init__(self, choices: Iterable[str]) -> None:
        super().__init__(list(choices))

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value, ctx)
        close = closest(str(value), self.choices)
        return f"{message} Did you mean '{close}'?" if close else message


def closest(name: str, known: Iterable[str]) -> str:
    """The only name that begins with ``name``, or else the most similar one; empty if there is none."""
    names = list(known)
    longer = [each for each in names if name and each.startswith(name.lower())]
    return longer[0] if len(longer) == 1 else similar(name, dict.fromkeys(names))
