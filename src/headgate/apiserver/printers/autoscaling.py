"""Printers of autoscalers, disruption budgets, resource quotas and priority classes."""

from __future__ import annotations

from typing import Any, Final

from headgate.apiserver.printers.cells import shortened
from headgate.apiserver.printers.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    Object,
    Printer,
    age_of,
    boolean,
    integer,
    name_of,
    part,
    text,
)

_SHOWN_METRICS: Final = 2
_FIELDS: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}


def _autoscaler_cells(obj: Object, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    target, minimum = part(spec, "scaleTargetRef"), spec.get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind') or ''}/{target.get('name') or ''}",
        _metrics(spec.get("metrics") or [], status.get("currentMetrics") or []),
        UNSET if minimum is None else str(minimum),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        age_of(obj, now),
    ]


def _metrics(specs: list[Object], current: list[Object]) -> str:
    if not specs:
        return NONE
    texts = [_metric(spec, current[index] if index < len(current) else {}) for index, spec in enumerate(specs)]
    return shortened(texts, _SHOWN_METRICS, ", ")


def _metric(spec: Object, status: Object) -> str:
    """``current/target`` of one metric; a status of another type is ignored."""
    field = _FIELDS.get(spec.get("type") or "")
    if field is None:
        return "<unknown type>"
    source, target = part(spec, field), part(spec, field, "target")
    current = None if status.get(field) is None else part(status, field, "current")
    average = target.get("averageValue")
    if field in ("resource", "containerResource"):
        prefix = f"{source.get('name') or ''}: "
        if average is not None:
            return f"{prefix}{_value(current, 'averageValue')}/{average}"
        goal = target.get("averageUtilization")
        return f"{prefix}{_percent(current)}/{'<auto>' if goal is None else f'{goal}%'}"
    if field == "pods":
        return f"{_value(current, 'averageValue')}/{_quantity_text(average)}"
    if average is not None:
        known = current if current is not None and current.get("averageValue") is not None else None
        return f"{_value(known, 'averageValue')}/{average} (avg)"
    return f"{_value(current, 'value')}/{_quantity_text(target.get('value'))}"


def _value(current: Object | None, field: str) -> str:
    return UNKNOWN if current is None else _quantity_text(current.get(field))


def _quantity_text(quantity: Any) -> str:
    return "<nil>" if quantity is None else str(quantity)


def _percent(current: Object | None) -> str:
    utilization = None if current is None else current.get("averageUtilization")
    return UNKNOWN if utilization is None else f"{utilization}%"


def _budget_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    minimum, max_unavailable = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        name_of(obj),
        "N/A" if minimum is None else str(minimum),
        "N/A" if max_unavailable is None else str(max_unavailable),
        part(obj, "status").get("disruptionsAllowed") or 0,
        age_of(obj, now),
    ]


def _quota_cells(obj: Object, now: float) -> Cells:
    hard, used = part(obj, "status", "hard"), part(obj, "status", "used")
    texts = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    return [
        name_of(obj),
        ", ".join(shown for name, shown in texts.items() if not name.startswith("limits.")),
        ", ".join(shown for name, shown in texts.items() if name.startswith("limits.")),
        age_of(obj, now),
    ]


def _priority_class_cells(obj: Object, now: float) -> Cells:
    return [
        name_of(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        age_of(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


HORIZONTAL_POD_AUTOSCALER: Final = Printer(
    (
        NAME,
        text("Reference", "What it scales."),
        text("Targets", "Metrics: the current and the target value."),
        text("MinPods", "Never fewer pods than this."),
        text("MaxPods", "Never more pods than this."),
        text("Replicas", "Pods there are now."),
        AGE,
    ),
    _autoscaler_cells,
)
POD_DISRUPTION_BUDGET: Final = Printer(
    (
        NAME,
        text("Min Available", "Pods that must stay available."),
        text("Max Unavailable", "Pods that may be unavailable."),
        integer("Allowed Disruptions", "Pods that may be evicted now."),
        AGE,
    ),
    _budget_cells,
)
RESOURCE_QUOTA: Final = Printer(
    (
        NAME,
        text("Request", "Requests and counts: used, and the maximum."),
        text("Limit", "Limits: used, and the maximum."),
        AGE,
    ),
    _quota_cells,
)
PRIORITY_CLASS: Final = Printer(
    (
        NAME,
        integer("Value", "The priority."),
        boolean("Global-Default", "Whether pods without a class get it."),
        AGE,
        text("PreemptionPolicy", "Whether its pods may preempt others."),
    ),
    _priority_class_cells,
)
