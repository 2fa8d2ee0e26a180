"""Version 2 of the file of job kinds: each form is read as it says, and a file that can mean nothing is rejected."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.cli.options.job_options import read_kinds
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set
from kueue_builders import Wire
from unit.jobs.model_server import EXAMPLES
from unit.jobs.operators import a_template
from unit.jobs.test_custom_kinds import GOOD


def read(**change: Any) -> JobKind:
    fields = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    found = read_kinds(msgspec.json.encode({"kinds": [fields]}))
    assert isinstance(found, tuple), found
    return found[0]


def counts(replicas: Any, element: Wire, *, status: Wire | None = None) -> int | str:
    """The count of a pod set, or why it cannot be counted."""
    rows = [{"each": "spec.roles", "nameFrom": "name", "template": "template", "replicas": replicas}]
    roles = [{"name": "R", "template": a_template(), **element}]
    found = read(podSets=rows).pod_sets({"spec": {"roles": roles}, "status": status or {}})
    return found.problem or found.found[0].count


@pytest.mark.parametrize("file", sorted(each.name for each in EXAMPLES.glob("*.yaml")))
def test_every_example_file_is_read(file: str) -> None:
    assert isinstance(read_kinds((EXAMPLES / file).read_bytes()), tuple)


def test_the_example_of_a_ray_service_reads_its_cluster_and_both_of_its_statuses() -> None:
    found = read_kinds((EXAMPLES / "ray-service.yaml").read_bytes())
    assert isinstance(found, tuple)
    group = {"groupName": "Gpu", "replicas": 2, "numOfHosts": 3, "template": a_template()}
    cluster = {"headGroupSpec": {"template": a_template()}, "workerGroupSpecs": [group]}
    job: Wire = {"spec": {"rayClusterConfig": cluster}}
    assert [(each.name, each.count) for each in found[0].pod_sets(job).found] == [("head", 1), ("gpu", 6)]
    assert not found[0].is_active(job)
    pending = {"rayClusterName": "c", "rayClusterStatus": {}}
    assert found[0].is_active({**job, "status": {"pendingServiceStatus": pending}})
    suspended = {"rayClusterName": "c", "rayClusterStatus": {"state": "suspended"}}
    assert not found[0].is_active({**job, "status": {"activeServiceStatus": suspended}})
    assert found[0].outcome({**job, "status": {"serviceStatus": "Running"}}) is None


# -- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "element", "count"),
    [
        (3, {}, 3),
        ("replicas", {"replicas": 4}, 4),
        ("replicas", {}, 1),
        (["a.b", "c"], {"a.b": {"c": 2}}, 2),
        ({"path": "replicas", "default": 5}, {}, 5),
        ({"path": "replicas", "default": 5}, {"replicas": 0}, 0),
        ({"product": ["groups", "size"]}, {"groups": 3, "size": 4}, 12),
        ({"product": ["groups", "size"]}, {"groups": 3}, 1),
        ({"min": ["a", "b"]}, {"a": 3, "b": 2}, 2),
        ({"min": ["a", "b"]}, {"b": 7}, 7),
        ({"max": ["a", 2]}, {"a": 1}, 2),
        ({"sum": ["size", -1]}, {"size": 4}, 3),
        ({"each": "parts", "value": "n"}, {"parts": [{"n": 2}, {"n": 3}, {}]}, 5),
        ({"each": "parts", "value": {"product": ["n", 2]}}, {"parts": {"x": {"n": 2}, "y": {"n": 3}}}, 10),
        ({"product": [2, {"max": ["a", {"sum": ["b", 1]}]}]}, {"a": 1, "b": 4}, 10),
    ],
)
def test_a_number_is_computed_from_the_fields_of_the_element(replicas: Any, element: Wire, count: int) -> None:
    assert counts(replicas, element) == count


@pytest.mark.parametrize(
    ("replicas", "element", "problem"),
    [
        ("n", {"n": "3"}, "spec.roles[0].n is '3', which is not a number of pods"),
        ("n", {"n": True}, "spec.roles[0].n is True, which is not a number of pods"),
        ("n", {"n": -1}, "spec.roles[0].n is -1, which is not a number of pods"),
        ("a.n", {"a": []}, "spec.roles[0].a is not a map, so spec.roles[0].a.n cannot be read"),
        ({"product": ["n", 2]}, {"n": 1.5}, "spec.roles[0].n is 1.5, which is not a number of pods"),
        ({"sum": ["n", -3]}, {"n": 1}, "spec.roles[0].template: -2 is not a number of pods"),
        ({"product": ["n", "n"]}, {"n": 2**20}, "spec.roles[0].template: 1099511627776 is not a number of pods"),
    ],
)
def test_a_number_that_cannot_be_computed_says_why(replicas: Any, element: Wire, problem: str) -> None:
    assert problem in str(counts(replicas, element))


@pytest.mark.parametrize(
    ("find", "status"),
    [
        ({"find": "status.roles", "by": "id.name", "value": "done"}, {"roles": [{"id": {"name": "R"}, "done": 2}]}),
        ({"find": "status.roles", "value": "done"}, {"roles": {"R": {"done": 2}, "r": {"done": 1}}}),
    ],
)
def test_a_number_is_found_in_the_element_of_another_list_with_the_same_name(find: Any, status: Wire) -> None:
    assert counts(find, {}, status=status) == 2
    rows = [{"each": "spec.roles", "nameFrom": "name", "template": "template", "replicas": 3, "done": find}]
    job = {"spec": {"roles": [{"name": "R", "template": a_template()}]}, "status": status}
    assert read(podSets=rows).reclaimable(job) == {"r": 2}
    assert read(podSets=rows).reclaimable({**job, "status": {}}) == {}


def test_the_pods_that_are_done_are_at_most_those_of_the_pod_set() -> None:
    rows = [{"name": "main", "template": "spec.template", "replicas": 3, "done": {"sum": ["status.a", "status.b"]}}]
    job = {"spec": {"template": a_template()}, "status": {"a": 2, "b": 9}}
    assert read(podSets=rows).reclaimable(job) == {"main": 3}


# -- clauses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "status", "is_active"),
    [
        ("status.n", {"n": 1}, True),
        ("status.n", {"n": 0}, False),
        ({"path": "status.p", "in": ["A", 3, True]}, {"p": "A"}, True),
        ({"path": "status.p", "in": ["A", 3, True]}, {"p": 3}, True),
        ({"path": "status.p", "in": ["A", 3, True]}, {"p": 1}, False),
        ({"path": "status.p", "in": ["A", 3, True]}, {}, False),
        ({"path": "status.p", "notIn": ["", "Idle"]}, {"p": "Busy"}, True),
        ({"path": "status.p", "notIn": ["", "Idle"]}, {"p": "Idle"}, False),
        ({"path": "status.p", "notIn": ["", "Idle"]}, {"p": ""}, False),
        ({"path": "status.p", "notIn": ["", "Idle"]}, {}, False),
        ({"path": "status.p", "notIn": ["Idle"]}, {"p": ["Idle"]}, True),
        ({"absent": "status.p"}, {}, True),
        ({"absent": "status.p"}, {"p": None}, True),
        ({"absent": "status.p"}, {"p": 0}, False),
        ({"present": "status.p"}, {"p": 0}, True),
        ({"all": ["status.a", "status.b"]}, {"a": 1}, False),
        ({"all": ["status.a", "status.b"]}, {"a": 1, "b": True}, True),
        ({"any": ["status.a", {"all": ["status.b", {"absent": "status.c"}]}]}, {"b": 1}, True),
        ({"any": ["status.a", {"all": ["status.b", {"absent": "status.c"}]}]}, {"b": 1, "c": 1}, False),
        ({"each": "status.roles", "path": "active"}, {"roles": [{}, {"active": 2}]}, True),
        ({"each": "status.roles", "path": "active"}, {"roles": {"a": {"active": 0}}}, False),
        ({"each": "status.roles", "path": "active"}, {"roles": "none"}, False),
        ({"each": "status.roles", "all": ["a", "b"]}, {"roles": [{"a": 1}, {"b": 1}]}, False),
        ({"each": "status.roles", "all": ["a", "b"]}, {"roles": [{"a": 1, "b": 1}]}, True),
        ({"condition": "Up"}, {"conditions": [{"type": "Up", "status": "True"}]}, True),
        ({"condition": "Up"}, {"conditions": [{"type": "Up", "status": "Unknown"}]}, False),
        (["status.a", "status.b"], {"b": 1}, True),
    ],
)
def test_a_clause_is_true_for_what_it_says(clause: Any, status: Wire, is_active: bool) -> None:
    assert read(active=clause).is_active({"status": status}) is is_active


def test_the_message_is_that_of_the_condition_or_that_at_its_path() -> None:
    ended = {"all": [{"condition": "Done"}, "status.ok"]}
    kind = read(succeeded=ended, failed={"path": "status.phase", "in": ["Bad"]}, message="status.text")
    status: Wire = {"conditions": [{"type": "Done", "status": "True", "message": "well"}], "ok": True, "text": "path"}
    outcome = kind.outcome({"status": status})
    assert outcome is not None
    assert (outcome.succeeded, outcome.message) == (True, "well")
    outcome = kind.outcome({"status": {"phase": "Bad", "text": "path"}})
    assert outcome is not None
    assert (outcome.succeeded, outcome.message) == (False, "path")
    outcome = kind.outcome({"status": {"phase": "Bad", "text": 3}})
    assert outcome is not None
    assert outcome.message == "Job failed"


def test_a_kind_that_never_ends_needs_no_clause_for_its_end() -> None:
    assert read(succeeded=None, neverEnds=True).outcome({"status": {"succeeded": True}}) is None


def test_readiness_is_a_number_that_reaches_another_number() -> None:
    kind = read(ready={"count": {"sum": ["status.ready", "status.done"]}, "of": "spec.n"})
    job: Wire = {"spec": {"template": a_template(), "n": 4}, "status": {"ready": 3}}
    assert kind.ready(job) == 0
    job["status"]["done"] = 1
    assert kind.ready(job) == 1, "all pods of the pod sets"


# -- pod sets ------------------------------------------------------------------------------------------------------


EACH: Wire = {"each": "spec.roles", "nameFrom": "name", "template": "template"}


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ([{"name": "a", "template": a_template()}, {"name": "A", "template": a_template()}], "another pod set: a"),
        ([{"template": a_template()}], "spec.roles[0] has no name that a pod set can have: ''"),
        ([{"name": "a b", "template": a_template()}], "spec.roles[0] has no name that a pod set can have: 'a b'"),
        ([{"name": "a", "template": {"spec": {}}}], "spec.roles[0].template is not a pod template with containers"),
        (["a"], "spec.roles[0] is not a map"),
        ("a", "spec.roles is neither a list nor a map"),
        ([{"name": f"r{n}", "template": a_template()} for n in range(19)], "has 19 pod sets; a Workload may have 18"),
        ([], "the job has no pod template: spec.roles.*.template"),
        ([{"name": "a"}], "the job has no pod template: spec.roles.*.template"),
        (None, "the job has no pod template: spec.roles.*.template"),
    ],
)
def test_a_list_whose_pods_cannot_be_counted_says_why(roles: Any, problem: str) -> None:
    assert problem in read(podSets=[EACH]).pod_sets({"spec": {"roles": roles}}).problem


def test_a_list_without_names_is_a_problem_and_a_map_is_not() -> None:
    kind = read(podSets=[{"each": "spec.roles", "template": "template"}])
    assert "its elements have no names" in kind.pod_sets({"spec": {"roles": [{"template": a_template()}]}}).problem
    found = kind.pod_sets({"spec": {"roles": {"B": {"template": a_template()}, "a": {"template": a_template()}}}})
    assert [(each.name, each.template) for each in found.found] == [
        ("b", ("spec", "roles", "B", "template")),
        ("a", ("spec", "roles", "a", "template")),
    ]


def test_fixed_pod_sets_and_those_of_a_list_are_found_in_the_order_of_the_file() -> None:
    fixed = {"name": "leader", "template": "spec.leader"}
    job = {"spec": {"leader": a_template(), "roles": [{"name": "W", "template": a_template()}]}}
    assert [each.name for each in read(podSets=[EACH, fixed]).pod_sets(job).found] == ["w", "leader"]


# -- the field that holds a job ------------------------------------------------------------------------------------


def test_a_job_is_paused_by_a_value_of_any_type() -> None:
    kind = read(suspend=None, pause={"path": "spec.on", "held": False, "started": True})
    assert (kind.hold.held, kind.hold.started) == (False, True)
    assert has_suspend_set(kind, {"spec": {"on": False}})
    assert not has_suspend_set(kind, {"spec": {"on": 0}})
    assert not has_suspend_set(kind, {"spec": {}})


def test_a_job_may_be_paused_by_an_annotation_that_its_start_removes() -> None:
    path = ["metadata", "annotations", "example.com/stop"]
    kind = read(suspend=None, pause={"path": path, "held": "true"})
    assert (kind.hold.path, kind.hold.started) == (tuple(path), None)


# -- files that can mean nothing -----------------------------------------------------------------------------------


def rows(*changed: Wire) -> Wire:
    return {"podSets": [{key: value for key, value in each.items() if value is not None} for each in changed]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rows({**EACH, "each": "spec.roles[0]"}), "podSets[0].each: Invalid value"),
        (rows({**EACH, "each": "status.roles"}), "podSets[0].each: Invalid value"),
        (rows({**EACH, "each": "spec.roles.*"}), "must lead through maps only"),
        (rows({**EACH, "nameFrom": "names.0"}), "must lead through maps only"),
        (rows({**EACH, "name": "a"}), "podSets[0].name: Forbidden: with each, an element has its own name"),
        (rows({"nameFrom": "name", **GOOD["podSets"][0]}), "podSets[0].nameFrom: Forbidden: goes with each"),
        (rows({"order": ["a"], **GOOD["podSets"][0]}), "podSets[0].order: Forbidden: goes with each"),
        (rows(EACH, EACH), "podSets[1].template: Invalid value"),
        (rows(EACH, {"name": "a", "template": "spec.roles.a.template"}), "its pods would count twice"),
        (rows({**EACH, "replicas": {"product": []}}), "podSets[0].replicas.product: Required value"),
        (rows({**EACH, "replicas": {"product": ["a"], "sum": ["b"]}}), "podSets[0].replicas: Invalid value"),
        (rows({**EACH, "replicas": {"product": [{"times": 2}]}}), "podSets[0].replicas.product[0]: Invalid value"),
        (rows({**EACH, "replicas": {"path": "a"}}), "podSets[0].replicas.default: Invalid value"),
        (rows({**EACH, "replicas": {"min": ["a[0]"]}}), "podSets[0].replicas.min[0]: Invalid value"),
        (rows({**EACH, "replicas": {"each": "a"}}), "podSets[0].replicas.value: Required value"),
        (rows({**EACH, "replicas": True}), "podSets[0].replicas: Invalid value"),
        (rows({**EACH, "replicas": {"sum": ["a", 1]}, "minReplicas": "b"}), "podSets[0].minReplicas: Forbidden"),
        (rows({**EACH, "when": []}), "podSets[0].when: Required value"),
        ({"active": {"path": "a", "in": ["b"], "notIn": ["c"]}}, "active.in: Forbidden"),
        ({"active": {"absent": "a", "in": ["b"]}}, "active.in: Forbidden"),
        ({"active": {"path": "a", "notIn": []}}, "active.notIn: Invalid value"),
        ({"active": {"all": [{"nothing": 1}]}}, "active.all[0]: Invalid value"),
        ({"active": {"any": []}}, "active.any: Required value"),
        ({"active": {"condition": "a", "each": "b"}}, "active.each: Forbidden"),
        ({"active": {"absent": "a", "present": "b"}}, "active: Invalid value"),
        ({"pause": {"path": "spec.p", "held": "a"}}, "pause: Forbidden: excludes suspend"),
        ({"suspend": None, "pause": {"path": "spec.p"}}, "pause.held: Required value"),
        ({"suspend": None, "pause": {"path": "spec.p", "held": "a", "started": "a"}}, "pause.started: Invalid value"),
        ({"suspend": None, "pause": {"path": "status.p", "held": "a"}}, "pause.path: Invalid value"),
        ({"suspend": None, "pause": {"path": "metadata.name", "held": "a"}}, "pause.path: Invalid value"),
        ({"suspend": None, "pause": {"path": "spec.p", "held": [1]}}, "pause.held: Invalid value"),
        ({"suspend": None}, "suspend: Required value"),
        ({"neverEnds": "yes"}, "neverEnds: Invalid value"),
        ({"ready": {"count": "a"}}, "ready.of: Required value"),
        ({"refuse": [{"field": "spec.a", "message": "m"}]}, "refuse[0].when: Required value"),
        ({"refuse": [{"when": "a", "message": "m"}]}, "refuse[0].field: Required value"),
        ({"refuse": [{"when": "a", "field": "spec.a"}]}, "refuse[0].message: Required value"),
        ({"message": 3}, "message: Invalid value"),
        ({"priorityClass": "a[1]"}, "priorityClass: Invalid value"),
    ],
)
def test_a_file_that_can_mean_nothing_is_rejected_with_the_field(change: Wire, said: str) -> None:
    fields = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    found = read_kinds(msgspec.json.encode({"kinds": [fields]}))
    assert isinstance(found, list)
    assert any(f"kinds[0].{said}" in each or said in each for each in found), found


def test_a_clause_and_a_number_may_not_be_nested_without_end() -> None:
    clause: Any = "status.a"
    number: Any = "a"
    for _ in range(20):
        clause, number = {"all": [clause]}, {"sum": [number]}
    for change in ({"active": clause}, rows({**EACH, "replicas": number})):
        assert isinstance(read_kinds(msgspec.json.encode({"kinds": [{**GOOD, **change}]})), list)


def test_a_problem_deep_in_a_file_has_its_line() -> None:
    text = b"""kinds:
- apiVersion: example.com/v1
  kind: Run
  plural: runs
  suspend: spec.suspend
  podSets:
  - each: spec.roles
    nameFrom: name
    template: template
    replicas:
      product:
      - replicas
      - hosts[0]
  active:
    all:
    - present: status
    - {path: status.phase, in: Busy}
  succeeded: {condition: Done}
"""
    found = read_kinds(text)
    assert isinstance(found, list)
    assert [each.partition(": ")[0] for each in found] == ["line 13", "line 17"]
