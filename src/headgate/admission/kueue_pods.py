"""Pods on their way in to Kueue's queues: the gate that holds them, what they are known by, and their rules.

A gate can only be added when a pod is created, so this is the one place where a pod can be made to wait. What lifts it
is ``jobs/pods/``. The gate of Headgate's own queues is ``pods.py``'s.
"""

from __future__ import annotations

from typing import Final

from headgate.admission.draft import ANNOTATIONS, LABELS, Draft
from headgate.admission.managing import has_default_queue, has_known_controller, is_asked, queue_for, unsure
from headgate.admission.policy import Policy, View
from headgate.admission.review import ALLOWED, Answer, Object, Request, annotations_of
from headgate.jobs import names
from headgate.jobs.ancestors import Unsure
from headgate.jobs.pods.rules import problems_of_changed_pod, problems_of_new_pod
from headgate.jobs.pods.shape import is_managed, role_of
from headgate.jobs.template_rules import STATEFUL_SET_WORD
from headgate.jobs.workload import name_of_workload, queue_of
from headgate.kube.errors import aggregate, quote
from headgate.kube.features import without_pods
from headgate.kube.references import controller_of
from headgate.kube.resource import STATEFUL_SETS
from headgate.kube.schema import GroupVersionKind

_STATEFUL_SET: Final = GroupVersionKind("apps", "v1", "StatefulSet")
_OWNED: Final = f"pod owner is managed by kueue, label '{names.MANAGED}=true' might lead to unexpected behaviour"


def gate_new(request: Request, policy: Policy, view: View) -> Answer:
    if not is_asked(request, policy, view):
        return ALLOWED
    draft = Draft(request.obj)
    if names.SUSPENDING_PARENT in annotations_of(request.obj):
        problem = _join_parent(draft, request, view)
        if problem:
            return Answer(refusal=problem)
    else:
        queue = queue_for(request, policy, view)
        if isinstance(queue, Unsure):
            return Answer(refusal=unsure(queue))
        if queue is None or _is_placed(request.obj):
            return ALLOWED
        draft.put_all(LABELS, {names.MANAGED: "true", **({names.QUEUE_NAME: queue} if queue else {})})
        draft.append(("metadata", "finalizers"), names.MANAGED)
    if without_pods(policy.features):
        return Answer(refusal=without_pods(policy.features))
    draft.append(("spec", "schedulingGates"), {"name": names.ADMISSION_GATE})
    draft.put((*ANNOTATIONS, names.ROLE_HASH), role_of(request.obj))
    return Answer(patch=draft.patch)


def validate(request: Request, policy: Policy, view: View) -> Answer:
    """Everything that is wrong, at once."""
    if not is_asked(request, policy, view):
        return ALLOWED
    new, old, features = request.obj, request.old, policy.features
    if request.operation == "CREATE":
        problems = problems_of_new_pod(new, features)
    else:
        leaves = bool(queue_of(old)) and not queue_of(new)
        has_default = leaves and has_default_queue(request.namespace, view)
        problems = problems_of_changed_pod(new, old, features, has_default=has_default)
    return Answer(refusal=aggregate(problems) if problems else "", warnings=_remarks(new, policy))


def _join_parent(draft: Draft, request: Request, view: View) -> str:
    """A pod whose owner waits through its pods. Those of a StatefulSet are one group, whose size the owner knows; why
    that cannot be said yet, if so."""
    if annotations_of(request.obj)[names.SUSPENDING_PARENT] != STATEFUL_SET_WORD:
        return ""
    owner = controller_of(request.obj) or {}
    name, uid = str(owner.get("name", "")), str(owner.get("uid", ""))
    found = view.get(STATEFUL_SETS, request.namespace, name, uid)
    if found is None or found["metadata"].get("uid") != uid:
        return f"the StatefulSet {quote(name)} that it waits for is not known"
    replicas = (found.get("spec") or {}).get("replicas", 1)
    if not replicas:  # somebody makes its pods: what we heard last is too old to tell the size of the group
        return f"how many replicas the StatefulSet {quote(name)} has is not known yet"
    draft.put_all(
        ANNOTATIONS,
        {
            names.POD_GROUP_NAME: name_of_workload(_STATEFUL_SET, found),
            names.TOTAL_COUNT: str(replicas),
            names.FAST_ADMISSION: "true",
            names.SERVING: "true",
        },
    )
    return ""


def _is_placed(pod: Object) -> bool:
    """It has its node, and names no queue: nothing could hold it. If it names one, the API server refuses it."""
    return bool((pod.get("spec") or {}).get("nodeName")) and not queue_of(pod)


def _remarks(pod: Object, policy: Policy) -> tuple[str, ...]:
    waits_for_parent = names.SUSPENDING_PARENT in annotations_of(pod)
    return (_OWNED,) if is_managed(pod) and not waits_for_parent and has_known_controller(pod, policy) else ()
