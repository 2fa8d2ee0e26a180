"""Indexes of the node matrix: host ports in use, container images on nodes, and volumes in use.

Port use is counted, because two pods may hold one port for a moment while one of them terminates;
``scheduling/cache/pod_fields.py`` decides whether two ports conflict. An image has the size that the first node
reported and is dropped with the last node that has it; ``version`` changes with every update, because the score of an
image depends on the number of nodes that have it. Volume use is the pods with volumes per row, and the number of users
per claim. The matrix updates all three; ``scheduling/volumes/`` and the volume plugins interpret the volumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from headgate.scheduling.cache.node import ContainerImage
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_fields import HostPort


class PortIndex:
    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def update(self, row: int, ports: Sequence[HostPort], sign: int) -> None:
        for port in ports:
            key = (port.protocol, port.port)
            rows = self._users.setdefault(key, {})
            addresses = rows.setdefault(row, {})
            addresses[port.address] = addresses.get(port.address, 0) + sign
            if addresses[port.address] <= 0:
                del addresses[port.address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._users[key]

    def conflicting_rows(self, port: HostPort) -> Iterator[int]:
        """The rows where a pod with this port would conflict."""
        for row, addresses in self._users.get((port.protocol, port.port), {}).items():
            if port.conflicts_with(addresses):
                yield row

    def is_in_use(self, port: HostPort, row: int) -> bool:
        return port.conflicts_with(self._users.get((port.protocol, port.port), {}).get(row, ()))


class ImageState:
    """An image: its size, and the rows of the nodes that have it."""

    __slots__ = ("rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.rows: set[int] = set()


class ImageIndex:
    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}
        self._of_row: dict[int, tuple[ContainerImage, ...]] = {}
        self.version = 0

    def find(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def set(self, row: int, images: Sequence[ContainerImage]) -> None:
        new = tuple(images)
        if self._of_row.get(row, ()) == new:
            return
        self.remove(row)
        self.version += 1
        self._of_row[row] = new
        for image in new:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = ImageState(image.size_bytes)
                state.rows.add(row)

    def remove(self, row: int) -> None:
        for image in self._of_row.pop(row, ()):
            self.version += 1
            for name in image.names:
                state = self._states.get(name)
                if state is not None:
                    state.rows.discard(row)
                    if not state.rows:
                        del self._states[name]


_NO_PODS: Final[Mapping[str, PodInfo]] = MappingProxyType({})


class VolumeUsage:
    def __init__(self) -> None:
        self._pods_by_row: dict[int, dict[str, PodInfo]] = {}
        self._count: dict[int, int] = {}
        self._users: dict[tuple[str, str], int] = {}

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """The pods on the row that have volumes, by uid."""
        return self._pods_by_row.get(row, _NO_PODS)

    def count(self, row: int) -> int:
        """The number of volumes of the pods on the row; a shared volume counts once per pod."""
        return self._count.get(row, 0)

    def users(self, namespace: str, claim: str) -> int:
        """The number of pods that name the claim. Claims of ephemeral volumes have one user and are not counted."""
        return self._users.get((namespace, claim), 0)

    def update(self, row: int, pod: PodInfo, sign: int) -> None:
        """A pod with volumes was added to a row (+1) or removed (-1)."""
        volumes = pod.shape.volumes
        self._count[row] = self._count.get(row, 0) + sign * (len(volumes.claimed) + len(volumes.inline))
        if sign > 0:
            self._pods_by_row.setdefault(row, {})[pod.uid] = pod
        else:
            pods = self._pods_by_row[row]
            del pods[pod.uid]
            if not pods:
                del self._pods_by_row[row]
                del self._count[row]
        for claim in volumes.claims:
            key = (pod.namespace, claim)
            count = self._users.get(key, 0) + sign
            if count:
                self._users[key] = count
            else:
                del self._users[key]
