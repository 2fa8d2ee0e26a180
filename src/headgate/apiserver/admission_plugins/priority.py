"""Priority: resolves a pod's PriorityClass to its value and preemption policy; at most one class is the default.

A client cannot choose the priority of a pod: ``spec.priority`` must be absent, or equal to the value of the class.
``apimachinery/validation/priority_class.py`` reserves names and values for system classes.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister

_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_WITHOUT_CLASS: Final[Object] = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
_COMPUTED: Final = "must not be provided in pod spec; priority admission controller computed"
_KEPT: Final = ("priority", "preemptionPolicy")


def admit_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    spec = new.get("spec") or {}
    name = spec.get("priorityClassName")
    found = lister.get(_CLASSES, "", name) if name else _default_class(lister)
    if name and found is None:
        return attributes.forbidden(new, f"no PriorityClass with name {name} was found")
    resolved = _WITHOUT_CLASS if found is None else found
    value, policy = resolved.get("value", 0), resolved.get("preemptionPolicy")
    given_value, given_policy = spec.get("priority"), spec.get("preemptionPolicy")
    if given_value is not None and given_value != value:
        text = f"the integer value of priority ({given_value}) {_COMPUTED} {value} from the given PriorityClass name"
        return attributes.forbidden(new, text)
    if given_policy is not None and policy is not None and given_policy != policy:
        text = f"the string value of PreemptionPolicy ({given_policy}) {_COMPUTED} {policy}"
        return attributes.forbidden(new, f"{text} from the given PriorityClass name")
    spec = {**spec, "priority": value}
    if policy is not None:
        spec["preemptionPolicy"] = policy
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    new["spec"] = spec
    return None


def keep_priority(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    """On an update without the fields that admission has added, restores them."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    kept = {field: before[field] for field in _KEPT if spec.get(field) is None and before.get(field) is not None}
    if kept:
        new["spec"] = {**spec, **kept}
    return None


def validate_class(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    if not new.get("globalDefault"):
        return None
    found = _default_class(lister)
    if found is None:
        return None
    name = found["metadata"]["name"]
    if attributes.operation == "UPDATE" and name == new["metadata"].get("name"):
        return None
    return attributes.forbidden(new, f"PriorityClass {name} is already marked as default. Only one default can exist")


def _default_class(lister: ObjectLister) -> Object | None:
    """The default class. If there are several, which a restored store may have, the one with the lowest value."""
    defaults = (each for each in lister.list(_CLASSES, None) if each.get("globalDefault"))
    return min(defaults, key=lambda each: int(each.get("value", 0)), default=None)
