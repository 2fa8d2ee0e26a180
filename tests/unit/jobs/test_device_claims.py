"""Device claims (DRA) are not counted: a workload with claims gets no quota and reports why."""

from __future__ import annotations

from headgate.kube import conditions
from unit.jobs import fixtures as stage
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import API, create

CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
SAID = "Workload uses DRA resources (spec.resourceClaims of its pods), which are not counted: pod sets main"


def test_a_job_that_claims_devices_is_inadmissible_and_others_go_on() -> None:
    world = stage.a_world(cpu=1)
    body = stage.a_job("claims")
    body["spec"]["template"]["spec"]["resourceClaims"] = CLAIMS
    create(world.server, stage.JOBS, body)
    stage.add(world, "plain")
    world.advance(2)
    assert stage.running(world) == ["plain"]
    found = stage.workload(world, "claims")
    assert found is not None
    told = conditions.find(found["status"]["conditions"], "QuotaReserved") or {}
    assert (told["status"], told["reason"], told["message"]) == ("False", "Misconfigured", SAID)
    assert world.server.get(f"{API}/clusterqueues/cq").body["status"]["reservingWorkloads"] == 1


def test_a_pod_that_claims_devices_stays_behind_its_gate() -> None:
    world = of_pods.a_world(cpu=1)
    of_pods.add(world, "claims", resourceClaims=CLAIMS)
    world.advance(2)
    assert of_pods.started(world) == []
    assert of_pods.condition(world, "claims", "QuotaReserved")["message"] == SAID
