"""Parts of a pod's shape: host ports, spread constraints, pod affinity terms, and volumes.

Each part is decoded once, when a shape is new, and shared by all pods of that shape. The plugins decide what the parts
mean for a node (``scheduling/plugins/``). An invalid selector matches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.labels import Selector, from_label_selector
from headgate.kube.pods.requests import is_sidecar

Object = Mapping[str, Any]

ANY_ADDRESS: Final = "0.0.0.0"

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_INLINE: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd", "azureDisk", "cinder")


class HostPort(msgspec.Struct, frozen=True):
    protocol: str
    port: int
    address: str

    def conflicts_with(self, addresses: Collection[str]) -> bool:
        """Whether the port conflicts with the same protocol and port on one of these addresses."""
        if self.address == ANY_ADDRESS:
            return bool(addresses)
        return ANY_ADDRESS in addresses or self.address in addresses


class SpreadConstraint(msgspec.Struct, frozen=True):
    max_skew: int
    topology_key: str
    is_hard: bool
    selector: Selector
    min_domains: int
    honours_node_affinity: bool
    honours_node_taints: bool
    match_label_keys: tuple[str, ...]


class AffinityTerm(msgspec.Struct, frozen=True):
    """A pod affinity term: a label selector, namespaces or a namespace selector, and a topology key."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term matches a pod with these labels in this namespace, which has ``namespace_labels``."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class PodAffinityTerms(msgspec.Struct, frozen=True):
    required: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


class ClaimedVolume(msgspec.Struct, frozen=True):
    """A volume with a claim. The claim of an ephemeral volume includes the pod's name: only ``volume`` is known."""

    claim: str = ""
    volume: str = ""

    def name(self, pod_name: str) -> str:
        return f"{pod_name}-{self.volume}" if self.volume else self.claim


Disk = tuple[Any, ...]
"""The identity of a disk: its kind, then the values of its fields."""


class InlineDisks(msgspec.Struct, frozen=True):
    """Inline disks that pods on one node can share only if all of them mount the disk read-only."""

    used: frozenset[Disk] = frozenset()
    written: frozenset[Disk] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.used)

    def conflicts_with(self, others: InlineDisks) -> bool:
        return not (self.written.isdisjoint(others.used) and self.used.isdisjoint(others.written))


class SpecVolumes(msgspec.Struct, frozen=True):
    """``inline``: the inline volumes of kinds with a limit or a sharing rule per node, with their identity."""

    claimed: tuple[ClaimedVolume, ...] = ()
    inline: tuple[tuple[str, Object], ...] = ()
    claims: tuple[str, ...] = ()
    """The claims that the pod names, without those of ephemeral volumes."""
    has_ephemeral: bool = False
    disks: InlineDisks = InlineDisks()

    def __bool__(self) -> bool:
        return bool(self.claimed or self.inline)


def read_host_ports(spec: Object) -> tuple[HostPort, ...]:
    """The host ports of containers that run for the pod's whole life."""
    containers = [each for each in spec.get("initContainers") or () if is_sidecar(each)]
    containers += spec.get("containers") or ()
    found = {
        HostPort(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or ANY_ADDRESS): None
        for container in containers
        for port in container.get("ports") or ()
        if (port.get("hostPort") or 0) > 0
    }
    return tuple(found)


def read_images(spec: Object) -> tuple[str, ...]:
    """One per container, init containers first; a name without tag or digest means ``latest``."""
    return tuple(
        _with_tag(each.get("image") or "")
        for field in ("initContainers", "containers")
        for each in spec.get(field) or ()
    )


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def read_spread(constraints: Iterable[Object] | None) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            max_skew=each.get("maxSkew") or 0,
            topology_key=each.get("topologyKey") or "",
            is_hard=each.get("whenUnsatisfiable") != "ScheduleAnyway",
            selector=from_label_selector(each.get("labelSelector")),
            min_domains=each.get("minDomains") or 1,
            honours_node_affinity=each.get("nodeAffinityPolicy") != "Ignore",
            honours_node_taints=each.get("nodeTaintsPolicy") == "Honor",
            match_label_keys=tuple(each.get("matchLabelKeys") or ()),
        )
        for each in constraints or ()
    )


def read_pod_affinity(affinity: Object | None, namespace: str) -> PodAffinityTerms:
    if not affinity:
        return PodAffinityTerms()
    return PodAffinityTerms(
        tuple(_read_term(each, namespace) for each in affinity.get(_REQUIRED) or ()),
        tuple(
            _read_term(each.get("podAffinityTerm") or {}, namespace, each.get("weight") or 0)
            for each in affinity.get(_PREFERRED) or ()
        ),
    )


def _read_term(term: Object, namespace: str, weight: int = 0) -> AffinityTerm:
    namespaces: Sequence[str] = term.get("namespaces") or ()
    namespace_selector = term.get("namespaceSelector")
    if not namespaces and namespace_selector is None:
        namespaces = (namespace,)
    return AffinityTerm(
        topology_key=term.get("topologyKey") or "",
        selector=from_label_selector(term.get("labelSelector")),
        namespaces=frozenset(namespaces),
        namespace_selector=from_label_selector(namespace_selector),
        weight=weight,
    )


def read_volumes(volumes: Iterable[Object] | None) -> SpecVolumes:
    claimed: list[ClaimedVolume] = []
    inline: list[tuple[str, Object]] = []
    for volume in volumes or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            claimed.append(ClaimedVolume(claim=claim.get("claimName") or ""))
        elif volume.get("ephemeral") is not None:
            claimed.append(ClaimedVolume(volume=volume.get("name") or ""))
        else:
            inline += [(kind, volume[kind]) for kind in _INLINE if volume.get(kind) is not None]
    named = tuple(each.claim for each in claimed if not each.volume)
    has_ephemeral = len(named) < len(claimed)
    return SpecVolumes(tuple(claimed), tuple(inline), named, has_ephemeral=has_ephemeral, disks=_read_disks(inline))


def _read_disks(inline: Iterable[tuple[str, Object]]) -> InlineDisks:
    used: set[Disk] = set()
    written: set[Disk] = set()
    for kind, source in inline:
        for disk in _disks_of(kind, source):
            used.add(disk)
            if kind == "awsElasticBlockStore" or not source.get("readOnly"):
                written.add(disk)
    return InlineDisks(frozenset(used), frozenset(written))


def _disks_of(kind: str, source: Object) -> Iterator[Disk]:
    """The identities of a disk. RBD images are the same if pool, image and any one monitor are equal, so an RBD image
    has one identity per monitor."""
    match kind:
        case "gcePersistentDisk":
            yield kind, source.get("pdName")
        case "awsElasticBlockStore":
            yield kind, source.get("volumeID")
        case "iscsi":
            yield kind, source.get("iqn")
        case "rbd":
            for monitor in source.get("monitors") or ():
                yield kind, source.get("pool"), source.get("image"), monitor
