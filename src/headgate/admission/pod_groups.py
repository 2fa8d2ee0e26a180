"""Admission of PodGroups: names and amounts of resources must be valid, and the queue must be open.

A group with a queue that does not exist is accepted with a warning: manifests are often applied together, and its pods
wait until the queue exists. ``queues.py`` handles queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, annotations_of
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.capacity.api.ignored_annotations import find_ignored_sla
from headgate.capacity.api.queue_state import CLOSED, CLOSING, OPEN, DesiredQueueState, closed_by, read_desired_state
from headgate.capacity.kinds.definitions import MAX_MIN_RESOURCES
from headgate.capacity.names import DEFAULT, QUEUES, ROOT
from headgate.kube import quantity
from headgate.kube.field_errors import quote, too_many
from headgate.kube.lenient_reader import find_object
from headgate.kube.names import is_qualified_name
from headgate.kube.quantity import Quantity

_PHASES_BEFORE_START: Final = ("", "Pending")


def validate_group(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    spec = find_object(request.obj, "spec")
    old_spec = find_object(request.old, "spec")
    problem = next(_spec_problems(spec), "")
    if not problem and (request.operation == "CREATE" or spec.get("minResources") != old_spec.get("minResources")):
        problem = next(_name_problems(find_object(spec, "minResources")), "")
    if problem:
        return AdmissionResponse(refusal=problem)
    annotations, old_annotations = annotations_of(request.obj), annotations_of(request.old)
    ignored = find_ignored_sla(annotations) if annotations != old_annotations else []
    return _with_warnings(_review_queue(request, spec, old_spec, view), ignored)


def _with_warnings(response: AdmissionResponse, warnings: list[str]) -> AdmissionResponse:
    if not warnings or response.refusal:
        return response
    return AdmissionResponse(warnings=(*response.warnings, *warnings))


def _review_queue(
    request: AdmissionRequest, spec: Mapping[str, Any], old_spec: Mapping[str, Any], view: ClusterView
) -> AdmissionResponse:
    queue = _queue(spec)
    if request.operation == "CREATE":
        return _respond_to_queue(queue, view)
    old_queue = _queue(old_spec)
    if queue == old_queue:
        return ALLOWED
    phase = find_object(request.old, "status").get("phase") or ""
    if phase not in _PHASES_BEFORE_START:
        text = f"the group is {phase} in queue {quote(old_queue)} and stays there; create another group instead"
        return AdmissionResponse(refusal=f"spec.queue: {text}")
    return _respond_to_queue(queue, view)


def _respond_to_queue(name: str, view: ClusterView) -> AdmissionResponse:
    """Rejects a group whose queue is closed or is not a leaf, and warns if the queue does not exist."""
    if view.get(QUEUES, "", name) is None:
        if name == DEFAULT:
            return ALLOWED  # the status reporter creates this queue
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
    """The state of the queue. The desired states of the queue and its ancestors have precedence over its status, which
    may be out of date."""

    def desired_state_of(queue: str) -> DesiredQueueState | None:
        found = view.get(QUEUES, "", queue)
        return None if found is None else read_desired_state(queue, found)

    state = str(find_object(view.get(QUEUES, "", name) or {}, "status").get("state") or OPEN)
    if closed_by(name, desired_state_of):
        return state if state != OPEN else CLOSED
    return OPEN if state in (CLOSED, CLOSING) else state


def _spec_problems(spec: Mapping[str, Any]) -> Iterator[str]:
    min_member = spec.get("minMember")
    if isinstance(min_member, int) and min_member < 0:
        yield f"spec.minMember: Invalid value: {min_member}: must be greater than or equal to 0"
    for role, count in find_object(spec, "minTaskMember").items():
        if isinstance(count, int) and count < 0:
            yield f"spec.minTaskMember[{role}]: Invalid value: {count}: must be greater than or equal to 0"
    for name, amount in find_object(spec, "minResources").items():
        parsed = quantity.parse(amount)
        if not isinstance(parsed, Quantity):
            yield f"spec.minResources[{name}]: Invalid value: {quote(str(amount))}: {parsed}"
        elif parsed.nano < 0:
            yield f"spec.minResources[{name}]: Invalid value: {quote(str(amount))}: must be greater than or equal to 0"


def _name_problems(resources: Mapping[str, Any]) -> Iterator[str]:
    """Not for an object that had these names before: it must be possible to change and to delete it."""
    if len(resources) > MAX_MIN_RESOURCES:
        yield str(too_many("spec.minResources", len(resources), MAX_MIN_RESOURCES))
    for name in resources:
        for message in is_qualified_name(name):
            yield f"spec.minResources: Invalid value: {quote(name)}: is not the name of a resource: {message}"


def _queue(spec: Mapping[str, Any]) -> str:
    named = spec.get("queue")
    return named if isinstance(named, str) and named else DEFAULT
