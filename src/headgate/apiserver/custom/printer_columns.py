"""The Table columns of a custom kind: the name, then its ``additionalPrinterColumns``. Without these, the age."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery.apply.path_elements import go_float
from headgate.apimachinery.jsonpath import JsonPath, VisitBudget, parse_path
from headgate.apimachinery.patch.go_text import go_text
from headgate.apiserver.printers.printer import NAME, Cells, Object, Printer, TableColumn, name_of, since

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_CHARACTERS_PER_VISIT: Final = 16  # so many characters of a cell cost as much as the visit of one node of the object
_AGE: Final[dict[str, Any]] = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "Time since creation.",
}


def make_printer(columns: Sequence[dict[str, Any]]) -> Printer:
    return _printer(columns or (_AGE,))


def _printer(columns: Sequence[dict[str, Any]]) -> Printer:
    paths: list[tuple[str, JsonPath]] = []
    table_columns = [NAME]
    for column in columns:
        path = parse_path(column["jsonPath"])
        if isinstance(path, str):  # a parse error: validation refuses such a path now, but older CRDs may have one
            break
        paths.append((column["type"], path))
        description = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
        table_columns.append(
            TableColumn(
                column["name"],
                column["type"],
                column.get("format") or "",
                column.get("description") or description,
                column.get("priority") or 0,
            )
        )

    def bounded_cells(obj: Object, now: float, visits: VisitBudget) -> Cells:
        """The cells of one row. ``visits`` limits the work of all rows; when it is spent, cells are empty."""
        return [name_of(obj), *(_bounded_cell(kind, path, obj, now, visits) for kind, path in paths)]

    def cells(obj: Object, now: float) -> Cells:
        return bounded_cells(obj, now, VisitBudget())

    weight = sum(path.weight for _, path in paths)
    return Printer(tuple(table_columns), cells, empty_rows="[]", bounded_cells=bounded_cells, weight=weight)


def _bounded_cell(kind: str, path: JsonPath, obj: Object, now: float, visits: VisitBudget) -> Any:
    if visits.remaining <= 0:
        return None
    cell = _cell(kind, path.first(obj, visits), now)
    if isinstance(cell, str):  # many columns may show the same long value
        visits.remaining -= len(cell) // _CHARACTERS_PER_VISIT
    return cell


def _text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return _encode(value).decode()
    return go_float(value) if isinstance(value, float) else go_text(value)


def _cell(kind: str, found: tuple[Any, ...], now: float) -> Any:
    if not found:
        return None
    value = found[0]
    match kind:
        case "string":
            return _text(value)
        case "integer" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
        case "number" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return since(value, now)
        case _:
            return None


# The columns of the Scale subresource of custom kinds.
SCALE: Final = _printer(
    (
        {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas", "description": "Replicas wanted."},
        {"name": "Available", "type": "integer", "jsonPath": ".status.replicas", "description": "Replicas present."},
        _AGE,
    )
)
