"""Warnings about ports that clash: the same port twice in a pod, the same name twice, an address without a port."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, Final

from headgate.apimachinery.validation.pod.containers import containers_with_paths
from headgate.kube.field_errors import quote

Object = dict[str, Any]


def port_warnings(spec: Object, path: str) -> Iterator[str]:
    ports = [
        (port, f"{at}.ports[{index}]")
        for container, at in containers_with_paths(spec, path)
        for index, port in enumerate(container.get("ports") or ())
    ]
    earlier: dict[tuple[int, str], _Earlier] = {}
    for port, at in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{at}: hostIP set without hostPort: {_go_struct(port)}"
        others = earlier.setdefault((port.get("containerPort", 0), port.get("protocol", "")), _Earlier())
        for other, other_at in others.clashing(port):
            yield f"{at}: {_clash(port, other)} port definition with {other_at}"
        others.add(port, at)
    first: dict[str, str] = {}
    for port, at in ports:
        name = port.get("name", "")
        if name and first.setdefault(name, at) != at:
            yield (
                f"{at}: duplicate port name {quote(name)} with {first[name]}, services and probes that select ports by "
                f"name will use {first[name]}"
            )


class _Earlier:
    """Ports with the same container port and protocol, found by what makes two of them clash.

    All of them may be different from each other, so they are not compared in pairs.
    """

    def __init__(self) -> None:
        self._ports: Final[list[tuple[Object, str]]] = []
        self._without_host_port: Final[list[int]] = []
        self._by_address: Final[dict[tuple[str, int], list[int]]] = {}
        self._by_number: Final[dict[tuple[bool, int], list[int]]] = {}  # whether it has an address

    def add(self, port: Object, at: str) -> None:
        address, number, place = port.get("hostIP", ""), port.get("hostPort", 0), len(self._ports)
        self._ports.append((port, at))
        if number == 0:
            self._without_host_port.append(place)
        else:
            self._by_address.setdefault((address, number), []).append(place)
            self._by_number.setdefault((bool(address), number), []).append(place)

    def clashing(self, port: Object) -> Iterator[tuple[Object, str]]:
        address, number = port.get("hostIP", ""), port.get("hostPort", 0)
        if number == 0:
            return iter(self._ports)
        places = merge(
            self._without_host_port,
            self._by_address.get((address, number), ()),
            self._by_number.get((not address, number), ()),
        )
        return (self._ports[place] for place in places)


def _clash(port: Object, other: Object) -> str:
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
