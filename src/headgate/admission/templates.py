"""Deployments, ReplicaSets and StatefulSets on their way in: they wait in Kueue's queues through their pods.

What holds a pod is written into the template here, and read when the pod is created (``kueue_pods.py``). What holds
back the owner itself (``scheduling-gated-by``) stays on the owner: a change of it must not roll the pods.
"""

from __future__ import annotations

from typing import Final

from headgate.admission.draft import ANNOTATIONS, LABELS, Draft
from headgate.admission.managing import ancestor, has_known_controller, is_asked, queue_for, unsure
from headgate.admission.policy import Policy, View
from headgate.admission.review import ALLOWED, Answer, Object, Request, annotations_of
from headgate.jobs import names
from headgate.jobs.ancestors import Unsure
from headgate.jobs.kind import at
from headgate.jobs.template_rules import (
    STATEFUL_SET_WORD,
    problems_of_changed_group,
    problems_of_changed_owner,
    problems_of_new_owner,
    problems_of_scale,
)
from headgate.jobs.workload import queue_of
from headgate.kube.errors import aggregate
from headgate.kube.references import controller_of
from headgate.kube.resource import STATEFUL_SETS
from headgate.quota.names import ADMISSION_GATED_BY

DEPLOYMENT, REPLICA_SET, STATEFUL_SET = "deployment", "replicaset", STATEFUL_SET_WORD
_TEMPLATE: Final = ("spec", "template")
_GATES: Final = (names.SCHEDULING_GATED_BY, ADMISSION_GATED_BY)
_DROPPED: Final = "cannot be added after creation and was left out; kubectl rollout undo restores old ones"


def mark(parent: str, request: Request, policy: Policy, view: View) -> Answer:
    """``parent``: the word by which its pods know whom they wait for."""
    if not is_asked(request, policy, view) or _is_leaving(request.obj):
        return ALLOWED
    if parent == REPLICA_SET and controller_of(request.obj) is not None:
        return ALLOWED  # its template is its Deployment's, and would be written back
    draft = Draft(request.obj)
    warnings = _drop_copied_gates(draft, request) if parent == DEPLOYMENT and request.operation == "UPDATE" else ()
    queue = queue_for(request, policy, view)
    if isinstance(queue, Unsure) and request.operation == "CREATE":
        return Answer(refusal=unsure(queue))
    if queue is None or isinstance(queue, Unsure):
        return Answer(patch=draft.patch, warnings=warnings)
    if not queue_of(request.obj):
        if not _may_be_sent(request, policy):
            return Answer(patch=draft.patch, warnings=warnings)
        if queue:
            draft.put((*LABELS, names.QUEUE_NAME), queue)
    priority = at(request.obj, (*LABELS, names.PRIORITY_CLASS))
    told = {names.QUEUE_NAME: queue, names.PRIORITY_CLASS: priority}
    draft.put((*_TEMPLATE, "metadata", "annotations", names.SUSPENDING_PARENT), parent)
    draft.put_all(
        (*_TEMPLATE, *LABELS), {names.MANAGED: "true", **{name: value for name, value in told.items() if value}}
    )
    return Answer(patch=draft.patch, warnings=warnings)


def _drop_copied_gates(draft: Draft, request: Request) -> tuple[str, ...]:
    """``kubectl rollout undo`` writes the template of an old ReplicaSet and its annotations, which are copies of what
    the Deployment had when it was created. A gate cannot be added later, so a gate that comes with another template is
    taken off again. One that comes alone is refused (``validate``)."""
    if at(request.obj, _TEMPLATE) == at(request.old, _TEMPLATE):
        return ()
    before, after = annotations_of(request.old), annotations_of(request.obj)
    dropped = [name for name in _GATES if name in after and name not in before]
    for name in dropped:
        draft.remove((*ANNOTATIONS, name))
    return tuple(f"metadata.annotations[{name}]: {_DROPPED}" for name in dropped)


def validate(parent: str, request: Request, policy: Policy, view: View) -> Answer:
    """Everything that is wrong, at once."""
    if not is_asked(request, policy, view):
        return ALLOWED
    new, old = request.obj, request.old
    if request.operation == "CREATE":
        problems = problems_of_new_owner(new, policy.features)
    else:
        problems = problems_of_changed_owner(new, old, policy.features)
        if parent == STATEFUL_SET and _is_marked(new) and ancestor(request, policy, view) is None:
            problems += problems_of_changed_group(new, old)
    return Answer(refusal=aggregate(problems)) if problems else ALLOWED


def validate_scale(request: Request, policy: Policy, view: View) -> Answer:
    """What ``kubectl scale`` and autoscalers ask of a StatefulSet goes by the same rule as its own field."""
    if not is_asked(request, policy, view):
        return ALLOWED
    owner = view.get(STATEFUL_SETS, request.namespace, request.name)
    if owner is None or not _is_marked(owner):
        return ALLOWED
    wanted, had = (at(scale, ("spec", "replicas")) or 0 for scale in (request.obj, request.old))
    problems = problems_of_scale(wanted, had, at(owner, ("status", "replicas")) or 0)
    return Answer(refusal=aggregate(problems)) if problems else ALLOWED


def _may_be_sent(request: Request, policy: Policy) -> bool:
    """To a queue that it does not name: when it is created, not when somebody happens to change it later."""
    if has_known_controller(request.obj, policy):
        return False
    return request.operation == "CREATE" or _is_marked(request.old)


def _is_marked(owner: Object) -> bool:
    return at(owner, (*_TEMPLATE, "metadata", "annotations", names.SUSPENDING_PARENT)) is not None


def _is_leaving(obj: Object) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
