"""Merge patches that change the pod templates of a job when it starts, and restore them when it stops.

A start adds the node labels of the flavor as a node selector, the tolerations of the flavor, labels with the names of
the queues, the annotation of the quota reservation (with it the pods are counted while they terminate), and the changes
that admission checks request. A stop restores the user's templates from the pod sets of the Workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.kinds.job_fields import Object, merge_patch_between, merge_patches, with_value, without_value
from headgate.jobs.kinds.job_kind import JobKind, JobPodSet, job_pod_sets, template_of
from headgate.jobs.names import CLUSTER_QUEUE_LABEL, DEFAULT_TEMPLATE, LOCAL_QUEUE_LABEL, POD_SET_LABEL
from headgate.kube.lenient_reader import get_path
from headgate.kube.names import is_dns1123_label
from headgate.quota.api.quota_reservation import reservation_text
from headgate.quota.api.resource_flavor import ResourceFlavor
from headgate.quota.names import QUOTA_RESERVATION

_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
"""The maps in a template that are merged by key."""


class PodSetInfo(msgspec.Struct, frozen=True):
    """What a start adds to the pods of a pod set, as Kueue's PodSetInfo. ``values``: the maps ``labels``,
    ``annotations`` and ``nodeSelector``."""

    values: Mapping[str, Mapping[str, str]]
    tolerations: tuple[Mapping[str, Any], ...]


class StartConflict(msgspec.Struct, frozen=True):
    """Why an admitted job cannot be started. ``is_final``: a later retry cannot succeed."""

    message: str
    is_final: bool = True


def pod_set_info_of(
    workload: Object, pod_set: str, flavors: Mapping[str, ResourceFlavor]
) -> PodSetInfo | StartConflict:
    """What the admission adds to the pods of a pod set."""
    admission = get_path(workload, ("status", "admission")) or {}
    assigned: Object = next(
        (each for each in admission.get("podSetAssignments") or () if each.get("name") == pod_set), {}
    )
    values: dict[str, dict[str, str]] = {
        "labels": _labels(workload, pod_set),
        "annotations": {QUOTA_RESERVATION: reservation_text(workload, pod_set)},
        "nodeSelector": {},
    }
    tolerations: list[Mapping[str, Any]] = []
    for name in dict.fromkeys((assigned.get("flavors") or {}).values()):
        flavor = flavors.get(name)
        if flavor is None:
            return StartConflict(f'ResourceFlavor "{name}" not found', is_final=False)
        values["nodeSelector"].update(flavor.node_labels)
        tolerations += [each for each in flavor.tolerations if each not in tolerations]
    for check in get_path(workload, ("status", "admissionChecks")) or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") != pod_set:
                continue
            for field, known in values.items():
                conflict_text = _find_conflict(known, update.get(field) or {})
                if conflict_text:
                    return StartConflict(
                        f'in admission check "{check.get("name")}": {_conflict_message(field, conflict_text)}'
                    )
                known.update(update.get(field) or {})
            tolerations += [each for each in update.get("tolerations") or () if each not in tolerations]
    return PodSetInfo(values, tuple(tolerations))


def pod_set_info_patch(template: Object, info: PodSetInfo) -> Object | StartConflict:
    """A merge patch of a template or a pod that adds ``info``; or the conflict with a value that it already has."""
    patch: Object = {}
    for part, field in _MAPS:
        known, more = get_path(template, (part, field)) or {}, info.values[field]
        # The user may have copied the reservation annotation from another pod: it is replaced.
        known = {key: value for key, value in known.items() if key != QUOTA_RESERVATION}
        conflict_text = _find_conflict(known, more)
        if conflict_text:
            return StartConflict(_conflict_message(field, conflict_text))
        new = {key: value for key, value in more.items() if key not in known}
        if new:
            patch.setdefault(part, {})[field] = new
    tolerations = get_path(template, ("spec", "tolerations")) or []
    more_tolerations = [dict(each) for each in info.tolerations if each not in tolerations]
    if more_tolerations:
        patch.setdefault("spec", {})["tolerations"] = [*tolerations, *more_tolerations]
    return patch


def start_patch(
    kind: JobKind, job: Object, workload: Object, flavors: Mapping[str, ResourceFlavor]
) -> Object | StartConflict:
    """A merge patch of the job that adds to each pod template what the admission requires, and sets the admitted
    counts; or the conflict that prevents the start."""
    started = job
    assignments = {
        each.get("name"): each for each in get_path(workload, ("status", "admission", "podSetAssignments")) or ()
    }
    pod_sets = {each.get("name"): each for each in get_path(workload, ("spec", "podSets")) or ()}
    for pod_set in job_pod_sets(kind, job):
        info = pod_set_info_of(workload, pod_set.name, flavors)
        if isinstance(info, StartConflict):
            return info
        template = template_of(job, pod_set)
        changed = pod_set_info_patch(template, info)
        if isinstance(changed, StartConflict):
            return changed
        if pod_set.is_default:
            changed = merge_patches({"metadata": {"annotations": {DEFAULT_TEMPLATE: "true"}}}, changed)
        started = with_value(started, pod_set.template, _merged(template, changed))
        admitted = assignments.get(pod_set.name, {}).get("count", pod_set.count)
        if pod_sets.get(pod_set.name, {}).get("minCount") is not None and admitted != pod_set.count:
            started = _with_count(started, pod_set, admitted)
    return merge_patch_between(job, started)


def restore_patch(kind: JobKind, job: Object, workload: Object | None) -> Object:
    """A merge patch of the job that restores the user's templates."""
    restored = job
    pod_sets = {each.get("name"): each for each in get_path(workload or {}, ("spec", "podSets")) or ()}
    for pod_set in job_pod_sets(kind, job):
        pods = pod_sets.get(pod_set.name)
        if pods is None or pod_set.is_default:
            continue
        template = template_of(job, pod_set)
        if get_path(template, ("metadata", "annotations", DEFAULT_TEMPLATE)) is not None:
            restored = without_value(restored, pod_set.template)
        else:
            original = _restored_template(pods.get("template") or {}, template, kind.managed_labels)
            restored = with_value(restored, pod_set.template, original)
        if pods.get("minCount") is not None and pods.get("count") != pod_set.count:
            restored = _with_count(restored, pod_set, pods["count"])
    return merge_patch_between(job, restored)


def _restored_template(original: Object, current: Object, managed_labels: frozenset[str]) -> Object:
    """The current template with the fields of the original one that a start changes. A field that the original does not
    have is removed, so that the template is again what its user wrote."""
    restored = current
    for part, field in (*_MAPS, ("spec", "tolerations")):
        before = get_path(original, (part, field))
        if field == "labels":
            labels = get_path(current, (part, field)) or {}
            managed = {key: each for key, each in labels.items() if key in managed_labels}
            before = {**(before or {}), **managed} if before is not None or managed else None
        restored = (
            without_value(restored, (part, field)) if before is None else with_value(restored, (part, field), before)
        )
    if original.get("metadata") is None and not restored.get("metadata"):
        restored = without_value(restored, ("metadata",))
    result: Object = restored
    return result


def _with_count(job: Object, pod_set: JobPodSet, count: int) -> Object:
    for path in pod_set.counts:
        job = with_value(job, path, count)
    return job


def _merged(obj: Object, patch: Object) -> Object:
    """The object with a merge patch that removes nothing."""
    merged = dict(obj)
    for key, value in patch.items():
        merged[key] = _merged(merged.get(key) or {}, value) if isinstance(value, dict) else value
    return merged


def _labels(workload: Object, pod_set: str) -> dict[str, str]:
    """Labels with the names of the pod set and its queues. A name that is invalid as a label value is left out."""
    local = get_path(workload, ("spec", "queueName")) or ""
    cluster = get_path(workload, ("status", "admission", "clusterQueue")) or ""
    found = {POD_SET_LABEL: pod_set, LOCAL_QUEUE_LABEL: local, CLUSTER_QUEUE_LABEL: cluster}
    return {key: value for key, value in found.items() if value and not is_dns1123_label(value)}


def _find_conflict(known: Mapping[str, str], more: Mapping[str, str]) -> str:
    """The first key that has different values in both maps, with these values; empty if there is none."""
    found = (key for key, value in more.items() if known.get(key, value) != value)
    return next((f"{key}: {known[key]} and {more[key]}" for key in found), "")


def _conflict_message(field: str, conflict_text: str) -> str:
    return f"conflict for {field}: {conflict_text}"
