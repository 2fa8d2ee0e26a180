"""Inspection of workloads, queues and gates from lists: one revision, positions, and unavailable resources."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headgate.cli.options.job_options import read_kinds
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.quota.explain.workload_list import workload_rows
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.runtime.inspection.gated_jobs import GatedJobList, find_gated_jobs
from headgate.runtime.inspection.quota import QuotaInspection, inspect_quota
from kueue_builders import START_S, Wire, a_cluster_queue, a_condition, a_flavor, a_local_queue, a_workload, reserved

R = TypeVar("R")
KINDS = "/apis/kueue.x-k8s.io/v1beta2"
GATE = "kueue.x-k8s.io/scheduling-gated-by"
NAMESPACES = "/api/v1/namespaces"
NAMESPACE = {"metadata": {"name": "ns"}}
JOB_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-job", "controller": True}


def response(status: int, **body: Any) -> HTTPResponse:
    return HTTPResponse(status, {}, msgspec.json.encode(body or {"message": f"said {status}"}))


def a_list(*items: Any, revision: str = "7") -> HTTPResponse:
    return response(200, metadata={"resourceVersion": revision}, items=list(items))


def inspect(
    asking: Generator[HTTPRequest, HTTPResponse, R], reply: Callable[[HTTPRequest], HTTPResponse]
) -> tuple[R, list[str]]:
    requests = []
    try:
        request = next(asking)
        while True:
            requests.append(f"{request.path}?{request.query}")
            request = asking.send(reply(request))
    except StopIteration as done:
        return done.value, requests


def serving(lists: Mapping[str, HTTPResponse]) -> Callable[[HTTPRequest], HTTPResponse]:
    return lambda request: lists.get(request.path) or a_list()


def a_cluster(*workloads: Wire) -> dict[str, HTTPResponse]:
    return {
        NAMESPACES: a_list(NAMESPACE),
        f"{KINDS}/resourceflavors": a_list(a_flavor()),
        f"{KINDS}/clusterqueues": a_list(a_cluster_queue("cq", {"default": {"cpu": 2}})),
        f"{KINDS}/localqueues": a_list(a_local_queue(), a_local_queue("other")),
        f"{KINDS}/workloads": a_list(*workloads),
    }


def inspected(lists: Mapping[str, HTTPResponse]) -> QuotaInspection:
    return inspect(inspect_quota("ns", START_S + 100), serving(lists))[0]


def owned(workload: Wire, **reference: Any) -> Wire:
    return {**workload, "metadata": {**workload["metadata"], "ownerReferences": [{**JOB_OWNER, **reference}]}}


def gated(name: str, gate: str = "example.com/data", created: str = "2026-01-01T00:00:00Z", **more: Any) -> Wire:
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": {GATE: gate}, "labels": labels}
    return {"metadata": {**metadata, "creationTimestamp": created}, **more}


def found_gated(lists: Mapping[str, HTTPResponse], namespace: str = "") -> GatedJobList:
    return inspect(find_gated_jobs(namespace), serving(lists))[0]


def test_all_lists_are_of_the_moment_of_the_workloads() -> None:
    found, requests = inspect(inspect_quota("", 0.0), serving(a_cluster(a_workload())))
    assert requests[0].startswith(f"{KINDS}/workloads?")
    assert all("resourceVersion=7&resourceVersionMatch=Exact" in each for each in requests[1:])
    assert (found.revision, found.unavailable, found.knows_positions) == ("7", (), True)


def test_lines_say_state_queue_place_and_whose_it_is() -> None:
    found = inspected(
        a_cluster(
            owned(a_workload("holds", cpu=2, status=reserved(cpu=2, at_s=50))),
            a_workload("second", cpu=1, at_s=20),
            a_workload("first", cpu=1, at_s=30, priority=5),
            a_workload("elsewhere", cpu=1, at_s=10, queue="other"),
            a_workload("lost", queue="nowhere"),
            a_workload("over", status={"conditions": [a_condition("Finished", reason="Succeeded", at_s=9)]}),
        )
    )
    listed = {row.name: row for row in workload_rows(found.engine, found.workloads.values())}
    assert {
        name: (row.state, row.cluster_queue, row.position, row.position_in_cluster_queue)
        for name, row in listed.items()
    } == {
        "elsewhere": ("pending", "cq", 0, 1),
        "first": ("pending", "cq", 0, 0),
        "holds": ("admitted", "cq", None, None),
        "lost": ("pending", "", None, None),
        "over": ("finished", "cq", None, None),
        "second": ("pending", "cq", 1, 2),
    }
    assert [(each.type, each.name) for each in listed["holds"].owners] == [("job.batch", "train")]
    assert listed["holds"].admitted_s == START_S + 50
    assert (listed["over"].reason, listed["over"].finished_s) == ("Succeeded", START_S + 9)


def test_an_evicted_workload_shows_the_reason_and_not_its_admission() -> None:
    status = reserved(cpu=1)
    status["conditions"].append(a_condition("Evicted", reason="Preempted", message="room for another"))
    found = inspected(a_cluster(a_workload("victim", status=status)))
    (row,) = workload_rows(found.engine, found.workloads.values())
    assert (row.state, row.reason, row.message) == ("admitted", "Preempted", "room for another")


def test_a_workload_that_cannot_be_read_is_listed_with_what_is_wrong() -> None:
    found = inspected(a_cluster(a_workload("bad", cpu="many"), a_workload("good")))
    listed = {row.name: row for row in workload_rows(found.engine, found.workloads.values())}
    assert "many" in listed["bad"].message or "quantit" in listed["bad"].message
    assert listed["good"].position == 0


def test_a_user_with_rights_in_one_namespace_sees_its_workloads_without_positions() -> None:
    lists = a_cluster()
    lists[f"{KINDS}/workloads"] = response(403)
    lists[f"{KINDS}/namespaces/ns/workloads"] = a_list(a_workload())
    found = inspected(lists)
    assert found.has_listed(WORKLOADS)
    assert not found.knows_positions
    assert [gap.right for gap in found.unavailable] == ["list workloads.kueue.x-k8s.io in all namespaces"]
    (row,) = workload_rows(found.engine, found.workloads.values(), found.knows_positions)
    assert (row.state, row.position) == ("pending", None)


def test_without_kueues_kinds_the_command_prints_how_to_install_them() -> None:
    found = inspected({f"{KINDS}/workloads": response(404)})
    assert found.is_absent
    assert "headgate install-crds" in found.unavailable[0].text


def test_gated_jobs_of_all_kinds_come_the_oldest_first() -> None:
    lists = {
        "/apis/batch/v1/jobs": a_list(gated("late", created="2026-03-01T00:00:00Z"), {"metadata": {"name": "free"}}),
        "/api/v1/pods": a_list(gated("early", gate="example.com/quota")),
        "/apis/apps/v1/deployments": a_list(gated("middle", created="2026-02-01T00:00:00Z")),
    }
    found = found_gated(lists)
    assert [(each.type, each.name, each.gate, each.queue) for each in found.gated] == [
        ("pod", "early", "example.com/quota", "lq"),
        ("deployment.apps", "middle", "example.com/data", "lq"),
        ("job.batch", "late", "example.com/data", "lq"),
    ]
    assert found.unavailable == ()


def test_a_deployment_is_listed_once_and_copies_of_its_gate_on_replica_sets_are_not() -> None:
    mine = gated("web-1")
    mine["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True}
    ]
    orphan = gated("left-1")
    orphan["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"] = "1"
    lists = {
        "/apis/apps/v1/deployments": a_list(gated("web")),
        "/apis/apps/v1/replicasets": a_list(mine, orphan, gated("alone", created="2026-02-01T00:00:00Z")),
    }
    assert [(each.type, each.name) for each in found_gated(lists).gated] == [
        ("deployment.apps", "web"),
        ("replicaset.apps", "alone"),
    ]


def test_a_pod_in_a_queue_that_is_held_by_gates_of_others_is_listed() -> None:
    gates = [{"name": "example.com/other"}, {"name": "kueue.x-k8s.io/admission"}]
    held = {
        "metadata": {"name": "held", "labels": {"kueue.x-k8s.io/managed": "true"}},
        "spec": {"schedulingGates": gates},
    }
    free = {"metadata": {"name": "free"}, "spec": {"schedulingGates": gates}}
    found = found_gated({"/api/v1/pods": a_list(held, free)})
    assert [(each.type, each.name, each.gate) for each in found.gated] == [("pod", "held", "example.com/other")]


def test_a_job_that_has_a_workload_or_has_ended_is_not_held_back() -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    lists = {
        f"{KINDS}/workloads": a_list(owned(a_workload("of-served"), uid="uid-served")),
        "/apis/batch/v1/jobs": a_list(gated("served"), gated("over", status=ended)),
        "/api/v1/pods": a_list(gated("done", status={"phase": "Succeeded"})),
    }
    assert found_gated(lists).gated == ()


def test_a_workload_that_is_kept_from_quota_is_listed_under_its_job() -> None:
    gates = {"kueue.x-k8s.io/admission-gated-by": "example.com/a,example.com/b"}
    lists = {
        f"{KINDS}/namespaces/ns/workloads": a_list(
            owned(a_workload("job-train-12345", annotations=gates)),
            a_workload("by-hand", annotations=gates, at_s=1),
            a_workload("admitted", annotations=gates, status=reserved(cpu=1)),
        )
    }
    found = found_gated(lists, "ns")
    assert [(each.type, each.name, each.gate, each.holds) for each in found.gated] == [
        ("job.batch", "train", "example.com/a,example.com/b", "admission"),
        ("workload", "by-hand", "example.com/a,example.com/b", "admission"),
    ]


def test_a_workload_that_a_label_holds_is_listed_and_one_that_another_client_deactivated_is_not() -> None:
    mark = {"headgate.dev/deactivated-by-label": "true"}
    lists = {
        f"{KINDS}/workloads": a_list(
            owned(a_workload("job-train-12345", annotations=mark, active=False)),
            a_workload("resumed", annotations=mark),
            a_workload("banned", active=False),
        )
    }
    found = found_gated(lists)
    assert [(each.name, each.gate, each.holds) for each in found.gated] == [
        ("train", "kueue.x-k8s.io/deactivate", "admission")
    ]


def test_a_kind_that_may_not_be_listed_is_missing_and_the_others_are_printed() -> None:
    lists = {"/api/v1/pods": response(403), "/apis/batch/v1/jobs": a_list(gated("held"))}
    found = found_gated(lists)
    assert [each.name for each in found.gated] == ["held"]
    assert [gap.right for gap in found.unavailable] == ["list pods in all namespaces"]


def test_a_kind_that_a_file_describes_may_be_gated_too() -> None:
    kinds = read_kinds((Path(__file__).parents[3] / "examples" / "job-kinds.yaml").read_bytes())
    assert isinstance(kinds, tuple)
    found, _ = inspect(find_gated_jobs("", kinds), serving({"/apis/example.com/v1/trainingruns": a_list(gated("run"))}))
    assert [(each.type, each.name) for each in found.gated] == [("trainingrun.example.com", "run")]


def test_without_a_list_that_the_engine_decides_by_no_place_in_line_is_known() -> None:
    for plural in ("resourceflavors", "cohorts", "admissionchecks", "clusterqueues", "localqueues"):
        lists = a_cluster(a_workload())
        lists[f"{KINDS}/{plural}"] = lists[f"{KINDS}/namespaces/ns/{plural}"] = response(403)
        found = inspected(lists)
        assert not found.knows_positions, plural
        assert found.has_listed(WORKLOADS)
        assert found.has_listed(LOCAL_QUEUES) is (plural != "localqueues")


def test_when_workloads_may_not_be_listed_anywhere_both_rights_are_named_and_the_queues_are_read() -> None:
    lists = a_cluster()
    lists[f"{KINDS}/workloads"] = lists[f"{KINDS}/namespaces/ns/workloads"] = response(403)
    found = inspected(lists)
    assert not found.has_listed(WORKLOADS)
    assert [gap.right for gap in found.unavailable] == [
        "list workloads.kueue.x-k8s.io in all namespaces",
        "list workloads.kueue.x-k8s.io in namespace ns",
    ]
    assert "ns/lq" in found.engine.cache.local_queues


def test_a_gated_job_is_not_said_to_have_no_workload_where_those_may_not_be_listed() -> None:
    lists = {f"{KINDS}/namespaces/ns/workloads": response(403)}
    lists["/apis/batch/v1/namespaces/ns/jobs"] = a_list(gated("held"))
    found = found_gated(lists, "ns")
    assert [(each.name, each.holds) for each in found.gated] == [("held", "its Workload, if it has none yet")]
    assert [gap.right for gap in found.unavailable] == ["list workloads.kueue.x-k8s.io in namespace ns"]
    assert not found.is_complete
