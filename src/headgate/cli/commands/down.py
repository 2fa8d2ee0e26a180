"""``headgate down``: stops the ``headgate up`` of a data folder. ``cli/embedded/stopping.py`` does the work."""

from __future__ import annotations

from pathlib import Path

import click

from headgate.cli.embedded.stopping import stop_server
from headgate.cli.options.cluster_access import exit_with_error
from headgate.cli.options.data_folder import DATA
from headgate.cli.options.log_options import log_options


@click.command(short_help="Stop the cluster that headgate up --detach has started.")
@click.option(
    "--data",
    "--data-dir",
    "data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA,
    show_default=True,
    help="The data folder of the server.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a clean stop.",
)
@click.option("--force", is_flag=True, help="Kill the server if it has not stopped after --timeout.")
@log_options
def command(data: Path, timeout_s: float, force: bool) -> None:
    """Stop the server of a data folder, and wait until it has ended. Everything in the folder is kept.

    The command stops exactly the process that serves the folder, whether `headgate up --detach` or `headgate up` has
    started it. If nothing runs there it says so, and the exit code is 0. If the server could not be stopped, the exit
    code is 1.

    \b
    Example:
      headgate up --detach --data /tmp/cluster
      headgate down --data /tmp/cluster
      headgate down --data /tmp/cluster --timeout 5 --force
    """
    try:
        done = stop_server(data, timeout_s, force=force)
    except KeyboardInterrupt:
        exit_with_error("down", "interrupted; the server was asked to stop: run the command again to wait for it")
    if not done.is_stopped:
        exit_with_error("down", done.text)
    click.echo(done.text)
