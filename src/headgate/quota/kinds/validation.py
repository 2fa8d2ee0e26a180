"""Validation of objects of ``kueue.x-k8s.io`` on create and update: reports all errors, each with its field.

It does no I/O; ``admission/`` calls it. Objects in v1beta1 are converted to v1beta2 and then validated. An update may
keep errors that the object had before, so that finalizers can always be removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.kube.field_errors import FieldErrors
from headgate.kube.lenient_reader import Object, find_object
from headgate.kube.validation.values import validate_immutable
from headgate.quota.kinds import queue_validation
from headgate.quota.kinds.admission_gated_by import gate_problems, gate_update_problems
from headgate.quota.kinds.conversion import convert
from headgate.quota.kinds.names import API_VERSION
from headgate.quota.kinds.queue_validation import resource_flavor_problems
from headgate.quota.kinds.unsupported import unsupported_field_problems, warnings
from headgate.quota.kinds.workload_update_validation import workload_update_problems
from headgate.quota.kinds.workload_validation import workload_problems

Rule = Callable[[Object], FieldErrors]
UpdateRule = Callable[[Object, Object], FieldErrors]


class ValidationResult(msgspec.Struct, frozen=True):
    """``problems``: why the object is rejected; ``warnings``: texts about fields that have no effect."""

    problems: FieldErrors = []
    warnings: list[str] = []


def _no_rules(obj: Object) -> FieldErrors:
    return []


def _no_update_rules(new: Object, old: Object) -> FieldErrors:
    return []


def _controller_change_problems(new: Object, old: Object) -> FieldErrors:
    after, before = (find_object(each, "spec").get("controllerName") for each in (new, old))
    return validate_immutable(after, before, "spec.controllerName")


_RULES: Final[dict[str, tuple[Rule, UpdateRule]]] = {
    "ResourceFlavor": (resource_flavor_problems, _no_update_rules),
    "ClusterQueue": (queue_validation.cluster_queue_problems, _no_update_rules),
    "Cohort": (queue_validation.cohort_problems, _no_update_rules),
    "LocalQueue": (queue_validation.local_queue_problems, queue_validation.local_queue_update_problems),
    "Workload": (workload_problems, workload_update_problems),
    "AdmissionCheck": (_no_rules, _controller_change_problems),
}


def validate_object(new: Object, old: Object | None, *, honours_gates: bool = True) -> ValidationResult:
    """``old``: the previous version, on an update. ``honours_gates``: the feature gate AdmissionGatedBy; without it
    the annotation is not validated."""
    new = convert(new, API_VERSION)
    kind = str(new.get("kind"))
    rules = _RULES.get(kind)
    if rules is None:
        return ValidationResult()
    has_gates = honours_gates and kind == "Workload"
    problems = _object_problems(kind, new, has_gates)
    if old:
        old = convert(old, API_VERSION)
        if problems:
            before = set(map(str, _object_problems(kind, old, has_gates)))
            problems = [each for each in problems if str(each) not in before]
        problems += rules[1](new, old) + (gate_update_problems(new, old) if has_gates else [])
    return ValidationResult(problems, warnings(kind, new))


def _object_problems(kind: str, obj: Object, has_gates: bool) -> FieldErrors:
    """Problems of the object, independent of the previous version."""
    return unsupported_field_problems(kind, obj) + _RULES[kind][0](obj) + (gate_problems(obj) if has_gates else [])
