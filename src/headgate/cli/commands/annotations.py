"""``headgate annotations``: lists the annotations and labels of simulated nodes and their pods."""

from __future__ import annotations

import click

from headgate.cli.options.listing import Listing, Table, listing_text
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import list_output_option
from headgate.nodes.annotations import SUPPORTED_ANNOTATIONS


@click.command(short_help="Print the annotations that control simulated nodes and pods.")
@list_output_option
@log_options
def command(output: str) -> None:
    """Print every annotation and label that simulated nodes understand: on which objects, an example, and what it does.

    Annotations of a Deployment's or Job's pods belong into the pod template. A duration is Go's (1m30s), or a number of
    seconds.

    \b
    Example:
      headgate annotations
      kubectl annotate node node-0001 headgate.dev/silent-after=1m
    """
    table = Table(
        ("NAME", "ON", "EXAMPLE", "WHAT"),
        tuple((row.key, _on(row.kind, row.on), row.example, row.what) for row in SUPPORTED_ANNOTATIONS),
        tuple(f"{row.kind}/{row.key}" for row in SUPPORTED_ANNOTATIONS),
    )
    click.echo(listing_text(Listing((table,), SUPPORTED_ANNOTATIONS), output))


def _on(kind: str, on: str) -> str:
    return on if kind == "annotation" else f"{on} ({kind})"
