"""Whether an object of ``kueue.x-k8s.io`` may be created or changed: every problem at once, each with its field.

Pure; ``admission/`` asks. Both versions are judged as what they are in v1beta2. What was wrong before and is not
touched does not stand in the way of another change, so that finalizers can be taken off whatever else is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.kube.errors import FieldErrors
from headgate.kube.validation.values import immutable
from headgate.quota.kinds import queue_rules
from headgate.quota.kinds.conversion import convert
from headgate.quota.kinds.flavor_rules import resource_flavor_problems
from headgate.quota.kinds.gated_by import gate_changes, gate_problems
from headgate.quota.kinds.lenient import Object, part
from headgate.quota.kinds.names import API_VERSION
from headgate.quota.kinds.unsupported import unsupported, warnings
from headgate.quota.kinds.workload_changes import workload_changes
from headgate.quota.kinds.workload_rules import workload_problems

Rule = Callable[[Object], FieldErrors]
Change = Callable[[Object, Object], FieldErrors]


class Verdict(msgspec.Struct, frozen=True):
    problems: FieldErrors = []
    warnings: list[str] = []


def _nothing(obj: Object) -> FieldErrors:
    return []


def _anything(new: Object, old: Object) -> FieldErrors:
    return []


def _same_controller(new: Object, old: Object) -> FieldErrors:
    after, before = (part(each, "spec").get("controllerName") for each in (new, old))
    return immutable(after, before, "spec.controllerName")


_RULES: Final[dict[str, tuple[Rule, Change]]] = {
    "ResourceFlavor": (resource_flavor_problems, _anything),
    "ClusterQueue": (queue_rules.cluster_queue_problems, _anything),
    "Cohort": (queue_rules.cohort_problems, _anything),
    "LocalQueue": (queue_rules.local_queue_problems, queue_rules.local_queue_changes),
    "Workload": (workload_problems, workload_changes),
    "AdmissionCheck": (_nothing, _same_controller),
}


def judge(new: Object, old: Object | None, *, honours_gates: bool = True) -> Verdict:
    """``old``: what is replaced, if anything is. ``honours_gates``: the feature gate AdmissionGatedBy; while it is off
    the annotation has no rules."""
    new = convert(new, API_VERSION)
    kind = str(new.get("kind"))
    rules = _RULES.get(kind)
    if rules is None:
        return Verdict()
    has_gates = honours_gates and kind == "Workload"
    problems = _standing(kind, new, has_gates)
    if old:
        old = convert(old, API_VERSION)
        if problems:
            before = set(map(str, _standing(kind, old, has_gates)))
            problems = [each for each in problems if str(each) not in before]
        problems += rules[1](new, old) + (gate_changes(new, old) if has_gates else [])
    return Verdict(problems, warnings(kind, new))


def _standing(kind: str, obj: Object, has_gates: bool) -> FieldErrors:
    """What is wrong with it by itself."""
    return unsupported(kind, obj) + _RULES[kind][0](obj) + (gate_problems(obj) if has_gates else [])
