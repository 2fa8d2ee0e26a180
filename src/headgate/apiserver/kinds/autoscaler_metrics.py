"""The fields of one metric in the annotations of ``autoscaling/v1`` and in ``autoscaling/v2``.

Both versions have the same information with different nesting, so this is a table of pairs of paths, read in either
direction. ``v1`` has no target type; the type follows from the values that are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.kube import quantity

Object = dict[str, Any]
Path = tuple[str, ...]


class _Reference(msgspec.Struct, omit_defaults=True):
    kind: str = ""
    name: str = ""
    apiVersion: str = ""


class _Requirement(msgspec.Struct, omit_defaults=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(msgspec.Struct, omit_defaults=True):
    matchLabels: dict[str, str] | None = None
    matchExpressions: list[_Requirement] | None = None


class QuantityText(str):
    """The type of a field with a quantity: text or a number in JSON."""


class MetricFieldPair(msgspec.Struct, frozen=True):
    """The paths of one field in both versions. ``always``: ``v1`` has ``0`` if the field is not set."""

    v1: str
    v2: Path
    type: type[Any] = str
    always: bool = False


class MetricRow(msgspec.Struct, frozen=True):
    """One source of a metric; its pairs are in the order of the fields in ``v1``.

    ``types``: pairs of a ``v1`` field and a target type. The first field that is set decides; if none is set, the last
    type is used.
    """

    field: str
    pairs: tuple[MetricFieldPair, ...]
    types: tuple[tuple[str, str], ...] = ()


_SAME_NAME: Final = MetricFieldPair("name", ("name",))
_METRIC_NAME: Final = MetricFieldPair("metricName", ("metric", "name"))
_SELECTOR: Final = MetricFieldPair("selector", ("metric", "selector"), type=_Selector)
_METRIC_SELECTOR: Final = MetricFieldPair("metricSelector", ("metric", "selector"), type=_Selector)
_DESCRIBED: Final = MetricFieldPair("target", ("describedObject",), type=_Reference)
_CONTAINER: Final = MetricFieldPair("container", ("container",))

_UTILIZATION_OR_VALUE: Final = (("targetAverageUtilization", "Utilization"), ("", "AverageValue"))
_TARGET_PAIRS: Final = (
    MetricFieldPair("targetAverageUtilization", ("target", "averageUtilization"), type=int),
    MetricFieldPair("targetAverageValue", ("target", "averageValue"), type=QuantityText),
)
_CURRENT_PAIRS: Final = (
    MetricFieldPair("currentAverageUtilization", ("current", "averageUtilization"), type=int),
    MetricFieldPair("currentAverageValue", ("current", "averageValue"), type=QuantityText, always=True),
)

METRIC_SOURCES: Final[Mapping[str, MetricRow]] = {
    "Object": MetricRow(
        "object",
        (
            _DESCRIBED,
            _METRIC_NAME,
            MetricFieldPair("targetValue", ("target", "value"), type=QuantityText, always=True),
            _SELECTOR,
            MetricFieldPair("averageValue", ("target", "averageValue"), type=QuantityText),
        ),
        (("averageValue", "AverageValue"), ("", "Value")),
    ),
    "Pods": MetricRow(
        "pods",
        (
            _METRIC_NAME,
            MetricFieldPair("targetAverageValue", ("target", "averageValue"), type=QuantityText, always=True),
            _SELECTOR,
        ),
        (("", "AverageValue"),),
    ),
    "Resource": MetricRow("resource", (_SAME_NAME, *_TARGET_PAIRS), _UTILIZATION_OR_VALUE),
    "ContainerResource": MetricRow(
        "containerResource", (_SAME_NAME, *_TARGET_PAIRS, _CONTAINER), _UTILIZATION_OR_VALUE
    ),
    "External": MetricRow(
        "external",
        (
            _METRIC_NAME,
            _METRIC_SELECTOR,
            MetricFieldPair("targetValue", ("target", "value"), type=QuantityText),
            MetricFieldPair("targetAverageValue", ("target", "averageValue"), type=QuantityText),
        ),
        (("targetValue", "Value"), ("", "AverageValue")),
    ),
}

METRIC_STATUSES: Final[Mapping[str, MetricRow]] = {
    "Object": MetricRow(
        "object",
        (
            _DESCRIBED,
            _METRIC_NAME,
            MetricFieldPair("currentValue", ("current", "value"), type=QuantityText, always=True),
            _SELECTOR,
            MetricFieldPair("averageValue", ("current", "averageValue"), type=QuantityText),
        ),
    ),
    "Pods": MetricRow(
        "pods",
        (
            _METRIC_NAME,
            MetricFieldPair("currentAverageValue", ("current", "averageValue"), type=QuantityText, always=True),
            _SELECTOR,
        ),
    ),
    "Resource": MetricRow("resource", (_SAME_NAME, *_CURRENT_PAIRS)),
    "ContainerResource": MetricRow("containerResource", (_SAME_NAME, *_CURRENT_PAIRS, _CONTAINER)),
    "External": MetricRow(
        "external",
        (
            _METRIC_NAME,
            _METRIC_SELECTOR,
            MetricFieldPair("currentValue", ("current", "value"), type=QuantityText, always=True),
            MetricFieldPair("currentAverageValue", ("current", "averageValue"), type=QuantityText),
        ),
    ),
}


def metric_to_v1(table: Mapping[str, MetricRow], metric: Object) -> Object:
    out: Object = {"type": metric.get("type", "")}
    for row in table.values():
        source = metric.get(row.field)
        if source is not None:
            out[row.field] = _source_to_v1(row, source)
    return out


def _source_to_v1(row: MetricRow, source: Object) -> Object:
    out: Object = {}
    for pair in row.pairs:
        value: Any = source
        for step in pair.v2:
            value = (value or {}).get(step)
        if value is None and pair.always:
            value = "0"
        if value is not None:
            out[pair.v1] = value
    return out


def metric_to_v2(table: Mapping[str, MetricRow], metric: Object) -> Object | None:
    """None if a value has the wrong type; the whole annotation is then ignored."""
    out: Object = {"type": metric.get("type", "")}
    if not isinstance(out["type"], str):
        return None
    for row in table.values():
        source = metric.get(row.field)
        if source is None:
            continue
        converted = _source_to_v2(row, source) if isinstance(source, dict) else None
        if converted is None:
            return None
        out[row.field] = converted
    return out


def _source_to_v2(row: MetricRow, source: Object) -> Object | None:
    out: Object = {}
    if row.types:
        fallback = row.types[-1][1]
        kind = next((each for name, each in row.types[:-1] if source.get(name) is not None), fallback)
        out["target"] = {"type": kind}
    for pair in row.pairs:
        value = source.get(pair.v1)
        if value is None and pair.always:
            value = "0"
        if value is None:
            continue
        value = checked(value, pair.type)
        if value is None:
            return None
        parent = out
        for step in pair.v2[:-1]:
            parent = parent.setdefault(step, {})
        parent[pair.v2[-1]] = value
    return out


def checked(value: Any, expected_type: type[Any]) -> Any:
    """``value`` converted to ``expected_type``, or None if it is invalid: annotations are not checked by a schema."""
    if expected_type is QuantityText:
        parsed = quantity.parse(value) if isinstance(value, str | int | float) else "not a quantity"
        return None if isinstance(parsed, str) else parsed.canonical
    try:
        return msgspec.to_builtins(msgspec.convert(value, expected_type))
    except msgspec.ValidationError:
        return None
