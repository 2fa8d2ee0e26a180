"""The command ``headgate`` itself: its version, without a cluster and without its commands."""

from __future__ import annotations

import subprocess
import sys

from click.testing import CliRunner

import headgate
from headgate.cli.main import main


def test_the_version_is_one_line() -> None:
    done = CliRunner().invoke(main, ["--version"])
    assert (done.exit_code, done.output) == (0, f"headgate {headgate.__version__}\n")
    assert "--version" in CliRunner().invoke(main, ["--help"]).output


def test_the_version_needs_neither_a_kubeconfig_nor_the_modules_of_the_commands() -> None:
    code = (
        "import sys; from headgate.cli.main import main; main(['--version'], standalone_mode=False);"
        "print([each for each in sys.modules if each.startswith(('headgate.cli.commands', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"headgate {headgate.__version__}", "[]"]
