"""What holds one pod or Workload, what would help, and what has happened to it.

The explanation comes from the functions of ``headgate explain`` (``capacity/explanation.py`` and
``quota/explain/description.py``), so that its texts cannot differ. The object itself is read by the caller, because the
views do not keep whole objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.explanation import PodExplanation, PodGate, explain
from headgate.capacity.names import STAMP
from headgate.client.gated_pods import find_setter
from headgate.kube.lenient_reader import find_items, find_object, find_text
from headgate.kube.object_meta import owner_references
from headgate.kube.scheduling_gates import gate_names
from headgate.quota.explain.description import WorkloadDescription, describe_workload
from headgate.scheduling.cache.pod import read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.views.cluster_views import ClusterViews

Object = dict[str, Any]

_POD_STEPS: Final = (("PodScheduled", "bound"), ("Initialized", "initialized"), ("Ready", "ready"))
_WORKLOAD_STEPS: Final = (
    *(("QuotaReserved", "quota reserved"), ("Admitted", "admitted"), ("PodsReady", "pods ready")),
    *(("Evicted", "evicted"), ("Requeued", "requeued"), ("Finished", "finished")),
)


class HistoryStep(msgspec.Struct, frozen=True):
    """Something that has happened, as the API shows it. ``at``: an API timestamp; empty for a step to come."""

    name: str
    at: str = ""
    note: str = ""


class UnitDetail(msgspec.Struct, frozen=True):
    """``workloads``: the Workloads that the object belongs to, or the Workload itself. ``commands``: how to see the
    same in a terminal."""

    kind: str
    namespace: str
    name: str
    pod: PodExplanation | None = None
    workloads: tuple[WorkloadDescription, ...] = ()
    history: tuple[HistoryStep, ...] = ()
    commands: tuple[str, ...] = ()


def explain_pod(views: ClusterViews, obj: Object, workloads: list[Object], now_s: float) -> UnitDetail:
    """``workloads``: the objects of :func:`workloads_of_pod` that could be read."""
    metadata = obj["metadata"]
    created = metadata.get("creationTimestamp") or ""
    gates = [PodGate(each, find_setter(metadata, each).manager, created) for each in gate_names(obj)]
    uid = str(metadata.get("uid"))
    served = tuple(sorted(views.served))
    scheduler = find_text(find_object(obj, "spec"), "schedulerName") or "default-scheduler"
    if scheduler not in served and views.queues.engine.queue_of(uid):
        served = (*served, scheduler)
    read = read_pod(obj, ShapeTable())
    requests = {} if isinstance(read, str) else read.shape.requests
    explanation = explain(obj, views.queues.engine, requests, gates, served)
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    return UnitDetail(
        "Pod",
        namespace,
        name,
        explanation,
        tuple(describe_workload(views.quota.engine, each, True, now_s) for each in workloads),
        tuple(_pod_history(obj, gates)),
        (f"headgate explain pod {name} -n {namespace}", f"kubectl describe pod {name} -n {namespace}"),
    )


def workloads_of_pod(views: ClusterViews, obj: Object, group: str) -> list[str]:
    """The keys of the Workloads that the pod belongs to: its own, its group's, or its owner's."""
    uids = {str(obj["metadata"].get("uid")), *(str(each.get("uid")) for each in owner_references(obj))}
    return views.quota.workloads_of(uids, f"{obj['metadata'].get('namespace')}/{group}" if group else "")


def explain_workload_object(views: ClusterViews, obj: Object, now_s: float) -> UnitDetail:
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    return UnitDetail(
        "Workload",
        namespace,
        name,
        None,
        (describe_workload(views.quota.engine, obj, True, now_s),),
        tuple(_history(obj, _WORKLOAD_STEPS)),
        (f"headgate explain workload {name} -n {namespace}", f"kubectl describe workload {name} -n {namespace}"),
    )


def _pod_history(obj: Object, gates: list[PodGate]) -> Iterator[HistoryStep]:
    metadata = obj["metadata"]
    steps = list(_history(obj, _POD_STEPS))
    yield steps[0]
    for gate in gates:
        yield HistoryStep("gated", gate.since, f"{gate.name}{f', set by {gate.by}' if gate.by else ''}")
    stamp = read_stamp(find_object(metadata, "annotations").get(STAMP), str(metadata.get("uid")))
    if stamp is not None:
        yield HistoryStep("promised capacity", stamp.at, f"in queue {stamp.queue}")
    yield from steps[1:]
    node = find_text(find_object(obj, "spec"), "nodeName")
    started = find_text(find_object(obj, "status"), "startTime")
    if started:
        yield HistoryStep("started", started, f"on node {node}" if node else "")


def _history(obj: Object, steps: tuple[tuple[str, str], ...]) -> Iterator[HistoryStep]:
    """The creation, then the conditions that are true, in the order in which they became so."""
    yield HistoryStep("created", find_text(obj["metadata"], "creationTimestamp"))
    conditions: dict[str, Mapping[str, Any]] = {
        find_text(each, "type"): each for each in find_items(find_object(obj, "status"), "conditions")
    }
    found = [
        HistoryStep(label, find_text(each, "lastTransitionTime"), find_text(each, "message"))
        for type_, label in steps
        if (each := conditions.get(type_)) is not None and each.get("status") == "True"
    ]
    yield from sorted(found, key=lambda each: each.at)
    deleted = find_text(obj["metadata"], "deletionTimestamp")
    if deleted:
        yield HistoryStep("is being deleted", "", f"its grace period ends at {deleted}")
