"""Warnings about conflicting ports: a port twice in a pod, a name twice, a host address without a port."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, Final

from headgate.apimachinery.validation.pod.containers import containers_with_paths
from headgate.kube.field_errors import quote

Object = dict[str, Any]


def port_warnings(spec: Object, path: str) -> Iterator[str]:
    ports = [
        (port, f"{port_path}.ports[{index}]")
        for container, port_path in containers_with_paths(spec, path)
        for index, port in enumerate(container.get("ports") or ())
    ]
    earlier: dict[tuple[int, str], _EarlierPorts] = {}
    for port, port_path in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{port_path}: hostIP set without hostPort: {_go_struct(port)}"
        others = earlier.setdefault((port.get("containerPort", 0), port.get("protocol", "")), _EarlierPorts())
        for other, other_path in others.conflicting(port):
            yield f"{port_path}: {_conflict_kind(port, other)} port definition with {other_path}"
        others.add(port, port_path)
    first: dict[str, str] = {}
    for port, port_path in ports:
        name = port.get("name", "")
        if name and first.setdefault(name, port_path) != port_path:
            yield (
                f"{port_path}: duplicate port name {quote(name)} with {first[name]}, "
                f"services and probes that select ports by name will use {first[name]}"
            )


class _EarlierPorts:
    """Ports with the same container port and protocol, indexed by what makes two of them conflict.

    The index avoids a comparison of all pairs.
    """

    def __init__(self) -> None:
        self._ports: Final[list[tuple[Object, str]]] = []
        self._without_host_port: Final[list[int]] = []
        self._by_address: Final[dict[tuple[str, int], list[int]]] = {}
        self._by_number: Final[dict[tuple[bool, int], list[int]]] = {}  # whether it has an address

    def add(self, port: Object, port_path: str) -> None:
        address, number, index = port.get("hostIP", ""), port.get("hostPort", 0), len(self._ports)
        self._ports.append((port, port_path))
        if number == 0:
            self._without_host_port.append(index)
        else:
            self._by_address.setdefault((address, number), []).append(index)
            self._by_number.setdefault((bool(address), number), []).append(index)

    def conflicting(self, port: Object) -> Iterator[tuple[Object, str]]:
        address, number = port.get("hostIP", ""), port.get("hostPort", 0)
        if number == 0:
            return iter(self._ports)
        indexes = merge(
            self._without_host_port,
            self._by_address.get((address, number), ()),
            self._by_number.get((not address, number), ()),
        )
        return (self._ports[index] for index in indexes)


def _conflict_kind(port: Object, other: Object) -> str:
    address, other_address = port.get("hostIP", ""), other.get("hostIP", "")
    number, other_number = port.get("hostPort", 0), other.get("hostPort", 0)
    if (address, number) == (other_address, other_number):
        return "duplicate"
    if number == 0 or other_number == 0:
        return "overlapping"
    if number == other_number and bool(address) != bool(other_address):
        return "dangerously ambiguous"
    return ""


def _go_struct(port: Object) -> str:
    fields = (
        ("Name", port.get("name", "")),
        ("HostPort", port.get("hostPort", 0)),
        ("ContainerPort", port.get("containerPort", 0)),
        ("Protocol", port.get("protocol", "")),
        ("HostIP", port.get("hostIP", "")),
    )
    return "{" + " ".join(f"{name}:{value}" for name, value in fields) + "}"
