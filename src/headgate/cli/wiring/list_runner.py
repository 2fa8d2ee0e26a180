"""Prints the listing of a command once, or again after each change (``--watch``).

A watch opens watches on what the command lists (``runtime/inspection/watched_lists.py``) and polls nothing. On a
terminal the list is redrawn; elsewhere new and changed rows are appended.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import click

from headgate.cli.options.cluster_access import connect, exit_with_error
from headgate.cli.options.listing import Listing, changed_lines, listing_text
from headgate.cli.options.query_options import JSON, NAME, YAML
from headgate.cli.options.terminal_text import send_sequence
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Transport, Unreachable
from headgate.runtime.inspection.watched_lists import WatchedLists
from headgate.terminal.safe_text import one_line

MakeListing = Callable[[Transport], Awaitable[Listing | str]]
"""Reads the cluster; a text is an error that ends the command."""
_SETTLE_S: Final = 0.2
"""Changes within this time are printed together."""
_REDRAW_S: Final = 10.0
"""How often a list on a terminal is redrawn without a change, for its ages."""
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


def run_listing(command: str, rest_config: RESTConfig, output: str, watch: bool, make: MakeListing) -> None:
    """``command``: its name in errors."""
    try:
        asyncio.run(_watch(command, rest_config, output, make) if watch else _once(command, rest_config, output, make))
    except Unreachable as problem:
        exit_with_error(command, str(problem))
    except KeyboardInterrupt:
        if not watch:
            raise


async def _once(command: str, rest_config: RESTConfig, output: str, make: MakeListing) -> None:
    async with connect(rest_config) as transport:
        listing = await make(transport)
    if isinstance(listing, str):
        exit_with_error(command, listing)
    _print(listing, output)


def _print(listing: Listing, output: str, *, compact: bool = False) -> None:
    text = listing_text(listing, output, compact=compact)
    if text:
        click.echo(text)
    if listing.is_empty and listing.nothing and output not in (JSON, YAML):
        click.echo(listing.nothing, err=True)
    for line in listing.complaints:
        click.echo(one_line(line), err=True)


async def _watch(command: str, rest_config: RESTConfig, output: str, make: MakeListing) -> None:
    changed = asyncio.Event()
    is_redrawn = _is_terminal() and output not in (JSON, YAML, NAME)
    before: Listing | None = None
    async with connect(rest_config) as transport, WatchedLists(transport, changed.set) as lists:
        while True:
            changed.clear()
            listing = await make(lists)
            if lists.missing_watches:
                exit_with_error(command, f"--watch: {lists.missing_watches[0]}")
            if isinstance(listing, str):
                exit_with_error(command, listing)
            if is_redrawn:
                _redraw(listing, output, list(lists.problems.values()))
            elif before is None:
                _print(listing, output, compact=True)
            else:
                _append(before, listing, output)
            before = listing
            await _next_change(changed, _REDRAW_S if is_redrawn else None)


async def _next_change(changed: asyncio.Event, timeout_s: float | None) -> None:
    try:
        await asyncio.wait_for(changed.wait(), timeout_s)
    except TimeoutError:
        return
    await asyncio.sleep(_SETTLE_S)


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def _redraw(listing: Listing, output: str, problems: list[str]) -> None:
    text = listing_text(listing, output) or listing.nothing
    lines = [*text.splitlines(), *listing.complaints, *problems]
    size = shutil.get_terminal_size()
    room = max(size.lines - 1, 2)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"]
    send_sequence(_CLEAR)
    click.echo("\n".join(line[: size.columns] for line in lines))


def _append(before: Listing, listing: Listing, output: str) -> None:
    for line in changed_lines(before, listing, output):
        click.echo(line)
    for complaint in listing.complaints:
        if complaint not in before.complaints:
            click.echo(one_line(complaint), err=True)
    sys.stdout.flush()
