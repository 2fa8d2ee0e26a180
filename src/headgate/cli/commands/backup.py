"""``headgate backup``: makes a verified copy of the data, also while the server runs."""

from __future__ import annotations

from pathlib import Path

import click

from headgate.cli.options.data_folder import data_option, fail, progress_line, size
from headgate.cli.options.log_options import log_options
from headgate.store.io.backup import BackupProgress, back_up
from headgate.store.io.database_file import StoreError


@click.command(short_help="Copy the data to a file, also while the server runs.")
@click.argument("file", type=click.Path(path_type=Path))
@data_option("The data folder of the server.")
@log_options
def command(file: Path, data: Path) -> None:
    """Copy every object at one revision to FILE, while the server continues to run.

    The copy is checked row by row, read again as a whole, and only then gets its name: if FILE is there, it is good.
    An existing file is never replaced. FILE holds everything that the API serves, Secrets included, and is readable by
    its owner only. It does not hold the server's own token and keys (token and pki in the data folder): keep a copy of
    those yourself if clients must find the same ones again.

    \b
    Example:
      headgate backup monday.db
      headgate check monday.db             says whether a backup is still sound
      headgate restore monday.db --data new-folder
    """
    try:
        copied = back_up(data, file, BackupProgress(progress_line("copying"), progress_line("verifying")))
    except StoreError as problem:
        fail("backup", problem)
    click.echo(f"{file}: revision {copied.revision}, {copied.rows} rows, {size(copied.size_bytes)}, verified")
