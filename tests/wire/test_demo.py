"""`headgate demo autoscaler`, as a newcomer types it, and the page that shows what it prints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from harness.embedded_server import HEADGATE

PAGE = (Path(__file__).parents[2] / "docs" / "autoscalers.md").read_text()


def told() -> dict[str, list[str]]:
    """What each model comes to; both at once, for they mostly wait."""
    command = [str(HEADGATE), "demo", "autoscaler", "--model"]
    running = {
        model: subprocess.Popen([*command, model], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for model in ("cluster-autoscaler", "karpenter")
    }
    lines = {}
    for model, process in running.items():
        printed, complaints = process.communicate(timeout=120)
        assert (process.returncode, complaints) == (0, "")
        lines[model] = printed.splitlines()
    return lines


def numbers(line: str) -> list[int]:
    """Off and on: added, idle, running, waiting each."""
    return [int(each) for each in re.findall(r"\d+", line[32:])]


def test_with_gates_only_the_machines_that_the_queue_limit_allows_are_bought() -> None:
    printed = told()
    for lines in printed.values():
        assert {line[:32].strip(): numbers(line) for line in lines[2:7]} == {
            "a queue of 2 CPU": [0, 0, 0, 0, 0, 0, 0, 0],
            "the driver is submitted": [1, 0, 1, 0, 1, 0, 1, 0],
            "five executors are submitted": [6, 4, 2, 4, 2, 0, 2, 4],
            "one executor finishes": [6, 4, 2, 3, 2, 0, 2, 3],
            "the queue grows to 3 CPU": [6, 3, 3, 2, 3, 0, 3, 2],
        }
        assert re.fullmatch(
            r"Without gates the autoscaler added 6 nodes, [1-4] of which never ran a pod; "
            r"with gates it added 3 nodes, all of which ran pods, and as many pods ran\.",
            lines[-1],
        )
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown.splitlines() == printed["cluster-autoscaler"][:7]
