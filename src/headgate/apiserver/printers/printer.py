"""A printer: the columns of a kind, and a function that fills them for one object.

Columns have the names, types, formats and priorities of Kubernetes, because clients sort and select by them; the
descriptions are Headgate's. A cell is a string, a number or a boolean. Cells are made of stored objects, and must
accept any object of the kind, even one with only metadata, such as a bookmark of a watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from headgate.apimachinery.jsonpath import VisitBudget
from headgate.kube.timestamps import ZERO_TIME_S, human_duration, parse_micro_time, parse_time

Object = Mapping[str, Any]
Cells = list[Any]

UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"
NONE: Final = "<none>"

_EMPTY: Final[Object] = {}


class TableColumn(msgspec.Struct, frozen=True):
    name: str
    type: str  # "string", "integer", "boolean", "date"; a custom kind may also have "number"
    format: str  # "name" for the first, else the format of a custom kind
    description: str
    priority: int


class Printer(msgspec.Struct, frozen=True):
    """``cells`` makes the cells of one row from the stored object and the time. ``conditions`` marks rows of finished
    objects.

    For a custom kind, whose columns a client has defined: ``bounded_cells`` is ``cells`` within the
    :class:`VisitBudget` of the Table, and ``weight`` estimates how many values a row visits.
    """

    columns: tuple[TableColumn, ...]
    cells: Callable[[Object, float], Cells]
    conditions: Callable[[Object], list[dict[str, str]]] | None = None
    # The value of `rows` for an empty list: kube-apiserver sends null for some kinds and [] for others.
    empty_rows: Literal["[]", "null"] = "[]"
    bounded_cells: Callable[[Object, float, VisitBudget], Cells] | None = None
    weight: int = 0


def text(name: str, description: str) -> TableColumn:
    return TableColumn(name, "string", "", description, 0)


def wide(name: str, description: str) -> TableColumn:
    """Shown by ``-o wide`` only."""
    return TableColumn(name, "string", "", description, 1)


def integer(name: str, description: str) -> TableColumn:
    return TableColumn(name, "integer", "", description, 0)


def boolean(name: str, description: str) -> TableColumn:
    return TableColumn(name, "boolean", "", description, 0)


NAME: Final = TableColumn("Name", "string", "name", "Name of the object.", 0)
AGE: Final = text("Age", "Time since creation.")
CREATED_AT: Final = TableColumn("Created At", "date", "", "Time of creation.", 0)
POD_COLUMNS: Final = (
    wide("Containers", "Names of the containers."),
    wide("Images", "Images of the containers."),
)
SELECTOR: Final = wide("Selector", "Which pods belong to it.")


def part(obj: Object, *path: str) -> Object:
    """The object at a path; empty if it is absent."""
    for step in path:
        obj = obj.get(step) or _EMPTY
    return obj


def name_of(obj: Object) -> str:
    return part(obj, "metadata").get("name") or ""


def age_of(obj: Object, now: float) -> str:
    return since(part(obj, "metadata").get("creationTimestamp"), now)


def since(timestamp: str | None, now: float) -> str:
    """The time since a ``Time``, as text."""
    moment = parse_time(timestamp) if timestamp else ZERO_TIME_S
    return UNKNOWN if isinstance(moment, str) or moment == ZERO_TIME_S else human_duration(now - moment)


def since_micro(timestamp: str | None, now: float) -> str:
    """The time since a ``MicroTime``, as text."""
    moment = parse_micro_time(timestamp) if timestamp else ZERO_TIME_S * 1_000_000
    if isinstance(moment, str) or moment == ZERO_TIME_S * 1_000_000:
        return UNKNOWN
    return human_duration(now - moment / 1_000_000)
