"""Resource amounts as the plain integers that the engines add and compare.

CPU is in thousandths, everything else in whole units, both rounded up. Kubernetes uses 64-bit integers that can
overflow. Here an amount that is larger than any machine is rejected before the engines use it, so that sums, and scores
that multiply them by 100, never exceed 64 bits. ``kube/quantity.py`` parses quantities, ``kube/pods/requests.py`` adds
up a pod's containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube import quantity
from headgate.kube.pod_resources import is_huge_page
from headgate.kube.quantity import Quantity, of_units

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

MAX_POD_AMOUNT: Final = 1 << 53
"""A thousand pods of this size on one node still add up within 64 bits."""
MAX_NODE_AMOUNT: Final = 1 << 56
"""A hundred times this, the largest product in a score, still fits in 64 bits."""

_COMPUTE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_ATTACHABLE: Final = "attachable-volumes-"


def is_counted(name: str) -> bool:
    """Whether the scheduler counts the resource. Others, such as ``storage``, have no meaning for a node."""
    return name in _COMPUTE or is_scalar(name)


def is_scalar(name: str) -> bool:
    """Extended and prefixed resources, huge pages, attachable volumes.

    Scores ignore them unless a pod requests them.
    """
    if "/" in name:
        return not name.startswith("requests.")
    return is_huge_page(name) or name.startswith(_ATTACHABLE)


def is_requestable(name: str) -> bool:
    """Whether a container can request the resource.

    ``pods``, ``storage`` and ``requests.cpu`` are resources of nodes, claims and ResourceQuotas. Attachable volumes are
    counted without a request.
    """
    return is_counted(name) and not name.startswith(_ATTACHABLE)


def units(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()


def as_text(name: str, amount: int) -> str:
    """The text of a quantity that :func:`units` converts to ``amount``."""
    if name != CPU:
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


def amount_text(name: str, amount: int) -> str:
    """For messages: ``1500m`` of cpu, ``4Gi`` of memory, ``8`` of anything else."""
    if name in (MEMORY, EPHEMERAL_STORAGE) or is_huge_page(name):
        return of_units(amount, "BinarySI").canonical
    return as_text(name, amount)


def read_units(name: str, value: Any, path: str) -> int | str:
    """One amount from its JSON value; a returned string is the error."""
    parsed = quantity.parse(value) if isinstance(value, str | int | float) else quantity.FORMAT_ERROR
    if not isinstance(parsed, Quantity):
        return f"{path}: {parsed}"
    if parsed.nano < 0:
        return f"{path}: {parsed.canonical} is negative"
    return units(name, parsed)


def read_amounts(listed: Any, path: str) -> dict[str, int] | str:
    """Amounts by resource; a returned string is the error."""
    if listed is None:
        return {}
    if not isinstance(listed, Mapping):
        return f"{path}: must be a map of resources to quantities"
    found: dict[str, int] = {}
    for name, value in listed.items():
        amount = read_units(str(name), value, f"{path}.{name}")
        if isinstance(amount, str):
            return amount
        found[str(name)] = amount
    return found


def find_problem(listed: Mapping[str, Any] | None, path: str, limit: int) -> str:
    """Why these amounts are invalid or too large; empty if they are not."""
    for name, value in (listed or {}).items():
        parsed = quantity.parse(value)
        if isinstance(parsed, str):
            return f"{path}.{name}: {parsed}"
        if parsed.nano < 0:
            return f"{path}.{name}: {parsed.canonical} is negative"
        if units(name, parsed) > limit:
            return f"{path}.{name}: {parsed.canonical} is larger than any node can have"
    return ""


def as_units(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """The amounts of counted resources, by name."""
    # A pod may name thousands of resources, most of them with one and the same quantity: each is converted once.
    values = {id(each): each.value() for each in {id(each): each for each in amounts.values()}.values()}
    # The first condition is the common part of `is_counted` without a call.
    found = {
        name: values[id(each)]
        for name, each in amounts.items()
        if ("/" in name and not name.startswith("requests.")) or is_counted(name)
    }
    if CPU in found:
        found[CPU] = amounts[CPU].milli_value()
    return found
