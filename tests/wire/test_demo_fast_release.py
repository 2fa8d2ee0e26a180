"""`headgate demo fast-release`, as a newcomer types it, and the page that shows what it prints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from harness.embedded_server import HEADGATE
from headgate.cli.demos.fast_release import (
    FAST_RELEASE,
    LATE_RELEASE,
    OTHER_SCHEDULER,
    STARTED_EARLY,
    one_after_another,
    one_victim_each,
    run_scenario,
)

PAGE = (Path(__file__).parents[2] / "docs" / "kueue.md").read_text()


def test_a_hundred_preemptors_wait_for_one_minute_instead_of_a_hundred_and_no_node_is_added() -> None:
    done = subprocess.run([str(HEADGATE), "demo", "fast-release"], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert all(re.match(r"demo: [0-6] of 6 runs, ", line) for line in done.stderr.splitlines()), done.stderr
    lines = done.stdout.splitlines()
    found = [[int(each) for each in re.findall(r"\d+", line[32:])] for line in lines[1:]]
    scenes = {
        "100 preemptors, each with a victim": found[1:5],
        "10 queues reclaim one after another": found[6:10],
    }
    assert [lines[1], lines[6]] == list(scenes)
    # The columns: the gate off; on; on, beside a scheduler that does not wait for terminating pods.
    assert scenes["100 preemptors, each with a victim"] == [
        [6000, 0, 0],  # all admitted after
        [6000, 60, 60],  # all running after
        [0, 0, 0],  # nodes added
        [0, 100, 100],  # most quota above node capacity
    ]
    assert scenes["10 queues reclaim one after another"] == [
        [600, 0, 0],
        [600, 60, 60],
        [0, 0, 0],
        [0, 10, 10],
    ]
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown.splitlines() == lines


def test_if_pods_start_early_a_node_is_added_for_each_preemptor_with_another_scheduler() -> None:
    assert run_scenario(one_victim_each(10), STARTED_EARLY).nodes_added == 10
    assert run_scenario(one_victim_each(10), OTHER_SCHEDULER).nodes_added == 0


def test_every_run_prints_the_same() -> None:
    scene = one_after_another(2)
    variants = (LATE_RELEASE, FAST_RELEASE, OTHER_SCHEDULER)
    assert [run_scenario(scene, each) for each in variants] == [run_scenario(scene, each) for each in variants]
