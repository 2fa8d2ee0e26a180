"""``headgate check``: verifies a data folder or a backup, and reports what can be salvaged."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headgate.cli.embedded.pki import pki_problem
from headgate.cli.options.data_folder import data_option, fail, progress_line
from headgate.cli.options.log_options import log_options
from headgate.store.io.backup import examine
from headgate.store.io.database_file import FILE, StoreError
from headgate.store.io.salvage import salvage


@click.command(short_help="Look for damage in a data folder or a backup.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@data_option("The data folder to check, if no FILE is named.")
@click.option(
    "--drop-damaged",
    is_flag=True,
    help="Keep what is sound and lose the rest; the damaged files are kept aside. The server must be stopped.",
)
@log_options
def command(file: Path | None, data: Path, drop_damaged: bool) -> None:
    """Read every row of FILE (a backup), or of the data folder and its keys (pki), and name all damage.

    The exit code is 0 if everything is sound and 1 if not. A server may be running.

    Damage in the data folder is also found when the server starts, which then refuses. That includes acknowledged
    writes that are missing: a write-ahead file that was cut, removed or damaged, or a missing headgate.db-mark. The
    right thing to do is to restore a backup. Without one, --drop-damaged keeps every row that is sound, also of a file
    that was cut short, and says what is lost. An object whose newest row is lost then appears as it was before that, or
    is gone.

    \b
    Example:
      headgate check
      headgate check monday.db
      headgate check --data .headgate --drop-damaged
    """
    if drop_damaged and file is not None:
        raise click.UsageError("--drop-damaged works on a data folder: restore the backup first, or choose another")
    path, pki = file or data / FILE, None
    try:
        if drop_damaged:
            done = salvage(data, progress_line("reading"))
            problems = done.problems
        else:
            problems = examine(path, progress_line("reading"), at_rest=file is not None)
            pki = (pki_problem(data) or _find_misplaced_file(data)) if file is None else None
    except StoreError as problem:
        fail("check", problem)
    for each in problems:
        click.echo(f"{path}: {each}")
    if pki is not None:
        click.echo(pki)
    if not problems:
        click.echo(f"{path} is sound")
    elif drop_damaged:
        for each in done.lost or ("nothing: every row could be read",):
            click.echo(f"lost: {each}")
        click.echo(f"kept {done.kept_rows} sound rows; the damaged files are in {done.aside}")
    if (problems and not drop_damaged) or pki is not None:
        sys.exit(1)


def _find_misplaced_file(data: Path) -> str | None:
    """An error text if there is a directory or another object in place of a file that the server writes at its
    start."""
    for path in (data / "kubeconfig", data / "token"):
        if path.exists() and not path.is_file():
            return f"{path} is not a regular file; move it away, and the next start writes the file again"
    return None
