"""Runs random clusters step by step with Kueue and with Headgate.

In every step one event happens in each cluster, and then both sides settle. After that evicted workloads are released,
and both settle again, until there is none left. The comparison of a cluster ends when both sides have decided
differently.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.kueue import plant
from real.kueue_and_headgate import SchedulerPair, View, conditions_of, is_
from real.kueue_comparison import Difference, compare, purpose_of
from real.kueue_endings import Ended, ending_of
from real.kueue_random_clusters import RandomCluster

Object = dict[str, Any]
_ROUNDS = 6
"""Evictions that follow from evictions end sooner."""


class ParityRun:
    def __init__(self, pair: SchedulerPair, seed: int, clusters: int) -> None:
        self.pair = pair
        self.live = {cluster.name: cluster for cluster in (RandomCluster(at, seed) for at in range(clusters))}
        self.differences: list[str] = []
        self.met: Counter[str] = Counter()
        self.retired: dict[str, str] = {}
        self.seen: Counter[str] = Counter()
        self._did: dict[str, str] = {}
        self._known: set[tuple[str, str]] = set()
        self._preemptors: dict[str, str] = {}

    def begin(self) -> tuple[View, View]:
        for side in self.pair.sides:
            plant(side.server, [wire for cluster in self.live.values() for wire in cluster.objects()])
        return self._rest("begin")

    def step(self, number: int, views: tuple[View, View]) -> tuple[View, View]:
        self._preemptors.clear()
        for name, cluster in self.live.items():
            workloads = {key: each for key, each in views[0]["Workload"].items() if key.startswith(f"{name}-")}
            what, wire = cluster.next_act(workloads)
            self._did[name] = f"{what} {wire['metadata']['name']}"
            for side, view in zip(self.pair.sides, views, strict=True):
                side.act(what, wire, view)
        for _ in range(_ROUNDS):
            views = self._rest(f"step {number}")
            if not self._let_go(views):
                return views
        raise AssertionError(f"evictions without end in step {number}")

    def _rest(self, when: str) -> tuple[View, View]:
        kueue, ours = self.pair.rest(self._differ)
        found: dict[str, list[Difference]] = {}
        for each in self._compare(kueue, ours):
            if purpose := purpose_of(each):
                self.met[purpose] += 1
            else:
                found.setdefault(each.cluster, []).append(each)
        for cluster, differences in found.items():
            did = self._did.get(cluster, "")
            self.retired[cluster] = when
            ended = Ended(self.live.pop(cluster), kueue, ours, self._preemptors)
            if ending := ending_of(ended):
                self.met[ending] += 1
            else:
                self.differences += [f"{when}, {did}: {each}" for each in differences]
        self._count(kueue)
        self.pair.date((kueue, ours))
        return self.pair.kueue.view(), self.pair.ours.view()

    def _compare(self, kueue: View, ours: View) -> list[Difference]:
        return [each for cluster in self.live for each in compare(cluster, kueue, ours)]

    def _differ(self, kueue: View, ours: View) -> bool:
        return any(not purpose_of(each) for each in self._compare(kueue, ours))

    def _let_go(self, views: tuple[View, View]) -> bool:
        """Evicted workloads release their quota; whether there were any."""
        found = False
        for side, view in zip(self.pair.sides, views, strict=True):
            for name, each in view["Workload"].items():
                is_live = name.split("-")[0] in self.live
                if is_live and is_(each, "Evicted") and is_(each, "QuotaReserved") and not is_(each, "Finished"):
                    side.release(each)
                    self._remember_preemptor(view, conditions_of(each)["Evicted"]["message"])
                    found = True
        return found

    def _remember_preemptor(self, view: View, message: str) -> None:
        for name, each in view["Workload"].items():
            if each["metadata"]["uid"] in message:
                self._preemptors[name] = each["metadata"]["uid"]

    def _count(self, view: View) -> None:
        for name, each in view["Workload"].items():
            admission = (each.get("status") or {}).get("admission")
            counts = {pod_set["name"]: pod_set["count"] for pod_set in each["spec"]["podSets"]}
            states = {
                "admitted": admission is not None,
                "preempted": is_(each, "Preempted"),
                "checked": bool((each.get("status") or {}).get("admissionChecks")) and is_(each, "Admitted"),
                "drained": conditions_of(each).get("Evicted", {}).get("reason", "").endswith("QueueStopped"),
                "waiting": conditions_of(each).get("QuotaReserved", {}).get("status") == "False",
                "reduced": admission is not None
                and any(given["count"] < counts[given["name"]] for given in admission["podSetAssignments"]),
            }
            for state, is_so in states.items():
                if is_so and (name, state) not in self._known:
                    self._known.add((name, state))
                    self.seen[state] += 1


def run_parity(pair: SchedulerPair, seed: int, clusters: int, steps: int) -> ParityRun:
    run = ParityRun(pair, seed, clusters)
    views = run.begin()
    for number in range(steps):
        views = run.step(number, views)
    return run
