"""Prices of machines per hour: a given price by instance type, otherwise the sum of the prices of its resources.

The default prices are those of OpenCost (GCP, us-central1); ``docs/simulate.md`` names them. Money has no currency:
all prices of a simulation must be in the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.kube.resource_amounts import CPU, MEMORY

CPU_HOUR: Final = 0.031611
GIB_HOUR: Final = 0.004237
GPU_HOUR: Final = 0.95
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
MAX_PRICE: Final = 1e12
"""Of one hour."""
_GIB: Final = 1 << 30


def is_gpu(resource: str) -> bool:
    return resource.endswith("/gpu")


def default_price(capacity: Mapping[str, int]) -> float:
    """``capacity``: in units; CPU in thousandths."""
    gpus = sum(amount for name, amount in capacity.items() if is_gpu(name))
    cpus, gibs = capacity.get(CPU, 0) / 1000, capacity.get(MEMORY, 0) / _GIB
    return cpus * CPU_HOUR + gibs * GIB_HOUR + gpus * GPU_HOUR


def price_of(labels: Mapping[str, str], capacity: Mapping[str, int], prices: Mapping[str, float]) -> float:
    """``prices``: by instance type."""
    given = prices.get(labels.get(INSTANCE_TYPE, ""))
    return default_price(capacity) if given is None else given
