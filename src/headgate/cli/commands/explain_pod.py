"""``headgate explain pod``: its gates, its queue, its group, its node, and its Workload if it is in Kueue's queues."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import msgspec

from headgate.capacity.api.ignored_annotations import find_ignored_lease
from headgate.capacity.explanation import WAITS_FOR, PodExplanation, PodGate, PodHold, explain
from headgate.capacity.names import GATE, LAPSED, STAMP
from headgate.cli.options.cluster_access import connect, perform
from headgate.client.gated_pods import find_setter
from headgate.client.kubeconfig import RESTConfig
from headgate.client.pager import ListRefused
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.names import ADMISSION_GATE, MANAGED, POD_PRIORITY_CLASSES
from headgate.kube.api_resources import PODS
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.timestamps import human_age, parse_time
from headgate.runtime.inspection.object_reads import Wire, get_object
from headgate.runtime.inspection.pods import PodInspection, inspect_pod
from headgate.runtime.inspection.queues import QueueInspection, inspect_queues
from headgate.runtime.inspection.quota import QuotaInspection, inspect_quota
from headgate.scheduling.cache.pod import read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable


class ExplainedPod(msgspec.Struct, frozen=True):
    """``queues`` and ``quota``: what was read about queues and about Kueue's quota; None if it was not needed."""

    explanation: PodExplanation
    workloads: PodInspection = PodInspection()
    queues: QueueInspection | None = None
    quota: QuotaInspection | None = None


async def explain_pod(
    rest_config: RESTConfig, namespace: str, name: str, served: tuple[str, ...], gated: tuple[str, ...]
) -> ExplainedPod | ListRefused:
    """``served`` and ``gated``: see :func:`inspect_queues`. A pod of another scheduler with the queue gate, or with a
    stamp, was gated by Headgate, so its scheduler counts as gated."""
    async with connect(rest_config) as transport:
        pod = await perform(transport, get_object(PODS, "pod", namespace, name))
        if isinstance(pod, ListRefused):
            return pod
        gates = [_gate(pod, each) for each in gate_names(pod)]
        read = read_pod(pod, ShapeTable(), (STAMP, LAPSED))
        if isinstance(read, str):
            return ListRefused(read)
        requests = read.shape.requests
        if GATE in read.gates or read.annotations.get(STAMP):
            gated = tuple(dict.fromkeys((*gated, *({read.scheduler_name} - set(served)))))
        with_queues = (*served, *gated)
        without_queues = explain(pod, None, requests, gates, with_queues)
        quota, workloads = None, PodInspection()
        if _is_in_kueue(pod):
            now_s = time.time()
            quota = await perform(transport, inspect_quota(namespace, now_s))
            workloads = await perform(transport, inspect_pod(pod, quota, now_s))
        if without_queues.state != "waiting":
            return ExplainedPod(with_admission_gate(without_queues, workloads), workloads, None, quota)
        queues = await perform(transport, inspect_queues(served, gated, time.time()))
        ignored = [*queue_remarks(queues, queues.queues.queue_of(read.uid))]
        class_name = (pod.get("spec") or {}).get("priorityClassName") or ""
        if class_name and (read.annotations.get(STAMP) or read.annotations.get(LAPSED)):
            ignored += await perform(transport, read_priority_class(class_name, queues))
        explanation = explain(pod, None if queues.is_incomplete else queues.queues, requests, gates, with_queues)
        explanation = msgspec.structs.replace(explanation, ignored=(*explanation.ignored, *ignored))
        return ExplainedPod(with_admission_gate(explanation, workloads), workloads, queues, quota)


def read_priority_class(name: str, queues: QueueInspection) -> Generator[HTTPRequest, HTTPResponse, list[str]]:
    """Gives the PriorityClass, which may set the time of the lease, to the queues. Returns remarks."""
    found = yield from get_object(POD_PRIORITY_CLASSES, "PriorityClass", "", name)
    if isinstance(found, ListRefused):
        return [f"PriorityClass {name}, which may set the time of the lease: {found.text}"]
    queues.queues.priority_class_applied(found)
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    return [f"PriorityClass {name}: {each}" for each in find_ignored_lease(annotations)]


def queue_remarks(inspection: QueueInspection, queue: str) -> Iterator[str]:
    """Annotations of the queue and its ancestors that have no effect."""
    while queue in inspection.specs:
        spec = inspection.specs[queue]
        if spec.ignored:
            yield f"queue {queue}: {spec.ignored}"
        queue = inspection.queues.parent(queue)


def _is_in_kueue(pod: Wire) -> bool:
    return ADMISSION_GATE in gate_names(pod) or (pod["metadata"].get("labels") or {}).get(MANAGED) == "true"


def with_admission_gate(explanation: PodExplanation, workloads: PodInspection) -> PodExplanation:
    """Adds a text for Kueue's gate to the explanation. The gate is removed when the Workload is admitted and does not
    wait for terminating pods."""
    if not any(hold.name == ADMISSION_GATE for hold in explanation.holds):
        return explanation
    keys = ", ".join(f"{each.namespace}/{each.name}" for each in workloads.descriptions)
    text = f"comes off when {f'Workload {keys}' if keys else 'its Workload'} is admitted"
    steps: tuple[str, ...] = (f"Workload {keys} has to be admitted: see below",)
    waits_for = "the admission of its Workload"
    waiting_to_start = [each for each in workloads.descriptions if each.state == "waitingtostart"]
    if waiting_to_start and len(waiting_to_start) == len(workloads.descriptions):
        text = f"comes off when Workload {keys}, which is admitted, waits for terminating pods no longer"
        steps = tuple(dict.fromkeys(step for each in waiting_to_start for step in each.next))
        waits_for = "terminating pods to leave (its Workload is admitted)"
    elif workloads.descriptions and all(each.state == "admitted" for each in workloads.descriptions):
        text = f"comes off when Workload {keys}, which is admitted, has a place for it that no terminating pod uses"
        steps = ("a terminating pod of its group has to leave, or a controller of jobs has to run",)
        waits_for = "a place in its Workload (which is admitted)"
    if workloads.missing_workload is not None and workloads.missing_workload.state == "unknown":
        text, steps = (
            f"{text}; {'; '.join((workloads.missing_workload.summary, *workloads.missing_workload.facts))}",
            (),
        )
    elif workloads.missing_workload is not None:
        missing = workloads.missing_workload
        text, steps = f"{text}, and it has none: {'; '.join((missing.summary, *missing.facts))}", missing.next
    holds = tuple(
        msgspec.structs.replace(hold, text=text) if hold.name == ADMISSION_GATE else hold for hold in explanation.holds
    )
    gate_step = f"has to remove {ADMISSION_GATE}"
    next_steps = tuple(step for each in explanation.next for step in (steps if each.endswith(gate_step) else (each,)))
    summary = f"it waits for {waits_for}" if explanation.state == "foreign" else explanation.summary
    if all(hold.name == ADMISSION_GATE for hold in explanation.holds if hold.kind == "gate"):
        summary = summary.replace(WAITS_FOR["gate"], waits_for)
    return msgspec.structs.replace(explanation, summary=summary, holds=holds, next=next_steps)


def _gate(pod: Wire, name: str) -> PodGate:
    """A gate of the pod. A gate cannot be added to an existing pod, so it is as old as the pod. The time in the managed
    fields is not used: it is the time of the manager's last write to any field."""
    metadata = pod.get("metadata") or {}
    return PodGate(name, find_setter(metadata, name).manager, metadata.get("creationTimestamp") or "")


def pod_lines(explanation: PodExplanation, now_s: float) -> Iterator[str]:
    yield f"pod {explanation.namespace}/{explanation.name}: {explanation.summary}"
    asks = ", ".join(f"{name} {amount}" for name, amount in explanation.requests.items())
    facts = [
        f"scheduler {explanation.scheduler}",
        f"queue {explanation.queue}" if explanation.queue else "",
        f"group {explanation.group}" if explanation.group else "",
        f"asks for {asks}" if asks else "asks for nothing",
        "opted in" if explanation.opted_in else "did not opt in",
        _age(explanation.created, now_s, "{} old"),
    ]
    yield "  " + ", ".join(filter(None, facts))
    if explanation.promised_at:
        age = _age(explanation.promised_at, now_s, ", {} ago")
        yield f"  its capacity was promised at {explanation.promised_at}{age}; {explanation.lease}"
    if explanation.holds:
        yield "held by"
    for hold in explanation.holds:
        yield from _hold_lines(hold, now_s)
    if explanation.next:
        yield "next"
    yield from (f"  {step}" for step in explanation.next)
    if explanation.ignored:
        yield "without effect"
    yield from (f"  {each}" for each in explanation.ignored)


def _hold_lines(hold: PodHold, now_s: float) -> Iterator[str]:
    setter = [f"set by {hold.by}" if hold.by else "", _age(hold.since, now_s, "{} ago" if hold.by else "for {}")]
    notes = ", ".join(filter(None, (hold.why, *setter)))
    yield f"  {hold.kind} {hold.name}".rstrip() + (f" ({notes})" if notes else "") + f": {hold.text}"
    if hold.resource:
        asked = f"asked {hold.asked}" + (f" by {hold.together} pods of its group together" if hold.together > 1 else "")
        yield f"    {hold.resource} in queue {hold.blocker}: {asked}, taken {hold.used}, limit {hold.limit}"
    if hold.position is not None:
        yield f"    before it in queue {hold.name}: {hold.position}"


def _age(time_text: str, now_s: float, template: str) -> str:
    parsed = parse_time(time_text)
    return "" if isinstance(parsed, str) else template.format(human_age(now_s - float(parsed)))
