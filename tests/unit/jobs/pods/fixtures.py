"""A stage for pods in Kueue's queues: the embedded server, one queue, quota, the controller of pods and a kubelet.

Pods come in as admission would leave them: with their label, their finalizer and their gate.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from embedded import Embedded
from headgate.admission.settings import AdmissionSettings
from headgate.controllers.framework.reconcile import Controller, ReconcileSteps, RequeueAfter
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.controllers.ownership.pods import seconds
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.pods.pod_controller import ManagedPodController
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.jobs.terminating_pods import TerminatingPodsController
from headgate.kube import conditions
from headgate.kube.decisions import Decided, ignore_decision
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from kueue_builders import Wire, a_flavor
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.kubelet import ENDS, Kubelet
from unit.controllers.world import World
from unit.jobs.queue_fixtures import COLLECTED, PODS, WORKLOADS, create, server_with_queue

K = "kueue.x-k8s.io"
GATE = f"{K}/admission"
HELD_BY = f"{K}/scheduling-gated-by"
SLOW = FeatureGates(pod_integration_fast_quota_release=False)


class SlowKubelet(Kubelet):
    """Pods that are told to end do so when their grace is over."""

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        pod = self._pods.get(key)
        end_s = None if pod is None else seconds(pod["metadata"].get("deletionTimestamp"))
        if end_s is not None and end_s > now_s:
            yield from ()
            return RequeueAfter(end_s - now_s)
        return (yield from super().reconcile(key, now_s))


def a_world(
    cpu: int = 2,
    features: FeatureGates | None = None,
    settings: JobSettings = DEFAULT,
    kubelet: type[Kubelet] = Kubelet,
    others: Any = (),
    admission: AdmissionSettings | None = None,
    decided: Decided = ignore_decision,
    crds: Sequence[Wire] = (),
    more: Sequence[Callable[[Embedded], Controller]] = (),
    **spec: Any,
) -> CrashingWorld:
    """``more``: controllers that write straight to the server."""
    features = features or FeatureGates()
    flavor = a_flavor(labels={"disk": "ssd"}, tolerations=[{"key": "spot", "operator": "Exists"}])
    server = server_with_queue(cpu, flavor, spec, features, admission, crds)
    metrics = JobMetrics()

    def manage_pods() -> ManagedPodController:
        metrics.reset()
        return ManagedPodController(features, settings, metrics, decided)

    world = CrashingWorld(
        lambda: QuotaController(QuotaSettings(), decided=decided),
        manage_pods,
        lambda: TerminatingPodsController(metrics, settings.report_terminating_after_s),
        *others,
        GarbageCollector,
        lambda: kubelet(server),
        *(functools.partial(make, server) for make in more),
        kinds=(*COLLECTED, *(each["spec"]["names"]["plural"] for each in crds)),
        server=server,
    )
    world.advance(1)
    world.writes = 0
    return world


def a_pod(
    name: str,
    group: str = "",
    total: int | str = 2,
    cpu: str = "1",
    priority: str = "",
    ends: str = "",
    queue: str = "lq",
    annotations: Wire | None = None,
    gates: tuple[str, ...] = (GATE,),
    grace_s: int = 60,
    **spec: Any,
) -> Wire:
    labels = {f"{K}/queue-name": queue, f"{K}/managed": "true"}
    notes = dict(annotations or {})
    if priority:
        labels[f"{K}/priority-class"] = priority
    if group:
        labels[f"{K}/pod-group-name"] = group
        notes[f"{K}/pod-group-total-count"] = str(total)
    if ends:
        notes[ENDS] = ends
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": notes, "finalizers": [f"{K}/managed"]},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace_s,
            "containers": [container],
            "schedulingGates": [{"name": gate} for gate in gates],
            **spec,
        },
    }


def add(world: World, name: str, **more: Any) -> Wire:
    pod = create(world.server, PODS, a_pod(name, **more))
    world.server.epoch_s += 1
    return pod


def add_group(world: World, group: str, count: int = 2, **more: Any) -> None:
    for number in range(count):
        add(world, f"{group}-{number}", group=group, total=count, **more)


def pods(world: World) -> dict[str, Wire]:
    return {each["metadata"]["name"]: each for each in world.server.get(PODS).body["items"]}


def is_gated(pod: Wire) -> bool:
    return any(each["name"] == GATE for each in pod["spec"].get("schedulingGates") or ())


def started(world: World) -> list[str]:
    """Whose gate is lifted, and who was not told to end."""
    found = pods(world).items()
    return sorted(name for name, pod in found if not is_gated(pod) and "deletionTimestamp" not in pod["metadata"])


def delete(world: World, *names: str) -> None:
    for name in names:
        assert world.server.delete(f"{PODS}/{name}").status == 200


def end(world: World, name: str, phase: str) -> None:
    world.server.patch(f"{PODS}/{name}", {"metadata": {"annotations": {ENDS: phase}}})


def workloads(world: World) -> dict[str, Wire]:
    """By the pod that controls it, or by their own name."""
    found = {}
    for each in world.server.get(WORKLOADS).body["items"]:
        controller = [ref["name"] for ref in each["metadata"].get("ownerReferences", ()) if ref.get("controller")]
        found[controller[0] if controller else each["metadata"]["name"]] = each
    return found


def condition(world: World, name: str, type_: str) -> Wire:
    found = workloads(world).get(name, {}).get("status", {}).get("conditions")
    return conditions.find(found, type_) or {}


def has(world: World, name: str, type_: str) -> bool:
    return condition(world, name, type_).get("status") == "True"


def reasons(world: World) -> list[str]:
    return [each.reason for each in world.emitted if each.component == "kueue-job-controller"]


def messages_of(world: World, reason: str) -> list[str]:
    return [each.message for each in world.emitted if each.reason == reason]


def controller(world: World) -> ManagedPodController:
    with contextlib.suppress(StopIteration):
        return next(each for each in world.controllers if isinstance(each, ManagedPodController))
    raise AssertionError("nobody manages pods")


def no_gate_is_lifted_without_quota(world: World) -> None:
    """A pod that may run and was not told to end has a Workload that holds quota for it; asked after every write."""
    seen: dict[str, Any] = world.__dict__.setdefault("_lifted", {})
    found = workloads(world)
    for name, pod in pods(world).items():
        uid = pod["metadata"]["uid"]
        if is_gated(pod) or uid in seen:
            continue
        seen[uid] = name
        group = pod["metadata"]["labels"].get(f"{K}/pod-group-name", name)
        told = {each["type"]: each["status"] for each in found[group]["status"]["conditions"]}
        assert told.get("QuotaReserved") == "True", f"{PODS}/{name} was let go without quota"
        assert told.get("Admitted") == "True"
