"""Job kinds from a file: parsing, error messages, and a custom kind in a queue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.cli.options.job_options import read_kinds
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube import conditions
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS, a_world, running
from unit.jobs.fixtures import add as add_job
from unit.jobs.pods.fixtures import SlowKubelet
from unit.jobs.queue_fixtures import PREEMPTION, WORKLOADS, create
from unit.jobs.training import DEFINITION, ENDS, FILE, RUNS, Trainer, a_run, settings

PATH = RUNS.collection_path("ns")


def the_kind() -> JobKind:
    kinds = read_kinds(FILE.read_bytes())
    assert isinstance(kinds, tuple)
    return kinds[0]


def a_training_world(cpu: int = 2, **more: Any) -> CrashingWorld:
    return a_world(cpu, settings=settings(), crds=[DEFINITION], more=[Trainer], **more)


def add(world: World, name: str, priority: str = "", **more: Any) -> None:
    body = a_run(name, **more)
    if priority:
        body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    create(world.server, PATH, body)
    world.server.epoch_s += 1


def run(world: World, name: str) -> Wire:
    found: Wire = world.server.get(f"{PATH}/{name}").body
    return found


def workload(world: World, name: str) -> Wire:
    items = world.server.get(WORKLOADS).body["items"]
    found: Wire = next(each for each in items if each["metadata"]["ownerReferences"][0]["name"] == name)
    return found


def is_true(obj: Wire, condition: str) -> bool:
    return conditions.is_true((obj.get("status") or {}).get("conditions"), condition)


# -- the file ------------------------------------------------------------------------------------------------------


def test_the_example_reads_as_the_kind_it_describes() -> None:
    kind = the_kind()
    assert (kind.integration, kind.hold.path) == ("example.com/trainingrun", ("spec", "suspend"))
    job = a_run("a", workers=3, least=2)
    leader, workers = kind.pod_sets(job).found
    assert (leader.name, leader.count, leader.min_count) == ("leader", 1, None)
    assert (workers.name, workers.count, workers.min_count) == ("workers", 3, 2)
    assert workers.counts == (("spec", "workers", "replicas"),)
    job["status"] = {"activePods": 4, "readyPods": 2, "workersDone": 1}
    assert kind.is_active(job)
    assert kind.ready(job) == 3
    assert kind.reclaimable(job) == {"workers": 1}
    assert kind.outcome(job) is None


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (FILE.parents[1] / "docs" / "job-kinds.md").read_text()
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert FILE.read_text().endswith(shown)
    assert shown.startswith("kinds:")


@pytest.mark.parametrize(
    ("status", "succeeded", "message"),
    [
        ({"conditions": [{"type": "Complete", "status": "True", "message": "well done"}]}, True, "well done"),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, False, "Job failed"),
        ({"phase": "Aborted"}, False, "Job failed"),
    ],
)
def test_the_outcome_is_read_from_a_condition_or_a_value(status: Wire, succeeded: bool, message: str) -> None:
    outcome = the_kind().outcome({**a_run("a"), "status": status})
    assert outcome is not None
    assert (outcome.succeeded, outcome.message) == (succeeded, message)


@pytest.mark.parametrize(
    "status", [{"conditions": "none"}, {"conditions": ["Complete"]}, {"activePods": "two"}, {"activePods": -1}, None]
)
def test_an_unexpected_status_gives_false(status: Any) -> None:
    job, kind = {**a_run("a"), "status": status}, the_kind()
    assert not kind.is_active(job)
    assert kind.outcome(job) is None
    assert kind.reclaimable(job) == {}


GOOD: Wire = {
    "apiVersion": "example.com/v1",
    "kind": "Run",
    "plural": "runs",
    "suspend": "spec.suspend",
    "podSets": [{"name": "main", "template": "spec.template"}],
    "active": "status.active",
    "succeeded": {"condition": "Complete"},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"apiVersion": "v1"}, "kinds[0].apiVersion: Invalid value"),
        ({"apiVersion": None}, "kinds[0].apiVersion: Required value: such as example.com/v1"),
        ({"suspended": "spec.suspend"}, "kinds[0].suspended: Forbidden: is not a field here; there are apiVersion"),
        ({"suspend": 3}, "kinds[0].suspend: Invalid value: 3: must be a path, such as spec.suspend"),
        ({"suspend": "spec..suspend"}, "kinds[0].suspend: Invalid value"),
        ({"plural": "Runs"}, "kinds[0].plural: Invalid value"),
        ({"podSets": []}, "kinds[0].podSets: Required value: name at least one"),
        ({"podSets": [{"name": "main"}]}, "kinds[0].podSets[0].template: Required value"),
        ({"podSets": GOOD["podSets"] * 2}, 'kinds[0].podSets[1].name: Duplicate value: "main"'),
        ({"podSets": [{**GOOD["podSets"][0], "replicas": 0}]}, "must be a number above zero, or a path"),
        ({"podSets": [{**GOOD["podSets"][0], "minReplicas": "a.b"}]}, "needs the path of a number in replicas"),
        ({"active": {"path": "a", "condition": "b"}}, "kinds[0].active: Invalid value"),
        ({"active": [{"condition": "b", "in": ["c"]}]}, "kinds[0].active[0].in: Forbidden"),
        ({"succeeded": None}, "kinds[0].succeeded: Required value"),
        ({"apiVersion": "batch/v1", "kind": "Job", "plural": "jobs"}, 'Duplicate value: "batch/v1 Job"'),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, 'Duplicate value: "apps/v1 Deployment"'),
    ],
)
def test_a_problem_is_reported_with_its_field_and_a_hint(change: Wire, said: str) -> None:
    read = read_kinds(msgspec.json.encode({"kinds": [{**GOOD, **change}]}))
    assert isinstance(read, list)
    assert any(said in each for each in read), read


def test_all_problems_are_reported_at_once_with_their_lines() -> None:
    text = b"kinds:\n- apiVersion: example.com/v1\n  kind: Run\n  plural: runs\n  suspend: 1\n  active: 2\n"
    read = read_kinds(text)
    assert isinstance(read, list)
    assert [each.partition(": ")[0] for each in read] == ["line 2", "line 2", "line 5", "line 6"]


@pytest.mark.parametrize("text", [b"kinds: [", b"- a", b"kinds: []", b"", b"kinds: {}", b"kinds:\n- 3\n"])
def test_a_file_without_a_list_of_kinds_is_rejected(text: bytes) -> None:
    assert isinstance(read_kinds(text), list)


# -- at work -------------------------------------------------------------------------------------------------------


def test_an_invented_kind_waits_runs_where_it_was_admitted_and_ends() -> None:
    world = a_training_world()
    add(world, "a")
    world.advance(2)
    add(world, "b", example_com__ends="Complete")
    world.advance(2)
    found = run(world, "a")
    assert found["spec"]["suspend"] is False
    assert found["spec"]["workers"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert found["spec"]["leader"]["template"]["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "leader"
    assert is_true(workload(world, "a"), "PodsReady")
    assert run(world, "b")["spec"]["suspend"] is True
    world.server.patch(f"{PATH}/a", {"metadata": {"annotations": {ENDS: "Failed"}}})
    world.advance(5)
    finished = conditions.find(workload(world, "a")["status"]["conditions"], "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == ("Failed", "it said Failed")
    assert is_true(run(world, "b"), "Complete")


def test_a_preempted_job_gets_the_users_template_back() -> None:
    world = a_training_world(cpu=4, **PREEMPTION)
    add(world, "low", workers=5, least=2, priority="low")
    world.advance(3)
    found = run(world, "low")
    assert found["spec"]["suspend"] is False
    assert found["spec"]["workers"]["replicas"] == 3, "as many as there was quota for"
    add(world, "high", workers=2, priority="high")
    world.advance(5)
    assert run(world, "high")["spec"]["suspend"] is False
    found = run(world, "low")
    assert found["spec"]["suspend"] is True
    assert found["spec"]["workers"]["replicas"] == 5
    assert not found["spec"]["workers"]["template"]["spec"].get("nodeSelector")
    assert not (found["spec"]["workers"]["template"].get("metadata") or {}).get("labels")


# -- children ------------------------------------------------------------------------------------------------------


def a_child(world: World, owner: Wire, name: str = "child", queue: str = "") -> None:
    metadata = owner["metadata"]
    reference = {"apiVersion": "example.com/v1", "kind": "TrainingRun", "controller": True}
    body: Wire = {
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {},
            "ownerReferences": [{**reference, "name": metadata["name"], "uid": metadata["uid"]}],
        },
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    }
    create(world.server, JOBS, body)


def test_a_child_runs_while_its_ancestor_is_admitted_and_has_no_workload_of_its_own() -> None:
    world = a_training_world()
    add(world, "a")
    world.advance(2)
    a_child(world, run(world, "a"))
    world.advance(2)
    assert running(world) == ["child"]
    assert len(world.server.get(WORKLOADS).body["items"]) == 1


@pytest.mark.parametrize("queue", ["", "lq"])
def test_a_child_is_suspended_while_its_ancestor_waits(queue: str) -> None:
    world = a_training_world()
    add(world, "a", workers=9)
    world.advance(2)
    a_child(world, run(world, "a"), queue=queue)
    world.server.patch(f"{JOBS}/child", {"spec": {"suspend": False}})
    world.advance(2)
    assert running(world) == []
    assert "Suspended" in [each.reason for each in world.emitted]
    assert len(world.server.get(WORKLOADS).body["items"]) == 1


def test_a_child_is_suspended_when_its_ancestor_is_evicted() -> None:
    world = a_training_world(**PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    a_child(world, run(world, "low"))
    world.advance(1)
    assert running(world) == ["child"]
    add(world, "high", priority="high")
    world.advance(3)
    assert run(world, "high")["spec"]["suspend"] is False
    assert running(world) == []


def test_a_child_is_suspended_while_its_ancestor_waits_for_terminating_pods() -> None:
    world = a_training_world(kubelet=SlowKubelet, **PREEMPTION)
    add_job(world, "low", cpu="2", priority="low")
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(2)
    assert is_true(workload(world, "high"), "WaitingForTerminatingPods")
    a_child(world, run(world, "high"))
    world.server.patch(f"{JOBS}/child", {"spec": {"suspend": False}})
    world.advance(2)
    assert running(world) == []
    world.advance(60)
    assert run(world, "high")["spec"]["suspend"] is False


def test_a_child_of_a_job_without_a_queue_has_no_managed_ancestor() -> None:
    world = a_training_world()
    add(world, "a", queue="")
    a_child(world, run(world, "a"))
    a_child(world, run(world, "a"), name="queued", queue="lq")
    world.advance(2)
    assert running(world) == ["child", "queued"]
    assert [each["metadata"]["ownerReferences"][0]["name"] for each in world.server.get(WORKLOADS).body["items"]] == [
        "queued"
    ]
