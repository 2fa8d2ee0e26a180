"""Whether something on its way in waits in one of Kueue's queues, and in which.

It does if its namespace is one of those that were chosen, nobody above it waits already, and it names a queue, or there
is a queue for all who name none, or all have to wait. The same question about what is there already is asked by
``jobs/``.
"""

from __future__ import annotations

from headgate.admission.policy import Policy, View
from headgate.admission.review import Object, Request
from headgate.jobs.ancestors import Unsure, known_ancestors, managed_ancestor
from headgate.jobs.names import DEFAULT_QUEUE
from headgate.jobs.workload import queue_of
from headgate.kube.references import controller_of, group_kind_of
from headgate.kube.resource import NAMESPACES, Resource
from headgate.quota.kinds.names import LOCAL_QUEUES


def is_asked(request: Request, policy: Policy, view: View) -> bool:
    """Whether anything of Kueue's counts there."""
    if not policy.suspends_jobs or request.namespace in policy.exempt:
        return False
    namespace = view.get(NAMESPACES, "", request.namespace) or {}
    return policy.jobs.namespaces.matches((namespace.get("metadata") or {}).get("labels"))


def queue_for(request: Request, policy: Policy, view: View) -> str | Unsure | None:
    """Where it waits; empty if it waits in no queue until it is given one; None if it does not wait. With a reason if
    nobody can say."""
    queue = _wanted(request, policy, view)
    if queue is None:
        return None
    above = ancestor(request, policy, view)
    if isinstance(above, Unsure):
        return above
    return queue if above is None else None


def ancestor(request: Request, policy: Policy, view: View) -> Object | Unsure | None:
    placed = {**request.obj, "metadata": {**request.obj.get("metadata", {}), "namespace": request.namespace}}
    known = known_ancestors(policy.jobs.kinds)
    chain = [placed]

    def find(resource: Resource, namespace: str, name: str) -> Object | None:
        owner = controller_of(chain[-1]) or {}
        found = view.get(resource, namespace, name, str(owner.get("uid", "")))
        chain.append(found or {})
        return found

    return managed_ancestor(placed, find, known, manages_all=policy.jobs.manages_all)


def has_known_controller(obj: Object, policy: Policy) -> bool:
    """It was made by something that may wait itself."""
    owner = controller_of(obj)
    return owner is not None and group_kind_of(owner) in known_ancestors(policy.jobs.kinds)


def has_default_queue(namespace: str, view: View) -> bool:
    return view.get(LOCAL_QUEUES, namespace, DEFAULT_QUEUE) is not None


def _wanted(request: Request, policy: Policy, view: View) -> str | None:
    named = queue_of(request.obj)
    if named:
        return named
    if has_default_queue(request.namespace, view):
        return DEFAULT_QUEUE
    return "" if policy.jobs.manages_all else None


def unsure(problem: Unsure) -> str:
    """Why a write is refused that might run around its quota: who writes tries again."""
    return f"whether it waits in a queue cannot be said yet: {problem.message}"
