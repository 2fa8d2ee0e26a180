"""The annotation ``kueue.x-k8s.io/admission-gated-by``: a list of gate names. While it is not empty, the
workload or job is not admitted.

Clients set it at creation; an update can only remove names. The messages are Kueue's. ``quota/queues/blockers.py``
keeps a workload with gates out of its queue.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.field_errors import FieldErrors, forbidden, invalid, too_long
from headgate.kube.lenient_reader import Object, find_object, find_text
from headgate.kube.validation.values import validate_domain_prefixed_path
from headgate.quota.names import ADMISSION_GATED_BY

_PATH: Final = f"metadata.annotations[{ADMISSION_GATED_BY}]"
_MAX_BYTES: Final = 63


def gate_problems(obj: Object) -> FieldErrors:
    """Problems of the gate names."""
    value = find_text(find_object(obj, "metadata", "annotations"), ADMISSION_GATED_BY)
    found: FieldErrors = []
    seen: set[str] = set()
    for name in _names(value):
        if not name:
            found.append(invalid(_PATH, value, "cannot contain empty gate names"))
        elif name in seen:
            found.append(invalid(_PATH, value, f"duplicate gate name: {name}"))
        else:
            found += validate_domain_prefixed_path(name, _PATH)
            found += [too_long(_PATH, _MAX_BYTES)] if len(name.encode()) > _MAX_BYTES else []
        seen.add(name)
    return found


def gate_update_problems(new: Object, old: Object) -> FieldErrors:
    """Problems of an update of the annotation."""
    after, before = (
        _names(find_text(find_object(each, "metadata", "annotations"), ADMISSION_GATED_BY)) for each in (new, old)
    )
    if not before:
        return [forbidden(_PATH, "cannot add admission gate after creation")] if after else []
    if not set(after) <= set(before):
        return [forbidden(_PATH, "can only remove gates, not add new ones")]
    return []


def _names(value: str) -> list[str]:
    return [each.strip() for each in value.split(",")] if value else []
