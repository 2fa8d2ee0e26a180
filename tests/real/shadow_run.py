"""Kueue decides about random clusters on one API server, and `headgate run --shadow` compares its decisions.

In every step one event happens in each cluster, and Kueue settles; then evicted workloads release their quota, as the
controller of their job would, until there are none.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.embedded_server import HEADGATE
from harness.kueue import MinimalKueue, define_kueue, plant
from harness.processes import Process
from harness.rights import AuditedServer
from harness.scheduler_process import wait_for
from headgate.runtime.shadow import LOGGER
from real.kueue_and_headgate import AGREED_S, PATIENCE_S, Side, Versions, View, decided_versions, is_
from real.kueue_random_clusters import RandomCluster

Object = dict[str, Any]

ACCOUNT = "kube-system/headgate-shadow"
SHADOW_PATIENCE_S = 6.0
_ROUNDS = 6


class ShadowRun:
    """``compared``: the comparisons that Headgate logged, in order. ``objects``: the last version of each workload that
    Kueue decided about. ``admitted``: the workloads that had quota at some time after a step."""

    def __init__(self, server: AuditedServer, kueue: Process, shadow: Process, seed: int, clusters: int) -> None:
        self.server, self._kueue, self._shadow = server, kueue, shadow
        self._side = Side(server, kueue)
        self.clusters = {each.name: each for each in (RandomCluster(at, seed) for at in range(clusters))}
        self.admitted: set[str] = set()
        self.objects: dict[str, Object] = {}
        self.compared: list[Object] = []
        self.summary = ""

    def perform(self, steps: int) -> None:
        plant(self.server, [wire for cluster in self.clusters.values() for wire in cluster.objects()])
        view = self._rest()
        for _ in range(steps):
            for name, cluster in self.clusters.items():
                workloads = {key: each for key, each in view["Workload"].items() if key.startswith(f"{name}-")}
                self._side.act(*cluster.next_act(workloads), view)
            for _ in range(_ROUNDS):
                view = self._rest()
                if not self._let_go(view):
                    break
            else:
                raise AssertionError("evictions without end")

    def finish(self) -> None:
        """Decisions that Kueue did not make become overdue; then the shadow is stopped."""
        time.sleep(SHADOW_PATIENCE_S + 4)
        assert self._shadow.running(), self._shadow.tail()
        self._shadow.stop()
        text = self._shadow.log.read_text()
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        self.compared = [each for each in lines if each.get("logger") == LOGGER]
        self.summary = "\n".join(line for line in text.splitlines() if not line.startswith("{"))

    def outcomes(self) -> Counter[str]:
        return Counter(f"{each['decision']} {each['outcome']}" for each in self.compared)

    def _rest(self) -> View:
        """The objects, once Kueue has decided nothing for a while."""
        begun_s = quiet_since_s = time.monotonic()
        before: Versions = {}
        while True:
            view = self._side.view()
            decided, now_s = decided_versions(view), time.monotonic()
            if decided != before:
                before, quiet_since_s = decided, now_s
            elif now_s - quiet_since_s > AGREED_S:
                break
            assert now_s - begun_s < PATIENCE_S, "no rest"
            for process in (self._kueue, self._shadow):
                assert process.running(), process.tail()
            time.sleep(0.15)
        for name, each in view["Workload"].items():
            self.objects[name] = each
            if is_(each, "QuotaReserved"):
                self.admitted.add(name)
        return view

    def _let_go(self, view: View) -> bool:
        found = False
        for each in view["Workload"].values():
            if is_(each, "Evicted") and is_(each, "QuotaReserved") and not is_(each, "Finished"):
                self._side.release(each)
                found = True
        return found


@contextlib.contextmanager
def running_shadow(folder: Path, kube: Path, programs: Path, seed: int, clusters: int) -> Iterator[ShadowRun]:
    with contextlib.ExitStack() as stack:
        server = AuditedServer(folder / "server", kube)
        stack.callback(server.stop)
        stack.callback(server.disconnect)
        define_kueue(server, programs)
        kueue = MinimalKueue(server, programs, folder / "kueue.log")
        stack.callback(kueue.stop)
        flags = ("--shadow", "--shadow-patience", f"{SHADOW_PATIENCE_S}s", "--components", "quota")
        logs = ("--log-level", "info", "--log-format", "json")
        command = [str(HEADGATE), "run", *flags, *logs, "--kubeconfig", str(server.configured(ACCOUNT, folder))]
        shadow = Process(command, folder / "shadow.log")
        stack.callback(shadow.stop)
        wait_for(lambda: "compares decisions" in shadow.log.read_text(), shadow)
        yield ShadowRun(server, kueue, shadow, seed, clusters)
