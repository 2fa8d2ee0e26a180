"""Amounts as people write them, for sentences about queues."""

from __future__ import annotations

from headgate.kube.amounts import EPHEMERAL_STORAGE, MEMORY, as_text
from headgate.kube.quantity import of_units


def amount_text(resource: str, amount: int) -> str:
    """``1500m`` of cpu, ``4Gi`` of memory, ``8`` of anything else."""
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        return of_units(amount, "BinarySI").canonical
    return as_text(resource, amount)
