"""What a flavor adds to a job's templates when it starts, and how it is taken off again: merge patches, no more.

Node labels become a node selector, tolerations are appended. What the user wrote is in the Workload's pod sets, so
that a stop needs no memory of the start.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.jobs.kind import JobKind, Object, at, put
from headgate.quota.flavor import ResourceFlavor


def placed(kind: JobKind, workload: Object, flavors: Mapping[str, ResourceFlavor]) -> Object | str:
    """A merge patch of the job that puts each pod set on its flavors; or why the two do not go together."""
    patch: Object = {}
    given = {each.get("name"): each for each in at(workload, ("status", "admission", "podSetAssignments")) or ()}
    own = {each.get("name"): each for each in at(workload, ("spec", "podSets")) or ()}
    for place in kind.pod_sets:
        spec = at(own.get(place.name, {}), ("template", "spec")) or {}
        selector, tolerations = dict(spec.get("nodeSelector") or {}), list(spec.get("tolerations") or [])
        names = dict.fromkeys((given.get(place.name, {}).get("flavors") or {}).values())
        for name in names:
            flavor = flavors.get(name)
            if flavor is None:
                return f'ResourceFlavor "{name}" not found'
            for key, value in flavor.node_labels.items():
                if selector.setdefault(key, value) != value:
                    return f"conflict for nodeSelector {key}: the job says {selector[key]}, flavor {name} says {value}"
            tolerations += [dict(each) for each in flavor.tolerations if each not in tolerations]
        changed: Object = {"nodeSelector": selector} if selector else {}
        if tolerations:
            changed["tolerations"] = tolerations
        patch = merged(patch, put((*place.template, "spec"), changed)) if changed else patch
    return patch


def restored(kind: JobKind, job: Object, workload: Object | None) -> Object:
    """A merge patch of the job that gives its templates back what their user wrote."""
    patch: Object = {}
    own = {each.get("name"): each for each in at(workload or {}, ("spec", "podSets")) or ()}
    for place in kind.pod_sets if workload is not None else ():
        if place.name not in own:
            continue
        wanted, now = at(own[place.name], ("template", "spec")) or {}, at(job, (*place.template, "spec")) or {}
        changed: Object = {}
        if (wanted.get("nodeSelector") or {}) != (now.get("nodeSelector") or {}):
            gone = dict.fromkeys(now.get("nodeSelector") or {}, None)
            changed["nodeSelector"] = {**gone, **(wanted.get("nodeSelector") or {})}
        if (wanted.get("tolerations") or []) != (now.get("tolerations") or []):
            changed["tolerations"] = wanted.get("tolerations") or None
        patch = merged(patch, put((*place.template, "spec"), changed)) if changed else patch
    return patch


def merged(one: Object, other: Object) -> Object:
    """Two merge patches as one."""
    made = dict(one)
    for key, value in other.items():
        mine = made.get(key)
        made[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return made
