"""Worlds in which the feature gate ActivationLabels is on, and can be switched for the next process."""

from __future__ import annotations

from typing import Any

from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.kube.feature_gates import FeatureGates
from headgate.quota import names
from headgate.quota.api.activation import WorkloadActivationState, workload_state
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS, a_world, job, workload
from unit.jobs.queue_fixtures import WORKLOADS

ON = FeatureGates(activation_labels=True, mutable_pod_resources_for_suspended_jobs=True)
OFF = FeatureGates(mutable_pod_resources_for_suspended_jobs=True)
QUOTA_ON, QUOTA_OFF = QuotaSettings(honours_activation=True), QuotaSettings()


def an_activation_world(cpu: int = 1, quota: QuotaSettings = QUOTA_ON, **more: Any) -> CrashingWorld:
    return a_world(cpu=cpu, features=more.pop("features", ON), quota=quota, **more)


def switch(world: CrashingWorld, is_on: bool) -> None:
    """The processes end, and the next ones have the feature gate on or off."""
    features, quota = (ON, QUOTA_ON) if is_on else (OFF, QUOTA_OFF)
    others = world._makers[2:]
    world._makers = (lambda: QuotaController(quota), lambda: ManagedJobController(features), *others)
    world.crash()
    world.advance(2)


def label(world: World, name: str, **labels: str | None) -> None:
    """Sets labels of a job: ``activate="true"``."""
    body = {"metadata": {"labels": {f"kueue.x-k8s.io/{key}": value for key, value in labels.items()}}}
    answer = world.server.patch(f"{JOBS}/{name}", body)
    assert answer.status == 200, answer.body


def patch_workload(world: World, name: str, body: Wire) -> None:
    found = workload(world, name)
    assert found is not None
    answer = world.server.patch(f"{WORKLOADS}/{found['metadata']['name']}", body)
    assert answer.status == 200, answer.body


def label_workload(world: World, name: str, **labels: str | None) -> None:
    patch_workload(
        world, name, {"metadata": {"labels": {f"kueue.x-k8s.io/{key}": value for key, value in labels.items()}}}
    )


def read(world: World, name: str) -> Workload:
    found = workload(world, name)
    assert found is not None
    decoded = read_workload(found)
    assert isinstance(decoded, Workload)
    return decoded


def state(world: World, name: str) -> WorkloadActivationState:
    return workload_state(read(world, name))


def job_labels(world: World, name: str) -> dict[str, str]:
    return activation_labels(job(world, name))


def activation_labels(obj: Wire) -> dict[str, str]:
    labels = obj["metadata"].get("labels") or {}
    return {key.rpartition("/")[2]: labels[key] for key in (names.ACTIVATE, names.DEACTIVATE) if key in labels}


def traces(world: World, name: str) -> list[str]:
    """Everything that the feature has written to the job and its Workload, and its Events."""
    found = [workload(world, name) or {"metadata": {}}, job(world, name)]
    return [
        *(key for each in found for key in activation_labels(each)),
        *(key for each in found for key in each["metadata"].get("annotations") or {} if "deactivated" in key),
        *(each.reason for each in world.emitted if "ctivat" in each.reason),
    ]
