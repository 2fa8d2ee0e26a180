"""A node as the scheduler uses it: a frozen value with only the fields that plugins read.

:func:`read_node` decodes a node, or returns why it cannot be used; the matrix then ignores that node and keeps the
others. ``scheduling/cache/node_matrix.py`` holds all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from headgate.kube import quantity
from headgate.kube.resource_amounts import MAX_NODE_AMOUNT, PODS, as_units, find_problem

Taints = tuple[Mapping[str, str], ...]


class ContainerImage(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    size_bytes: int


class NodeInfo(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: Taints = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = msgspec.field(default_factory=dict)
    """In the units of ``kube/resource_amounts.py``, ``pods`` among them."""
    images: tuple[ContainerImage, ...] = ()


def read_node(obj: Mapping[str, Any]) -> NodeInfo | str:
    """The node, or a text that says why it cannot be used."""
    try:
        return _read(obj)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"cannot be read: {error!r}"


def _read(obj: Mapping[str, Any]) -> NodeInfo | str:
    metadata = obj["metadata"]
    spec = obj.get("spec") or {}
    status = obj.get("status") or {}
    listed = status.get("allocatable") or {}
    if problem := find_problem(listed, "status.allocatable", MAX_NODE_AMOUNT):
        return problem
    amounts = {name: quantity.amount(value) for name, value in listed.items()}
    allocatable = as_units(amounts)
    allocatable[PODS] = amounts.get(PODS, quantity.ZERO).value()
    return NodeInfo(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        labels=MappingProxyType(metadata.get("labels") or {}),  # external plugins receive the node
        taints=tuple(
            {name: each.get(name) or "" for name in ("key", "value", "effect")} for each in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=MappingProxyType(allocatable),
        images=tuple(
            ContainerImage(tuple(each.get("names") or ()), each.get("sizeBytes") or 0)
            for each in status.get("images") or ()
        ),
    )
