"""What a run prints about the time of its files, and the file to which the CPU seconds of a process are attributed."""

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


def run(folder: Path, *flags: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *flags]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        [*command, str(folder)], env=environment, cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def test_a_run_ends_with_the_ten_slowest_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["harness.timing"]\n')
    for number in range(11):
        wait = "    import time; time.sleep(0.2)\n" if number == 7 else ""
        (tmp_path / f"test_{number:02}.py").write_text(f"def test_it():\n    pass\n{wait}")
    printed = run(tmp_path).splitlines()
    heading = next(at for at, line in enumerate(printed) if "the 10 slowest files of a run of 0.0 minutes" in line)
    listed = [line.split()[-1] for line in printed[heading + 1 :] if line.endswith(".py")]
    assert "test_07.py" in listed
    assert len({*listed}) == len(listed) == 10
    (tmp_path / "test_00.py").unlink()
    assert "slowest" not in run(tmp_path), "of ten files or fewer there is nothing to choose"


def test_a_server_of_all_files_counts_for_none_and_one_of_a_file_for_that_file(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text("def test_a(shared): ...\n")
    (tmp_path / "test_b.py").write_text("def test_b(own): ...\n")
    (tmp_path / "test_c.py").write_text("def test_c(): ...\n")
    run(tmp_path, "--timings", "timings.json")
    figures = json.loads((tmp_path / "timings.json").read_text())
    spent_s = {name: each["cpu_s"] for name, each in figures.items()}
    assert spent_s["test_a.py"] < 0.3
    assert spent_s["test_b.py"] >= 0.5
    assert spent_s["test_c.py"] < 0.3
