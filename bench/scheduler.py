"""``headgate run`` compared with kube-scheduler on the same real kube-apiserver and etcd, and with the raw limits.

    make bench ARGS="scheduler --nodes 1000,5000 --rounds 5 --pods 3000 --cases plain,ungate,parked"

etcd does not fsync in any round. ``bench/rounds.py`` runs a round; ``bench/standings.py`` computes figures from rounds.
Writes the tables in ``docs/benchmarks.md`` if all of them were measured.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import report, rounds, standings
from bench.cluster import Cluster, Stuck
from bench.contenders import CONTENDERS, OURS, Contender
from bench.rounds import Place
from bench.standings import FEWEST_ROUNDS
from harness.real_server import HOW_TO_GET_THEM, RealServer, binaries

FLAGS: Final = ("--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--delete-collection-workers=8")
NODES: Final = (1_000, 5_000)
CASES: Final = ("plain", "ungate", "parked")
PARKED_ROUNDS: Final = 5
_WARM_UP: Final = 500
_TITLES: Final = {"plain": "pods are there", "ungate": "pods are ungated"}

Rows = list[list[str]]


class Options(msgspec.Struct, frozen=True):
    nodes: tuple[int, ...]
    pods: int
    rounds: int
    parked: int
    cases: tuple[str, ...]
    contenders: tuple[Contender, ...]

    def whole(self) -> bool:
        everybody = len(self.contenders) == len(CONTENDERS)
        enough = self.rounds >= FEWEST_ROUNDS
        return enough and self.nodes == NODES and set(self.cases) == set(CASES) and everybody


async def measure(options: Options, folder: Path, programs: Path) -> tuple[Rows, Rows]:
    speeds: Rows = []
    parked: Rows = []
    for nodes in options.nodes:
        async with _place(folder / str(nodes), programs, nodes, options.pods) as place:
            for case in ("plain", "ungate"):
                if case in options.cases:
                    speeds += await _compare(place, options, case)
            if "parked" in options.cases and nodes == min(options.nodes):
                async with _place(folder / "parked", programs, nodes, options.pods) as full:
                    for contender in options.contenders:
                        parked.append(await _beside_parked(place, full, contender, options))
    return speeds, parked


@asynccontextmanager
async def _place(folder: Path, programs: Path, nodes: int, pods: int) -> AsyncIterator[Place]:
    server = RealServer(folder, programs, flags=FLAGS)
    try:
        cluster = Cluster(server)
        try:
            await cluster.prepare(nodes)
            await rounds.raw(Place(cluster, programs, folder, nodes, _WARM_UP), lift=True)
            yield Place(cluster, programs, folder, nodes, pods)
        finally:
            await cluster.close()
    finally:
        server.stop()


async def _compare(place: Place, options: Options, case: str) -> Rows:
    ungated = case == "ungate"
    take = rounds.ungate if ungated else rounds.plain
    turns: dict[str, standings.Take] = {standings.RAW: partial(rounds.raw, place, lift=ungated)}
    turns |= {contender.name: partial(take, place, contender) for contender in options.contenders}
    title = f"{place.nodes:,} nodes, {_TITLES[case]}"
    found = await standings.in_turns(title, options.rounds, turns)
    return standings.speed_rows(title, found, place.nodes, ungated=ungated)


async def _beside_parked(alone: Place, full: Place, contender: Contender, options: Options) -> list[str]:
    """Two servers, so that nothing has to be created and removed between rounds."""
    await full.cluster.park(options.parked, contender.serves)
    turns = {
        "none parked": partial(rounds.warm, alone, contender),
        f"{options.parked:,} parked": partial(rounds.warm, full, contender),
    }
    found = await standings.in_turns(contender.name, PARKED_ROUNDS, turns)
    await full.cluster.unpark()
    return standings.parked_row(f"{contender.name}, {alone.nodes:,} nodes", found, ours=contender is OURS)


def _options(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench scheduler", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default=",".join(map(str, NODES)), help="several, with commas, are done in turn")
    parser.add_argument("--pods", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS)
    parser.add_argument("--parked", type=int, default=10_000, help="how many gated pods are parked")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--schedulers", default=",".join(CONTENDERS))
    given = parser.parse_args(arguments)
    cases, names = given.cases.split(","), given.schedulers.split(",")
    unknown = [*(case for case in cases if case not in CASES), *(name for name in names if name not in CONTENDERS)]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; cases: {', '.join(CASES)}; schedulers: {', '.join(CONTENDERS)}")
    nodes = tuple(int(each) for each in given.nodes.split(","))
    contenders = tuple(CONTENDERS[name] for name in names)
    return Options(nodes, given.pods, given.rounds, given.parked, tuple(cases), contenders)


def _terminated(*_: Any) -> None:
    sys.exit(143)  # runs every finally clause, so that no process that was started is left


def main(arguments: Sequence[str] = ()) -> None:
    options = _options(arguments)
    programs = binaries()
    if programs is None:
        print(f"\nthe real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
        return
    names = " and ".join(each.name for each in options.contenders)
    print(f"\n{names} in turns, {options.pods:,} pods; one kube-apiserver, etcd without fsync")
    signal.signal(signal.SIGTERM, _terminated)
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        try:
            speeds, parked = report.run(measure(options, Path(folder), programs))
        except Stuck as trouble:
            print(f"  {trouble}", file=sys.stderr)
            return
    for name, heads, rows in (
        ("schedulers", standings.SPEED_HEADS, speeds),
        ("beside parked pods", standings.PARKED_HEADS, parked),
    ):
        lines = report.table(heads, rows) if rows else []
        print("\n".join(lines))
        if options.whole():
            report.write(name, lines)
        elif rows:
            report.record(f"{name}, in part", lines)
