"""Whether a new object waits in one of Kueue's queues, and in which.

It waits if its namespace is managed, no ancestor of it is managed, and one of these is true: it names a queue, its
namespace has a default queue, or all jobs are managed. ``jobs/framework/management.py`` decides the same for existing
objects.
"""

from __future__ import annotations

from headgate.admission.admission_review import AdmissionRequest, Object
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.jobs.framework.management import UnknownAncestor, known_ancestors, managed_ancestor
from headgate.jobs.framework.workload import queue_of
from headgate.jobs.names import DEFAULT_QUEUE
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.object_meta import controller_of, group_kind_of
from headgate.quota.kinds.names import LOCAL_QUEUES


def is_managed_namespace(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> bool:
    """Whether jobs of the namespace use Kueue's queues."""
    if not settings.suspends_jobs or request.namespace in settings.exempt_namespaces:
        return False
    namespace = view.get(NAMESPACES, "", request.namespace) or {}
    return settings.jobs.namespaces.matches((namespace.get("metadata") or {}).get("labels"))


def select_queue(
    request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> str | UnknownAncestor | None:
    """The queue in which the object waits; empty if it waits until a user sets its queue; None if it does not wait;
    :class:`UnknownAncestor` if that is not known yet."""
    queue = _requested_queue(request, settings, view)
    if queue is None:
        return None
    ancestor = find_managed_ancestor(request, settings, view)
    if isinstance(ancestor, UnknownAncestor):
        return ancestor
    return queue if ancestor is None else None


def find_managed_ancestor(
    request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> Object | UnknownAncestor | None:
    """The topmost owner that is managed; None if there is none; :class:`UnknownAncestor` if that is not known yet."""
    obj = {**request.obj, "metadata": {**request.obj.get("metadata", {}), "namespace": request.namespace}}
    known = known_ancestors(settings.jobs.kinds)
    chain = [obj]

    def find(resource: APIResource, namespace: str, name: str) -> Object | None:
        owner = controller_of(chain[-1]) or {}
        found = view.get(resource, namespace, name, str(owner.get("uid", "")))
        chain.append(found or {})
        return found

    return managed_ancestor(obj, find, known, manages_all=settings.jobs.manages_all)


def has_known_controller(obj: Object, settings: AdmissionSettings) -> bool:
    """Whether the controller of the object is of a kind that can wait in Kueue's queues."""
    owner = controller_of(obj)
    return owner is not None and group_kind_of(owner) in known_ancestors(settings.jobs.kinds)


def has_default_queue(namespace: str, view: ClusterView) -> bool:
    return view.get(LOCAL_QUEUES, namespace, DEFAULT_QUEUE) is not None


def _requested_queue(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> str | None:
    named = queue_of(request.obj)
    if named:
        return named
    if has_default_queue(request.namespace, view):
        return DEFAULT_QUEUE
    return "" if settings.jobs.manages_all else None


def unknown_ancestor_message(problem: UnknownAncestor) -> str:
    """The rejection of an object of which it is not known whether it needs quota. The client can retry."""
    return f"whether it waits in a queue cannot be said yet: {problem.message}"
