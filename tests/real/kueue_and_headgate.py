"""Kueue beside one API server and Headgate beside another, with the same events on both.

After every step both run until they are quiet; then their decisions are compared. The test releases evicted workloads,
as the controller of their job would, in a step of its own. The times of reservations are made equal on both sides each
time, because the order of preemption candidates depends on them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.embedded_server import HEADGATE
from harness.kueue import KUEUE, MinimalKueue, define_kueue, plant
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import send
from headgate.kube.timestamps import format_time
from kueue_builders import START_S

Object = dict[str, Any]

PLURALS = {
    "ResourceFlavor": "resourceflavors",
    "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "namespaces/default/localqueues",
    "Workload": "namespaces/default/workloads",
}
WATCHED = ("Workload", "ClusterQueue", "LocalQueue")
AGREED_S = 1.5
"""Kueue retries inadmissible workloads once per second: this is longer."""
DISAGREED_S = 4.0
PATIENCE_S = 60.0
_MERGE = "application/merge-patch+json"
_WORDS = ("conditions", "resourceRequests", "pendingWorkloads")
"""While Kueue tries the first workload of a StrictFIFO queue again and again, its metrics count it at some times
only."""
_YEAR = format_time(START_S)[:4]
View = dict[str, dict[str, Object]]
"""Objects by kind and name."""
Versions = dict[tuple[str, str], str]


class Side:
    """One server with its decider, Kueue or Headgate."""

    def __init__(self, server: RealServer, decider: Process) -> None:
        self.server, self.decider = server, decider

    def view(self) -> View:
        return {
            kind: {
                each["metadata"]["name"]: each for each in send(self.server, "GET", f"{KUEUE}/{PLURALS[kind]}")["items"]
            }
            for kind in WATCHED
        }

    def act(self, what: str, wire: Object, view: View) -> None:
        name = wire["metadata"]["name"]
        path = f"{KUEUE}/{PLURALS[wire['kind']]}/{name}"
        match what:
            case "plant":
                plant(self.server, [wire])
            case "delete":
                send(self.server, "DELETE", path)
            case "resize":
                send(self.server, "PATCH", path, {"spec": {"resourceGroups": wire["spec"]["resourceGroups"]}}, _MERGE)
            case "stop":
                send(self.server, "PATCH", path, {"spec": {"stopPolicy": wire["spec"].get("stopPolicy")}}, _MERGE)
            case "check":
                self.set_check(view["Workload"][name], wire["state"])
            case "finish":
                self.set_conditions(view["Workload"][name], _condition("Finished", True, "Succeeded", "done"))

    def release(self, workload: Object) -> None:
        """As the reconcile of an evicted job does, once its pods have ended."""
        evicted = conditions_of(workload)["Evicted"]
        self.set_conditions(
            workload,
            _condition("QuotaReserved", False, "Pending", evicted["message"]),
            _condition("Admitted", False, "NoReservation", "The workload has no reservation"),
            _condition("Requeued", True, evicted["reason"], evicted["message"]),
            admission=None,
        )

    def set_check(self, workload: Object, state: str) -> None:
        """As the controller of an admission check does."""
        checks = workload["status"]["admissionChecks"]
        at = format_time(time.time())
        changed = [{**each, "state": state, "message": f"now {state}", "lastTransitionTime": at} for each in checks]
        self.set_conditions(workload, admissionChecks=changed)

    def date(self, workload: Object, at_s: float) -> None:
        """Since when it holds quota."""
        reserved = dict(conditions_of(workload)["QuotaReserved"], lastTransitionTime=format_time(at_s))
        self.set_conditions(workload, reserved)

    def set_conditions(self, workload: Object, *conditions: Object, **status: Any) -> None:
        known = conditions_of(workload)
        for each in conditions:
            old = known.get(each["type"])
            if old is not None and old["status"] == each["status"] and "lastTransitionTime" not in each:
                each = dict(each, lastTransitionTime=old["lastTransitionTime"])
            known[each["type"]] = {"lastTransitionTime": format_time(time.time()), **each}
        metadata = workload["metadata"]
        path = f"{KUEUE}/{PLURALS['Workload']}/{metadata['name']}/status"
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": {"conditions": list(known.values()), **status},
        }
        send(self.server, "PATCH", path, body, _MERGE)


class SchedulerPair:
    """``kueue`` and ``ours``."""

    def __init__(self, kueue: Side, ours: Side) -> None:
        self.kueue, self.ours = kueue, ours
        self.rests = 0

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.kueue, self.ours

    def rest(self, differ: Callable[[View, View], bool]) -> tuple[View, View]:
        """Both, once nothing was decided for a while: a short one if ``differ(kueue, ours)`` says they agree."""
        begun_s = quiet_since_s = time.monotonic()
        before: list[Versions] = []
        moved = list[Any]()
        while True:
            views = (self.kueue.view(), self.ours.view())
            decided, now_s = [decided_versions(view) for view in views], time.monotonic()
            if decided != before:
                moved = [new.items() - old.items() for new, old in zip(decided, before, strict=False)]
                before, quiet_since_s = decided, now_s
            elif now_s - quiet_since_s > DISAGREED_S or (now_s - quiet_since_s > AGREED_S and not differ(*views)):
                self.rests += 1
                return views
            assert now_s - begun_s < PATIENCE_S, f"no rest: {moved}"
            for side in self.sides:
                assert side.decider.running(), side.decider.tail()
            time.sleep(0.15)

    def date(self, views: tuple[View, View]) -> None:
        """All workloads that got quota since the last comparison hold it since the same second, in both programs."""
        for side, view in zip(self.sides, views, strict=True):
            for each in view["Workload"].values():
                reserved = conditions_of(each).get("QuotaReserved")
                if reserved is None or reserved["status"] != "True" or is_(each, "Finished"):
                    continue
                if not reserved["lastTransitionTime"].startswith(_YEAR):
                    side.date(each, START_S + self.rests)


@contextlib.contextmanager
def running_pair(folder: Path, kube: Path, programs: Path) -> Iterator[SchedulerPair]:
    with contextlib.ExitStack() as stack:
        sides: list[Side] = []
        for name in ("kueue", "ours"):
            server = RealServer(folder / name, kube)
            stack.callback(server.stop)
            stack.callback(server.disconnect)
            define_kueue(server, programs)
            log = folder / f"{name}.log"
            if name == "kueue":
                decider: Process = MinimalKueue(server, programs, log)
            else:
                flags = ("--kubeconfig", str(server.kubeconfig), "--components", "quota", "--no-leader-elect")
                decider = Process([str(HEADGATE), "run", *flags], log)
            stack.callback(decider.stop)
            sides.append(Side(server, decider))
        yield SchedulerPair(*sides)


def conditions_of(workload: Mapping[str, Any]) -> dict[str, Object]:
    return {each["type"]: each for each in (workload.get("status") or {}).get("conditions") or ()}


def is_(workload: Mapping[str, Any], type_: str) -> bool:
    return conditions_of(workload).get(type_, {}).get("status") == "True"


def _condition(type_: str, is_true: bool, reason: str, message: str) -> Object:
    return {"type": type_, "status": "True" if is_true else "False", "reason": reason, "message": message}


def decided_versions(view: View) -> Versions:
    """All that is more than words."""
    found: Versions = {}
    for kind, listed in view.items():
        for name, each in listed.items():
            met = sorted(
                (type_, one["reason"]) for type_, one in conditions_of(each).items() if one["status"] == "True"
            )
            status = each.get("status") or {}
            rest = {field: value for field, value in status.items() if field not in _WORDS}
            found[kind, name] = json.dumps([met, rest, each["metadata"].get("generation")], sort_keys=True)
    return found
