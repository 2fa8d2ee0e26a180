"""A pod set of a Workload: the number of pods, the requests of each, and their placement constraints. A frozen value.

Requests are those that the pods will have when they exist: limits replace missing requests, and the additions of
admission are included (``pod_defaults.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from headgate.kube.node_affinity import RequiredNodeAffinity, required_node_affinity
from headgate.kube.pods.default_requests import default_requests
from headgate.kube.pods.limit_ranges import fill_container
from headgate.kube.pods.requests import pod_requests
from headgate.kube.resource_amounts import find_problem, units
from headgate.quota.api.wire_reader import InvalidObject, Wire, read_integer, read_object, read_objects, read_text

_MAX_AMOUNT: Final = 1 << 62
"""The largest amount of a resource per container. Sums may be larger; they are exact."""
_CACHE_SIZE: Final = 4096


class Defaults(msgspec.Struct, frozen=True):
    """What admission adds to a pod, as JSON: the defaults of each LimitRange, and the overhead of its RuntimeClass."""

    ranges: tuple[bytes, ...] = ()
    overhead: bytes = b""


NO_DEFAULTS: Final = Defaults()


class PodSet(msgspec.Struct, frozen=True):
    """``requests`` of one pod, in units, with ``defaults``. ``resources``: the part of the template they are computed
    from, and ``place`` the part with placement constraints, both as JSON. ``shape`` is equal for sets that differ only
    in their count. ``has_claims``: its pods use resource claims (DRA)."""

    name: str
    count: int = 1
    min_count: int | None = None
    requests: Mapping[str, int] = {}
    tolerations: tuple[Mapping[str, Any], ...] = ()
    nodes: RequiredNodeAffinity = RequiredNodeAffinity()
    runtime_class: str = ""
    has_claims: bool = False
    defaults: Defaults = NO_DEFAULTS
    resources: bytes = b""
    placement: bytes = b""
    shape: bytes = b""

    @property
    def effective_min_count(self) -> int:
        return self.count if self.min_count is None else min(self.min_count, self.count)


def read_pod_set(wire: Wire, path: str) -> PodSet:
    """Cached, because each version of a workload repeats its pod sets, and many workloads have equal ones."""
    return _read_cached(msgspec.json.encode(wire), path)


@lru_cache(maxsize=_CACHE_SIZE)
def _read_cached(encoded: bytes, path: str) -> PodSet:
    wire: dict[str, Any] = msgspec.json.decode(encoded)
    spec = read_object(read_object(wire, "template", path), "spec", f"{path}template.")
    count, least = read_integer(wire, "count", 1, path), wire.get("minCount")
    if count < 0:
        raise InvalidObject(f"{path}count: {count} is negative")
    if wire.get("topologyRequest"):
        raise InvalidObject(f"{path}topologyRequest: topology-aware scheduling is not supported")
    name = read_text(wire, "name", "main", path)
    resources = _resources(spec, f"{path}template.spec.")
    requests = _requests(resources, NO_DEFAULTS)
    tolerations = tuple(each for _, each in read_objects(spec, "tolerations", f"{path}template.spec."))
    try:
        nodes = required_node_affinity({"spec": spec})
    except (AttributeError, TypeError, ValueError) as problem:
        raise InvalidObject(f"{path}template.spec: where the pods may run cannot be read: {problem}") from problem
    affinity = read_object(spec, "affinity", f"{path}template.spec.").get("nodeAffinity")
    placement = msgspec.json.encode([name, least, spec.get("nodeSelector"), affinity, tolerations], order="sorted")
    return PodSet(
        name=name,
        count=count,
        min_count=None if least is None else read_integer(wire, "minCount", path=path),
        requests=requests,
        tolerations=tolerations,
        nodes=nodes,
        runtime_class=read_text(spec, "runtimeClassName", path=f"{path}template.spec."),
        has_claims=any(True for _ in read_objects(spec, "resourceClaims", f"{path}template.spec.")),
        resources=resources,
        placement=placement,
        shape=_shape(placement, requests),
    )


def with_defaults(pod_set: PodSet, defaults: Defaults) -> PodSet:
    """The pod set with the current additions of admission."""
    requests = _requests(pod_set.resources, defaults)
    return msgspec.structs.replace(
        pod_set, requests=requests, defaults=defaults, shape=_shape(pod_set.placement, requests)
    )


def _shape(placement: bytes, requests: Mapping[str, int]) -> bytes:
    return placement + msgspec.json.encode(requests, order="sorted")


def _resources(spec: Wire, path: str) -> bytes:
    """The part of a pod spec that determines its requests, as JSON. Many pods have an equal one."""
    kept: dict[str, Any] = {}
    for field in ("containers", "initContainers"):
        containers = []
        for container_path, container in read_objects(spec, field, path):
            resources = read_object(container, "resources", container_path)
            for which in ("requests", "limits"):
                listed = read_object(resources, which, f"{container_path}resources.")
                if problem := _problem(listed, f"{container_path}resources.{which}"):
                    raise InvalidObject(problem)
            containers.append({"resources": resources, "restartPolicy": container.get("restartPolicy")})
        if containers:
            kept[field] = containers
    overhead, own = read_object(spec, "overhead", path), read_object(spec, "resources", path)
    for listed_path, listed in (
        ("overhead", overhead),
        *((f"resources.{which}", read_object(own, which, f"{path}resources.")) for which in ("requests", "limits")),
    ):
        if problem := _problem(listed, f"{path}{listed_path}"):
            raise InvalidObject(problem)
    kept |= {name: each for name, each in (("overhead", overhead), ("resources", own)) if each}
    return msgspec.json.encode(kept, order="sorted")


@lru_cache(maxsize=_CACHE_SIZE)
def _requests(resources: bytes, defaults: Defaults) -> Mapping[str, int]:
    """Applies defaults in the order of the API server: decoding, LimitRanger, then the overhead of the RuntimeClass."""
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
    return {name: units(name, each) for name, each in pod_requests({"spec": spec}, spec_only=True).items()}


def _problem(listed: Wire, path: str) -> str:
    if not all(isinstance(value, str | int | float) for value in listed.values()):
        return f"{path}: must be a map of resources to quantities"
    return find_problem(listed, path, _MAX_AMOUNT)
