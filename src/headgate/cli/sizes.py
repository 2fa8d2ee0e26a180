"""The size of simulated nodes as it is typed: amounts that a node can have, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headgate.kube import quantity
from headgate.kube.amounts import CPU, MAX_NODE_AMOUNT, MEMORY, amount_text, units
from headgate.kube.quantity import Quantity
from headgate.kube.validation.pod.resources import is_integer_resource, validate_resource_name

_NEEDED: Final = (CPU, MEMORY)
"""Without these no pod runs on a node."""


def parse_sizes(own: Mapping[str, str], further: Sequence[str]) -> dict[str, str] | str:
    """``own``: amounts by resource, of options of their own (``--node-cpu``). ``further``: as in
    ``--node-resource NAME=QUANTITY``."""
    found = dict(own)
    for name, amount in own.items():
        if problem := _problem(name, amount):
            return f"--node-{name} {amount!r}: {problem}"
    for text in further:
        name, equals, amount = text.partition("=")
        if not equals:
            return f"--node-resource {text!r} is not NAME=QUANTITY; try nvidia.com/gpu=4"
        problem = f"it is said by --node-{name}" if name in own else "it is named twice" if name in found else ""
        if problem := problem or _problem(name, amount):
            return f"--node-resource {text!r}: {problem}"
        found[name] = amount
    return found


def _problem(name: str, amount: str) -> str:
    """Why a node cannot have it; empty if it can."""
    for error in validate_resource_name(name, "NAME"):
        return f"{name!r} is not the name of a resource: {error.detail}"
    parsed = quantity.parse(amount)
    if not isinstance(parsed, Quantity):
        return f"it is not an amount of {name}: {parsed}"
    if parsed.nano < 0 or (name in _NEEDED and parsed.nano == 0):
        return f"it must {'be more' if name in _NEEDED else 'not be less'} than 0"
    if is_integer_resource(name) and parsed.nano % 10**9:
        return f"{name} is counted in whole numbers"
    if units(name, parsed) > MAX_NODE_AMOUNT:
        return f"no machine has so much {name}; {amount_text(name, MAX_NODE_AMOUNT)} at most"
    return ""
