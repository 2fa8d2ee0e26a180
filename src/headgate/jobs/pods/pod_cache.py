"""Managed pods and their Workloads: a single pod, or all pods of a group, under one key.

Responses to the controller's own writes count as observed: older versions are ignored, and a deleted object stays
deleted however late a response arrives. Unmanaged pods are not kept.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.framework.mutation_cache import DeletedUIDs
from headgate.jobs.names import IS_GROUP_WORKLOAD, MANAGED
from headgate.jobs.pods.managed_pod import ManagedPod, read_managed_pod, relevant_fields
from headgate.jobs.pods.pod_metadata import group_of, is_managed
from headgate.kube.object_meta import controller_of, group_kind_of, resource_version_of

Object = dict[str, Any]
Key = tuple[str, str, str]
"""One of the words below, a namespace, and the name of the pod or of the group."""

POD: Final = "pod"
GROUP: Final = "group"
UNKNOWN_OWNER: Final = "stray"
"""A pod that is not managed any more and still has our finalizer."""


class ManagedPodCache:
    def __init__(self) -> None:
        self._keys: Final[dict[tuple[str, str], Key]] = {}  # of pods
        self._members: Final[dict[Key, dict[str, ManagedPod]]] = {}
        self._workloads: Final[dict[Key, dict[str, Object]]] = {}
        self._whose: Final[dict[tuple[str, str], Key]] = {}  # of Workloads
        self._deleted: Final = DeletedUIDs()

    def members(self, key: Key) -> list[ManagedPod]:
        known = self._members.get(key, {})
        return [known[name] for name in sorted(known)]

    def size(self, key: Key) -> int:
        return len(self._members.get(key, ()))

    def workloads(self, key: Key) -> list[Object]:
        """Those that say they belong to a pod of that name, whichever it was; or to the group."""
        known = self._workloads.get(key, {})
        return [known[name] for name in sorted(known)]

    def known(self, is_pod: bool, namespace: str, name: str) -> Object | None:
        """A pod, or a Workload, by its name."""
        key = (self._keys if is_pod else self._whose).get((namespace, name))
        if key is None:
            return None
        return self._members[key][name].pod if is_pod else self._workloads[key][name]

    def put_pod(self, pod: Object) -> list[Key]:
        """Whom that concerns; nobody, if nothing that matters has changed."""
        metadata = pod["metadata"]
        place = metadata["namespace"], metadata["name"]
        before = self._keys.get(place)
        known = None if before is None else self._members[before][place[1]]
        if metadata["uid"] in self._deleted or (known is not None and _is_late(known.pod, pod)):
            return []
        if not is_managed(pod) and MANAGED not in (metadata.get("finalizers") or ()):
            return [] if known is None else self.remove_pod(*place, known.uid, is_gone=False)
        group = group_of(pod)
        key = (GROUP, place[0], group) if group else (POD, *place)
        if not is_managed(pod):
            key = UNKNOWN_OWNER, *place
        member = read_managed_pod(pod)
        if before is not None and before != key:
            self._drop(before, place)
        self._keys[place] = key
        self._members.setdefault(key, {})[place[1]] = member
        if known is not None and before == key and relevant_fields(known) == relevant_fields(member):
            return []
        return [key] if before in (None, key) else [before, key]

    def remove_pod(self, namespace: str, name: str, uid: str, *, is_gone: bool = True) -> list[Key]:
        if is_gone:
            self._deleted.add(uid)
        key = self._keys.get((namespace, name))
        if key is None or self._members[key][name].uid != uid:
            return []
        self._drop(key, (namespace, name))
        return [key]

    def put_workload(self, workload: Object) -> list[Key]:
        metadata = workload["metadata"]
        place = metadata["namespace"], metadata["name"]
        before = self._whose.get(place)
        known = None if before is None else self._workloads[before][place[1]]
        if metadata["uid"] in self._deleted or (known is not None and _is_late(known, workload)):
            return []
        key = _key_of(workload)
        if before is not None and before != key:
            self._disown(before, place)
        if key is not None:
            self._whose[place] = key
            self._workloads.setdefault(key, {})[place[1]] = workload
        return [each for each in dict.fromkeys((before, key)) if each is not None]

    def remove_workload(self, namespace: str, name: str, uid: str) -> list[Key]:
        self._deleted.add(uid)
        key = self._whose.get((namespace, name))
        if key is None or self._workloads[key][name]["metadata"]["uid"] != uid:
            return []
        self._disown(key, (namespace, name))
        return [key]

    def _drop(self, key: Key, place: tuple[str, str]) -> None:
        del self._keys[place], self._members[key][place[1]]
        if not self._members[key]:
            del self._members[key]

    def _disown(self, key: Key, place: tuple[str, str]) -> None:
        del self._whose[place], self._workloads[key][place[1]]
        if not self._workloads[key]:
            del self._workloads[key]


def _is_late(known: Object, told: Object) -> bool:
    return known["metadata"]["uid"] == told["metadata"]["uid"] and resource_version_of(known) > resource_version_of(
        told
    )


def _key_of(workload: Object) -> Key | None:
    """Whose it is, if a pod's or a group's."""
    metadata = workload["metadata"]
    if is_of_group(workload):
        return GROUP, metadata["namespace"], metadata["name"]
    reference = controller_of(workload)
    if reference is None or group_kind_of(reference) != ("", "Pod"):
        return None
    return POD, metadata["namespace"], str(reference.get("name", ""))


def is_of_group(workload: Object) -> bool:
    """Whether a group made it. One that only has the name of a group is somebody else's."""
    return (workload["metadata"].get("annotations") or {}).get(IS_GROUP_WORKLOAD) == "true"
