"""``headgate top``: a live view of a cluster on the terminal, or one picture of it as text or JSON."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from typing import Final

import click
import msgspec

from headgate.cli.commands.explain_pod import pod_lines
from headgate.cli.commands.explain_queue import queue_lines, quota_lines
from headgate.cli.commands.explain_quota import description_lines
from headgate.cli.options.cluster_access import (
    cluster_options,
    connect_component,
    exit_with_error,
    perform,
    rest_config_or_exit,
)
from headgate.cli.options.listing import json_text
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import served_option
from headgate.cli.options.suggestions import SuggestingChoice
from headgate.client.kubeconfig import RESTConfig
from headgate.dashboard.io.feed import ViewsFeed
from headgate.http.transport import Unreachable
from headgate.runtime.preflight import check_scheduling_gates
from headgate.terminal.bars import ASCII, UNICODE, Glyphs
from headgate.terminal.io.details import DetailReader, DetailTexts
from headgate.terminal.io.session import ScreenOptions, Session
from headgate.terminal.io.tty import Terminal
from headgate.terminal.snapshot import snapshot_lines
from headgate.terminal.top_screen import TopScreen
from headgate.terminal.view_tables import TABLES, VIEWS, ViewName
from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import TOPICS

_TEXTS: Final = DetailTexts(pod_lines, description_lines, queue_lines, quota_lines)
_READY_TRIES: Final = 6
_NO_TERMINAL: Final = ("", "dumb")


class _Options(msgspec.Struct, frozen=True):
    """``view``: empty for the first one, and for all of them in JSON."""

    view: ViewName | None
    is_json: bool
    is_live: bool
    served: frozenset[str]
    gated: frozenset[str]


@click.command(short_help="Show what waits and why, queues, gates and nodes, live on the terminal.")
@click.option(
    "--view",
    type=SuggestingChoice(VIEWS),
    default=None,
    help="The view at the start. [default: overview; all of them with -o json]",
)
@click.option("--once", is_flag=True, help="Print the view once, as text. This is the default if the output is piped.")
@click.option(
    "-o",
    "--output",
    type=SuggestingChoice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: print the rows once, as /api/rows of the page does.",
)
@served_option
@cluster_options
@log_options
def command(
    view: ViewName | None,
    once: bool,
    output: str,
    served: tuple[str, ...],
    gated: tuple[str, ...],
    kubeconfig: str,
    context: str,
) -> None:
    """Show a cluster live on the terminal: what waits and why, how full queues and nodes are, which gates hold pods,
    and what is wrong. The rows are those of the page (headgate dashboard), with the rights of the kubeconfig.

    Keys: 1 to 7 or Tab choose a view, the arrows or j and k a row, Enter shows its explanation and its history,
    / filters, s sorts, p pauses, ? lists all keys, q quits.

    If the output is piped, or with --once, the view is printed once, with all rows. NO_COLOR switches colours off.

    \b
    Example:
      headgate top
      headgate top --view waiting
      headgate top --view queues --once
      headgate top --view problems -o json | jq '.topics.problems[].text'
    """
    is_json = output == "json"
    has_terminal = sys.stdout.isatty() and os.environ.get("TERM", "") not in _NO_TERMINAL
    rest_config = rest_config_or_exit("top", kubeconfig, context)
    options = _Options(view, is_json, has_terminal and not once and not is_json, frozenset(served), frozenset(gated))
    # uvloop would make the descriptor of the terminal non-blocking, so the loop is that of asyncio.
    try:
        problem = asyncio.run(_run(rest_config, options))
    except KeyboardInterrupt:
        if not options.is_live:
            raise
        return
    if problem:
        exit_with_error("top", problem)


async def _run(rest_config: RESTConfig, options: _Options) -> str:
    """Returns why nothing could be shown."""
    async with contextlib.AsyncExitStack() as stack:
        transport = await stack.enter_async_context(connect_component(rest_config))
        try:
            if found := await perform(transport, check_scheduling_gates()):
                return found
        except Unreachable as problem:
            return str(problem)
        feed = ViewsFeed(transport, lambda: ClusterViews(options.served, options.gated))
        await stack.enter_async_context(feed.running())
        screen = TopScreen(rest_config.server, options.view or "overview")
        if options.is_live:
            try:
                terminal = await stack.enter_async_context(_terminal())
            except OSError as problem:
                return f"there is no terminal to read keys from ({problem.strerror}); --once prints one picture"
            colour = not os.environ.get("NO_COLOR")
            details = DetailReader(feed, _TEXTS)
            session = Session(screen, feed, terminal, ScreenOptions(_glyphs(), colour), details.read)
            await session.run()
            return ""
        return await _print_once(feed, screen, options)


@contextlib.asynccontextmanager
async def _terminal() -> AsyncIterator[Terminal]:
    """Keys come from the terminal also if the input is piped."""
    screen, encoding = sys.stdout.fileno(), sys.stdout.encoding or "utf-8"
    if sys.stdin.isatty():
        yield Terminal(sys.stdin.fileno(), screen, encoding)
        return
    keys = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    try:
        yield Terminal(keys, screen, encoding)
    finally:
        os.close(keys)


def _glyphs() -> Glyphs:
    return UNICODE if "utf" in (sys.stdout.encoding or "").lower() else ASCII


async def _print_once(feed: ViewsFeed, screen: TopScreen, options: _Options) -> str:
    reader = feed.enter()
    try:
        for _ in range(_READY_TRIES):  # a large cluster takes long
            if await feed.ready():
                break
        else:
            return "the lists of the cluster could not be read within two minutes; try again"
    finally:
        feed.leave(reader)
    views = feed.views
    if options.is_json:
        topics = TOPICS if options.view is None else (TABLES[options.view].topic,)
        rows = {topic: views.rows(topic) for topic in topics}
        click.echo(json_text({"revision": views.revision, "topics": rows}))
    else:
        screen.update(views, feed.pages, feed.epoch, True)
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in snapshot_lines(screen, columns, time.time(), _glyphs()):
            click.echo(line)
    for line in await feed.missing_rights() if options.is_json else screen.rows.missing_rights(screen.view):
        click.echo(f"remark: {line}; what is shown is incomplete", err=True)
    return ""
