"""What `headgate doctor` finds in objects, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.client.gated_pods import GateCount, GatedPod
from headgate.http.transport import HTTPResponse
from headgate.kube.timestamps import format_micro_time, format_time
from headgate.runtime.inspection.cluster_checks import check_cluster
from headgate.runtime.inspection.diagnosis import (
    Diagnosis,
    TerminatingObject,
    WebhookBackend,
    check_clock,
    check_deletions,
    check_gates,
    check_leases,
    check_webhooks,
    webhook_services,
)
from headgate.runtime.inspection.gate_owners import GateOwner, GateOwners

Wire = dict[str, Any]
NOW_S = 1_700_000_000.0
PLACE = ("hooks", "hook")


def a_lease(name: str, holder: str = "a_1", age_s: float = 1.0) -> Wire:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format_micro_time(NOW_S - age_s)}
    return {"metadata": {"namespace": "kube-system", "name": name}, "spec": spec}


def a_webhook(policy: str = "Fail", **more: Any) -> Wire:
    client = {"service": {"namespace": PLACE[0], "name": PLACE[1]}, "caBundle": "x"}
    rules = [{"apiGroups": [""], "resources": ["pods"]}]
    selector = {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
    }
    return {"clientConfig": client, "failurePolicy": policy, "rules": rules, "namespaceSelector": selector, **more}


def in_webhooks(*webhooks: Wire, problem: str = "") -> list[Diagnosis]:
    configuration = {"metadata": {"name": "hooks"}, "webhooks": list(webhooks)}
    return list(check_webhooks("mutatingwebhookconfiguration", [configuration], {PLACE: WebhookBackend(problem)}))


def severities(found: list[Diagnosis]) -> list[str]:
    return [each.severity for each in found]


@pytest.mark.parametrize(("skew_s", "expected"), [(0.0, []), (1.9, []), (-5.0, ["warning"]), (30.0, ["error"])])
def test_clocks_that_differ(skew_s: float, expected: list[str]) -> None:
    assert severities(list(check_clock(skew_s))) == expected


def test_a_lease_that_is_not_renewed_is_an_error() -> None:
    assert list(check_leases([a_lease("headgate-scheduler")], NOW_S)) == []
    (dead,) = check_leases([a_lease("headgate-quota", age_s=300)], NOW_S)
    assert (dead.severity, dead.subject) == ("error", "kube-system/lease/headgate-quota")
    assert "a_1 has not renewed it for 5m" in dead.text
    (free,) = check_leases([a_lease("headgate-jobs", holder="")], NOW_S)
    assert free.severity == "warning"


def test_a_webhook_without_a_backend_refuses_or_is_skipped() -> None:
    (refuses,) = in_webhooks(a_webhook("Fail"), a_webhook("Fail"), problem="its Service hooks/hook does not exist")
    assert refuses.severity == "error"
    assert "every request that it matches is refused (failurePolicy Fail) (2 webhooks)" in refuses.text
    assert "kubectl delete mutatingwebhookconfiguration hooks" in refuses.fix
    (skipped,) = in_webhooks(a_webhook("Ignore"), problem="its Service hooks/hook has no ready endpoint")
    assert skipped.severity == "warning"
    assert in_webhooks(a_webhook("Fail")) == []


def test_a_webhook_for_all_pods_that_fails_closed_is_a_warning() -> None:
    (found,) = in_webhooks(a_webhook("Fail", namespaceSelector={}))
    assert "not even those of kube-system" in found.text
    assert in_webhooks(a_webhook("Ignore", namespaceSelector={})) == []
    assert severities(in_webhooks(a_webhook("Ignore", timeoutSeconds=30))) == ["warning"]


def test_the_services_of_webhooks_are_found() -> None:
    by_url = {"clientConfig": {"url": "https://127.0.0.1"}}
    assert webhook_services([{"webhooks": [a_webhook(), by_url]}]) == {PLACE}


def a_gate(gate: str, age_s: float) -> GateCount:
    return GateCount(gate, 3, GatedPod("ns", "p", "u", format_time(NOW_S - age_s), (gate,)))


def test_gates_without_a_working_owner_are_found() -> None:
    owners = GateOwners(True, {"a.example/x": GateOwner("x", "every user", "OwnerLeaseExpired")})
    counts = [a_gate("a.example/x", 60), a_gate("b.example/y", 7200), a_gate("c.example/new", 60)]
    counts.append(a_gate("scheduling.volcano.sh/queue-allocation-gate", 7200))
    found = list(check_gates(counts, owners, NOW_S))
    assert [(each.severity, each.subject) for each in found] == [
        ("error", "gate/a.example/x"),
        ("warning", "gate/b.example/y"),
    ]
    assert "headgate gates lift b.example/y -A --all" in found[1].fix


def test_deletions_that_wait_for_finalizers_are_found_after_a_while() -> None:
    old, new = format_time(NOW_S - 600), format_time(NOW_S - 5)
    objects = [
        TerminatingObject("clusterqueue", "", "cq", old, ("kueue.x-k8s.io/resource-in-use",)),
        TerminatingObject("pod", "ns", "p", old, ()),
        TerminatingObject("pod", "ns", "q", new, ("example.com/x",)),
    ]
    (found,) = check_deletions(objects, NOW_S)
    assert found.subject == "clusterqueue/cq"
    assert "the components quota and jobs remove it while they run" in found.fix


def test_every_list_that_is_refused_is_named_once() -> None:
    steps = check_cluster(("headgate",), (), NOW_S, 0.0)
    try:
        next(steps)
        while True:
            steps.send(HTTPResponse(403, {}, b'{"message": "no"}'))
    except StopIteration as done:
        found = done.value
    assert {each.check for each in found} == {"rights"}
    texts = [each.text for each in found]
    assert len(texts) == len(set(texts))
    for right in ("list pods in all namespaces", "list queues.scheduling.volcano.sh", "list workloads.kueue.x-k8s.io"):
        assert any(right in each for each in texts), right
    assert any("list leases.coordination.k8s.io in namespace kube-system" in each for each in texts)
    assert any("mutatingwebhookconfigurations" in each for each in texts)
