"""What templates are told when their job starts, and how it is taken off again: merge patches, no more.

Of a flavor: node labels become a node selector, tolerations are appended. Of the queue: labels. Of the reservation: an
annotation, by which terminating pods are counted. Of admission checks: whatever they ask for.
What the user wrote is in the Workload's pod sets, so that a stop needs no memory of the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.kind import JobKind, Object, at, places_of, put
from headgate.jobs.names import CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL, POD_SET_LABEL
from headgate.kube.names import is_dns1123_label
from headgate.quota.flavor import ResourceFlavor
from headgate.quota.names import QUOTA_RESERVATION
from headgate.quota.reservation import reservation_text

_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
"""What is told by key and value, and where that stands in a template."""


class Telling(msgspec.Struct, frozen=True):
    """``values``: labels, annotations, and node selector, each by key."""

    values: Mapping[str, Mapping[str, str]]
    tolerations: tuple[Mapping[str, Any], ...]


class Unfit(msgspec.Struct, frozen=True):
    """Why a job cannot be started as it was admitted. ``is_final``: waiting does not help."""

    message: str
    is_final: bool = True


def telling(workload: Object, pod_set: str, flavors: Mapping[str, ResourceFlavor]) -> Telling | Unfit:
    """What pods of a pod set are told by who admitted them."""
    admission = at(workload, ("status", "admission")) or {}
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
            return Unfit(f'ResourceFlavor "{name}" not found', is_final=False)
        values["nodeSelector"].update(flavor.node_labels)
        tolerations += [each for each in flavor.tolerations if each not in tolerations]
    for check in at(workload, ("status", "admissionChecks")) or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") != pod_set:
                continue
            for field, known in values.items():
                clash = _clash(known, update.get(field) or {})
                if clash:
                    return Unfit(f'in admission check "{check.get("name")}": {_conflict(field, clash)}')
                known.update(update.get(field) or {})
            tolerations += [each for each in update.get("tolerations") or () if each not in tolerations]
    return Telling(values, tuple(tolerations))


def told(template: Object, telling: Telling) -> Object | Unfit:
    """A merge patch of a template, or a pod, that tells it so."""
    patch: Object = {}
    for part, field in _MAPS:
        known, more = at(template, (part, field)) or {}, telling.values[field]
        known = {key: value for key, value in known.items() if key != QUOTA_RESERVATION}  # a copy of another pod's
        clash = _clash(known, more)
        if clash:
            return Unfit(_conflict(field, clash))
        new = {key: value for key, value in more.items() if key not in known}
        if new:
            patch.setdefault(part, {})[field] = new
    tolerations = at(template, ("spec", "tolerations")) or []
    more_tolerations = [dict(each) for each in telling.tolerations if each not in tolerations]
    if more_tolerations:
        patch.setdefault("spec", {})["tolerations"] = [*tolerations, *more_tolerations]
    return patch


def placed(kind: JobKind, job: Object, workload: Object, flavors: Mapping[str, ResourceFlavor]) -> Object | Unfit:
    """A merge patch of the job that puts each pod set where it was admitted, with as many pods as were."""
    patch: Object = {}
    given = {each.get("name"): each for each in at(workload, ("status", "admission", "podSetAssignments")) or ()}
    own = {each.get("name"): each for each in at(workload, ("spec", "podSets")) or ()}
    for place in places_of(kind, job):
        what = telling(workload, place.name, flavors)
        if isinstance(what, Unfit):
            return what
        changed = told(at(job, place.template) or {}, what)
        if isinstance(changed, Unfit):
            return changed
        patch = merged(patch, put(place.template, changed)) if changed else patch
        count = place.count(job)
        admitted = given.get(place.name, {}).get("count", count)
        if own.get(place.name, {}).get("minCount") is not None and admitted != count:
            patch = merged(patch, place.resized(job, admitted))
    return patch


def restored(kind: JobKind, job: Object, workload: Object | None) -> Object:
    """A merge patch of the job that gives its templates back what their user wrote."""
    patch: Object = {}
    own = {each.get("name"): each for each in at(workload or {}, ("spec", "podSets")) or ()}
    for place in places_of(kind, job):
        pods = own.get(place.name)
        if pods is None:
            continue
        wanted, now = pods.get("template") or {}, at(job, place.template) or {}
        changed: Object = {}
        for part, field in _MAPS:
            before, there = at(wanted, (part, field)) or {}, at(now, (part, field)) or {}
            gone = [key for key in there if key not in before and key not in kind.managed_labels]
            other = {key: value for key, value in before.items() if there.get(key) != value}
            if gone or other:
                is_ours = not before and len(gone) == len(there)  # the whole map was made by the start
                changed.setdefault(part, {})[field] = None if is_ours else {**dict.fromkeys(gone), **other}
        tolerations = at(wanted, ("spec", "tolerations")) or []
        if tolerations != (at(now, ("spec", "tolerations")) or []):
            changed.setdefault("spec", {})["tolerations"] = tolerations or None
        patch = merged(patch, put(place.template, changed)) if changed else patch
        if pods.get("minCount") is not None and pods.get("count") != place.count(job):
            patch = merged(patch, place.resized(job, pods["count"]))
    return patch


def merged(one: Object, other: Object) -> Object:
    """Two merge patches as one."""
    made = dict(one)
    for key, value in other.items():
        mine = made.get(key)
        made[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return made


def _labels(workload: Object, pod_set: str) -> dict[str, str]:
    """A name that is no label is left out."""
    local = at(workload, ("spec", "queueName")) or ""
    cluster = at(workload, ("status", "admission", "clusterQueue")) or ""
    found = {POD_SET_LABEL: pod_set, LOCAL_QUEUE_LABEL: local, CLUSTER_QUEUE_LABEL: cluster}
    return {key: value for key, value in found.items() if value and not is_dns1123_label(value)}


def _clash(known: Mapping[str, str], more: Mapping[str, str]) -> str:
    found = (key for key, value in more.items() if known.get(key, value) != value)
    return next((f"{key}: {known[key]} and {more[key]}" for key in found), "")


def _conflict(field: str, clash: str) -> str:
    return f"conflict for {field}: {clash}"
