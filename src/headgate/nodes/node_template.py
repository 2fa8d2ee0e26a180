"""The initial nodes: ``node-0001``, ``node-0002`` and so on, all alike.

They have the annotation by which KWOK and the autoscalers' kwok providers identify a simulated node, and a pod CIDR.
Pure: returns API objects, and ``nodes/hollow_kubelets.py`` requests their creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from itertools import islice
from typing import Any, Final

import msgspec

from headgate.nodes.annotations import HOLLOW, KWOK_NODE
from headgate.nodes.options import DEFAULT_RESOURCES

Object = dict[str, Any]

POD_NETWORK: Final = IPv4Network("10.128.0.0/9")  # clear of the usual service networks, 10.0.0.0/24 and 10.96.0.0/12
_NODE_BITS: Final = 24
MAX_NODES: Final = 2 ** (_NODE_BITS - POD_NETWORK.prefixlen)


class NodeTemplate(msgspec.Struct, frozen=True):
    resources: Mapping[str, str] = DEFAULT_RESOURCES
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: Sequence[Object] = ()
    zones: Sequence[str] = ()
    """The nodes are assigned to the zones in turn."""
    prefix: str = "node-"


def make_nodes(count: int, template: NodeTemplate) -> list[Object]:
    if not 0 <= count <= MAX_NODES:
        raise ValueError(f"{count} nodes cannot be created; the maximum is {MAX_NODES}")
    return [_node(index, index, template) for index in range(count)]


def make_more_nodes(count: int, template: NodeTemplate, existing: Iterable[Object]) -> list[Object]:
    """Nodes for a cluster that has some: their numbers go on after the highest one with this prefix, and they have pod
    CIDRs that no node has."""
    numbers, networks = [0], set()
    for node in existing:
        name, spec = node["metadata"]["name"], node.get("spec") or {}
        number = name.removeprefix(template.prefix)
        if name != number and number.isascii() and number.isdecimal():
            numbers.append(int(number))
        networks.add(spec.get("podCIDR", ""))
    first = max(numbers)
    free = (index for index in range(MAX_NODES) if _pod_cidr(index) not in networks)
    made = [_node(first + offset, index, template) for offset, index in enumerate(islice(free, count))]
    if len(made) < count:
        raise ValueError(f"{count} more nodes cannot be created; the maximum of a cluster is {MAX_NODES}")
    return made


def _pod_cidr(index: int) -> str:
    return str(IPv4Network((int(POD_NETWORK.network_address) + (index << (32 - _NODE_BITS)), _NODE_BITS)))


def _node(index: int, network: int, template: NodeTemplate) -> Object:
    name = f"{template.prefix}{index + 1:04}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",  # kubelets still set the old names, too
        "beta.kubernetes.io/os": "linux",
        HOLLOW: "true",
    }
    if template.zones:
        labels["topology.kubernetes.io/zone"] = template.zones[index % len(template.zones)]
    cidr = _pod_cidr(network)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels | dict(template.labels),
            "annotations": {KWOK_NODE: "fake"} | dict(template.annotations),
        },
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr], "providerID": f"hollow://{name}"}
        | ({"taints": list(template.taints)} if template.taints else {}),
        "status": {"capacity": dict(template.resources), "allocatable": dict(template.resources)},
    }
