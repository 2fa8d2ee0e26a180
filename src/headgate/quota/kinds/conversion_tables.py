"""The plain conversion of each kind between the two versions: renamed fields, and fields without a counterpart.

A second round trip loses no further fields. ``conversion.py`` keeps the fields that the first round trip loses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.quota.kinds.conversion_loss import Path

Object = dict[str, Any]
ConvertFields = Callable[[Object], Object]
"""Returns the object with converted fields; the argument is not changed."""


class VersionConversion(msgspec.Struct, frozen=True):
    """The conversion of one kind in both directions."""

    to_v1beta2: ConvertFields
    to_v1beta1: ConvertFields


Where = tuple[str, ...]
"""A path of fields; ``*`` is every item of a list."""

_OLDER_CHECKS: Final = ("spec", "admissionChecks")
_CHECKS: Final = ("spec", "admissionChecksStrategy")
LINKED_FIELDS: Final[tuple[frozenset[Path], ...]] = (
    frozenset({_OLDER_CHECKS, _CHECKS}),
    frozenset({("spec", "priorityClassName"), ("spec", "priorityClassSource")}),
)
"""Fields that have a meaning only together."""
_FUNGIBILITY: Final = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
_SOURCES: Final = {
    "kueue.x-k8s.io/workloadpriorityclass": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass"},
    "scheduling.k8s.io/priorityclass": {"group": "scheduling.k8s.io", "kind": "PriorityClass"},
}
_RETRY_DELAY_MIN: Final = 15
_ASSIGNED_TOPOLOGY: Final = ("status", "admission", "podSetAssignments", "*", "topologyAssignment")


def _chain(*steps: ConvertFields) -> ConvertFields:
    def convert(obj: Object) -> Object:
        for step in steps:
            obj = step(obj)
        return obj

    return convert


def _inside(at: Where, change: ConvertFields) -> ConvertFields:
    """Applies ``change`` to the object at the path, if there is one."""
    if not at:
        return change
    name, below = at[0], _inside(at[1:], change)

    def convert(obj: Object) -> Object:
        value = obj.get(name)
        if isinstance(value, dict):
            return {**obj, name: below(value)}
        return obj

    def convert_items(obj: Object) -> Object:
        items = obj.get(name)
        if not isinstance(items, list):
            return obj
        each = _inside(at[2:], change)
        return {**obj, name: [each(item) if isinstance(item, dict) else item for item in items]}

    return convert_items if at[1:2] == ("*",) else convert


def _without(*at: str) -> ConvertFields:
    *above, name = at
    return _inside(tuple(above), lambda obj: {key: value for key, value in obj.items() if key != name})


def _renamed(above: Where, old: str, new: str) -> ConvertFields:
    """Renames ``old`` to ``new``. A field that is already called ``new`` is dropped, because the version of the object
    does not have it."""

    def convert(obj: Object) -> Object:
        others = {key: value for key, value in obj.items() if key not in (old, new)}
        return {**others, new: obj[old]} if old in obj else others

    return _inside(above, convert)


def _replace_older_values(fungibility: Object) -> Object:
    changed = {name: "MayStopSearch" for name, word in _FUNGIBILITY.items() if fungibility.get(name) == word}
    return {**fungibility, **changed}


def _checks_to_strategy(spec: Object) -> Object:
    others = {name: value for name, value in spec.items() if name != _OLDER_CHECKS[-1]}
    named = spec.get(_OLDER_CHECKS[-1])
    if not isinstance(named, list) or not named:
        return others
    return {**others, _CHECKS[-1]: {"admissionChecks": [{"name": name} for name in named]}}


def _class_to_reference(spec: Object) -> Object:
    others = {key: value for key, value in spec.items() if not key.startswith("priorityClass")}
    source, name = _SOURCES.get(_text(spec.get("priorityClassSource"))), _text(spec.get("priorityClassName"))
    return {**others, "priorityClassRef": {**source, "name": name}} if source and name else others


def _reference_to_class(spec: Object) -> Object:
    others = {key: value for key, value in spec.items() if not key.startswith("priorityClass")}
    found = spec.get("priorityClassRef")
    found = found if isinstance(found, dict) else {}
    for source, reference in _SOURCES.items():
        if found == {**reference, "name": found.get("name")} and _text(found.get("name")):
            return {**others, "priorityClassSource": source, "priorityClassName": found["name"]}
    return {**others, "priorityClassSource": ""}


def _with_retry_delay(spec: Object) -> Object:
    return {**spec, "retryDelayMinutes": _RETRY_DELAY_MIN}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_same: Final = _chain()
_without_consumed: Final = _without("status", "fairSharing", "admissionFairSharingStatus")
_EXECUTION_TIME_FIELDS: Final = ("accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")

CONVERSIONS: Final = {
    "ResourceFlavor": VersionConversion(_same, _same),
    "WorkloadPriorityClass": VersionConversion(_same, _same),
    "Cohort": VersionConversion(to_v1beta2=_without_consumed, to_v1beta1=_same),
    "ClusterQueue": VersionConversion(
        to_v1beta2=_chain(
            _renamed(("spec",), "cohort", "cohortName"),
            _inside(("spec",), _checks_to_strategy),
            _inside(("spec", "flavorFungibility"), _replace_older_values),
            _without("status", "pendingWorkloadsStatus"),
            _without_consumed,
        ),
        to_v1beta1=_chain(
            _renamed(("spec",), "cohortName", "cohort"),
            _without("spec", "concurrentAdmissionPolicy"),
        ),
    ),
    "LocalQueue": VersionConversion(
        to_v1beta2=_chain(_renamed(("status",), "flavorUsage", "flavorsUsage"), _without("status", "flavors")),
        to_v1beta1=_renamed(("status",), "flavorsUsage", "flavorUsage"),
    ),
    "Workload": VersionConversion(
        to_v1beta2=_chain(
            _inside(("spec",), _class_to_reference),
            _renamed(("status",), *_EXECUTION_TIME_FIELDS),
            _without(*_ASSIGNED_TOPOLOGY),
        ),
        to_v1beta1=_chain(
            _inside(("spec",), _reference_to_class),
            _renamed(("status",), *reversed(_EXECUTION_TIME_FIELDS)),
            _without(*_ASSIGNED_TOPOLOGY),
            _without("spec", "preemptionGates"),
            _without("status", "preemptionGates"),
            _without("spec", "podSets", "*", "topologyRequest", "podsetSliceRequiredTopologyConstraints"),
        ),
    ),
    "AdmissionCheck": VersionConversion(
        to_v1beta2=_without("spec", "retryDelayMinutes"), to_v1beta1=_inside(("spec",), _with_retry_delay)
    ),
}
