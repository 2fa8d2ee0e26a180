"""Which jobs and pods Headgate manages: by namespace labels, by queue name, and by managed ancestor.

:func:`managed_ancestor` follows controller references through known kinds to the topmost controller with a queue of its
own and stops at any other kind (a CronJob is not a known kind: the jobs that it creates are managed themselves). A job
or pod with a managed ancestor gets no Workload and no quota of its own: it waits while its ancestor's Workload is not
admitted. ``job_plan.py`` plans the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from headgate.jobs.framework.workload import queue_of
from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.names import DEFAULT_QUEUE, QUEUE_NAME
from headgate.jobs.settings import JobSettings
from headgate.kube.api_resources import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS, APIResource
from headgate.kube.object_meta import controller_of, group_kind_of

FindObject = Callable[[APIResource, str, str], Object | None]
"""Returns an object by resource, namespace and name; None if it is not known."""
AncestorKinds = Mapping[tuple[str, str], APIResource]
"""The resources of kinds that may be ancestors, by group and kind (in any version)."""

MAX_DEPTH: Final = 10
TOO_DEEP: Final = "JobNestingTooDeep"
CYCLE: Final = "CyclicOwnership"
NOT_FOUND: Final = "OwnerNotFound"

_BUILTIN: Final[AncestorKinds] = {
    ("batch", "Job"): JOBS,
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
}


class UnknownAncestor(msgspec.Struct, frozen=True):
    """It cannot be determined whether the object has a managed ancestor, so nothing is started. ``reason`` is one of
    the constants above."""

    reason: str
    message: str


def known_ancestors(kinds: Iterable[JobKind] = ()) -> AncestorKinds:
    return {**_BUILTIN, **{(each.kind.group, each.kind.kind): each.resource for each in kinds}}


def managed_ancestor(
    obj: Mapping[str, Any], find: FindObject, known: AncestorKinds, *, manages_all: bool = False
) -> Object | UnknownAncestor | None:
    """The topmost ancestor that has a queue name; with ``manages_all``, the topmost ancestor. None if there is none.

    If an object exists with the name of the owner and another uid, the owner is deleted, and the search ends."""
    namespace = str((obj.get("metadata") or {}).get("namespace", ""))
    found: Object | None = None
    seen = {(obj.get("metadata") or {}).get("uid")}
    current = obj
    while (owner := controller_of(current)) is not None and (resource := known.get(group_kind_of(owner))) is not None:
        name, uid = str(owner.get("name", "")), owner.get("uid")
        parent = find(resource, namespace, name)
        if parent is None:
            return UnknownAncestor(
                NOT_FOUND, f"{owner.get('kind')} {namespace}/{name}, which controls it, is not known"
            )
        if parent["metadata"].get("uid") != uid:
            break
        if uid in seen:
            return UnknownAncestor(CYCLE, f"{owner.get('kind')} {namespace}/{name} is controlled by what it controls")
        has_queue = manages_all or (parent["metadata"].get("labels") or {}).get(QUEUE_NAME)
        if has_queue and not (resource == REPLICA_SETS and controller_of(parent) is not None):
            found = parent  # a ReplicaSet with an owner has the queue label only because its pod template has it
        if len(seen) >= MAX_DEPTH + 1:
            text = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MAX_DEPTH}"
            return UnknownAncestor(TOO_DEEP, text)
        seen.add(uid)
        current = parent
    return found


class ManagedChild(msgspec.Struct, frozen=True):
    """The job has a managed ancestor and waits for its Workload."""

    ancestor: Object


Management = Literal["managed", "no queue", "ignored", "unmanaged"] | ManagedChild | UnknownAncestor
"""``no queue``: the job is not managed, because it names no queue. ``ignored``: objects such as this one never
need a Workload. ``unmanaged``: its kind or its namespace is not managed."""


class ManagementScope(msgspec.Struct, frozen=True):
    """The input that decides whether a job is managed. ``namespaces``: the labels of each namespace, by its name.
    ``default_queues``: the creation time of the default LocalQueue, by namespace. ``workload_of``: returns the
    unfinished Workload of a job, if it has one."""

    settings: JobSettings
    namespaces: Mapping[str, Mapping[str, str]]
    default_queues: Mapping[str, str]
    ancestor_kinds: AncestorKinds
    find_object: FindObject
    workload_of: Callable[[Object], Object | None]

    def management_of(self, kind: JobKind, job: Object) -> Management:
        """Whether and how the job is managed."""
        labels = self.namespaces.get(job["metadata"]["namespace"])
        if kind not in self.settings.kinds or labels is None or not self.settings.namespaces.matches(labels):
            return "unmanaged"
        if kind.is_ignored(job):
            return "ignored"
        ancestor = managed_ancestor(job, self.find_object, self.ancestor_kinds, manages_all=self.settings.manages_all)
        if ancestor is not None:
            return ancestor if isinstance(ancestor, UnknownAncestor) else ManagedChild(ancestor)
        return "managed" if queue_of(job) or self.settings.manages_all else "no queue"

    def default_queue(self, job: Object) -> str:
        """The default queue, if it is older than the job; otherwise empty."""
        since = self.default_queues.get(job["metadata"]["namespace"])
        created = job["metadata"].get("creationTimestamp") or ""
        return DEFAULT_QUEUE if since is not None and created >= since else ""
