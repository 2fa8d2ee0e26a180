"""``headgate restore``: creates a data folder from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from headgate.cli.options.data_folder import data_option, fail, progress_line
from headgate.cli.options.log_options import log_options
from headgate.store.io.backup import BackupProgress, restore
from headgate.store.io.database_file import StoreError


@click.command(short_help="Make a data folder from a backup.")
@click.argument("file", type=click.Path(path_type=Path))
@data_option("The data folder to make. It must not exist, or be empty.")
@log_options
def command(file: Path, data: Path) -> None:
    """Restore FILE, which `headgate backup` wrote, into a new data folder.

    FILE is verified first and is not changed. Nothing is ever replaced: a folder that has anything in it is refused.

    Clients may have seen changes that were made after the backup. The restored store therefore continues with much
    higher revisions, and every earlier watch gets 410 and has to list again.

    \b
    Example: go back to Monday
      (stop the server)
      mv .headgate broken
      headgate restore monday.db
      cp -a broken/token broken/pki .headgate/      clients keep their kubeconfig
      headgate up
    """
    try:
        copied = restore(file, data, BackupProgress(progress_line("copying"), progress_line("verifying")))
    except StoreError as problem:
        fail("restore", problem)
    click.echo(f"{data}: {copied.rows} rows, revisions go on from {copied.revision}")
    click.echo(f"Start it with: headgate up --data {data}")
