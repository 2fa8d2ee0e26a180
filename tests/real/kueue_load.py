"""Kueue's scheduler as the decider of a load (``quota_load.py``), beside a real API server.

A tick ends when nothing was decided for a while, longer than the second that Kueue waits before it looks again at
workloads that did not fit. Times of reservation are set to the time of the tick, for the order of candidates for
preemption depends on them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.kueue import KUEUE, MinimalKueue, define_kueue, plant
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import send
from kueue_builders import a_flavor
from quota_load import Decided, reserved_at_s
from real.kueue_and_headgate import PATIENCE_S, PLURALS, Side, is_
from real.kueue_random_clusters import typed

Object = dict[str, Any]

_GLANCE_S = 0.1
_QUIET_S = 2.5
_ACTIVE_S = 30.0


class KueueDecider:
    namespace = "default"

    def __init__(self, server: RealServer, process: Process) -> None:
        self._server = server
        self._process = process
        self._side = Side(server, process)
        self._holding: set[str] = set()
        """The workloads that hold quota and are not evicted, at the last list."""

    def define(self, cluster_queues: list[Object], local_queues: list[Object]) -> None:
        plant(self._server, [typed("ResourceFlavor", a_flavor())])
        plant(self._server, [typed("ClusterQueue", each) for each in cluster_queues])
        plant(self._server, [typed("LocalQueue", each) for each in local_queues])
        deadline_s = time.monotonic() + _ACTIVE_S
        while not all(is_(each, "Active") for each in self._list("ClusterQueue").values()):
            assert time.monotonic() < deadline_s, "the queues are not active"
            time.sleep(_GLANCE_S)

    def act(self, tick: int, submitted: Iterable[Object], finished: Iterable[str], released: Iterable[str]) -> None:
        known = self._list("Workload")
        for name in finished:
            self._side.act("finish", known[name], {"Workload": known})
            self._holding.discard(name)
        for name in released:
            self._side.release(known[name])
        plant(self._server, [typed("Workload", _without_status(each)) for each in submitted])

    def settle(self, tick: int) -> Decided:
        workloads = self._rest()
        now = {name for name, each in workloads.items() if is_(each, "QuotaReserved") and not is_(each, "Finished")}
        evicted = {name for name in now if is_(workloads[name], "Evicted")}
        admitted = now - self._holding
        for name in sorted(admitted - evicted):
            self._side.date(workloads[name], reserved_at_s(tick))
        self._holding = now - evicted
        return Decided(frozenset(admitted), frozenset(evicted))

    def _rest(self) -> dict[str, Object]:
        begun_s = quiet_since_s = time.monotonic()
        before: object = None
        read_at = ""  # the revision
        while True:
            revision = self._revision()
            if revision != read_at:
                read_at, workloads = revision, self._list("Workload")
                decided = {
                    name: [is_(each, type_) for type_ in ("QuotaReserved", "Admitted", "Evicted", "Finished")]
                    for name, each in workloads.items()
                }
            now_s = time.monotonic()
            if decided != before:
                before, quiet_since_s = decided, now_s
            elif now_s - quiet_since_s > _QUIET_S:
                return workloads
            assert now_s - begun_s < PATIENCE_S, "no rest"
            assert self._process.running(), self._process.tail()
            time.sleep(_GLANCE_S)

    def _revision(self) -> str:
        """Of the newest write; a list of all workloads ten times a second would keep a core busy."""
        return str(
            send(self._server, "GET", f"{KUEUE}/{PLURALS['ResourceFlavor']}?limit=1")["metadata"]["resourceVersion"]
        )

    def _list(self, kind: str) -> dict[str, Object]:
        listed = send(self._server, "GET", f"{KUEUE}/{PLURALS[kind]}")["items"]
        return {each["metadata"]["name"]: each for each in listed}


@contextlib.contextmanager
def kueue_decider(folder: Path, kube: Path, programs: Path) -> Iterator[KueueDecider]:
    with contextlib.ExitStack() as stack:
        server = RealServer(folder / "kueue", kube)
        stack.callback(server.stop)
        stack.callback(server.disconnect)
        define_kueue(server, programs)
        process = MinimalKueue(server, programs, folder / "kueue.log")
        stack.callback(process.stop)
        yield KueueDecider(server, process)


def _without_status(wire: Object) -> Object:
    return {field: value for field, value in wire.items() if field != "status"}
