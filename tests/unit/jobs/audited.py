"""Worlds of jobs in queues in which every revision is judged, and stories in which somebody meddles at every write."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from embedded import Embedded
from harness.quota_audit import PATHS, QuotaJudge
from headgate.controllers.framework.effects import Create, Delete, Patch, RequestEffect
from headgate.kube.api_resources import JOBS as JOB
from headgate.kube.api_resources import PODS as POD
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import Mortal, Story
from unit.controllers.forked_variants import UNDISTURBED, Branches
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS
from unit.jobs.queue_fixtures import WORKLOADS

Meddler = Callable[[World], None]


class Auditor:
    """Judges what was written since it was last asked, whoever wrote it. ``excused``: words of complaints that are a
    meddler's doing."""

    def __init__(self, server: Embedded, *excused: str) -> None:
        self.judge = QuotaJudge()
        self._excused = excused
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        self._watches = {plural: server.watch(path, **query) for plural, path in PATHS.items()}

    def __call__(self, world: World) -> None:
        heard = [
            (plural, event["type"], event["object"])
            for plural, watch in self._watches.items()
            for event in map(msgspec.json.decode, watch.pull())
            if event["type"] != "BOOKMARK"
        ]
        for event in sorted(heard, key=lambda event: int(event[2]["metadata"]["resourceVersion"])):
            self.judge.take(*event)
        problems = [each for each in self.judge.problems if not any(words in each for words in self._excused)]
        assert not problems, problems


def of_quota_and_jobs(effect: RequestEffect) -> bool:
    """Writes to Workloads, and those that start and stop jobs; what becomes of pods is tried with their owners."""
    match effect:
        case Create(resource) | Delete(resource):
            return resource == WORKLOAD
        case Patch(resource):
            return resource == WORKLOAD or (resource == JOB and effect.how == "merge")
        case _:
            return False


def of_quota_and_pods(effect: RequestEffect) -> bool:
    """Writes to Workloads, and whatever becomes of pods."""
    return isinstance(effect, Create | Delete | Patch) and effect.resource in (WORKLOAD, POD)


def audited(world: Mortal, *excused: str, counts: Callable[[RequestEffect], bool] = of_quota_and_jobs) -> Mortal:
    world.judge = Auditor(world.server, *excused)
    world.counts = counts
    world.writes = 0
    return world


def tell_with_meddling(
    make: Callable[[], Mortal], story: Story, meddle: Meddler, look: Callable[[str, Mortal], None]
) -> None:
    """The story once for every write of the undisturbed one, with somebody who acts right after it."""
    branches: Branches[None] = Branches()

    def tell() -> None:
        world = make()
        judge, last = world.judge, 0

        def act(told: World) -> None:
            nonlocal last
            judge(told)
            if world.writes > last:
                last = world.writes
                if branches.begins(f"meddling after write {last}"):
                    meddle(told)

        world.judge = act
        story(world)
        judge(world)
        world.judge = judge
        if branches.title != UNDISTURBED:
            look(branches.title, world)

    assert len(branches.run(tell)) > 1, "there was no write"


def assert_tidy(world: World, title: str) -> None:
    """No Workload without its job, none with a finalizer that nobody takes off, and queues that say what is held."""
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
