"""The file to which the CPU seconds of a process are attributed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
CONFTEST = """
import subprocess, sys
import pytest

pytest_plugins = ["harness.timing"]
SPIN = "import time\\nwhile time.process_time() < 0.5: pass\\nprint('done', flush=True)\\nimport sys; sys.stdin.read()"

def busy():
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield

@pytest.fixture(scope="session")
def shared():
    yield from busy()

@pytest.fixture(scope="module")
def own():
    yield from busy()
"""


def test_a_server_of_all_files_counts_for_none_and_one_of_a_file_for_that_file(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text("def test_a(shared): ...\n")
    (tmp_path / "test_b.py").write_text("def test_b(own): ...\n")
    (tmp_path / "test_c.py").write_text("def test_c(): ...\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    subprocess.run(
        [*command, "--timings", "timings.json", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    figures = json.loads((tmp_path / "timings.json").read_text())
    spent_s = {name: each["cpu_s"] for name, each in figures.items()}
    assert spent_s["test_a.py"] < 0.3
    assert spent_s["test_b.py"] >= 0.5
    assert spent_s["test_c.py"] < 0.3
