"""What may follow what in a Workload: while it holds quota, what was admitted stays what it is.

Each rule is a small function from an object in v1beta2 and the one before it to field errors, in Kueue's words.
"""

from __future__ import annotations

from typing import Final

from headgate.kube import conditions
from headgate.kube.errors import FieldErrors, invalid, required, unfit
from headgate.kube.validation.values import IMMUTABLE
from headgate.quota.kinds.lenient import Object, part, parts, text, whole
from headgate.quota.kinds.workload_rules import has_reservation
from headgate.quota.names import ADMITTED, CHECK_READY

_WHILE_RESERVED: Final = "is immutable while workload quota reserved"
_POD_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")


def workload_changes(new: Object, old: Object) -> FieldErrors:
    after, before = part(new, "spec"), part(old, "spec")
    held, holds = has_reservation(old), has_reservation(new)
    found = _pod_sets(after, before) + _priority_class(after, before) if held else []
    if held and holds:
        if after.get("queueName") != before.get("queueName"):
            found.append(unfit("spec.queueName", f"queueName {_WHILE_RESERVED}"))
        found += _reclaimable(part(new, "status"), part(old, "status"))
    longest = "maximumExecutionTimeSeconds"
    if _is_admitted(new) and _is_admitted(old) and whole(after, longest) != whole(before, longest):
        found.append(unfit(f"spec.{longest}", f"{longest} {_WHILE_RESERVED}"))
    found += _admission(part(new, "status"), part(old, "status"))
    return found + _pod_set_updates(part(new, "status"), part(old, "status"))


def _pod_sets(after: Object, before: Object) -> FieldErrors:
    new, old = (list(parts(each, "podSets", "spec")) for each in (after, before))
    if len(new) != len(old):
        return [unfit("spec.podSets", IMMUTABLE)]
    return [unfit(path, IMMUTABLE) for (path, one), (_, other) in zip(new, old, strict=True) if one != other]


def _priority_class(after: Object, before: Object) -> FieldErrors:
    """The value of a WorkloadPriorityClass may be given by another name; all else stays."""
    name = "priorityClassRef"
    new, old = after.get(name), before.get(name)
    if not isinstance(new, dict) or not isinstance(old, dict):
        return [unfit(f"spec.{name}", f"{name} {_WHILE_RESERVED}")] if (new is None) != (old is None) else []
    found = [
        unfit(f"spec.{name}.{field}", f"{name}.{field} {_WHILE_RESERVED}")
        for field in ("group", "kind")
        if new.get(field) != old.get(field)
    ]
    if (new.get("group"), new.get("kind")) == _POD_CLASS and new.get("name") != old.get("name"):
        detail = f"{name}.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
        found.append(unfit(f"spec.{name}.name", detail))
    return found


def _reclaimable(after: Object, before: Object) -> FieldErrors:
    """Pods that were given back are not taken again."""
    new, old = (
        {text(each, "name"): whole(each, "count") for _, each in parts(status, "reclaimablePods", "")}
        for status in (after, before)
    )
    found: FieldErrors = []
    for name, count in old.items():
        path = f"status.reclaimablePods[{name}]"
        if name not in new:
            found.append(required(path, "cannot be removed"))
        elif new[name] < count:
            found.append(invalid(f"{path}.count", new[name], f"cannot be less than {count}"))
    return found


def _admission(after: Object, before: Object) -> FieldErrors:
    """It is set or unset, and never changed."""
    new, old = after.get("admission"), before.get("admission")
    return [unfit("status.admission", IMMUTABLE)] if new is not None and old is not None and new != old else []


def _pod_set_updates(after: Object, before: Object) -> FieldErrors:
    new = {text(each, "name"): each for _, each in parts(after, "admissionChecks", "")}
    return [
        unfit(f"{path}.podSetUpdates", IMMUTABLE)
        for path, old in parts(before, "admissionChecks", "status")
        for now in [new.get(text(old, "name"))]
        if now is not None
        and old.get("state") == now.get("state") == CHECK_READY
        and (old.get("podSetUpdates") or []) != (now.get("podSetUpdates") or [])
    ]


def _is_admitted(obj: Object) -> bool:
    return conditions.is_true([each for _, each in parts(part(obj, "status"), "conditions", "")], ADMITTED)
