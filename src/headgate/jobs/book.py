"""Jobs and their Workloads as far as they are known, by the name of the job.

What the server answered to our own writes counts as heard: older news change nothing, and what is gone stays gone,
however late an answer comes.
"""

from __future__ import annotations

from typing import Final

from headgate.jobs.kin import NOBODY, Key, Kin
from headgate.jobs.kind import JobKind, Object
from headgate.kube import conditions
from headgate.kube.references import controller_of, group_kind_of, owner_references
from headgate.kube.resource import Resource
from headgate.owners.latest import Latest
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import ADMITTED, FINISHED, JOB_UID_LABEL


def name_of(resource: Resource) -> str:
    """Two groups may have kinds of the same plural."""
    return f"{resource.plural}.{resource.group}"


class Book:
    def __init__(self, kinds: tuple[JobKind, ...]) -> None:
        self._kinds: Final = {(each.kind.group, each.kind.kind): name_of(each.resource) for each in kinds}
        resources = (*(each.resource for each in kinds), WORKLOADS)
        self._latest: Final = {resource: Latest[tuple[str, str]]() for resource in resources}
        self._owned: Final[dict[Key, dict[str, None]]] = {}  # names of Workloads
        self.kin: Final = Kin()

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._latest[resource].get((namespace, name))

    def workloads(self, key: Key) -> list[Object]:
        """Those that say they are controlled by a job of that name, whichever it was."""
        found = (self.get(WORKLOADS, key[1], name) for name in sorted(self._owned.get(key, ())))
        return [each for each in found if each is not None]

    def put(self, resource: Resource, obj: Object, *, told: bool = False) -> list[Key]:
        """Whom that concerns. ``told``: by the watch, not by an answer."""
        metadata = obj["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        known = self.get(resource, namespace, name)
        if not self._latest[resource].put((namespace, name), obj, told=told):
            return []
        if resource != WORKLOADS:
            key = name_of(resource), namespace, name
            return [key, *self.kin.put(key, obj)]
        before, owner = self._owner(known), self._owner(obj)
        if before is not None and before != owner:
            self._disown(before, name)
        if owner is not None:
            self._owned.setdefault(owner, {})[name] = None
        return self._concerned(obj, known, owner)

    def remove(self, resource: Resource, namespace: str, name: str, uid: str) -> list[Key]:
        known = self._latest[resource].remove((namespace, name), uid)
        if known is None:
            return []
        if resource != WORKLOADS:
            key = name_of(resource), namespace, name
            return [key, *self.kin.remove(key)]
        owner = self._owner(known)
        if owner is not None:
            self._disown(owner, name)
        return self._concerned(known, None, owner)

    def synced(self, resource: Resource, revision: str) -> list[Key]:
        """A whole list has been told: what it did not have is no more."""
        latest = self._latest.get(resource)
        lost = [] if latest is None else latest.missing(revision)
        return [key for place, uid in lost for key in self.remove(resource, *place, uid)]

    def unfinished(self, job: Object) -> Object | None:
        """The Workload of a job that is not finished, the last one by name."""
        uid = job["metadata"]["uid"]
        key = self.kin.key_of(uid)
        found = [] if key is None else self.workloads(key)
        own = [each for each in found if (controller_of(each) or {}).get("uid") == uid and not _says(each)[1]]
        return own[-1] if own else None

    def _concerned(self, workload: Object, before: Object | None, owner: Key | None) -> list[Key]:
        metadata = workload["metadata"]
        keys = [*([owner] if owner is not None else []), *self.kin.waiting(metadata["namespace"], metadata["name"])]
        if before is None or _says(before) != _says(workload):
            keys += self.kin.below(str((controller_of(workload) or {}).get("uid", "")))
        return list(dict.fromkeys(keys))

    def _owner(self, workload: Object | None) -> Key | None:
        if workload is None:
            return None
        metadata, reference = workload["metadata"], controller_of(workload)
        if reference is None:
            is_ours = JOB_UID_LABEL in (metadata.get("labels") or {}) and not owner_references(workload)
            return (NOBODY, metadata["namespace"], metadata["name"]) if is_ours else None
        kind = self._kinds.get(group_kind_of(reference))
        return None if kind is None else (kind, metadata["namespace"], str(reference.get("name", "")))

    def _disown(self, key: Key, name: str) -> None:
        names = self._owned.get(key, {})
        names.pop(name, None)
        if not names:
            self._owned.pop(key, None)


def _says(workload: Object) -> tuple[bool, bool]:
    """What those below its job go by: whether it is admitted, and whether it is over."""
    told = (workload.get("status") or {}).get("conditions")
    return conditions.is_true(told, ADMITTED), conditions.is_true(told, FINISHED)
