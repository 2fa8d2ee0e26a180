"""Ctrl-C at any moment: exit code 130, no traceback, and no part of a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli.commands import simulate
from headgate.cli.main import main

INTERRUPTED_IMPORT = """
import sys

MODULE = sys.argv[1]

class Interrupt:
    def find_spec(self, name, *rest):
        if name == MODULE:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from headgate.cli.entry import main
sys.argv[1:] = ["simulate", "--help"]
main()
"""


@pytest.mark.parametrize("module", ["click", "headgate.cli.main", "headgate.cli.commands.simulate", "msgspec"])
def test_ctrl_c_during_an_import(module: str) -> None:
    words = [sys.executable, "-c", INTERRUPTED_IMPORT, module]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_jobs_are_generated_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> Iterator[bytes]:
        yield b"{}"
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "trace_lines", interrupted)
    words = ["simulate", "--generate", "helios", "--write-trace", str(tmp_path / "trace.jsonl")]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, type(result.exception)) == (130, SystemExit)
    assert result.output == "headgate simulate: interrupted\n"
    assert not list(tmp_path.iterdir())
