"""A pod set of a Workload: the number of pods, the requests of each, and their placement constraints. A frozen value.

The requests are those that the pods will have when they exist. The API server changes the requests of a pod when the
pod is created: limits replace missing requests, LimitRanges add defaults, and a RuntimeClass adds overhead. A Workload
has a template and not yet pods, so this module computes the same changes. ``pod_defaults.py`` finds the LimitRanges and
RuntimeClasses that apply.
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
from headgate.quota.api.wire_reader import InvalidObject, JSONObject, read_integer, read_object, read_objects, read_text

_MAX_AMOUNT: Final = 1 << 62
"""The largest amount of a resource per container. Sums may be larger; they are exact."""
_CACHE_SIZE: Final = 4096
DEFAULT_GRACE_S: Final = 30
"""The API server's default of ``terminationGracePeriodSeconds``."""


class AdmissionDefaults(msgspec.Struct, frozen=True):
    """What the API server's admission will add to the pods, as JSON. ``ranges``: the defaults of each LimitRange of the
    namespace; ``overhead``: the overhead of the RuntimeClass. (Not Kueue's admission of a Workload.)"""

    ranges: tuple[bytes, ...] = ()
    overhead: bytes = b""


NO_DEFAULTS: Final = AdmissionDefaults()


class PodSet(msgspec.Struct, frozen=True):
    """``requests``: the requests of one pod, as integers, with ``defaults`` added. ``resources``: the part of the pod
    template from which they are computed, and ``placement``: the part with placement constraints, both as JSON.
    ``shape``: a key that is equal for pod sets that differ only in their count. ``has_claims``: whether the pods use
    resource claims (DRA). ``grace_s``: how long a pod may still run when it is stopped."""

    name: str
    count: int = 1
    min_count: int | None = None
    requests: Mapping[str, int] = {}
    tolerations: tuple[Mapping[str, Any], ...] = ()
    node_affinity: RequiredNodeAffinity = RequiredNodeAffinity()
    runtime_class: str = ""
    has_claims: bool = False
    defaults: AdmissionDefaults = NO_DEFAULTS
    resources: bytes = b""
    placement: bytes = b""
    shape: bytes = b""
    grace_s: int = DEFAULT_GRACE_S

    @property
    def effective_min_count(self) -> int:
        return self.count if self.min_count is None else min(self.min_count, self.count)


def read_pod_set(obj: JSONObject, path: str) -> PodSet:
    """Read a pod set without defaults. ``path``: for errors (``wire_reader.py``). Results are cached, because each
    version of a workload repeats its pod sets, and many workloads have equal ones."""
    return _read_cached(msgspec.json.encode(obj), path)


@lru_cache(maxsize=_CACHE_SIZE)
def _read_cached(encoded: bytes, path: str) -> PodSet:
    obj: dict[str, Any] = msgspec.json.decode(encoded)
    spec = read_object(read_object(obj, "template", path), "spec", f"{path}template.")
    count, min_count = read_integer(obj, "count", 1, path), obj.get("minCount")
    if count < 0:
        raise InvalidObject(f"{path}count: {count} is negative")
    if obj.get("topologyRequest"):
        raise InvalidObject(f"{path}topologyRequest: topology-aware scheduling is not supported")
    name = read_text(obj, "name", "main", path)
    resources = _resources(spec, f"{path}template.spec.")
    requests = _requests(resources, NO_DEFAULTS)
    tolerations = tuple(each for _, each in read_objects(spec, "tolerations", f"{path}template.spec."))
    try:
        node_affinity = required_node_affinity({"spec": spec})
    except (AttributeError, TypeError, ValueError) as problem:
        raise InvalidObject(f"{path}template.spec: where the pods may run cannot be read: {problem}") from problem
    affinity = read_object(spec, "affinity", f"{path}template.spec.").get("nodeAffinity")
    placement = msgspec.json.encode([name, min_count, spec.get("nodeSelector"), affinity, tolerations], order="sorted")
    return PodSet(
        name=name,
        count=count,
        min_count=None if min_count is None else read_integer(obj, "minCount", path=path),
        requests=requests,
        tolerations=tolerations,
        node_affinity=node_affinity,
        runtime_class=read_text(spec, "runtimeClassName", path=f"{path}template.spec."),
        has_claims=any(True for _ in read_objects(spec, "resourceClaims", f"{path}template.spec.")),
        resources=resources,
        placement=placement,
        shape=_shape(placement, requests),
        grace_s=_grace_s(spec),
    )


def with_defaults(pod_set: PodSet, defaults: AdmissionDefaults) -> PodSet:
    """The same pod set with other ``defaults``, and with the requests that follow from them."""
    requests = _requests(pod_set.resources, defaults)
    return msgspec.structs.replace(
        pod_set, requests=requests, defaults=defaults, shape=_shape(pod_set.placement, requests)
    )


def _grace_s(spec: JSONObject) -> int:
    """An invalid value counts as absent: the API server will reject the pods."""
    found = spec.get("terminationGracePeriodSeconds")
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else DEFAULT_GRACE_S


def _shape(placement: bytes, requests: Mapping[str, int]) -> bytes:
    return placement + msgspec.json.encode(requests, order="sorted")


def _resources(spec: JSONObject, path: str) -> bytes:
    """The part of a pod spec from which its requests are computed, as JSON. Many pod specs have an equal one."""
    kept: dict[str, Any] = {}
    for field in ("containers", "initContainers"):
        containers = []
        for container_path, container in read_objects(spec, field, path):
            resources = read_object(container, "resources", container_path)
            for amounts_field in ("requests", "limits"):
                amounts = read_object(resources, amounts_field, f"{container_path}resources.")
                if problem := _problem(amounts, f"{container_path}resources.{amounts_field}"):
                    raise InvalidObject(problem)
            containers.append({"resources": resources, "restartPolicy": container.get("restartPolicy")})
        if containers:
            kept[field] = containers
    overhead, pod_level = read_object(spec, "overhead", path), read_object(spec, "resources", path)
    for amounts_path, amounts in (
        ("overhead", overhead),
        ("resources.requests", read_object(pod_level, "requests", f"{path}resources.")),
        ("resources.limits", read_object(pod_level, "limits", f"{path}resources.")),
    ):
        if problem := _problem(amounts, f"{path}{amounts_path}"):
            raise InvalidObject(problem)
    kept |= {name: each for name, each in (("overhead", overhead), ("resources", pod_level)) if each}
    return msgspec.json.encode(kept, order="sorted")


@lru_cache(maxsize=_CACHE_SIZE)
def _requests(resources: bytes, defaults: AdmissionDefaults) -> Mapping[str, int]:
    """The requests of one pod. Defaults are applied in the order of the API server: when it decodes the pod, then by
    the LimitRanger, then the overhead of the RuntimeClass. ``resources``: the result of :func:`_resources`."""
    spec: dict[str, Any] = msgspec.json.decode(resources)
    default_requests(spec)
    for encoded in defaults.ranges:
        range_defaults: dict[str, dict[str, Any]] = msgspec.json.decode(encoded)
        for field in ("containers", "initContainers"):
            for container in spec.get(field) or ():
                for _ in fill_container(container["resources"], range_defaults):
                    pass
    if defaults.overhead and not spec.get("overhead"):
        spec["overhead"] = msgspec.json.decode(defaults.overhead)
    return {name: units(name, each) for name, each in pod_requests({"spec": spec}, spec_only=True).items()}


def _problem(amounts: JSONObject, path: str) -> str:
    """What is wrong with these amounts; empty if they are valid."""
    if not all(isinstance(value, str | int | float) for value in amounts.values()):
        return f"{path}: must be a map of resources to quantities"
    return find_problem(amounts, path, _MAX_AMOUNT)
