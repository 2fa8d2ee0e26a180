"""Worlds of jobs in queues in which every revision is checked, and scenarios with an interference after every write."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from embedded import Embedded
from harness.quota_audit import PATHS
from headgate.audit.quota_judge import QuotaJudge
from headgate.controllers.framework.effects import Create, Delete, Patch, RequestEffect
from headgate.kube.api_resources import JOBS as JOB
from headgate.kube.api_resources import PODS as POD
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld, Scenario
from unit.controllers.forked_variants import UNDISTURBED, ForkedVariants
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS
from unit.jobs.queue_fixtures import WORKLOADS

Interference = Callable[[World], None]


class Auditor:
    """Checks all writes since the last call. ``allowed``: texts of problems that the interference causes."""

    def __init__(self, server: Embedded, *allowed: str) -> None:
        self.judge = QuotaJudge()
        self._allowed = allowed
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        self._watches = {plural: server.watch(path, **query) for plural, path in PATHS.items()}

    def __call__(self, world: World) -> None:
        events = [
            (plural, event["type"], event["object"])
            for plural, watch in self._watches.items()
            for event in map(msgspec.json.decode, watch.pull())
            if event["type"] != "BOOKMARK"
        ]
        for event in sorted(events, key=lambda event: int(event[2]["metadata"]["resourceVersion"])):
            self.judge.take(*event)
        problems = [each for each in self.judge.problems if not any(words in each for words in self._allowed)]
        assert not problems, problems


def of_quota_and_jobs(effect: RequestEffect) -> bool:
    """Writes to Workloads, and those that start and stop jobs."""
    match effect:
        case Create(resource) | Delete(resource):
            return resource == WORKLOAD
        case Patch(resource):
            return resource == WORKLOAD or (resource == JOB and effect.how == "merge")
        case _:
            return False


def of_quota_and_pods(effect: RequestEffect) -> bool:
    """Writes to Workloads and pods."""
    return isinstance(effect, Create | Delete | Patch) and effect.resource in (WORKLOAD, POD)


def audited(
    world: CrashingWorld, *allowed: str, counts: Callable[[RequestEffect], bool] = of_quota_and_jobs
) -> CrashingWorld:
    world.check = Auditor(world.server, *allowed)
    world.is_counted_write = counts
    world.writes = 0
    return world


def run_with_interference(
    make: Callable[[], CrashingWorld],
    scenario: Scenario,
    interfere: Interference,
    inspect: Callable[[str, CrashingWorld], None],
) -> None:
    """Runs the scenario once for every write of the undisturbed one, with an interference right after it."""
    variants: ForkedVariants[None] = ForkedVariants()

    def run() -> None:
        world = make()
        judge, last = world.check, 0

        def act(told: World) -> None:
            nonlocal last
            judge(told)
            if world.writes > last:
                last = world.writes
                if variants.begin(f"meddling after write {last}"):
                    interfere(told)

        world.check = act
        scenario(world)
        judge(world)
        world.check = judge
        if variants.title != UNDISTURBED:
            inspect(variants.title, world)

    assert len(variants.run(run)) > 1, "there was no write"


def assert_tidy(world: World, title: str) -> None:
    """No Workload without its job, no terminating Workload, and queue statuses that match the usage."""
    jobs = {each["metadata"]["uid"] for each in world.server.get(JOBS).body["items"]}
    held: dict[str, int] = {}
    for each in world.server.get(WORKLOADS).body["items"]:
        metadata = each["metadata"]
        assert "deletionTimestamp" not in metadata, (title, metadata)
        owners = [owner["uid"] for owner in metadata.get("ownerReferences") or ()]
        assert set(owners) <= jobs, (title, metadata["name"])
        told = {one["type"]: one["status"] for one in (each.get("status") or {}).get("conditions") or ()}
        if told.get("QuotaReserved") == "True" and told.get("Finished") != "True":
            admission = each["status"]["admission"]
            used = (int(one["resourceUsage"]["cpu"]) for one in admission["podSetAssignments"])
            held[admission["clusterQueue"]] = held.get(admission["clusterQueue"], 0) + sum(used)
    for queue in world.server.get(PATHS["clusterqueues"]).body["items"]:
        shown = queue["status"]["flavorsReservation"][0]["resources"][0]["total"]
        assert int(shown) == held.get(queue["metadata"]["name"], 0), (title, queue["status"])
