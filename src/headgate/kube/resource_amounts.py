"""Resource amounts as the plain integers that the engines add and compare.

CPU counts in thousandths, everything else in whole units, both rounded up. Kubernetes keeps them in 64 bits and lets
them wrap; here an amount that no machine has is refused by name before it reaches a column, so that sums, and scores
that multiply them by a hundred, never exceed 64 bits. ``kube/quantity.py`` parses quantities, ``kube/pods/requests.py``
sums up a pod's containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """Whether the scheduler looks at the resource at all: others, such as ``storage``, mean nothing to a node."""
    return name in _COMPUTE or is_scalar(name)


def is_scalar(name: str) -> bool:
    """Extended and prefixed resources, huge pages, attachable volumes: left out of a score that nobody asks about."""
    if "/" in name:
        return not name.startswith("requests.")
    return is_huge_page(name) or name.startswith(_ATTACHABLE)


def is_requestable(name: str) -> bool:
    """Whether a container can request the resource. ``pods``, ``storage`` and ``requests.cpu`` are names of nodes,
    claims and ResourceQuotas; attachable volumes are counted without a request."""
    return is_counted(name) and not name.startswith(_ATTACHABLE)


def units(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()


def as_text(name: str, amount: int) -> str:
    """As people write it, and as :func:`units` reads it back."""
    if name != CPU:
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


def amount_text(name: str, amount: int) -> str:
    """For sentences: ``1500m`` of cpu, ``4Gi`` of memory, ``8`` of anything else."""
    if name in (MEMORY, EPHEMERAL_STORAGE) or is_huge_page(name):
        return of_units(amount, "BinarySI").canonical
    return as_text(name, amount)


def read_units(name: str, value: Any, path: str) -> int | str:
    """One amount from its JSON value; a returned string says why it cannot be counted with."""
    parsed = quantity.parse(value) if isinstance(value, str | int | float) else quantity.FORMAT_ERROR
    if not isinstance(parsed, Quantity):
        return f"{path}: {parsed}"
    if parsed.nano < 0:
        return f"{path}: {parsed.canonical} is less than nothing"
    return units(name, parsed)


def read_amounts(listed: Any, path: str) -> dict[str, int] | str:
    """Amounts by resource; a returned string says why they cannot be counted with."""
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
    """Why these amounts cannot be counted with; empty if they can."""
    for name, value in (listed or {}).items():
        parsed = quantity.parse(value)
        if isinstance(parsed, str):
            return f"{path}.{name}: {parsed}"
        if parsed.nano < 0:
            return f"{path}.{name}: {parsed.canonical} is less than nothing"
        if units(name, parsed) > limit:
            return f"{path}.{name}: {parsed.canonical} is more than any machine has"
    return ""


def as_units(listed: Iterable[tuple[str, Quantity]]) -> dict[str, int]:
    """The amounts that count, by name."""
    return {name: units(name, each) for name, each in listed if is_counted(name)}
