"""Tables of objects, as ``meta.k8s.io`` defines them.

:func:`table` is for lists, single objects and the events of a watch (there, only the first event has columns).
``registry.py`` lists the columns of each kind; other kinds get their name and time of creation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery.jsonpath import MAX_VISITS, VisitBudget
from headgate.apiserver.kinds.conversion import to_stored
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.printers.printer import Printer
from headgate.apiserver.printers.registry import DEFAULT, PRINTERS
from headgate.kube.object_meta import TEMPLATE_GENERATION

Object = dict[str, Any]

VISITS_PER_ROW: Final = 2_000
"""The number of values that the columns of a custom kind may read, in addition to ``MAX_VISITS`` for the Table. Thirty
columns that filter lists of ten conditions read about 1,500."""


def table(
    kind: ServedKind,
    items: Sequence[Object],
    now: float,
    *,
    include_object: str,
    list_meta: Mapping[str, Any],
    columns: bool = True,
    version: str = "v1",
    visits: VisitBudget | None = None,
) -> Object:
    """``items`` are objects of ``kind`` in its own version, or of a subresource; ``now`` is in seconds.

    ``include_object``: the part of the object in a row: ``None``, ``Metadata`` or ``Object``.
    """
    printer = _printer(kind, items)
    shared = table_visits(len(items)) if visits is None else visits
    rows = [_row(printer, kind, item, now, include_object, version, shared) for item in items]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_meta,
        "columnDefinitions": msgspec.to_builtins(printer.columns) if columns else None,
        "rows": rows if rows or printer.empty_rows == "[]" else None,
    }


def table_visits(rows: int) -> VisitBudget:
    """How many values the columns of a custom kind may visit in a Table of so many rows."""
    return VisitBudget(MAX_VISITS + VISITS_PER_ROW * rows)


def _printer(kind: ServedKind, items: Sequence[Object]) -> Printer:
    item_kind = items[0].get("kind") if items else None
    if kind.scheme is not None:
        return (kind.scheme.scale_printer if item_kind == "Scale" else kind.scheme.printer) or DEFAULT
    if item_kind and item_kind != kind.kind:
        group, _, _ = str(items[0].get("apiVersion") or "").rpartition("/")
        return PRINTERS.get((group, item_kind), DEFAULT)
    return PRINTERS.get((kind.stored_as[0], kind.kind), DEFAULT)


def _row(
    printer: Printer, kind: ServedKind, item: Object, now: float, include_object: str, version: str, visits: VisitBudget
) -> Object:
    stored = to_stored(kind, item) if kind.scheme is None and item.get("kind") in (None, kind.kind) else item
    bounded = printer.bounded_cells
    row: Object = {"cells": printer.cells(stored, now) if bounded is None else bounded(stored, now, visits)}
    conditions = printer.conditions(stored) if printer.conditions else None
    if conditions:
        row["conditions"] = conditions
    match include_object:
        case "None":
            row["object"] = None
        case "Object":
            row["object"] = item
        case _:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": f"meta.k8s.io/{version}",
                "metadata": visible_metadata(kind, stored),
            }
    return row


def visible_metadata(kind: ServedKind, stored: Object) -> Object:
    """The metadata in a row or in PartialObjectMetadata, without the annotation for a former field of DaemonSets."""
    metadata: Object = stored.get("metadata") or {}
    annotations = metadata.get("annotations")
    if kind.kind != "DaemonSet" or not annotations or TEMPLATE_GENERATION not in annotations:
        return metadata
    kept = {name: value for name, value in annotations.items() if name != TEMPLATE_GENERATION}
    metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**metadata, "annotations": kept} if kept else metadata
