"""Shapes: what a pod requires of a node, interned, so that a thousand replicas share one object and its results.

:meth:`ShapeTable.intern` returns the same object for equal specifications, compared by the fields that plugins read;
names, commands and mounted tokens do not count. A pod's namespace and labels are part of its shape only if its own
constraints use them; a plugin that reads more declares a ``key`` (``scheduling/framework/interface.py``). A shape is
kept as long as a pod has it. Amounts that no machine has, or a specification that is too long to match against nodes,
set ``problem``: such a pod is not scheduled. On a node it is counted, up to the largest amounts that can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from headgate.kube import node_affinity, quantity
from headgate.kube.pod_resources import may_be_pod_level
from headgate.kube.pods.requests import Amounts, pod_requests
from headgate.kube.resource_amounts import CPU, EPHEMERAL_STORAGE, MAX_POD_AMOUNT, MEMORY, as_units, find_problem
from headgate.scheduling.cache import pod_fields

Object = Mapping[str, Any]

MAX_RESOURCES: Final = 30
"""The number of resources that one pod may request: each needs two bits in the filter result of a node
(``scheduling/plugins/noderesources/fit.py``)."""
_MAX_COUNTED: Final = 256
"""The number of resources that are counted for a pod on a node, which another scheduler may have bound: each is a
column for all nodes."""
_COUNTED_FIRST: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})

MAX_BYTES: Final = 32 * 1024
"""The maximum length of the encoded requirements of a pod. The scheduling time of a pod is proportional to it, and the
scheduling of a pod cannot be interrupted."""

_DEFAULTS: Final[Amounts] = {CPU: quantity.of_milli(100), MEMORY: quantity.of_units(200 * 1024 * 1024)}
"""The assumed usage of a container without requests, so that such pods do not all go to one node."""

_Amount = TypeVar("_Amount")

_NO_VOLUMES: Final = pod_fields.SpecVolumes()
_CONTAINER_FIELDS: Final = ("image", "ports", "restartPolicy")


class PodShape(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Interned: equal shapes are the same object. ``requests`` have no zeros and are sorted by name."""

    number: int
    requests: Mapping[str, int] = msgspec.field(default_factory=dict)
    held_milli_cpu: int = 0
    """The CPU that scores count for a pod on a node, with a default for containers without requests."""
    held_memory: int = 0
    """As ``held_milli_cpu``, for memory."""
    scored: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The usage that scores count for the incoming pod, with the same defaults and without pod-level requests."""
    ports: tuple[pod_fields.HostPort, ...] = ()
    tolerations: tuple[Object, ...] = ()
    required: node_affinity.RequiredNodeAffinity = node_affinity.RequiredNodeAffinity()
    has_node_rules: bool = False
    """Whether the pod has a node selector, or has required node affinity, even with no terms."""
    pinned: frozenset[str] | None = None
    """The names of the only nodes that required node affinity can match, if each of its terms names nodes
    (``matchFields`` with ``metadata.name``); empty if no node can match; ``None`` if other nodes can match."""
    preferred: node_affinity.PreferredSchedulingTerms | None = None
    spread: tuple[pod_fields.SpreadConstraint, ...] = ()
    affinity: pod_fields.PodAffinityTerms = pod_fields.PodAffinityTerms()
    anti_affinity: pod_fields.PodAffinityTerms = pod_fields.PodAffinityTerms()
    images: tuple[str, ...] = ()
    volumes: pod_fields.SpecVolumes = _NO_VOLUMES
    namespace: str = ""
    """Empty unless a constraint of the shape depends on it."""
    labels: Mapping[str, str] | None = None
    """``None`` unless a constraint of the shape depends on them."""
    has_claims: bool = False
    """Whether the pod requests devices with resource claims."""
    problem: str = ""
    """Why the pod cannot be scheduled; empty for a valid shape. The other fields still count for a pod on a node."""


class ShapeTable:
    """All shapes in use."""

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def intern(self, spec: Object, namespace: str = "", labels: Mapping[str, str] | None = None) -> PodShape:
        key = _encode_key(spec, namespace, labels)
        found = self._by_key.get(key)
        if found is None:
            self._last_number += 1
            if len(key) > MAX_BYTES:
                found = _read_oversized(self._last_number, spec, len(key))
            else:
                found = _read_shape(self._last_number, spec, namespace, labels)
            self._by_key[key] = found
        return found


def _reads_other_pods(spec: Object) -> bool:
    affinity = spec.get("affinity") or {}
    return bool(spec.get("topologySpreadConstraints") or affinity.get("podAffinity") or affinity.get("podAntiAffinity"))


def _encode_key(spec: Object, namespace: str, labels: Mapping[str, str] | None) -> bytes:
    """The fields that a shape depends on, encoded: equal bytes mean equal shapes."""
    volumes = [
        {name: value for name, value in each.items() if name != "name" or "ephemeral" in each}
        for each in spec.get("volumes") or ()
        if "projected" not in each and "configMap" not in each and "secret" not in each and "emptyDir" not in each
    ]
    reads_pods = _reads_other_pods(spec)
    return msgspec.msgpack.encode(
        (
            [_container_key(each) for each in spec.get("containers") or ()],
            [_container_key(each) for each in spec.get("initContainers") or ()],
            (spec.get("resources") or {}).get("requests"),
            spec.get("overhead"),
            spec.get("nodeSelector"),
            spec.get("affinity"),
            spec.get("tolerations"),
            spec.get("topologySpreadConstraints"),
            volumes,
            bool(spec.get("resourceClaims")),
            namespace if reads_pods or volumes else None,
            labels if reads_pods else None,
        ),
        order="deterministic",
    )


def _container_key(container: Object) -> list[Any]:
    return [(container.get("resources") or {}).get("requests"), *(container.get(name) for name in _CONTAINER_FIELDS)]


def _read_shape(number: int, spec: Object, namespace: str, labels: Mapping[str, str] | None) -> PodShape:
    pod = {"spec": spec}
    requested = pod_requests(pod, spec_only=True)
    held = _bounded(as_units(pod_requests(pod, spec_only=True, missing=_missing(spec, requested))))
    requests = as_units(requested)
    scored = pod_requests(pod, spec_only=True, missing=_DEFAULTS, pod_level=False)
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = (affinity.get("nodeAffinity") or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
    volumes = pod_fields.read_volumes(spec.get("volumes"))
    reads_pods = _reads_other_pods(spec)
    return PodShape(
        number,
        # Read-only, because pods share it and external plugins receive it.
        requests=MappingProxyType(_limit_resources(_bounded(requests))),
        held_milli_cpu=held.get(CPU, 0),
        held_memory=held.get(MEMORY, 0),
        scored=MappingProxyType(_bounded(as_units(scored))),
        ports=pod_fields.read_host_ports(spec),
        tolerations=tuple(spec.get("tolerations") or ()),
        required=node_affinity.required_node_affinity(pod),
        has_node_rules=required is not None or bool(spec.get("nodeSelector")),
        pinned=_pinned(required),
        preferred=node_affinity.preferred_scheduling_terms(pod) if preferred else None,
        spread=pod_fields.read_spread(spec.get("topologySpreadConstraints")),
        affinity=pod_fields.read_pod_affinity(affinity.get("podAffinity"), namespace),
        anti_affinity=pod_fields.read_pod_affinity(affinity.get("podAntiAffinity"), namespace),
        images=pod_fields.read_images(spec),
        volumes=volumes,
        has_claims=bool(spec.get("resourceClaims")),
        namespace=namespace if reads_pods or volumes else "",
        labels=MappingProxyType(dict(labels or {})) if reads_pods else None,
        problem=_find_problem(spec) or _find_problem_of_sum(requests),
    )


def _read_oversized(number: int, spec: Object, length: int) -> PodShape:
    """The shape of a specification that is too long: only amounts are read."""
    # Limited before they are converted: tens of thousands of resources fit in one pod.
    requested = as_units(_limit_resources(pod_requests({"spec": spec}, spec_only=True)))
    requests = _bounded(requested)
    return PodShape(
        number,
        requests=MappingProxyType({name: each for name, each in requests.items() if each}),
        held_milli_cpu=requests.get(CPU, 0),
        held_memory=requests.get(MEMORY, 0),
        scored=MappingProxyType(requests),
        problem=_find_problem_of_sum(requested)
        or "spec: containers, affinity, tolerations, topologySpreadConstraints and volumes "
        f"take {length} bytes in the scheduler's encoding, and the limit is {MAX_BYTES}",
    )


def _limit_resources(amounts: Mapping[str, _Amount]) -> dict[str, _Amount]:
    """The nonzero amounts, of a limited number of resources: a pod may name any number."""
    names = [name for name, each in amounts.items() if each]
    if len(names) > _MAX_COUNTED:
        first = sorted(_COUNTED_FIRST.intersection(names))
        names = [*first, *sorted(name for name in names if name not in _COUNTED_FIRST)][:_MAX_COUNTED]
    return {name: amounts[name] for name in sorted(names)}


def _bounded(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts of pods on nodes must be countable: negative amounts count as 0, too large ones as the maximum."""
    if min(amounts.values(), default=0) >= 0 and max(amounts.values(), default=0) <= MAX_POD_AMOUNT:
        return dict(amounts)
    return {name: min(max(each, 0), MAX_POD_AMOUNT) for name, each in amounts.items()}


def _find_problem_of_sum(requests: Mapping[str, int]) -> str:
    for name, each in requests.items():
        if each > MAX_POD_AMOUNT:
            return f"spec: the containers together ask for more {name} than any node can have"
    if sum(map(bool, requests.values())) > MAX_RESOURCES:
        return f"spec: more than {MAX_RESOURCES} kinds of resource are requested for"
    return ""


def _find_problem(spec: Object) -> str:
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            listed = (container.get("resources") or {}).get("requests")
            if problem := find_problem(listed, f"spec.{field}[{i}].resources.requests", MAX_POD_AMOUNT):
                return problem
    listed = (spec.get("resources") or {}).get("requests")
    return find_problem(listed, "spec.resources.requests", MAX_POD_AMOUNT) or find_problem(
        spec.get("overhead"), "spec.overhead", MAX_POD_AMOUNT
    )


def _missing(spec: Object, requested: Amounts) -> Amounts:
    """The defaults for missing requests. With pod-level requests only resources without any request get defaults."""
    stated = (spec.get("resources") or {}).get("requests") or {}
    if not any(may_be_pod_level(name) for name in stated):
        return _DEFAULTS
    return {name: amount for name, amount in _DEFAULTS.items() if name not in requested}


def _pinned(required: Object | None) -> frozenset[str] | None:
    """The node names in required affinity. Terms are alternatives, so one term without node names allows all nodes."""
    names: set[str] = set()
    terms = (required or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        named = [
            frozenset(each.get("values") or ())
            for each in term.get("matchFields") or ()
            if each.get("key") == node_affinity.NAME_FIELD and each.get("operator") == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return frozenset(names) if terms else None
