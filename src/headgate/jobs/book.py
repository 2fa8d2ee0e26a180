"""Jobs and their Workloads as far as they are known, by the name of the job.

What the server answered to our own writes counts as heard: older news change nothing, and what is gone stays gone,
however late an answer comes.
"""

from __future__ import annotations

from typing import Final

from headgate.jobs.kind import JobKind, Object
from headgate.kube.references import controller_of, group_kind_of
from headgate.kube.resource import Resource
from headgate.kube.revisions import revision_of
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import JOB_UID_LABEL

Key = tuple[str, str, str]
"""The plural of a kind of job, a namespace and a name; :data:`NOBODY` and the Workload's own, if it was taken from its
job."""

NOBODY: Final = ""

_REMEMBERED: Final = 10_000


class Book:
    def __init__(self, kinds: tuple[JobKind, ...]) -> None:
        self._plurals: Final = {(each.kind.group, each.kind.kind): each.resource.plural for each in kinds}
        self._objects: Final[dict[tuple[Resource, str, str], Object]] = {}
        self._owned: Final[dict[Key, dict[str, None]]] = {}  # names of Workloads
        self._gone: Final[dict[str, None]] = {}

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects.get((resource, namespace, name))

    def workloads(self, key: Key) -> list[Object]:
        """Those that say they are controlled by a job of that name, whichever it was."""
        return [self._objects[WORKLOADS, key[1], name] for name in sorted(self._owned.get(key, ()))]

    def put(self, resource: Resource, obj: Object) -> Key | None:
        """Whose job that concerns."""
        metadata = obj["metadata"]
        place = resource, metadata["namespace"], metadata["name"]
        known = self._objects.get(place)
        is_late = known is not None and known["metadata"]["uid"] == metadata["uid"]
        if metadata["uid"] in self._gone or (is_late and known is not None and revision_of(known) > revision_of(obj)):
            return None
        self._objects[place] = obj
        if resource != WORKLOADS:
            return resource.plural, metadata["namespace"], metadata["name"]
        before, key = self._owner(known), self._owner(obj)
        if before is not None and before != key:
            self._disown(before, metadata["name"])
        if key is not None:
            self._owned.setdefault(key, {})[metadata["name"]] = None
        return key

    def remove(self, resource: Resource, namespace: str, name: str, uid: str) -> Key | None:
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        known = self._objects.get((resource, namespace, name))
        if known is None or known["metadata"]["uid"] != uid:
            return None
        del self._objects[resource, namespace, name]
        if resource != WORKLOADS:
            return resource.plural, namespace, name
        key = self._owner(known)
        if key is not None:
            self._disown(key, name)
        return key

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
