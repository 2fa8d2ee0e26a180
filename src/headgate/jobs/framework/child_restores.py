"""Child Jobs that keep what an earlier admission has added to their templates.

On resume, the controller of some kinds merges the templates of the object into child Jobs that exist already, and does
not remove what is no longer there: https://github.com/kubernetes-sigs/jobset/pull/1294. Such a child would need the
nodes of two flavors. While the object is suspended, the additions are removed from its children, and the object is not
started before that. Keys of the domain of that controller are its own, and are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.controllers.framework.effects import Patch
from headgate.jobs.framework.job_writes import PlannedWrite, preconditions
from headgate.jobs.kinds.batch_job import JOB
from headgate.jobs.kinds.job_fields import Object, merge_patch_between, merge_patches, value_at
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set, job_pod_sets, template_of
from headgate.jobs.names import POD_SET_LABEL
from headgate.kube.lenient_reader import find_items, find_object
from headgate.quota.names import QUOTA_RESERVATION

_TEMPLATE: Final = ("spec", "template")
_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))


def plan_child_restore(kind: JobKind, job: Object, children: Iterable[Object]) -> PlannedWrite | None:
    """The next write to a child Job of a suspended job, or a plan without a write if a child has to be suspended by its
    controller first; None if no child keeps anything of an earlier admission."""
    if not kind.merged_children:
        return None
    originals = {each.name: template_of(job, each) for each in job_pod_sets(kind, job)}
    waits = False
    for child in children:
        original = originals.get(_pod_set_of(child))
        if original is None or JOB.outcome(child) is not None or not _is_started(child):
            continue
        if not has_suspend_set(JOB, child) or JOB.is_active(child):
            waits = True
        elif value_at(child, JOB.start_time) is not None:
            return _patch(child, {"status": {"startTime": None}}, "status")
        else:
            restored = _restored(original, child, kind.merged_children)
            return _patch(child, merge_patch_between(child, {**child, "spec": {**child["spec"], "template": restored}}))
    return PlannedWrite(None) if waits else None


def _pod_set_of(child: Object) -> Any:
    return value_at(child, (*_TEMPLATE, "metadata", "labels", POD_SET_LABEL))


def _is_started(child: Object) -> bool:
    """Whether the template has what a start adds."""
    return value_at(child, (*_TEMPLATE, "metadata", "annotations", QUOTA_RESERVATION)) is not None


def _restored(original: Object, child: Object, domain: str) -> Object:
    """The template of the child with the user's fields, and those that its controller has added."""
    template = find_object(child, *_TEMPLATE)
    parts = {part: dict(find_object(template, part)) for part in ("metadata", "spec")}
    for part, field in _MAPS:
        own = {key: value for key, value in find_object(template, part, field).items() if _is_of(key, domain)}
        parts[part][field] = {**find_object(original, part, field), **own}
    tolerations = find_items(original, "spec", "tolerations")
    own_tolerations = [
        each
        for each in find_items(template, "spec", "tolerations")
        if _is_of(str(each.get("key", "")), domain) and each not in tolerations
    ]
    parts["spec"]["tolerations"] = [*tolerations, *own_tolerations]
    return {**template, **parts}


def _is_of(key: str, domain: str) -> bool:
    """Whether the key belongs to the controller with this domain, or to Kubernetes' own controller of Jobs."""
    prefix, slash, _ = key.rpartition("/")
    return key in JOB.managed_labels or (bool(slash) and (prefix == domain or prefix.endswith(f".{domain}")))


def _patch(child: Object, body: Object, subresource: str = "") -> PlannedWrite:
    metadata = child["metadata"]
    conditional = merge_patches(body, {"metadata": preconditions(child)})
    return PlannedWrite(Patch(JOB.resource, metadata["namespace"], metadata["name"], conditional, "merge", subresource))
