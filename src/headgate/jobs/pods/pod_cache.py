"""A cache of managed pods and their Workloads. A single pod, or all pods of a group (a *unit*), have one key.

The cache applies watch events and the responses to the controller's own writes. It ignores versions that are older than
the known one, and it does not add a deleted object again when a late response arrives. Unmanaged pods are not kept.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.framework.mutation_cache import MutationCache
from headgate.jobs.names import IS_GROUP_WORKLOAD, MANAGED
from headgate.jobs.pods.managed_pod import ManagedPod, read_managed_pod, relevant_fields
from headgate.jobs.pods.pod_metadata import group_of, is_managed
from headgate.kube.object_meta import controller_of, group_kind_of

Object = dict[str, Any]
Key = tuple[str, str, str]
"""One of the constants below, a namespace, and the name of the pod or the group."""

POD: Final = "pod"
GROUP: Final = "group"
UNMANAGED: Final = "unmanaged"
"""A pod that is no longer managed and still has Headgate's finalizer."""


class ManagedPodCache:
    """Pods and Workloads by the key of their unit."""

    def __init__(self) -> None:
        self._keys: Final[dict[tuple[str, str], Key]] = {}  # of pods
        self._members: Final[dict[Key, dict[str, ManagedPod]]] = {}
        self._workload_names: Final[dict[Key, dict[str, None]]] = {}
        self._workload_keys: Final[dict[tuple[str, str], Key]] = {}  # of Workloads
        self._pods: Final[MutationCache[tuple[str, str]]] = MutationCache()
        self._workloads: Final[MutationCache[tuple[str, str]]] = MutationCache()

    def members(self, key: Key) -> list[ManagedPod]:
        known = self._members.get(key, {})
        return [known[name] for name in sorted(known)]

    def size(self, key: Key) -> int:
        return len(self._members.get(key, ()))

    def workloads(self, key: Key) -> list[Object]:
        """The Workloads of the group, or those controlled by a pod of that name, with any uid."""
        found = (self._workloads.get((key[1], name)) for name in sorted(self._workload_names.get(key, ())))
        return [each for each in found if each is not None]

    def find(self, is_pod: bool, namespace: str, name: str) -> Object | None:
        """The pod with this name, or the Workload if ``is_pod`` is false."""
        return (self._pods if is_pod else self._workloads).get((namespace, name))

    def put_pod(self, pod: Object, *, from_watch: bool) -> list[Key]:
        """Returns the keys to enqueue; none if no field changed that the rules use (``relevant_fields``)."""
        metadata = pod["metadata"]
        ref = metadata["namespace"], metadata["name"]
        before = self._keys.get(ref)
        known = None if before is None else self._members[before][ref[1]]
        is_kept = is_managed(pod) or MANAGED in (metadata.get("finalizers") or ())
        if not (is_kept or known) or not self._pods.put(ref, pod, from_watch=from_watch):
            return []
        if not is_kept:
            self._pods.discard(ref)
            return self._drop_pod(ref)
        group = group_of(pod)
        key = (GROUP, ref[0], group) if group else (POD, *ref)
        if not is_managed(pod):
            key = UNMANAGED, *ref
        member = read_managed_pod(pod)
        if before is not None and before != key:
            self._drop_pod(ref)
        self._keys[ref] = key
        self._members.setdefault(key, {})[ref[1]] = member
        if known is not None and before == key and relevant_fields(known) == relevant_fields(member):
            return []
        return [key] if before in (None, key) else [before, key]

    def remove_pod(self, namespace: str, name: str, uid: str) -> list[Key]:
        ref = namespace, name
        return [] if self._pods.remove(ref, uid) is None else self._drop_pod(ref)

    def put_workload(self, workload: Object, *, from_watch: bool) -> list[Key]:
        metadata = workload["metadata"]
        ref = metadata["namespace"], metadata["name"]
        before, key = self._workload_keys.get(ref), _key_of(workload)
        if (before is None and key is None) or not self._workloads.put(ref, workload, from_watch=from_watch):
            return []
        if before is not None and before != key:
            self._drop_workload(ref)
        if key is None:
            self._workloads.discard(ref)
        else:
            self._workload_keys[ref] = key
            self._workload_names.setdefault(key, {})[ref[1]] = None
        return [each for each in dict.fromkeys((before, key)) if each is not None]

    def remove_workload(self, namespace: str, name: str, uid: str) -> list[Key]:
        ref = namespace, name
        return [] if self._workloads.remove(ref, uid) is None else self._drop_workload(ref)

    def synced(self, is_pod: bool, revision: str) -> list[Key]:
        """The watch has listed all pods or Workloads: drops objects that only responses have shown and the list does
        not have."""
        removed = (self._pods if is_pod else self._workloads).remove_missing(revision)
        drop = self._drop_pod if is_pod else self._drop_workload
        refs = ((each["metadata"]["namespace"], each["metadata"]["name"]) for each in removed)
        return [key for ref in refs for key in drop(ref)]

    def _drop_pod(self, ref: tuple[str, str]) -> list[Key]:
        key = self._keys.pop(ref)
        del self._members[key][ref[1]]
        if not self._members[key]:
            del self._members[key]
        return [key]

    def _drop_workload(self, ref: tuple[str, str]) -> list[Key]:
        key = self._workload_keys.pop(ref)
        del self._workload_names[key][ref[1]]
        if not self._workload_names[key]:
            del self._workload_names[key]
        return [key]


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
    """Whether the Workload was created for a group. Another Workload may have the name of a group by chance."""
    return (workload["metadata"].get("annotations") or {}).get(IS_GROUP_WORKLOAD) == "true"
