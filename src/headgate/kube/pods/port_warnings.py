"""Warnings about ports that clash: the same port twice in a pod, the same name twice, an address without a port."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.kube.errors import quote
from headgate.kube.validation.pod.containers import containers_with_paths

Object = dict[str, Any]


def port_warnings(spec: Object, path: str) -> Iterator[str]:
    ports = [
        (port, f"{at}.ports[{index}]")
        for container, at in containers_with_paths(spec, path)
        for index, port in enumerate(container.get("ports") or ())
    ]
    earlier: dict[tuple[int, str], list[tuple[Object, str]]] = {}
    for port, at in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{at}: hostIP set without hostPort: {_go_struct(port)}"
        others = earlier.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
        for other, other_at in others:
            clash = _clash(port, other)
            if clash:
                yield f"{at}: {clash} port definition with {other_at}"
        others.append((port, at))
    first: dict[str, str] = {}
    for port, at in ports:
        name = port.get("name", "")
        if name and first.setdefault(name, at) != at:
            yield (
                f"{at}: duplicate port name {quote(name)} with {first[name]}, services and probes that select ports by "
                f"name will use {first[name]}"
            )


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
