"""Jobs and their Workloads as far as they are known, by the name of the job.

What the server answered to our own writes counts as heard: older news change nothing, and what is gone stays gone,
however late an answer comes.
"""

from __future__ import annotations

from typing import Final

from headgate.jobs.kind import JobKind, Object
from headgate.kube.references import controller_of, group_kind_of
from headgate.kube.resource import Resource
from headgate.owners.latest import Latest
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import JOB_UID_LABEL

Key = tuple[str, str, str]
"""The plural of a kind of job, a namespace and a name; :data:`NOBODY` and the Workload's own, if it was taken from its
job."""

NOBODY: Final = ""


class Book:
    def __init__(self, kinds: tuple[JobKind, ...]) -> None:
        self._plurals: Final = {(each.kind.group, each.kind.kind): each.resource.plural for each in kinds}
        resources = (*(each.resource for each in kinds), WORKLOADS)
        self._latest: Final = {resource: Latest[tuple[str, str]]() for resource in resources}
        self._owned: Final[dict[Key, dict[str, None]]] = {}  # names of Workloads

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._latest[resource].get((namespace, name))

    def workloads(self, key: Key) -> list[Object]:
        """Those that say they are controlled by a job of that name, whichever it was."""
        found = (self.get(WORKLOADS, key[1], name) for name in sorted(self._owned.get(key, ())))
        return [each for each in found if each is not None]

    def put(self, resource: Resource, obj: Object, *, told: bool = False) -> Key | None:
        """Whose job that concerns. ``told``: by the watch, not by an answer."""
        metadata = obj["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        known = self.get(resource, namespace, name)
        if not self._latest[resource].put((namespace, name), obj, told=told):
            return None
        if resource != WORKLOADS:
            return resource.plural, namespace, name
        before, key = self._owner(known), self._owner(obj)
        if before is not None and before != key:
            self._disown(before, name)
        if key is not None:
            self._owned.setdefault(key, {})[name] = None
        return key

    def remove(self, resource: Resource, namespace: str, name: str, uid: str) -> Key | None:
        known = self._latest[resource].remove((namespace, name), uid)
        if known is None:
            return None
        if resource != WORKLOADS:
            return resource.plural, namespace, name
        key = self._owner(known)
        if key is not None:
            self._disown(key, name)
        return key

    def synced(self, resource: Resource, revision: str) -> list[Key]:
        """A whole list has been told: what it did not have is no more."""
        latest = self._latest.get(resource)
        lost = [] if latest is None else latest.missing(revision)
        found = [self.remove(resource, *place, uid) for place, uid in lost]
        return [key for key in found if key is not None]

    def _owner(self, workload: Object | None) -> Key | None:
        if workload is None:
            return None
        metadata, reference = workload["metadata"], controller_of(workload)
        if reference is None:
            is_ours = JOB_UID_LABEL in (metadata.get("labels") or {})
            return (NOBODY, metadata["namespace"], metadata["name"]) if is_ours else None
        plural = self._plurals.get(group_kind_of(reference))
        return None if plural is None else (plural, metadata["namespace"], str(reference.get("name", "")))

    def _disown(self, key: Key, name: str) -> None:
        names = self._owned.get(key, {})
        names.pop(name, None)
        if not names:
            self._owned.pop(key, None)
