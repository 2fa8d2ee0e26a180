"""Which fields of an object are recorded: those that an audit, the bill or a replay reads, and no others.

The tables list what is kept, so a field that is not listed is never recorded: environment variables, commands, images,
volumes, data, and annotations of other projects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.capacity.api.task import ANNOTATIONS as QUEUE_ANNOTATIONS
from headgate.capacity.names import DEQUEUE_STRATEGY, MAX_PODS_WITHOUT_NODE, STATE
from headgate.recording.changes import Object

ALL: Final = "*"
"""As a key: every key. As a rule: the whole value."""
Rule = Any
"""``ALL``, or the rules of the fields; for a list, the rules of its items."""

_ANNOTATIONS: Final = frozenset(
    {*QUEUE_ANNOTATIONS, DEQUEUE_STRATEGY, MAX_PODS_WITHOUT_NODE, STATE, "batch.kubernetes.io/job-completion-index"}
)
_ANNOTATION_GROUPS: Final = ("kueue.x-k8s.io/", "headgate.dev/")


def _whole(*names: str) -> dict[str, Rule]:
    """These fields, with everything inside."""
    return dict.fromkeys(names, ALL)


_METADATA: Final[Rule] = {
    **_whole("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels"),
    **_whole("deletionGracePeriodSeconds", "finalizers"),
    "ownerReferences": _whole("apiVersion", "kind", "name", "uid", "controller"),
}
_RESOURCES: Final[Rule] = {"requests": ALL, "limits": ALL}
_CONTAINER: Final[Rule] = {"name": ALL, "resources": _RESOURCES, "restartPolicy": ALL, "ports": {"hostPort": ALL}}
_POD_SPEC: Final[Rule] = {
    **_whole("nodeName", "schedulerName", "schedulingGates", "priority", "priorityClassName", "preemptionPolicy"),
    **_whole("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "overhead", "resources"),
    **_whole("terminationGracePeriodSeconds", "activeDeadlineSeconds", "restartPolicy", "runtimeClassName"),
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "volumes": {"persistentVolumeClaim": {"claimName": ALL}},
}
_CONDITION: Final[Rule] = _whole("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER_STATUS: Final[Rule] = {"name": ALL, "resources": _RESOURCES, "allocatedResources": ALL}
_TEMPLATE: Final[Rule] = {"spec": _POD_SPEC}
_STATUS_CONDITIONS: Final[Rule] = {"conditions": _CONDITION}

_FIELDS: Final[Mapping[str, Rule]] = {
    "namespaces": {},
    "nodes": {
        "spec": {"taints": ALL, "unschedulable": ALL, "providerID": ALL},
        "status": {"capacity": ALL, "allocatable": ALL, **_STATUS_CONDITIONS},
    },
    "pods": {
        "spec": _POD_SPEC,
        "status": {
            "phase": ALL,
            "nominatedNodeName": ALL,
            "startTime": ALL,
            "containerStatuses": _CONTAINER_STATUS,
            "initContainerStatuses": _CONTAINER_STATUS,
            **_STATUS_CONDITIONS,
        },
    },
    "queues.scheduling.volcano.sh": {"spec": ALL, "status": {"state": ALL, "allocated": ALL}},
    "podgroups.scheduling.volcano.sh": {"spec": ALL, "status": {"phase": ALL, **_STATUS_CONDITIONS}},
    "resourceflavors.kueue.x-k8s.io": {"spec": ALL},
    "cohorts.kueue.x-k8s.io": {"spec": ALL},
    "clusterqueues.kueue.x-k8s.io": {"spec": ALL, "status": _STATUS_CONDITIONS},
    "localqueues.kueue.x-k8s.io": {"spec": ALL},
    "workloads.kueue.x-k8s.io": {
        "spec": {
            **_whole("queueName", "priority", "priorityClassName", "active"),
            "podSets": {**_whole("name", "count", "minCount", "topologyRequest"), "template": _TEMPLATE},
        },
        "status": {
            **_whole("admission", "requeueState", "reclaimablePods", "admissionChecks"),
            **_STATUS_CONDITIONS,
        },
    },
    "jobs.batch": {
        "spec": {
            **_whole("suspend", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"),
            "template": _TEMPLATE,
        },
        "status": {**_whole("active", "succeeded", "failed", "startTime", "completionTime"), **_STATUS_CONDITIONS},
    },
    "nodeclaims.karpenter.sh": {
        "spec": _whole("requirements", "resources", "nodeClassRef"),
        "status": {**_whole("nodeName", "providerID", "capacity", "allocatable"), **_STATUS_CONDITIONS},
    },
    "events": {
        **_whole("involvedObject", "reason", "message", "type", "count", "firstTimestamp", "lastTimestamp"),
        **_whole("eventTime", "reportingComponent", "source"),
    },
}


def prune(resource: str, obj: Object) -> Object:
    """The part of the object that is recorded. The resource must be one of ``resources.py``."""
    found: Object = _select(obj, {"metadata": _METADATA, **_FIELDS[resource]})
    metadata = obj.get("metadata") or {}
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if is_recorded_annotation(key)
    }
    if annotations:
        found["metadata"]["annotations"] = annotations
    return found


def is_recorded_annotation(key: str) -> bool:
    return key in _ANNOTATIONS or key.startswith(_ANNOTATION_GROUPS)


def _select(value: Any, rule: Rule) -> Any:
    if rule == ALL:
        return value
    if isinstance(value, list):
        return [_select(each, rule) for each in value]
    if not isinstance(value, dict):
        return value if value is None else {}
    return {name: _select(value[name], inner) for name, inner in rule.items() if name in value}
