"""The console script. It imports the command line only when it runs, so that Ctrl-C during imports ends it quietly."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from headgate.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)
