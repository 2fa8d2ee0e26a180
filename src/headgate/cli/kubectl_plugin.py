"""The executables of the kubectl plugin: ``kubectl-headgate`` runs the commands, ``kubectl_complete-headgate``
completes them for kubectl.

kubectl calls the second one with the words after ``kubectl headgate``, the last one incomplete, and reads one
completion per line, and a last line with a directive (4: no file names).
"""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete

from headgate.cli.main import main as headgate_main

_NO_FILES: Final = ":4"


def main() -> None:
    headgate_main(prog_name="kubectl headgate")


def complete() -> None:
    *typed, incomplete = sys.argv[1:] or [""]
    shell = ShellComplete(headgate_main, {}, "headgate", "_HEADGATE_COMPLETE")
    for item in shell.get_completions(typed, incomplete):
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)
