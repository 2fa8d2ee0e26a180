"""Jobs and their Workloads by job name, and an index of jobs by owner.

:class:`JobCache` applies watch events and the responses to the controller's own writes. It ignores versions that are
older than the known one, and it does not add a deleted object again when a late response arrives. :class:`OwnerIndex`
finds jobs by uid, jobs by the uid of their controller, and jobs that wait for a Workload that another client creates.
``management.py`` decides which ancestor a job belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeVar

from headgate.controllers.framework.mutation_cache import MutationCache
from headgate.jobs.framework.workload import prebuilt_name, queue_of
from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube import conditions
from headgate.kube.api_resources import JOBS, APIResource
from headgate.kube.object_meta import controller_of, group_kind_of, owner_references
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import ADMITTED, FINISHED, JOB_UID_LABEL

Key = tuple[str, str, str]
"""Job kind, namespace and name; for a Workload without a job: :data:`NO_OWNER` and its own namespace and name."""
NO_OWNER: Final = ""
IndexKey = TypeVar("IndexKey", bound=Hashable)


class OwnerIndex:
    """Jobs by uid, by the uid of their controller, and by the name of their prebuilt Workload."""

    def __init__(self) -> None:
        self._keys: Final[dict[str, Key]] = {}
        self._controllers: Final[dict[Key, str]] = {}  # the uid of its controller, by job
        self._children: Final[dict[str, dict[Key, None]]] = {}
        self._workload_of: Final[dict[Key, tuple[str, str]]] = {}
        self._by_workload: Final[dict[tuple[str, str], dict[Key, None]]] = {}
        self._indexed: Final[dict[Key, tuple[str, str, str]]] = {}  # uid, queue and uid of the controller, by job

    def put(self, key: Key, job: Object) -> list[Key]:
        """Returns the descendants of the job if its uid, queue or controller changed, because whether they are managed
        depends on these."""
        metadata = job["metadata"]
        parent = str((controller_of(job) or {}).get("uid", ""))
        indexed = metadata["uid"], queue_of(job), parent
        name = prebuilt_name(job)
        _set_index(self._workload_of, self._by_workload, key, (key[1], name) if name else None)
        if self._indexed.get(key) == indexed:
            return []
        before = self._indexed.get(key)
        if before is not None and before[0] != metadata["uid"]:
            self._keys.pop(before[0], None)
        self._indexed[key] = indexed
        self._keys[metadata["uid"]] = key
        _set_index(self._controllers, self._children, key, parent or None)
        return list(self.descendants(metadata["uid"]))

    def remove(self, key: Key) -> list[Key]:
        indexed = self._indexed.pop(key, None)
        _set_index(self._workload_of, self._by_workload, key, None)
        _set_index(self._controllers, self._children, key, None)
        if indexed is None:
            return []
        self._keys.pop(indexed[0], None)
        return list(self.descendants(indexed[0]))

    def children(self, uid: str) -> list[Key]:
        """The jobs whose controller has this uid, in the order of their names."""
        return sorted(self._children.get(uid, ()))

    def controller_key(self, key: Key) -> Key | None:
        """The job that controls this one, if it is known."""
        uid = self._controllers.get(key)
        return None if uid is None else self._keys.get(uid)

    def key_of(self, uid: str) -> Key | None:
        return self._keys.get(uid)

    def waiting_for_workload(self, namespace: str, workload: str) -> list[Key]:
        """The jobs that wait for a prebuilt Workload of that name."""
        return list(self._by_workload.get((namespace, workload), ()))

    def in_namespace(self, namespace: str) -> list[Key]:
        return [key for key in self._indexed if key[1] == namespace]

    def descendants(self, uid: str) -> Iterator[Key]:
        """All jobs below the object, children first."""
        seen, pending = {uid}, [uid]
        while pending:
            for key in self._children.get(pending.pop(), ()):
                found = self._indexed[key][0]
                if found not in seen:
                    seen.add(found)
                    pending.append(found)
                    yield key


def _set_index(
    forward: dict[Key, IndexKey], index: dict[IndexKey, dict[Key, None]], key: Key, index_key: IndexKey | None
) -> None:
    """Moves a job to another entry of an index; None removes it."""
    before = forward.get(key)
    if before == index_key:
        return
    if before is not None:
        del forward[key]
        index[before].pop(key, None)
        if not index[before]:
            del index[before]
    if index_key is not None:
        forward[key] = index_key
        index.setdefault(index_key, {})[key] = None


def qualified_plural(resource: APIResource) -> str:
    """The plural with the group, because two groups may have kinds with the same plural."""
    return f"{resource.plural}.{resource.group}"


class JobCache:
    """The newest known versions of jobs and Workloads."""

    def __init__(
        self, kinds: tuple[JobKind, ...], workload_deleted: Callable[[Object], None] = lambda workload: None
    ) -> None:
        """``workload_deleted`` is called with the last known version of each Workload that is gone."""
        self._workload_deleted: Final = workload_deleted
        self._kinds: Final = {(each.kind.group, each.kind.kind): qualified_plural(each.resource) for each in kinds}
        self._merging: Final = {qualified_plural(each.resource) for each in kinds if each.merged_children}
        resources = (*(each.resource for each in kinds), WORKLOADS)
        self._latest: Final = {resource: MutationCache[tuple[str, str]]() for resource in resources}
        self._owned: Final[dict[Key, dict[str, None]]] = {}  # the names of the Workloads of each job
        self.owner_index: Final = OwnerIndex()

    def get(self, resource: APIResource, namespace: str, name: str) -> Object | None:
        return self._latest[resource].get((namespace, name))

    def workloads(self, key: Key) -> list[Object]:
        """The Workloads whose controller is a job of that name, with any uid."""
        found = (self.get(WORKLOADS, key[1], name) for name in sorted(self._owned.get(key, ())))
        return [each for each in found if each is not None]

    def put(self, resource: APIResource, obj: Object, *, from_watch: bool = False) -> list[Key]:
        """Returns the affected keys. ``from_watch``: the object is from the watch, not from a response."""
        metadata = obj["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        known = self.get(resource, namespace, name)
        if not self._latest[resource].put((namespace, name), obj, from_watch=from_watch):
            return []
        if resource != WORKLOADS:
            key = qualified_plural(resource), namespace, name
            affected = [key, *self.owner_index.put(key, obj)]
            return [*affected, *self._owner_of_merged_child(key)]
        before, owner = self._owner(known), self._owner(obj)
        if known is not None and known["metadata"]["uid"] != metadata["uid"]:
            self._workload_deleted(known)
        if before is not None and before != owner:
            self._remove_workload_name(before, name)
        if owner is not None:
            self._owned.setdefault(owner, {})[name] = None
        return self._affected_keys(obj, known, owner)

    def remove(self, resource: APIResource, namespace: str, name: str, uid: str) -> list[Key]:
        known = self._latest[resource].remove((namespace, name), uid)
        if known is None:
            return []
        if resource != WORKLOADS:
            key = qualified_plural(resource), namespace, name
            return [key, *self.owner_index.remove(key)]
        self._workload_deleted(known)
        owner = self._owner(known)
        if owner is not None:
            self._remove_workload_name(owner, name)
        return self._affected_keys(known, None, owner)

    def synced(self, resource: APIResource, revision: str) -> list[Key]:
        """The watch has listed the resource: removes objects that the list does not have. Returns the affected keys."""
        latest = self._latest.get(resource)
        missing = [] if latest is None else latest.missing(revision)
        return [key for ref, uid in missing for key in self.remove(resource, *ref, uid)]

    def unfinished_workload(self, job: Object) -> Object | None:
        """The unfinished Workload of a job; the last one by name, if there are several."""
        uid = job["metadata"]["uid"]
        key = self.owner_index.key_of(uid)
        found = [] if key is None else self.workloads(key)
        own = [
            each
            for each in found
            if (controller_of(each) or {}).get("uid") == uid and not _admitted_and_finished(each)[1]
        ]
        return own[-1] if own else None

    def child_jobs(self, job: Object) -> list[Object]:
        """The batch/v1 Jobs whose controller is this job."""
        plural = qualified_plural(JOBS)
        keys = [key for key in self.owner_index.children(job["metadata"]["uid"]) if key[0] == plural]
        found = (self.get(JOBS, key[1], key[2]) for key in keys)
        return [each for each in found if each is not None]

    def _owner_of_merged_child(self, key: Key) -> list[Key]:
        """The job that waits until this child is suspended (``child_restores.py``), if there may be one."""
        owner = self.owner_index.controller_key(key) if key[0] == qualified_plural(JOBS) else None
        return [owner] if owner is not None and owner[0] in self._merging else []

    def _affected_keys(self, workload: Object, before: Object | None, owner: Key | None) -> list[Key]:
        metadata = workload["metadata"]
        keys = [
            *([owner] if owner is not None else []),
            *self.owner_index.waiting_for_workload(metadata["namespace"], metadata["name"]),
        ]
        if before is None or _admitted_and_finished(before) != _admitted_and_finished(workload):
            keys += self.owner_index.descendants(str((controller_of(workload) or {}).get("uid", "")))
        return list(dict.fromkeys(keys))

    def _owner(self, workload: Object | None) -> Key | None:
        """The key of the job that owns the Workload. None if its owner is of another kind, or if it has no owner and
        Headgate did not create it."""
        if workload is None:
            return None
        metadata, reference = workload["metadata"], controller_of(workload)
        if reference is None:
            has_lost_owner = JOB_UID_LABEL in (metadata.get("labels") or {}) and not owner_references(workload)
            return (NO_OWNER, metadata["namespace"], metadata["name"]) if has_lost_owner else None
        kind = self._kinds.get(group_kind_of(reference))
        return None if kind is None else (kind, metadata["namespace"], str(reference.get("name", "")))

    def _remove_workload_name(self, key: Key, name: str) -> None:
        names = self._owned.get(key, {})
        names.pop(name, None)
        if not names:
            self._owned.pop(key, None)


def _admitted_and_finished(workload: Object) -> tuple[bool, bool]:
    """Whether the Workload is admitted, and whether it is finished: the descendants of its job depend on these."""
    listed = (workload.get("status") or {}).get("conditions")
    return conditions.is_true(listed, ADMITTED), conditions.is_true(listed, FINISHED)
