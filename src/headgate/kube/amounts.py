"""Resource amounts as the plain integers that the engines add and compare.

CPU counts in thousandths, everything else in whole units, both rounded up. Kubernetes keeps them in 64 bits and lets
them wrap; here an amount that no machine has is refused by name before it reaches a column, so that sums, and scores
that multiply them by a hundred, never leave 64 bits. Reading quantities is ``kube/quantity.py``, adding up a pod's
containers ``kube/requests.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.kube import quantity
from headgate.kube.pods.resources import is_huge_page
from headgate.kube.quantity import Quantity

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


def units(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()


def as_text(name: str, amount: int) -> str:
    """As people write it, and as :func:`units` reads it back."""
    if name != CPU:
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


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
