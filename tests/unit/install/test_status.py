"""The status of an installation: each part that does not work is named, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.http.transport import HTTPRequest
from headgate.install.status import InstallStatus, status_steps
from unit.install.installation import NAMESPACE, Installation

Object = dict[str, Any]
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate"
SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/headgate"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/headgate-quota"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
COMPONENTS = ("webhooks", "quota")


def _working() -> Installation:
    """An installation whose pods run, with a leader that has renewed its Lease just now."""
    made = Installation()
    made.install()
    generation = made.get(DEPLOYMENT)["metadata"]["generation"]
    ready = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2}
    body = {"status": {**ready, "observedGeneration": generation}}
    assert made.server.patch(f"{DEPLOYMENT}/status", body).status == 200
    client = {"service": {"name": "headgate", "namespace": NAMESPACE}, "caBundle": "Y2E="}
    webhook = {"name": "a.headgate.dev", "clientConfig": client, "sideEffects": "None"}
    for kind in ("mutating", "validating"):
        registered = {
            "metadata": {"name": "headgate", "labels": {"app.kubernetes.io/managed-by": "headgate"}},
            "webhooks": [{**webhook, "admissionReviewVersions": ["v1"]}],
        }
        made.create(f"{CONFIGURATIONS}/{kind}webhookconfigurations", registered)
    made.create(SLICES, _slice(ready=True))
    lease = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    made.create(LEASES, {"metadata": {"name": "headgate-quota"}, "spec": lease})
    made.headers = {"date": "Thu, 01 Jan 2026 00:00:05 GMT"}
    return made


def _slice(*, ready: bool) -> Object:
    return {
        "metadata": {"name": "headgate-1", "labels": {"kubernetes.io/service-name": "headgate"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
        "ports": [],
    }


def _status(made: Installation) -> list[InstallStatus]:
    return [made.perform(each) for each in status_steps(NAMESPACE, COMPONENTS)]


def test_all_parts_of_a_working_installation_work() -> None:
    found = _status(_working())
    assert [each.name for each in found] == [
        "deployment.apps/headgate",
        "customresourcedefinitions",
        "clusterroles",
        "mutatingwebhookconfiguration/headgate",
        "validatingwebhookconfiguration/headgate",
        "service/headgate",
        "component quota",
    ]
    assert [each.problem for each in found if each.problem] == []


def test_an_installation_without_pods_names_what_does_not_work_yet() -> None:
    made = Installation()
    made.install()
    problems = {each.name: each.problem for each in _status(made) if each.problem}
    assert "0 of 2 replicas are available" in problems["deployment.apps/headgate"]
    assert "a replica registers it" in problems["mutatingwebhookconfiguration/headgate"]
    assert "no ready endpoints" in problems["service/headgate"]
    assert problems["component quota"] == "missing"


@pytest.mark.parametrize(
    ("breaks", "part", "problem"),
    [
        (lambda made: made.server.delete(SERVICE), "service/headgate", "missing; API servers cannot call the webhooks"),
        (lambda made: made.server.delete(f"{SLICES}/headgate-1"), "service/headgate", "it has no ready endpoints"),
        (
            lambda made: made.server.put(f"{SLICES}/headgate-1", _slice(ready=False)),
            "service/headgate",
            "it has no ready endpoints",
        ),
        (
            lambda made: made.server.delete(f"{RBAC}/clusterroles/headgate-component-quota"),
            "clusterroles",
            "ClusterRole headgate-component-quota: missing; run: headgate install --namespace headgate-system --apply",
        ),
        (
            lambda made: made.server.delete(f"{RBAC}/clusterrolebindings/headgate-component-quota"),
            "clusterroles",
            "ClusterRoleBinding headgate-component-quota: missing; run: ",
        ),
        (
            lambda made: made.server.patch(
                f"{RBAC}/clusterrolebindings/headgate-component-quota",
                {"subjects": [{"kind": "ServiceAccount", "name": "headgate", "namespace": "other"}]},
            ),
            "clusterroles",
            "does not bind the ServiceAccount headgate-system/headgate; run: ",
        ),
        (
            lambda made: made.server.delete(DEFINITION),
            "customresourcedefinitions",
            "workloads.kueue.x-k8s.io: missing; run: headgate install --namespace headgate-system --apply",
        ),
        (
            lambda made: (
                made.server.patch(DEFINITION, {"metadata": {"finalizers": ["example.com/keep"]}}),
                made.server.delete(DEFINITION),
            ),
            "customresourcedefinitions",
            "workloads.kueue.x-k8s.io is being deleted; run: ",
        ),
        (
            lambda made: made.server.patch(LEASE, {"spec": {"holderIdentity": ""}}),
            "component quota",
            "no replica holds",
        ),
    ],
)
def test_a_part_that_does_not_work_is_named(breaks: Callable[[Installation], object], part: str, problem: str) -> None:
    made = _working()
    breaks(made)
    (broken,) = [each for each in _status(made) if each.problem]
    assert broken.name == part
    assert problem in broken.problem


def test_a_webhook_of_another_program_is_no_problem() -> None:
    made = _working()
    path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/headgate"
    found = made.get(path)
    client = {"url": "https://127.0.0.1:1/"}
    found["webhooks"].append({**found["webhooks"][0], "name": "a.example.com", "clientConfig": client})
    assert made.server.put(path, found).status == 200
    (webhooks,) = [each for each in _status(made) if each.name == "mutatingwebhookconfiguration/headgate"]
    assert (webhooks.problem, webhooks.detail) == ("", "1 webhooks, and 1 of other programs")


def test_webhooks_that_are_called_in_another_namespace_are_a_problem() -> None:
    made = _working()
    path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/headgate"
    found = made.get(path)
    found["webhooks"][0]["clientConfig"]["service"]["namespace"] = "other"
    assert made.server.put(path, found).status == 200
    (broken,) = [each for each in _status(made) if each.problem]
    assert "its webhooks are called in namespace other, not in headgate-system" in broken.problem


@pytest.mark.parametrize("headers", [{"date": "Thu, 01 Jan 2026 01:00:00 GMT"}, {}])
def test_a_lease_that_is_not_renewed_has_no_leader(headers: dict[str, str]) -> None:
    made = _working()
    made.headers = headers
    (broken,) = [each for each in _status(made) if each.problem]
    assert broken.name == "component quota"
    assert (
        "the Lease kube-system/headgate-quota expired: pod-1 has not renewed it since 2026-01-01T00:00:00.000000Z"
        in broken.problem
    )


def test_a_leader_whose_clock_differs_from_that_of_the_server_is_the_leader() -> None:
    made = _working()
    made.headers = {"date": "Thu, 01 Jan 2026 01:00:00 GMT"}
    reads = 0

    def renew(request: HTTPRequest) -> None:
        nonlocal reads
        reads += request.path == LEASE
        if reads == 3:
            made.server.patch(LEASE, {"spec": {"renewTime": "2026-01-01T00:00:02.000000Z"}})

    made.before_request = renew
    assert [each.detail for each in _status(made) if each.name == "component quota"] == ["the leader is pod-1"]
