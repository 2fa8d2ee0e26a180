"""What the API server will add to the pods of a Workload: defaults of LimitRanges and the overhead of RuntimeClasses.

The API server adds them when a pod is created, so the requests in the template of a job are not yet those of its pods.
A Workload that was made from existing pods already has them, and a later LimitRange does not change it. The order is
the API server's: limits replace missing requests when the pod is decoded, then the namespace's LimitRanges fill the
rest. (Kueue takes the LimitRange's request even if the container has a limit.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from headgate.kube.pods.limit_ranges import container_defaults
from headgate.quota.api.pod_set import AdmissionDefaults, PodSet, with_defaults
from headgate.quota.api.wire_reader import InvalidObject, JSONObject, read_amount, read_object, read_objects
from headgate.quota.api.workload import Workload


class PodDefaults:
    """LimitRanges by namespace and name, RuntimeClasses by name, as far as they add requests. An invalid one adds
    nothing."""

    def __init__(self) -> None:
        self._ranges: Final[dict[str, dict[str, bytes]]] = {}
        self._in_order: Final[dict[str, tuple[bytes, ...]]] = {}
        self._overheads: Final[dict[str, bytes]] = {}

    def put_range(self, obj: JSONObject) -> str:
        """Apply a LimitRange. Returns its namespace if the defaults there changed, otherwise an empty string."""
        metadata = obj["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        return namespace if self._put_range(namespace, name, _encoded(_read_range, obj)) else ""

    def remove_range(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        return namespace if self._put_range(namespace, name, b"") else ""

    def put_class(self, obj: JSONObject) -> str:
        """Apply a RuntimeClass. Returns its name if its overhead changed, otherwise an empty string."""
        name: str = obj["metadata"]["name"]
        return name if _put(self._overheads, name, _encoded(_read_overhead, obj)) else ""

    def remove_class(self, name: str) -> str:
        return name if _put(self._overheads, name, b"") else ""

    def applied_to(self, workload: Workload) -> Workload:
        """The workload with the requests that its pods will have."""
        if workload.is_of_pods:
            return workload
        ranges = self._in_order.get(workload.namespace, ())
        sets = tuple([self._with_defaults(ranges, each) for each in workload.pod_sets])
        is_same = all(map(operator.is_, sets, workload.pod_sets))
        return workload if is_same else msgspec.structs.replace(workload, pod_sets=sets)

    def _with_defaults(self, ranges: tuple[bytes, ...], pod_set: PodSet) -> PodSet:
        overhead = self._overheads.get(pod_set.runtime_class, b"") if pod_set.runtime_class else b""
        known = pod_set.defaults
        if known.ranges == ranges and known.overhead == overhead:
            return pod_set
        return with_defaults(pod_set, AdmissionDefaults(ranges, overhead))

    def _put_range(self, namespace: str, name: str, encoded: bytes) -> bool:
        ranges = self._ranges.setdefault(namespace, {})
        is_changed = _put(ranges, name, encoded)
        self._in_order[namespace] = tuple(ranges[each] for each in sorted(ranges))
        if not ranges:
            del self._ranges[namespace], self._in_order[namespace]
        return is_changed


def _encoded(read: Callable[[JSONObject], Mapping[str, object]], obj: JSONObject) -> bytes:
    """The encoded value; empty if it is absent or invalid."""
    try:
        found = read(obj)
    except InvalidObject:
        return b""
    return msgspec.json.encode(found, order="sorted") if any(found.values()) else b""


def _read_range(obj: JSONObject) -> Mapping[str, Mapping[str, object]]:
    limits = [
        {**each, **{field: read_object(each, field, path) for field in ("default", "defaultRequest")}}
        for path, each in read_objects(read_object(obj, "spec"), "limits", "spec.")
    ]
    found = container_defaults(limits)
    for amounts in found.values():
        for resource, value in amounts.items():
            read_amount(resource, value, resource)
    return found


def _read_overhead(obj: JSONObject) -> Mapping[str, object]:
    fixed = read_object(read_object(obj, "overhead"), "podFixed", "overhead.")
    for resource, value in fixed.items():
        read_amount(resource, value, resource)
    return fixed


def _put(known: dict[str, bytes], name: str, encoded: bytes) -> bool:
    """Sets the value, or removes it if it is empty. Returns whether it changed."""
    before = known.get(name, b"")
    if encoded:
        known[name] = encoded
    else:
        known.pop(name, None)
    return before != encoded
