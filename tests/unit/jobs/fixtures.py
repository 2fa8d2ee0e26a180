"""Fixtures for jobs in Kueue's queues: the embedded server with admission, quota, job controllers and a kubelet."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from embedded import Embedded
from headgate.admission.settings import AdmissionSettings
from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.controllers.jobs.controller import JobController
from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube import conditions
from headgate.kube.decisions import Decided, ignore_decision
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from kueue_builders import Wire, a_flavor
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.kubelet import ENDS, Kubelet
from unit.controllers.world import World
from unit.jobs.queue_fixtures import COLLECTED, WORKLOADS, create, server_with_queue

JOBS = "/apis/batch/v1/namespaces/ns/jobs"
GATE = "kueue.x-k8s.io/scheduling-gated-by"
QUEUE = "kueue.x-k8s.io/queue-name"
GATING = FeatureGates(scheduling_gated_by=True, mutable_pod_resources_for_suspended_jobs=True)


def a_world(
    cpu: int = 1,
    features: FeatureGates | None = None,
    settings: JobSettings = DEFAULT,
    metrics: JobMetrics | None = None,
    has_admission: bool = True,
    crds: Sequence[Wire] = (),
    more: Sequence[Callable[[Embedded], Controller]] = (),
    quota: QuotaSettings | None = None,
    kubelet: type[Kubelet] = Kubelet,
    decided: Decided = ignore_decision,
    **spec: Any,
) -> CrashingWorld:
    """`has_admission`: whether admission sees jobs on their way in. `more`: controllers beside the usual ones."""
    features = features or FeatureGates()
    admission = AdmissionSettings(schedulers=frozenset(), suspends_jobs=has_admission, features=features, jobs=settings)
    server = server_with_queue(cpu, a_flavor(labels={"disk": "ssd"}), spec, features, admission, crds, quota)
    numbers = count(1)
    world = CrashingWorld(
        lambda: QuotaController(quota or QuotaSettings(), decided=decided),
        lambda: ManagedJobController(features, settings, metrics, decided),
        lambda: JobController(lambda: f"{next(numbers):05d}", features),
        GarbageCollector,
        lambda: kubelet(server),
        *(functools.partial(make, server) for make in more),
        kinds=(*COLLECTED, *(each["spec"]["names"]["plural"] for each in crds)),
        server=server,
    )
    world.advance(1)
    world.writes = 0
    return world


def a_job(name: str, cpu: str = "1", ends: bool = False, priority: str = "", annotations: Wire | None = None) -> Wire:
    labels = {QUEUE: "lq", **({"kueue.x-k8s.io/priority-class": priority} if priority else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": {ENDS: "Succeeded"} if ends else {}}, "spec": pod}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "spec": {"template": template},
    }


def add(world: World, name: str, **more: Any) -> None:
    create(world.server, JOBS, a_job(name, **more))
    world.server.epoch_s += 1


def job(world: World, name: str) -> Wire:
    found: Wire = world.server.get(f"{JOBS}/{name}").body
    return found


def workload(world: World, name: str) -> Wire | None:
    items = world.server.get(WORKLOADS).body["items"]
    return next((each for each in items if each["metadata"]["ownerReferences"][0]["name"] == name), None)


def has(world: World, name: str, condition: str) -> bool:
    found = workload(world, name)
    return found is not None and conditions.is_true((found.get("status") or {}).get("conditions"), condition)


def running(world: World) -> list[str]:
    items = world.server.get(JOBS).body["items"]
    return sorted(each["metadata"]["name"] for each in items if each["spec"].get("suspend") is not True)


def is_complete(world: World, name: str) -> bool:
    return conditions.is_true((job(world, name).get("status") or {}).get("conditions"), "Complete")


def reasons(world: World) -> list[str]:
    return [each.reason for each in world.emitted if each.component == "kueue-job-controller"]
