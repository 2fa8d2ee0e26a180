"""A set of equal pods of a Workload: how many, what each asks for, and where it may run. A frozen value.

Limits stand in for requests that are missing, as for any pod. What LimitRanges and RuntimeClasses add is part of the
template by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from headgate.kube.affinity import RequiredNodes, required_nodes
from headgate.kube.amounts import find_problem, units
from headgate.kube.requests import fill_requests, pod_requests
from headgate.quota.reading import Unreadable, Wire, part, parts, text, whole

_MOST: Final = 1 << 62
"""Of a resource, per container. Sums may be larger; they are exact."""
_REMEMBERED: Final = 4096


class PodSet(msgspec.Struct, frozen=True):
    """``requests`` of one pod, in units. ``shape`` is the same for sets that differ in their count only."""

    name: str
    count: int = 1
    min_count: int | None = None
    requests: Mapping[str, int] = {}
    tolerations: tuple[Mapping[str, Any], ...] = ()
    nodes: RequiredNodes = RequiredNodes()
    shape: bytes = b""

    @property
    def least(self) -> int:
        return self.count if self.min_count is None else min(self.min_count, self.count)


def read_pod_set(wire: Wire, path: str) -> PodSet:
    """Remembered: every state of a workload shows its pod sets again, and many workloads have the same."""
    return _remembered(msgspec.json.encode(wire), path)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(encoded: bytes, path: str) -> PodSet:
    wire: dict[str, Any] = msgspec.json.decode(encoded)
    spec = part(part(wire, "template", path), "spec", f"{path}template.")
    count, least = whole(wire, "count", 1, path), wire.get("minCount")
    if count < 0:
        raise Unreadable(f"{path}count: {count} is less than nothing")
    if wire.get("topologyRequest"):
        raise Unreadable(f"{path}topologyRequest: topology-aware scheduling is not supported")
    name = text(wire, "name", "main", path)
    requests = _requests(spec, f"{path}template.spec.")
    tolerations = tuple(each for _, each in parts(spec, "tolerations", f"{path}template.spec."))
    try:
        nodes = required_nodes({"spec": spec})
    except (AttributeError, TypeError, ValueError) as problem:
        raise Unreadable(f"{path}template.spec: where the pods may run cannot be read: {problem}") from problem
    affinity = part(spec, "affinity", f"{path}template.spec.").get("nodeAffinity")
    shape = msgspec.json.encode(
        [name, least, requests, spec.get("nodeSelector"), affinity, tolerations], order="sorted"
    )
    return PodSet(
        name, count, None if least is None else whole(wire, "minCount", path=path), requests, tolerations, nodes, shape
    )


def _requests(spec: Wire, path: str) -> dict[str, int]:
    filled = dict(spec)
    for field in ("containers", "initContainers"):
        containers = []
        for container_path, container in parts(spec, field, path):
            resources = part(container, "resources", container_path)
            for which in ("requests", "limits"):
                listed = part(resources, which, f"{container_path}resources.")
                if problem := _problem(listed, f"{container_path}resources.{which}"):
                    raise Unreadable(problem)
            containers.append({**container, "resources": fill_requests(resources)})
        if containers:
            filled[field] = containers
    for listed_path, listed in (
        ("overhead", part(spec, "overhead", path)),
        ("resources.requests", part(part(spec, "resources", path), "requests", f"{path}resources.")),
    ):
        if problem := _problem(listed, f"{path}{listed_path}"):
            raise Unreadable(problem)
    return {name: units(name, each) for name, each in pod_requests({"spec": filled}, as_spec=True).items()}


def _problem(listed: Wire, path: str) -> str:
    if not all(isinstance(value, str | int | float) for value in listed.values()):
        return f"{path}: must be a map of resources to quantities"
    return find_problem(listed, path, _MOST)
