"""Prices of machines and resources, per hour.

A node type that is listed has its own price. Any other machine costs what its CPUs, memory and GPUs cost together. The
defaults are OpenCost's default prices for on-demand and spot resources, in US dollars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.kube.resource_amounts import CPU, MEMORY

_MILLI: Final = 1000
_GIB: Final = 1 << 30
_MAX_PRICE: Final = 1e12
TYPE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_SPOT_LABELS: Final = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}


class ResourcePrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """``gpu``: of every resource whose name ends with ``/gpu``."""

    cpu: float = 0.031611
    memory_gib: float = 0.004237
    gpu: float = 0.95

    def cost(self, amounts: Mapping[str, float]) -> float:
        """Of one hour. ``amounts``: units as in ``kube/resource_amounts.py``."""
        gpus = sum(amount for resource, amount in amounts.items() if resource.endswith("/gpu"))
        cpus, memory_gib = amounts.get(CPU, 0) / _MILLI, amounts.get(MEMORY, 0) / _GIB
        return cpus * self.cpu + memory_gib * self.memory_gib + gpus * self.gpu


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """``node_types``: by node type, the price of one hour. ``spot_node_types``: the same for spot machines."""

    currency: str = "USD"
    resources: ResourcePrices = ResourcePrices()
    spot_resources: ResourcePrices = ResourcePrices(cpu=0.006655, memory_gib=0.000892)
    node_types: dict[str, float] = {}
    spot_node_types: dict[str, float] = {}

    def node_cost(self, labels: Mapping[str, str], capacity: Mapping[str, int]) -> float:
        """Of one hour."""
        is_spot = any(labels.get(label) == value for label, value in _SPOT_LABELS.items())
        prices = self.spot_node_types if is_spot else self.node_types
        found = prices.get(node_type(labels))
        if found is not None:
            return found
        return (self.spot_resources if is_spot else self.resources).cost(capacity)


def node_type(labels: Mapping[str, str]) -> str:
    return next((labels[each] for each in TYPE_LABELS if labels.get(each)), "")


def read_prices(document: Any) -> PriceTable | str:
    """A returned string is the error."""
    try:
        found = msgspec.convert(document, PriceTable)
    except msgspec.ValidationError as error:
        return str(error)
    return next((problem for path, price in _prices(found) if (problem := _price_problem(path, price))), "") or found


def _prices(table: PriceTable) -> Iterator[tuple[str, float]]:
    """All prices, each with its path."""
    for path, resources in (("resources", table.resources), ("spotResources", table.spot_resources)):
        yield f"{path}.cpu", resources.cpu
        yield f"{path}.memoryGib", resources.memory_gib
        yield f"{path}.gpu", resources.gpu
    for path, types in (("nodeTypes", table.node_types), ("spotNodeTypes", table.spot_node_types)):
        for name, price in types.items():
            yield f"{path}.{name}", price


def _price_problem(path: str, price: float) -> str:
    if 0 <= price <= _MAX_PRICE:  # not for NaN
        return ""
    return f"{path}: {price:g} is not a price: write a number from 0 to {_MAX_PRICE:g}"
