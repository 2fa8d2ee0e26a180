"""``headgate demo``: stories that show what Headgate does, in clusters of their own. The stories are ``cli/demos/``."""

from __future__ import annotations

import asyncio
import sys

import click

from headgate.cli.autoscalers import MAKERS
from headgate.cli.demos.arm import Counts
from headgate.cli.demos.autoscaler import Row, conclusion, tell
from headgate.cli.event_loop import loop_factory
from headgate.cli.logs import log_options
from headgate.cli.plan import UpProblem

_WIDTH = 32
_COLUMNS = ("bought", "idle", "running", "waiting")


@click.group(short_help="See in half a minute what gates change.")
@log_options
def command() -> None:
    """Stories that show what Headgate does. Each runs in clusters of its own, and leaves nothing behind."""


@command.command("autoscaler", short_help="What an autoscaler buys for a full queue, with gates and without.")
@click.option(
    "--model",
    type=click.Choice(sorted(MAKERS)),
    default="cluster-autoscaler",
    show_default=True,
    help="The autoscaler, as a model that follows its published rules.",
)
@log_options
def autoscaler(model: str) -> None:
    """Submit a driver and five executors of 1 CPU each to a queue of 2 CPU; machines of 1 CPU are bought on demand.

    Two clusters in this process do it at the same time: in one the pods did not ask for the queue's gate, in the other
    they did. It takes about half a minute.

    \b
    Example:
      headgate demo autoscaler
      headgate demo autoscaler --model karpenter
    """
    click.echo(f"{'':<{_WIDTH}}  {'gates off':>31}  {'gates on':>31}")
    click.echo(f"{model + ' buys machines':<{_WIDTH}}  {_cells(_COLUMNS)}  {_cells(_COLUMNS)}")
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            rows = runner.run(tell(model, _show))
    except UpProblem as problem:
        click.echo(f"headgate demo: {problem}", err=True)
        sys.exit(1)
    click.echo("")
    click.echo(conclusion(rows))


def _show(row: Row) -> None:
    click.echo(f"{row.step:<{_WIDTH}}  {_cells(_values(row.off))}  {_cells(_values(row.on))}")


def _values(counts: Counts) -> tuple[str, ...]:
    return tuple(str(each) for each in (counts.bought, counts.idle, counts.running, counts.waiting))


def _cells(cells: tuple[str, ...]) -> str:
    return " ".join(f"{each:>{max(len(name), 7)}}" for each, name in zip(cells, _COLUMNS, strict=True))
