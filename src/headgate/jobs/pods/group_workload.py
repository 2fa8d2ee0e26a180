"""The Workload of a single pod or of a pod group: pod sets by role, owners, priority and admission gates.

A single pod is the controller of its Workload. All pods of a group are owners of its Workload, so the garbage collector
deletes the Workload after the last of them is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.jobs.framework.workload import (
    PriorityClasses,
    admission_gates_of,
    max_execution_s,
    priority_by,
    workload_name_for,
)
from headgate.jobs.names import IS_GROUP_WORKLOAD
from headgate.jobs.pods.managed_pod import ManagedPod
from headgate.jobs.pods.pod_unit import MAX_POD_SETS, PodUnit, by_role, find_metadata_conflict
from headgate.kube.object_meta import OwnerReference, controller_reference
from headgate.kube.schema import GroupVersionKind
from headgate.quota.kinds.names import API_VERSION
from headgate.quota.names import ADMISSION_GATED_BY, JOB_UID_LABEL, RESOURCE_IN_USE

Object = dict[str, Any]

KIND: Final = GroupVersionKind("", "v1", "Pod")
_EXCLUDED_FIELDS: Final = frozenset({"schedulingGates", "nodeName"})
"""Fields that change while a pod is scheduled, so they are not copied to the pod set."""


def workload_name(unit: PodUnit) -> str:
    return unit.key[2] if unit.is_group else workload_name_for(KIND, unit.members[0].pod)


def find_workload_problem(unit: PodUnit) -> str:
    """Why no Workload can be created for these pods; empty if one can."""
    if not unit.is_group:
        return ""
    found = find_metadata_conflict(unit)
    if found:
        return found
    total = unit.representative.total
    if not unit.has_fast_admission and isinstance(total, int) and len(unit.counted_pods) < total:
        return f"'{unit.key[2]}' group has fewer runnable pods than expected"
    if not unit.counted_pods:
        return "failed to find a runnable pod in the group"
    roles = len(by_role(unit.counted_pods))
    if roles > MAX_POD_SETS:
        return f"pod group can't include more than {MAX_POD_SETS} roles, '{unit.key[2]}' has {roles}"
    return ""


def pod_sets(unit: PodUnit) -> list[Object]:
    """The pod sets of a unit for which ``find_workload_problem`` finds no problem and which has no excess pods."""
    if not unit.is_group:
        return [_pod_set(unit.members[0], 1)]
    total, roles = unit.representative.total, by_role(unit.counted_pods)
    if unit.has_fast_admission and isinstance(total, int):
        return [_pod_set(_template_of(roles.get(unit.representative.role, unit.members)), total)]
    return [_pod_set(_template_of(roles[role]), len(roles[role])) for role in sorted(roles)]


def priority_of(unit: PodUnit, classes: PriorityClasses) -> Object | str:
    """The priority fields of the Workload, or an error text about a missing priority class."""
    pods = [each.pod for each in unit.counted_pods or unit.members]
    return priority_by(
        unit.representative.pod, ((pod.get("spec") or {}).get("priorityClassName") for pod in pods), classes
    )


def new_workload(unit: PodUnit, classes: PriorityClasses, gates: str) -> Object | str:
    """The Workload to create, or an error text that says why it cannot be created yet. ``gates``: its admission
    gates."""
    priority_fields = priority_of(unit, classes)
    if isinstance(priority_fields, str):
        return priority_fields
    annotations = {
        **({IS_GROUP_WORKLOAD: "true"} if unit.is_group else {}),
        **({ADMISSION_GATED_BY: gates} if gates else {}),
    }
    metadata: Object = {
        "name": workload_name(unit),
        "namespace": unit.key[1],
        "finalizers": [RESOURCE_IN_USE],
        "ownerReferences": [reference_to(each) for each in unit.counted_pods]
        if unit.is_group
        else [controller_reference(unit.members[0].pod, KIND)],
        **({} if unit.is_group else {"labels": {JOB_UID_LABEL: unit.members[0].uid}}),
        **({"annotations": annotations} if annotations else {}),
    }
    spec: Object = {"podSets": pod_sets(unit), **priority_fields}
    max_time = max_execution_s(unit.representative.pod)
    if unit.representative.queue:
        spec["queueName"] = unit.representative.queue
    if max_time is not None:
        spec["maximumExecutionTimeSeconds"] = max_time
    return {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}


def reference_to(member: ManagedPod) -> OwnerReference:
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": member.name, "uid": member.uid}


def admission_gates_of_members(members: Sequence[ManagedPod]) -> str:
    """The admission gates of all members, separated by commas. A gate on one pod delays the admission of the group."""
    found = {gate.strip() for each in members for gate in admission_gates_of(each.pod).split(",")}
    return ",".join(sorted(found - {""}))


def _template_of(members: Sequence[ManagedPod]) -> ManagedPod:
    """The first pod that waits: the template of one that runs has the node selectors of its flavor."""
    return next((each for each in members if each.is_waiting), members[0])


def _pod_set(member: ManagedPod, count: int) -> Object:
    spec = {key: value for key, value in (member.pod.get("spec") or {}).items() if key not in _EXCLUDED_FIELDS}
    return {"name": member.role, "count": count, "template": {"spec": spec}}
