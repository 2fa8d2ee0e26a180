"""``make torture``: every long run, with a line that counts and a summary at the end.

python -m torture                      all of them, at full length
python -m torture kills --kills 100    one of them, shorter
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.embedded_server import EmbeddedServer
from harness.orphans import watch_over
from headgate.cli.options.progress import ProgressBar
from torture import (
    byte_flips,
    compare_and_swap,
    crash_points,
    queues,
    quota,
    schedulers,
    server_kills,
    watches,
    workloads,
)

MEMORY = Path("/dev/shm")


_bars: list[ProgressBar] = []


def counting(label: str, total: int | None = None) -> ProgressBar:
    """The progress of a run; ``main`` removes it before it prints the summary."""
    _bars.append(ProgressBar(label, total))
    return _bars[-1]


def torture_flips(root: Path, given: argparse.Namespace) -> str:
    outcome = byte_flips.run(root, given.flips or None, counting("flips"))
    return f"{outcome.tried} bytes flipped: {outcome.detected} detected, {outcome.harmless} harmless, 0 otherwise"


def torture_points(root: Path, given: argparse.Namespace) -> str:
    report, reached = counting("crashes at points"), 0
    for seed in range(given.rounds):
        reached += sum(crash_points.run(root / f"{seed}", writes=25, seed=seed).values())
        report(reached)
    reached += sum(crash_points.run_backup(root / "backup").values())
    return f"{reached} crashes at named points: nothing lost"


def torture_watches(root: Path, given: argparse.Namespace) -> str:
    outcome = watches.run(given.events, report=counting("events", given.events))
    return (
        f"{outcome.delivered} events to 200 watchers from {outcome.writes} writes, {outcome.compactions} compactions: "
        f"every stream right, {outcome.expired} times 410, each due"
    )


def torture_swaps(root: Path, given: argparse.Namespace) -> str:
    alone = compare_and_swap.check(compare_and_swap.run_in_process(root / "alone", given.swaps))
    history, pauses = compare_and_swap.run_over_http(root, given.seconds, given.pause, report=counting("swaps"))
    over_http = compare_and_swap.check(history)
    return f"{alone} operations in process, {over_http} over HTTP with {pauses} pauses: all linearizable"


def torture_kills(root: Path, given: argparse.Namespace) -> str:
    outcome = server_kills.run(root, given.kills, report=counting("kills", given.kills))
    starts = sorted(outcome.start_s)
    return (
        f"{outcome.kills} kills, {outcome.answered} answered writes, {outcome.events} events, {outcome.in_doubt} "
        f"requests in doubt ({outcome.survived} had been done), {outcome.backups} backups: nothing lost, repeated or "
        f"out of order; starts {starts[len(starts) // 2]:.1f} s (median), {starts[-1]:.1f} s (longest)"
    )


def torture_scheduler(root: Path, given: argparse.Namespace) -> str:
    server = EmbeddedServer(root / "server")
    try:
        outcome = schedulers.run(server, root, given.kills, report=counting("kills of the scheduler", given.kills))
    finally:
        server.disconnect()
        server.stop()
    return (
        f"{outcome.kills} kills of the scheduler, {outcome.under_way} with work left, {outcome.pods} pods: each bound "
        "once, no node with too much at any revision"
    )


def torture_queues(root: Path, given: argparse.Namespace) -> str:
    server = EmbeddedServer(root / "server")
    try:
        outcome = queues.run(
            server,
            root,
            given.kills,
            report=counting("kills of the scheduler with queues", given.kills),
            then=lambda made: queues.hang(server, made, given.pause),
        )
    finally:
        server.disconnect()
        server.stop()
    other = EmbeddedServer(root / "other")
    try:
        asked = queues.outage(other, root, given.outage)
    finally:
        other.disconnect()
        other.stop()
    return (
        f"{outcome.kills} kills of the scheduler with queues, {outcome.under_way} with work left ({outcome.promised} "
        f"between promise and node), {outcome.pods} pods and {outcome.replaced} replaced: no queue over its limit at "
        f"any revision, no gate lifted twice, no promise left; {given.outage:.0f} s without a server: {asked} promises "
        "kept"
    )


def torture_workloads(root: Path, given: argparse.Namespace) -> str:
    server = EmbeddedServer(root / "server", flags=("--components", "apiserver,nodes,scheduler"))
    try:
        outcome = workloads.run(server, root, given.kills, report=counting("kills of the controllers", given.kills))
    finally:
        server.disconnect()
        server.stop()
    return (
        f"{outcome.kills} kills of the controllers, {outcome.under_way} with work left, {outcome.pods} pods and "
        f"{outcome.jobs} jobs: never too many pods and never too few ready ones, every job counted right"
    )


def torture_quota(root: Path, given: argparse.Namespace) -> str:
    server = EmbeddedServer(root / "server", flags=quota.COMPONENTS)
    try:
        outcome = quota.run(server, root, given.kills, report=counting("kills of quota and jobs", given.kills))
    finally:
        server.disconnect()
        server.stop()
    other = EmbeddedServer(root / "other", flags=quota.COMPONENTS)
    try:
        away = quota.outage(other, root, given.outage)
    finally:
        other.disconnect()
        other.stop()
    return (
        f"{outcome.kills} kills of quota and jobs, {outcome.midway} of them midway, {outcome.jobs} jobs "
        f"({outcome.deleted} deleted, {outcome.replaced} replaced), {outcome.admissions} admissions, "
        f"{outcome.evictions} evictions, {outcome.lifted} gates lifted: no quota given twice, all have ended; "
        f"{given.outage:.0f} s without a server: {away.jobs} jobs, "
        f"{away.admissions} admissions"
    )


RUNS: dict[str, Callable[[Path, argparse.Namespace], str]] = {
    "points": torture_points,
    "flips": torture_flips,
    "watches": torture_watches,
    "swaps": torture_swaps,
    "kills": torture_kills,
    "scheduler": torture_scheduler,
    "queues": torture_queues,
    "workloads": torture_workloads,
    "quota": torture_quota,
}
IN_MEMORY = ("points", "flips")


def main() -> int:
    watch_over()
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("runs", nargs="*", choices=[*RUNS, []], help="which ones; all if none is named")
    parser.add_argument("--flips", type=int, default=0, help="how many bytes to flip (0: every byte of the file)")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of crashes at named points")
    parser.add_argument("--events", type=int, default=1_000_000, help="events to deliver to watchers")
    parser.add_argument("--swaps", type=int, default=100_000, help="compare-and-swap operations in process")
    parser.add_argument("--seconds", type=float, default=120, help="how long to swap over HTTP")
    parser.add_argument("--pause", type=float, default=5, help="the longest pause of the server, in seconds")
    parser.add_argument(
        "--kills", type=int, default=1_000, help="how often to kill the server, the scheduler, the controllers or quota"
    )
    parser.add_argument("--outage", type=float, default=60, help="how long queues and quota have no server, in seconds")
    given = parser.parse_args()
    summary: list[str] = []
    for name in given.runs or RUNS:
        place = MEMORY if name in IN_MEMORY and MEMORY.is_dir() else None
        with tempfile.TemporaryDirectory(dir=place, prefix="headgate-torture-") as folder:
            began_s = time.monotonic()
            try:
                told = RUNS[name](Path(folder), given)
            finally:
                while _bars:
                    _bars.pop().clear()
            summary.append(f"{name:8} {time.monotonic() - began_s:6.0f} s   {told}")
            print(summary[-1], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
