"""The decisions of the dependency controller in examples/controllers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from examples.controllers.job_dependencies import (
    AFTER,
    COMPLETED,
    GATE,
    JOB_GATE,
    Decision,
    Dependencies,
    Key,
    removal,
    report,
)

from headgate.client.known_objects import ObjectApplied, ObjectDeleted


def job(name: str, after: str = "", *, state: str = "", uid: str = "", **annotations: str) -> Any:
    listed = {AFTER: after, JOB_GATE: GATE, **annotations} if after else annotations
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "annotations": listed}
    return ObjectApplied(
        {"metadata": metadata, "status": {"conditions": [{"type": state, "status": "True"}] if state else []}}
    )


def pod(name: str, after: str, *gates: str, owner: str = "", completed: str = "") -> Any:
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": f"uid-{name}",
        "annotations": {AFTER: after, COMPLETED: completed},
        "ownerReferences": [{"kind": "Job", "name": owner}] if owner else [],
    }
    spec = {"schedulingGates": [{"name": each} for each in gates or (GATE,)]}
    return ObjectApplied({"metadata": metadata, "spec": spec})


def keys(*names: str) -> set[Key]:
    return {("Job" if name.isupper() else "Pod", "ns", name) for name in names}


def decided(state: Dependencies, name: str) -> Decision:
    (key,) = keys(name)
    decision = state.decide(key)
    assert decision is not None
    return decision


def reason(state: Dependencies, name: str) -> str:
    return report(decided(state, name))[1]


def test_an_object_waits_for_each_named_job_once() -> None:
    state = Dependencies()
    state.on_job(job("A"))
    state.on_job(job("B", state="Complete"))
    assert state.on_pod(pod("p", " A, B,,A ")) == keys("p")
    assert decided(state, "p").rest == ("A",)
    assert decided(state, "p").record == ("B",)
    assert state.on_job(job("A", state="Complete")) == keys("p")
    assert (decided(state, "p").rest, decided(state, "p").record) == ((), ())


def test_a_job_that_was_recorded_may_be_deleted() -> None:
    state = Dependencies()
    state.on_job(job("B"))
    state.on_job(job("A", state="Complete"))
    state.on_pod(pod("p", "A,B"))
    waiter = decided(state, "p").waiter
    state.written(waiter, replace(waiter, completed=frozenset({"A"})))
    assert decided(state, "p").record == ()
    assert state.on_job(ObjectDeleted("ns", "A", "uid-A")) == keys("p")
    assert (decided(state, "p").rest, decided(state, "p").missing) == (("B",), ())


def test_a_job_that_is_deleted_before_it_completed_is_missing() -> None:
    state = Dependencies()
    state.on_pod(pod("p", "A"))
    state.on_job(job("A"))
    assert reason(state, "p") == "WaitingForDependencies"
    assert state.on_job(ObjectDeleted("ns", "A", "uid-A")) == keys("p")
    assert reason(state, "p") == "DependencyMissing"
    assert state.on_job(job("A", uid="another", state="Failed")) == keys("p")
    assert reason(state, "p") == "DependencyFailed"


def test_all_jobs_of_a_cycle_are_looked_at_when_it_is_closed_and_when_it_is_broken() -> None:
    state = Dependencies()
    state.on_job(job("A", "C"))
    state.on_job(job("B", "A"))
    state.on_job(job("X", "C"))
    assert state.on_job(job("C", "B")) == keys("A", "B", "C", "X")
    assert [decided(state, name).cycle for name in "ABC"] == [tuple("ACBA"), tuple("BACB"), tuple("CBAC")]
    assert decided(state, "X").cycle == ()
    assert state.on_job(ObjectDeleted("ns", "C", "uid-C")) == keys("A", "B", "C", "X")
    assert decided(state, "A").cycle == ()


def test_a_pod_that_waits_for_its_own_job_is_a_cycle() -> None:
    state = Dependencies()
    state.on_job(job("A"))
    state.on_job(job("B", "A"))
    state.on_pod(pod("own", "A", owner="A"))
    state.on_pod(pod("far", "B", owner="A"))
    state.on_pod(pod("free", "B"))
    assert [decided(state, name).cycle for name in ("own", "far", "free", "B")] == [
        ("A", "A"),
        ("A", "B", "A"),
        (),
        ("B", "A", "B"),
    ]


def test_a_gate_without_a_name_is_reported_and_not_removed() -> None:
    state = Dependencies()
    state.on_pod(pod("p", " , "))
    assert reason(state, "p") == "NoDependencies"


def test_only_the_own_gate_is_removed() -> None:
    state = Dependencies()
    state.on_pod(pod("p", "A", "other", GATE))
    assert removal(decided(state, "p").waiter) == [
        {"op": "test", "path": "/spec/schedulingGates/1", "value": {"name": GATE}},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    ]
    state.on_job(job("J", "A"))
    assert removal(decided(state, "J").waiter) == [
        {"op": "test", "path": "/metadata/annotations/kueue.x-k8s.io~1scheduling-gated-by", "value": GATE},
        {"op": "remove", "path": "/metadata/annotations/kueue.x-k8s.io~1scheduling-gated-by"},
    ]


def test_objects_that_do_not_wait_are_not_looked_at_and_leave_nothing_behind() -> None:
    state = Dependencies()
    assert state.on_pod(pod("p", "A", "other")) == set()
    assert state.on_job(job("J", **{AFTER: "A", JOB_GATE: "example.com/other"})) == set()
    state.on_pod(pod("q", "A"))
    state.on_job(job("K", "A"))
    state.on_pod(ObjectDeleted("ns", "q", "uid-q"))
    state.on_job(job("K"))
    assert state.decide(("Pod", "ns", "q")) is None
    assert (state._waiters, state._dependents, state._holding) == ({}, {}, {})
