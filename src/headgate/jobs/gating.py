"""``kueue.x-k8s.io/scheduling-gated-by`` (KEP-6915): while a job has it, there is no Workload of it.

Set when the job is created, by one name; only ever taken off. Here are its rules and its question; what a gated job
does is ``plan.py``'s. The annotation that holds back a Workload which is there is ``quota/kinds/gated_by.py``'s.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.jobs.names import SCHEDULING_GATED_BY
from headgate.kube.errors import FieldErrors, forbidden, invalid, required, too_long
from headgate.kube.validation.values import domain_prefixed_path

Object = dict[str, Any]

_PATH: Final = f"metadata.annotations[{SCHEDULING_GATED_BY}]"
_MOST_BYTES: Final = 63


def gate_of(job: Object) -> str | None:
    """Who holds the job back; None if nobody does."""
    found = ((job.get("metadata") or {}).get("annotations") or {}).get(SCHEDULING_GATED_BY)
    return found if isinstance(found, str) else None


def problems_of_gate(job: Object) -> FieldErrors:
    """What is wrong with the name, when the job is created."""
    value = gate_of(job)
    if value is None:
        return []
    if not value:
        return [required(_PATH, "name who holds the job back, such as example.com/mygate, or leave the annotation out")]
    if "," in value:
        return [invalid(_PATH, value, "takes one name; a list belongs in kueue.x-k8s.io/admission-gated-by")]
    found = domain_prefixed_path(value, _PATH)
    return found + ([too_long(_PATH, _MOST_BYTES)] if len(value.encode()) > _MOST_BYTES else [])


def changes_of_gate(new: Object, old: Object) -> FieldErrors:
    after, before = gate_of(new), gate_of(old)
    if after is None or after == before:
        return []
    if before is None:
        return [forbidden(_PATH, "cannot be added after creation")]
    return [forbidden(_PATH, "cannot be changed, only removed")]
