"""A Queue as the engine reads it from the API: a frozen value, with what is wrong with it if it cannot be counted with.

Where it stands among others is ``tree.py``'s. Nothing here raises: whoever sends a hostile object gets a problem text,
and the queue then grants nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import ROOT
from headgate.kube.amounts import is_requestable, read_amounts
from headgate.kube.timestamps import parse_time

OPEN: Final = "Open"
Amounts = Mapping[str, int]


class Queue(msgspec.Struct, frozen=True):
    """Amounts in units (``kube/amounts.py``), of resources that a container can request. ``uncounted``: the others that
    it names (``pods``, ``requests.cpu``), as kind and resource; Volcano does not count them either. ``parent`` is empty
    for the root only."""

    name: str
    parent: str = ROOT
    capability: Amounts = {}
    deserved: Amounts = {}
    guarantee: Amounts = {}
    priority: int = 0
    weight: int = 1
    is_reclaimable: bool = True
    state: str = OPEN
    created_s: float = 0.0
    problem: str = ""
    uncounted: tuple[tuple[str, str], ...] = ()


def read_queue(wire: Mapping[str, Any]) -> Queue:
    """From its JSON value."""
    metadata, spec, status = (_part(wire, part) for part in ("metadata", "spec", "status"))
    name = _text(metadata.get("name"))
    listed = {
        "capability": spec.get("capability"),
        "deserved": spec.get("deserved"),
        "guarantee": _part(spec, "guarantee").get("resource"),
    }
    problem, amounts = "", {}
    uncounted: list[tuple[str, str]] = []
    for path, value in listed.items():
        found = read_amounts(value, f"spec.{path}")
        problem = problem or (found if isinstance(found, str) else "")
        named = {} if isinstance(found, str) else found
        amounts[path] = {resource: amount for resource, amount in named.items() if is_requestable(resource)}
        uncounted += [(path, resource) for resource in sorted(named) if resource not in amounts[path]]
    parent = _text(spec.get("parent")) or ROOT
    return Queue(
        name=name,
        parent="" if name == ROOT else parent,
        **amounts,
        priority=read_integer(spec.get("priority"), 0),
        weight=read_integer(spec.get("weight"), 1),
        is_reclaimable=spec.get("reclaimable") is not False,
        state=_text(status.get("state")) or OPEN,
        created_s=read_created_s(metadata),
        problem=problem,
        uncounted=tuple(uncounted),
    )


def read_integer(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def read_created_s(metadata: Mapping[str, Any]) -> float:
    created = parse_time(_text(metadata.get("creationTimestamp")))
    return 0.0 if isinstance(created, str) else float(created)


def _part(wire: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = wire.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
