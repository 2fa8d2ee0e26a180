"""Jobs and their Workloads by job name, and an index of jobs by owner.

:class:`JobCache` counts responses to the controller's own writes as observed: older versions are ignored, and a deleted
object stays deleted however late a response arrives. :class:`OwnerIndex` finds jobs by uid, children by the uid of
their controller, and jobs that wait for a Workload made by another client. ``management.py`` decides which ancestor a
job belongs to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, TypeVar

from headgate.controllers.framework.mutation_cache import MutationCache
from headgate.jobs.framework.workload import prebuilt_name, queue_of
from headgate.jobs.kinds.job_kind import JobKind, Object
from headgate.kube import conditions
from headgate.kube.api_resources import APIResource
from headgate.kube.object_meta import controller_of, group_kind_of, owner_references
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import ADMITTED, FINISHED, JOB_UID_LABEL

Key = tuple[str, str, str]
"""Job kind, namespace and name; :data:`NO_OWNER` and those of the Workload, if it has no job any more."""
NO_OWNER: Final = ""
At = TypeVar("At", bound=Hashable)


class OwnerIndex:
    def __init__(self) -> None:
        self._keys: Final[dict[str, Key]] = {}
        self._parents: Final[dict[Key, str]] = {}  # uids
        self._children: Final[dict[str, dict[Key, None]]] = {}
        self._waits: Final[dict[Key, tuple[str, str]]] = {}
        self._waiting: Final[dict[tuple[str, str], dict[Key, None]]] = {}
        self._shown: Final[dict[Key, tuple[str, str, str]]] = {}

    def put(self, key: Key, job: Object) -> list[Key]:
        """Those below it, if it is something else to them now."""
        metadata = job["metadata"]
        parent = str((controller_of(job) or {}).get("uid", ""))
        shown = metadata["uid"], queue_of(job), parent
        name = prebuilt_name(job)
        _set_index(self._waits, self._waiting, key, (key[1], name) if name else None)
        if self._shown.get(key) == shown:
            return []
        before = self._shown.get(key)
        if before is not None and before[0] != metadata["uid"]:
            self._keys.pop(before[0], None)
        self._shown[key] = shown
        self._keys[metadata["uid"]] = key
        _set_index(self._parents, self._children, key, parent or None)
        return list(self.descendants(metadata["uid"]))

    def remove(self, key: Key) -> list[Key]:
        shown = self._shown.pop(key, None)
        _set_index(self._waits, self._waiting, key, None)
        _set_index(self._parents, self._children, key, None)
        if shown is None:
            return []
        self._keys.pop(shown[0], None)
        return list(self.descendants(shown[0]))

    def key_of(self, uid: str) -> Key | None:
        return self._keys.get(uid)

    def waiting_for_workload(self, namespace: str, workload: str) -> list[Key]:
        """Who waits for a Workload of that name."""
        return list(self._waiting.get((namespace, workload), ()))

    def in_namespace(self, namespace: str) -> list[Key]:
        return [key for key in self._shown if key[1] == namespace]

    def descendants(self, uid: str) -> Iterator[Key]:
        """Children and theirs."""
        seen, left = {uid}, [uid]
        while left:
            for key in self._children.get(left.pop(), ()):
                found = self._shown[key][0]
                if found not in seen:
                    seen.add(found)
                    left.append(found)
                    yield key


def _set_index(places: dict[Key, At], index: dict[At, dict[Key, None]], key: Key, at: At | None) -> None:
    before = places.get(key)
    if before == at:
        return
    if before is not None:
        del places[key]
        index[before].pop(key, None)
        if not index[before]:
            del index[before]
    if at is not None:
        places[key] = at
        index.setdefault(at, {})[key] = None


def qualified_plural(resource: APIResource) -> str:
    """Two groups may have kinds of the same plural."""
    return f"{resource.plural}.{resource.group}"


class JobCache:
    def __init__(self, kinds: tuple[JobKind, ...]) -> None:
        self._kinds: Final = {(each.kind.group, each.kind.kind): qualified_plural(each.resource) for each in kinds}
        resources = (*(each.resource for each in kinds), WORKLOADS)
        self._latest: Final = {resource: MutationCache[tuple[str, str]]() for resource in resources}
        self._owned: Final[dict[Key, dict[str, None]]] = {}  # names of Workloads
        self.kin: Final = OwnerIndex()

    def get(self, resource: APIResource, namespace: str, name: str) -> Object | None:
        return self._latest[resource].get((namespace, name))

    def workloads(self, key: Key) -> list[Object]:
        """Those that say they are controlled by a job of that name, whichever it was."""
        found = (self.get(WORKLOADS, key[1], name) for name in sorted(self._owned.get(key, ())))
        return [each for each in found if each is not None]

    def put(self, resource: APIResource, obj: Object, *, told: bool = False) -> list[Key]:
        """Whom that concerns. ``told``: by the watch, not by an answer."""
        metadata = obj["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        known = self.get(resource, namespace, name)
        if not self._latest[resource].put((namespace, name), obj, told=told):
            return []
        if resource != WORKLOADS:
            key = qualified_plural(resource), namespace, name
            return [key, *self.kin.put(key, obj)]
        before, owner = self._owner(known), self._owner(obj)
        if before is not None and before != owner:
            self._disown(before, name)
        if owner is not None:
            self._owned.setdefault(owner, {})[name] = None
        return self._concerned(obj, known, owner)

    def remove(self, resource: APIResource, namespace: str, name: str, uid: str) -> list[Key]:
        known = self._latest[resource].remove((namespace, name), uid)
        if known is None:
            return []
        if resource != WORKLOADS:
            key = qualified_plural(resource), namespace, name
            return [key, *self.kin.remove(key)]
        owner = self._owner(known)
        if owner is not None:
            self._disown(owner, name)
        return self._concerned(known, None, owner)

    def synced(self, resource: APIResource, revision: str) -> list[Key]:
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
        keys = [
            *([owner] if owner is not None else []),
            *self.kin.waiting_for_workload(metadata["namespace"], metadata["name"]),
        ]
        if before is None or _says(before) != _says(workload):
            keys += self.kin.descendants(str((controller_of(workload) or {}).get("uid", "")))
        return list(dict.fromkeys(keys))

    def _owner(self, workload: Object | None) -> Key | None:
        if workload is None:
            return None
        metadata, reference = workload["metadata"], controller_of(workload)
        if reference is None:
            is_ours = JOB_UID_LABEL in (metadata.get("labels") or {}) and not owner_references(workload)
            return (NO_OWNER, metadata["namespace"], metadata["name"]) if is_ours else None
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
