"""A set of equal pods of a Workload: how many, what each asks for, and where it may run. A frozen value.

Requests are what the pods will ask for when they exist: limits stand in for requests that are missing, and what
admission will add comes on top (``pod_defaults.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from headgate.kube.affinity import RequiredNodes, required_nodes
from headgate.kube.amounts import find_problem, units
from headgate.kube.defaults.pod_resources import default_requests
from headgate.kube.limit_ranges import fill_container
from headgate.kube.requests import pod_requests
from headgate.quota.reading import Unreadable, Wire, part, parts, text, whole

_MOST: Final = 1 << 62
"""Of a resource, per container. Sums may be larger; they are exact."""
_REMEMBERED: Final = 4096


class Defaults(msgspec.Struct, frozen=True):
    """What admission adds to a pod, as JSON: the defaults of each LimitRange, and the overhead of its RuntimeClass."""

    ranges: tuple[bytes, ...] = ()
    overhead: bytes = b""


NO_DEFAULTS: Final = Defaults()


class PodSet(msgspec.Struct, frozen=True):
    """``requests`` of one pod, in units, with ``defaults``. ``resources``: what of the template they are made from, and
    ``place`` what says where its pods may run, both as JSON. ``shape`` is the same for sets that differ in their count
    only. ``has_claims``: its pods claim devices (DRA)."""

    name: str
    count: int = 1
    min_count: int | None = None
    requests: Mapping[str, int] = {}
    tolerations: tuple[Mapping[str, Any], ...] = ()
    nodes: RequiredNodes = RequiredNodes()
    runtime_class: str = ""
    has_claims: bool = False
    defaults: Defaults = NO_DEFAULTS
    resources: bytes = b""
    place: bytes = b""
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
    resources = _resources(spec, f"{path}template.spec.")
    requests = _requests(resources, NO_DEFAULTS)
    tolerations = tuple(each for _, each in parts(spec, "tolerations", f"{path}template.spec."))
    try:
        nodes = required_nodes({"spec": spec})
    except (AttributeError, TypeError, ValueError) as problem:
        raise Unreadable(f"{path}template.spec: where the pods may run cannot be read: {problem}") from problem
    affinity = part(spec, "affinity", f"{path}template.spec.").get("nodeAffinity")
    place = msgspec.json.encode([name, least, spec.get("nodeSelector"), affinity, tolerations], order="sorted")
    return PodSet(
        name=name,
        count=count,
        min_count=None if least is None else whole(wire, "minCount", path=path),
        requests=requests,
        tolerations=tolerations,
        nodes=nodes,
        runtime_class=text(spec, "runtimeClassName", path=f"{path}template.spec."),
        has_claims=any(True for _ in parts(spec, "resourceClaims", f"{path}template.spec.")),
        resources=resources,
        place=place,
        shape=_shape(place, requests),
    )


def with_defaults(pod_set: PodSet, defaults: Defaults) -> PodSet:
    """The same pods, with what admission adds to them now."""
    requests = _requests(pod_set.resources, defaults)
    return msgspec.structs.replace(pod_set, requests=requests, defaults=defaults, shape=_shape(pod_set.place, requests))


def _shape(place: bytes, requests: Mapping[str, int]) -> bytes:
    return place + msgspec.json.encode(requests, order="sorted")


def _resources(spec: Wire, path: str) -> bytes:
    """What of a pod says how much it asks for, and nothing else: many pods have the same."""
    kept: dict[str, Any] = {}
    for field in ("containers", "initContainers"):
        containers = []
        for container_path, container in parts(spec, field, path):
            resources = part(container, "resources", container_path)
            for which in ("requests", "limits"):
                listed = part(resources, which, f"{container_path}resources.")
                if problem := _problem(listed, f"{container_path}resources.{which}"):
                    raise Unreadable(problem)
            containers.append({"resources": resources, "restartPolicy": container.get("restartPolicy")})
        if containers:
            kept[field] = containers
    overhead, own = part(spec, "overhead", path), part(spec, "resources", path)
    for listed_path, listed in (
        ("overhead", overhead),
        *((f"resources.{which}", part(own, which, f"{path}resources.")) for which in ("requests", "limits")),
    ):
        if problem := _problem(listed, f"{path}{listed_path}"):
            raise Unreadable(problem)
    kept |= {name: each for name, each in (("overhead", overhead), ("resources", own)) if each}
    return msgspec.json.encode(kept, order="sorted")


@lru_cache(maxsize=_REMEMBERED)
def _requests(resources: bytes, defaults: Defaults) -> Mapping[str, int]:
    """In the order in which the API server does it: decoding, then LimitRanger; RuntimeClass adds its overhead."""
    spec: dict[str, Any] = msgspec.json.decode(resources)
    default_requests(spec)
    for encoded in defaults.ranges:
        filled: dict[str, dict[str, Any]] = msgspec.json.decode(encoded)
        for field in ("containers", "initContainers"):
            for container in spec.get(field) or ():
                for _ in fill_container(container["resources"], filled):
                    pass
    if defaults.overhead and not spec.get("overhead"):
        spec["overhead"] = msgspec.json.decode(defaults.overhead)
    return {name: units(name, each) for name, each in pod_requests({"spec": spec}, as_spec=True).items()}


def _problem(listed: Wire, path: str) -> str:
    if not all(isinstance(value, str | int | float) for value in listed.values()):
        return f"{path}: must be a map of resources to quantities"
    return find_problem(listed, path, _MOST)
