"""Deployments and CronJobs whose controllers crash at every write, before it is sent and after it was executed.

Each scenario runs once without a crash and then with one crash per run. After every write the guarantees are checked:
never more pods than allowed, never fewer ready pods than required, no pod without an owner. The final state must be
that of the run without a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from embedded import Embedded
from headgate.cli.wiring.controllers import template_hash
from headgate.controllers.cron_jobs.controller import CronJobController
from headgate.controllers.deployments.controller import DeploymentController
from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.jobs.controller import JobController
from headgate.controllers.ownership import pods as facts
from headgate.controllers.replica_sets.controller import ReplicaSetController
from headgate.kube.timestamps import parse_time
from headgate.runtime.time_zones import find_zone
from unit.controllers.crashing_world import CrashingWorld, Scenario, run_with_crashes
from unit.controllers.forked_variants import UNDISTURBED
from unit.controllers.kubelet import ENDS, Kubelet
from unit.controllers.workload_fixtures import get, name_suffixes, patch, put
from unit.controllers.world import World

Object = dict[str, Any]
Judge = Callable[[World], None]

PODS = "/api/v1/namespaces/a/pods"
APPS = "/apis/apps/v1/namespaces/a"
BATCH = "/apis/batch/v1/namespaces/a"
KINDS = (
    f"{APPS}/deployments",
    f"{APPS}/replicasets",
    f"{BATCH}/jobs",
    f"{BATCH}/cronjobs",
)


def making(judge: Judge) -> Callable[[], CrashingWorld]:
    def make() -> CrashingWorld:
        server, draw = Embedded(namespace="a"), name_suffixes()
        makers: list[Callable[[], Controller]] = [
            lambda: ReplicaSetController(draw),
            lambda: DeploymentController(template_hash()),
            lambda: JobController(draw),
            lambda: CronJobController(find_zone),
            lambda: Kubelet(server),
        ]
        world = CrashingWorld(*makers, server=server)
        world.check = judge
        return world

    return make


# -- what is seen ----------------------------------------------------------------------------------------------------


def pods(world: World) -> list[Object]:
    found: list[Object] = get(world, PODS)["items"]
    return found


def active(world: World) -> list[Object]:
    return [pod for pod in pods(world) if facts.is_active(pod)]


def ready(world: World) -> int:
    return sum(facts.is_ready(pod) for pod in active(world))


def nobody_is_alone(world: World) -> None:
    for pod in pods(world):
        assert any(each.get("controller") for each in pod["metadata"].get("ownerReferences") or ()), pod["metadata"]


def ending(world: World) -> Object:
    """What there is, without the names that were drawn and without times."""
    owners = {path: [_owner(each) for each in get(world, path)["items"]] for path in KINDS}
    return {"owners": owners, "pods": Counter(_pod(each) for each in pods(world))}


def _owner(obj: Object) -> Object:
    annotations = {key: value for key, value in (obj["metadata"].get("annotations") or {}).items() if "revision" in key}
    status = {
        key: value for key, value in (obj.get("status") or {}).items() if not key.endswith("Time") and key != "active"
    }
    if "observedGeneration" in status:  # the number of steps is not compared
        status["observedGeneration"] = status["observedGeneration"] == obj["metadata"]["generation"]
    conditions = sorted((each["type"], each["status"], each.get("reason", "")) for each in status.pop("conditions", ()))
    name = obj["metadata"]["name"]
    return {"name": name, "annotations": annotations, "status": status, "conditions": conditions}


def _pod(pod: Object) -> tuple[Any, ...]:
    (owner,) = pod["metadata"]["ownerReferences"]
    image = pod["spec"]["containers"][0]["image"]
    return owner["kind"], owner["name"], image, facts.phase_of(pod), tuple(pod["metadata"].get("finalizers") or ())


# -- scenarios ---------------------------------------------------------------------------------------------------------


def template(image: str = "one", restart: str = "Always", ends: str = "", **labels: str) -> Object:
    annotations = {"annotations": {ENDS: ends}} if ends else {}
    spec = {"containers": [{"name": "c", "image": image}], "restartPolicy": restart}
    return {"metadata": {"labels": labels, **annotations}, "spec": spec}


def roll_out(world: CrashingWorld) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    spec = {"replicas": 3, "strategy": strategy, "selector": {"matchLabels": {"app": "web"}}}
    put(world, f"{APPS}/deployments", {"metadata": {"name": "web"}, "spec": {**spec, "template": template(app="web")}})
    world.advance(120)
    patch(world, f"{APPS}/deployments/web", {"spec": {"template": template("two", app="web")}})
    world.advance(180)
    patch(world, f"{APPS}/deployments/web", {"spec": {"replicas": 2, "template": template("one", app="web")}})
    world.advance(180)


def rolling_promises(world: World) -> None:
    nobody_is_alone(world)
    assert len(active(world)) <= 4
    done = (get(world, f"{APPS}/deployments/web").get("status") or {}).get("conditions") or ()
    if any(each["type"] == "Available" and each["status"] == "True" for each in done):
        assert ready(world) >= 1, "two of three must be ready; one of two"


def by_the_clock(world: CrashingWorld) -> None:
    job = {"spec": {"template": template(restart="Never", ends="Succeeded")}}
    spec = {"schedule": "*/2 * * * *", "successfulJobsHistoryLimit": 2, "jobTemplate": job}
    put(world, f"{BATCH}/cronjobs", {"metadata": {"name": "tick"}, "spec": spec})
    world.advance(500)


def never_twice_for_one_time(world: World) -> None:
    jobs = get(world, f"{BATCH}/jobs")["items"]
    times = [
        parse_time(each["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]) for each in jobs
    ]
    assert len(set(times)) == len(times)


SCENARIOS: dict[str, tuple[Scenario, Judge, int]] = {
    "a deployment that rolls out, and back as it shrinks": (roll_out, rolling_promises, 50),
    "a cron job and its history": (by_the_clock, never_twice_for_one_time, 30),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_write_breaks_no_limit_and_does_not_change_the_final_state(name: str) -> None:
    scenario, judge, writes = SCENARIOS[name]
    ends = run_with_crashes(making(judge), scenario, lambda title, world: (ending(world), world.writes))
    expected, written = ends[UNDISTURBED]
    assert written >= writes, "too little happens in this scenario"
    assert {title: end for title, (end, _) in ends.items() if end != expected} == {}
