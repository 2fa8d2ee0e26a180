"""Admission of PodGroups: valid amounts, and an open queue.

A group with a queue that does not exist is accepted with a warning: manifests are often applied together, and its pods
wait until the queue exists. ``queues.py`` handles queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.policy import AdmissionPolicy, ClusterView
from headgate.capacity.api.queue_state import CLOSED, CLOSING, OPEN, DesiredQueueState, closed_by, read_desired_state
from headgate.capacity.names import DEFAULT, QUEUES, ROOT
from headgate.kube import quantity
from headgate.kube.field_errors import quote
from headgate.kube.lenient_reader import find_object
from headgate.kube.quantity import Quantity

_NOT_YET: Final = ("", "Pending")


def validate_group(request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> AdmissionResponse:
    spec = find_object(request.obj, "spec")
    problem = next(_misread(spec), "")
    if problem:
        return AdmissionResponse(refusal=problem)
    queue = _queue(spec)
    if request.operation == "CREATE":
        return _closed_to(queue, view)
    was = _queue(find_object(request.old, "spec"))
    if queue == was:
        return ALLOWED
    phase = find_object(request.old, "status").get("phase") or ""
    if phase not in _NOT_YET:
        text = f"spec.queue: the group is {phase} in queue {quote(was)} and stays there; create another group instead"
        return AdmissionResponse(refusal=text)
    return _closed_to(queue, view)


def _closed_to(name: str, view: ClusterView) -> AdmissionResponse:
    """Why the queue takes nothing, if so."""
    if view.get(QUEUES, "", name) is None:
        if name == DEFAULT:
            return ALLOWED  # created by the status reporter
        return AdmissionResponse(
            warnings=(f"spec.queue: queue {quote(name)} does not exist yet; until it does, the group waits",)
        )
    state = _state(name, view)
    if state != OPEN:
        text = f"spec.queue: can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{state}`"
        return AdmissionResponse(refusal=text)
    if name == ROOT or any(True for _ in view.queues.children(name)):
        return AdmissionResponse(
            refusal=f"spec.queue: can only submit PodGroup to leaf queue, queue `{name}` has queues below it"
        )
    return ALLOWED


def _state(name: str, view: ClusterView) -> str:
    """What was asked of the queue and those above it counts, also before its status says so."""

    def wish_of(queue: str) -> DesiredQueueState | None:
        found = view.get(QUEUES, "", queue)
        return None if found is None else read_desired_state(queue, found)

    said = str(find_object(view.get(QUEUES, "", name) or {}, "status").get("state") or OPEN)
    if closed_by(name, wish_of):
        return said if said != OPEN else CLOSED
    return OPEN if said in (CLOSED, CLOSING) else said


def _misread(spec: Mapping[str, Any]) -> Iterator[str]:
    least = spec.get("minMember")
    if isinstance(least, int) and least < 0:
        yield f"spec.minMember: Invalid value: {least}: must be greater than or equal to 0"
    for role, count in find_object(spec, "minTaskMember").items():
        if isinstance(count, int) and count < 0:
            yield f"spec.minTaskMember[{role}]: Invalid value: {count}: must be greater than or equal to 0"
    for name, amount in find_object(spec, "minResources").items():
        parsed = quantity.parse(amount)
        if not isinstance(parsed, Quantity):
            yield f"spec.minResources[{name}]: Invalid value: {quote(str(amount))}: {parsed}"
        elif parsed.nano < 0:
            yield f"spec.minResources[{name}]: Invalid value: {quote(str(amount))}: must be greater than or equal to 0"


def _queue(spec: Mapping[str, Any]) -> str:
    named = spec.get("queue")
    return named if isinstance(named, str) and named else DEFAULT
