"""How fast workloads are admitted: on the embedded server, on a real kube-apiserver, and by Kueue if it is built.

    make bench ARGS="quota --cases plenty,baseline --on embedded,real --scale 1 --rounds 5"

``plenty``: quota for all Workloads, which exist when the quota manager starts. The raw limit is measured on the same
server in the same round: a loop that decides nothing writes the same statuses. ``baseline``: the load of Kueue's own
scheduler benchmark (``loads.py``), from its first Workload until the last one is finished. ``burst``: the gates of many
admitted pods (``burst.py``). ``pending``: one admission in process, with few and with many pending Workloads. etcd does
not fsync, the embedded server does. The quota managers run alternately; a figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from bench import burst, pending, report
from bench.cluster import send
from bench.loads import BASELINE, FLAVOR, LARGE_SCALE, Load, plenty, workloads
from bench.process import Cpu
from bench.quota_managers import KUEUE, QUOTA_MANAGERS, Place, QuotaManager
from bench.running import Runner
from bench.standings import FEWEST_ROUNDS, Bar
from harness.real_server import HOW_TO_GET_THEM, binaries
from headgate.client import write_requests
from headgate.http.transport import HTTPRequest
from headgate.kube.timestamps import format_time
from headgate.quota.kinds.names import WORKLOADS

Object = dict[str, Any]
Managers = Mapping[str, QuotaManager]
Taken = TypeVar("Taken", bound=msgspec.Struct)

RATE_BAR: Final = 200.0
SHARE: Final = Bar(0.6)
KUEUE_S: Final = 371.0
"""How long minimalkueue takes for the baseline."""
BASELINE_BAR_S: Final = KUEUE_S / 3
_TIMEOUT_S: Final = 1200.0


class Flood(msgspec.Struct, frozen=True):
    """``share``: of the raw limit. ``cpu_us``: per admission, by process."""

    rate: float
    raw: float
    share: float
    cpu_us: dict[str, float]
    raw_cpu_us: dict[str, float]


class Run(msgspec.Struct, frozen=True):
    """``waits_s``: from creation to admission, the mean by class."""

    wall_s: float
    rate: float
    waits_s: dict[str, float]
    evictions: float
    cpu_s: dict[str, float]


async def _raw(place: Place, load: Load) -> tuple[float, dict[str, float]]:
    """Statuses per second written by a loop that decides nothing, and the CPU time of each process for one."""
    runner = Runner(place.kubeconfig, load, finishes=False)
    try:
        await runner.furnish()
        await runner.create(workloads(load))
        runner.listen()
        bodies = [(each["metadata"], _admitted(each)) for each in workloads(load)]

        async def write(one: tuple[Object, bytes]) -> None:
            metadata, body = one
            path = WORKLOADS.object_path(metadata["namespace"], metadata["name"], "status")
            await send(runner.transport, HTTPRequest("PATCH", path, "", write_requests.PATCH_HEADERS["merge"], body))

        cpu, began_s = Cpu(place.pids()), time.perf_counter()
        await runner.each(bodies, write)
        rate = load.total / (time.perf_counter() - began_s)
        each_us = {name: used_s / load.total * 1e6 for name, used_s in cpu.used_s().items()}
        for _, queue in load.places:
            path = WORKLOADS.collection_path(queue)
            await send(runner.transport, HTTPRequest("DELETE", path, "", write_requests.JSON, b"{}", timeout_s=120))
        await runner.create(workloads(load))
        return rate, each_us
    finally:
        await runner.close()


def _admitted(workload: Object) -> bytes:
    """The status of an admitted Workload."""
    queue, now = workload["metadata"]["namespace"], format_time(time.time())
    requests = workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]
    given = {"name": "main", "flavors": {"cpu": FLAVOR}, "resourceUsage": requests, "count": 1}
    said = {"status": "True", "lastTransitionTime": now, "observedGeneration": 1}
    reserved = f"Quota reserved in ClusterQueue {queue}"
    conditions = [
        {"type": "QuotaReserved", "reason": "QuotaReserved", "message": reserved, **said},
        {"type": "Admitted", "reason": "Admitted", "message": "The workload is admitted", **said},
    ]
    admission = {"clusterQueue": queue, "podSetAssignments": [given]}
    return msgspec.json.encode({"status": {"admission": admission, "conditions": conditions}})


async def _flood(place: Place, load: Load) -> tuple[float, dict[str, float]]:
    runner = Runner(place.kubeconfig, load, finishes=False)
    try:
        runner.listen()
        admitted = runner.diary.admitted_s
        await runner.until(lambda: len(admitted) > 0, _TIMEOUT_S, "no Workload was admitted")
        cpu, before = Cpu(place.pids()), len(admitted)
        await runner.until(lambda: len(admitted) == load.total, _TIMEOUT_S, f"not all of {load.total} were admitted")
        count = load.total - before
        return runner.diary.rate(), {name: each / count * 1e6 for name, each in cpu.used_s().items()}
    finally:
        await runner.close()


def take_flood(manager: QuotaManager, load: Load, folder: Path, programs: Path) -> Flood:
    place = manager.open(folder, programs)
    try:
        raw, raw_cpu_us = report.run(_raw(place, load))
        place.begin()
        rate, cpu_us = report.run(_flood(place, load))
        return Flood(rate, raw, rate / raw, cpu_us, raw_cpu_us)
    finally:
        place.stop()


async def _run(place: Place, load: Load) -> Run:
    runner = Runner(place.kubeconfig, load)
    try:
        await runner.furnish()
        place.begin()
    finally:
        await runner.close()
    runner = Runner(place.kubeconfig, load)
    try:
        runner.listen()
        await runner.until(lambda: runner.diary.listened_s > 0, _TIMEOUT_S, "Workloads cannot be listed")
        cpu, began_s = Cpu(place.pids()), time.perf_counter()
        await runner.create_in_time()
        finished = runner.diary.finished
        ended_s = await runner.until(lambda: len(finished) == load.total, _TIMEOUT_S, "not all were finished")
        waits_s = {name: statistics.mean(each) for name, each in runner.diary.waits_s().items()}
        wall_s = ended_s - began_s
        return Run(wall_s, load.total / wall_s, waits_s, runner.diary.evictions, cpu.used_s())
    finally:
        await runner.close()


def take_run(manager: QuotaManager, load: Load, folder: Path, programs: Path) -> Run:
    place = manager.open(folder, programs)
    try:
        return report.run(_run(place, load))
    finally:
        place.stop()


def in_turns(names: Iterable[str], rounds: int, take: Callable[[str, int], Taken]) -> dict[str, list[Taken]]:
    """The rounds of each quota manager. In every round all of them are measured one after the other, so that other load
    on the machine affects all of them."""
    found: dict[str, list[Taken]] = {name: [] for name in names}
    for number in range(rounds):
        for name, taken in found.items():
            taken.append(take(name, number))
            print(f"  round {number + 1}: {name:10} {taken[-1]}", flush=True)
    return found


def medians(taken: Sequence[Taken]) -> Taken:
    """Of each figure by itself, also of those by process or by class."""
    fields = ((name, [getattr(each, name) for each in taken]) for name in type(taken[0]).__struct_fields__)
    return type(taken[0])(**{name: _median(values) for name, values in fields})


def _median(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        return {name: statistics.median(each[name] for each in values) for name in values[0]}
    return statistics.median(values)


def _plenty_rows(managers: Managers, rounds: int, load: Load, folder: Path, programs: Path) -> list[list[str]]:
    def take(name: str, number: int) -> Flood:
        return take_flood(managers[name], load, folder / f"plenty-{name}-{number}", programs)

    rows = []
    for name, taken in in_turns(managers, rounds, take).items():
        found = medians(taken)
        share = SHARE.said(found.share) if name == "real" else f"{found.share:.2f}×"
        bar = "" if name != "embedded" else f" (bar ≥ {RATE_BAR:.0f}/s{_missed(found.rate >= RATE_BAR)})"
        row = [name, f"{load.total:,}", f"{found.rate:,.0f}/s{bar}", f"{found.raw:,.0f}/s", share]
        rows.append([*row, *(_each_us(used) for used in (found.cpu_us, found.raw_cpu_us))])
        print("  plenty: " + "; ".join(rows[-1]), flush=True)
    return rows


def _baseline_rows(
    managers: Managers, rounds: int, load: Load, title: str, folder: Path, programs: Path
) -> list[list[str]]:
    def take(name: str, number: int) -> Run:
        return take_run(managers[name], load, folder / f"{title}-{name}-{number}", programs)

    rows = []
    for name, taken in in_turns(managers, rounds, take).items():
        found = medians(taken)
        waits = ", ".join(f"{each} {found.waits_s[each]:.1f} s" for each in ("large", "medium", "small"))
        bar = ""
        if load == BASELINE and name != KUEUE.name:
            bar = f" (bar ≤ {BASELINE_BAR_S:.0f} s{_missed(found.wall_s <= BASELINE_BAR_S)})"
        row = [name, f"{load.total:,}", f"{found.wall_s:.0f} s{bar}", f"{found.rate:,.0f}/s", waits]
        rows.append([*row, f"{found.evictions:,.0f}", ", ".join(f"{n} {s:.0f} s" for n, s in found.cpu_s.items())])
        print(f"  {title}: " + "; ".join(rows[-1]), flush=True)
    return rows


def _burst_rows(managers: Managers, rounds: int, count: int, folder: Path, programs: Path) -> list[list[str]]:
    def take(name: str, number: int) -> burst.Burst:
        return burst.take(managers[name], count, folder / f"burst-{name}-{number}", programs)

    rows = []
    for name, taken in in_turns(managers, rounds, take).items():
        found = medians(taken)
        row = [name, f"{count:,}", f"{found.rate:,.0f}/s", f"{found.raw:,.0f}/s", burst.SHARE.said(found.share)]
        rows.append([*row, _each_us(found.cpu_us)])
        print("  burst: " + "; ".join(rows[-1]), flush=True)
    return rows


def _each_us(used: dict[str, float]) -> str:
    return ", ".join(f"{name} {each:,.0f} µs" for name, each in used.items())


def _missed(is_met: bool) -> str:
    return "" if is_met else ", **missed**"


_PLENTY_HEADS: Final = ("on", "Workloads", "admissions", "raw limit", "of it", "CPU per admission", "CPU per raw write")
_BURST_HEADS: Final = ("on", "pods", "gates lifted", "raw limit", "of it", "CPU per pod")
_RUN_HEADS: Final = ("on", "Workloads", "wall time", "per second", "mean wait by class", "evictions", "CPU")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench quota", description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", default="plenty,baseline,burst,pending", help="of these, and large-scale")
    parser.add_argument("--on", default="embedded,real", help=f"of these, and {KUEUE.name} (of `make kueue`)")
    parser.add_argument("--count", type=int, default=6_000, help="Workloads of plenty")
    parser.add_argument("--queues", type=int, default=30, help="queues of plenty")
    parser.add_argument("--pods", type=int, default=10_000, help=f"of the burst, in groups of {burst.GROUP}")
    parser.add_argument("--scale", type=float, default=1.0, help="of the baseline's counts")
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help="with fewer no table is written")
    given = parser.parse_args(arguments)
    cases, managers = given.cases.split(","), {name: QUOTA_MANAGERS[name] for name in given.on.split(",")}
    write = report.write if given.rounds >= FEWEST_ROUNDS else _print_only
    if "pending" in cases:
        report.write("quota, pending", pending.measure())
    programs = binaries()
    if programs is None:
        print(f"\nthe real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
        return
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        folder = Path(name)
        if "plenty" in cases:
            rows = _plenty_rows(managers, given.rounds, plenty(given.count, given.queues), folder, programs)
            write("quota, plenty", report.table(_PLENTY_HEADS, rows))
        if "burst" in cases:
            rows = _burst_rows(managers, given.rounds, given.pods, folder, programs)
            write("quota, burst", report.table(_BURST_HEADS, rows))
        for title, load in (("baseline", BASELINE), ("large-scale", LARGE_SCALE)):
            if title in cases:
                rows = _baseline_rows(managers, given.rounds, load.scaled(given.scale), title, folder, programs)
                if given.scale == 1:
                    write(f"quota, {title}", report.table(_RUN_HEADS, rows))


def _print_only(name: str, lines: Sequence[str]) -> None:
    """The rows are printed already: the figures of so few rounds are not written down."""
    print(f"{name}: not written, fewer than {FEWEST_ROUNDS} rounds")
