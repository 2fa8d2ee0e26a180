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
"""One of the constants below, a namespace, and the name of the pod or the group."""

POD: Final = "pod"
GROUP: Final = "group"
UNKNOWN_OWNER: Final = "stray"
"""A pod that is no longer managed and still has Headgate's finalizer."""


class ManagedPodCache:
    def __init__(self) -> None:
        self._keys: Final[dict[tuple[str, str], Key]] = {}  # of pods
        self._members: Final[dict[Key, dict[str, ManagedPod]]] = {}
        self._workloads: Final[dict[Key, dict[str, Object]]] = {}
        self._workload_keys: Final[dict[tuple[str, str], Key]] = {}  # of Workloads
        self._deleted: Final = DeletedUIDs()

    def members(self, key: Key) -> list[ManagedPod]:
        known = self._members.get(key, {})
        return [known[name] for name in sorted(known)]

    def size(self, key: Key) -> int:
        return len(self._members.get(key, ()))

    def workloads(self, key: Key) -> list[Object]:
        """The Workloads of the group, or those controlled by a pod of that name, with any uid."""
        known = self._workloads.get(key, {})
        return [known[name] for name in sorted(known)]

    def known(self, is_pod: bool, namespace: str, name: str) -> Object | None:
        """A pod, or a Workload, by its name."""
        key = (self._keys if is_pod else self._workload_keys).get((namespace, name))
        if key is None:
            return None
        return self._members[key][name].pod if is_pod else self._workloads[key][name]

    def put_pod(self, pod: Object) -> list[Key]:
        """Returns the affected keys; none if no relevant field changed."""
        metadata = pod["metadata"]
        ref = metadata["namespace"], metadata["name"]
        before = self._keys.get(ref)
        known = None if before is None else self._members[before][ref[1]]
        if metadata["uid"] in self._deleted or (known is not None and _is_older(known.pod, pod)):
            return []
        if not is_managed(pod) and MANAGED not in (metadata.get("finalizers") or ()):
            return [] if known is None else self.remove_pod(*ref, known.uid, is_gone=False)
        group = group_of(pod)
        key = (GROUP, ref[0], group) if group else (POD, *ref)
        if not is_managed(pod):
            key = UNKNOWN_OWNER, *ref
        member = read_managed_pod(pod)
        if before is not None and before != key:
            self._drop(before, ref)
        self._keys[ref] = key
        self._members.setdefault(key, {})[ref[1]] = member
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
        ref = metadata["namespace"], metadata["name"]
        before = self._workload_keys.get(ref)
        known = None if before is None else self._workloads[before][ref[1]]
        if metadata["uid"] in self._deleted or (known is not None and _is_older(known, workload)):
            return []
        key = _key_of(workload)
        if before is not None and before != key:
            self._remove_owned(before, ref)
        if key is not None:
            self._workload_keys[ref] = key
            self._workloads.setdefault(key, {})[ref[1]] = workload
        return [each for each in dict.fromkeys((before, key)) if each is not None]

    def remove_workload(self, namespace: str, name: str, uid: str) -> list[Key]:
        self._deleted.add(uid)
        key = self._workload_keys.get((namespace, name))
        if key is None or self._workloads[key][name]["metadata"]["uid"] != uid:
            return []
        self._remove_owned(key, (namespace, name))
        return [key]

    def _drop(self, key: Key, ref: tuple[str, str]) -> None:
        del self._keys[ref], self._members[key][ref[1]]
        if not self._members[key]:
            del self._members[key]

    def _remove_owned(self, key: Key, ref: tuple[str, str]) -> None:
        del self._workload_keys[ref], self._workloads[key][ref[1]]
        if not self._workloads[key]:
            del self._workloads[key]


def _is_older(known: Object, received: Object) -> bool:
    return known["metadata"]["uid"] == received["metadata"]["uid"] and resource_version_of(known) > resource_version_of(
        received
    )


def _key_of(workload: Object) -> Key | None:
    """The key of the pod or the group that the Workload belongs to."""
    metadata = workload["metadata"]
    if is_of_group(workload):
        return GROUP, metadata["namespace"], metadata["name"]
    reference = controller_of(workload)
    if reference is None or group_kind_of(reference) != ("", "Pod"):
        return None
    return POD, metadata["namespace"], str(reference.get("name", ""))


def is_of_group(workload: Object) -> bool:
    """Whether it was created for a group. A Workload that only has the name of a group was not."""
    return (workload["metadata"].get("annotations") or {}).get(IS_GROUP_WORKLOAD) == "true"
