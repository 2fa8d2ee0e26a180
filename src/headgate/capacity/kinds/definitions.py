"""Queue and PodGroup as CustomResourceDefinitions, and the two queues that always exist.

The schemas follow Volcano's: every field of a manifest for Volcano is kept, including fields that Headgate does not
support (``unsupported.py`` reports them). There is no CEL: ``queue_rules.py`` has the rules that need more than one
field or another queue. ``status.reserved``, ``status.terminating`` and the conditions of a queue are Headgate's
additions. ``client/installer.py`` installs the definitions.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.capacity.names import DEFAULT, GROUP, POD_GROUPS, QUEUES, ROOT, VERSION
from headgate.kube.api_resources import APIResource
from headgate.kube.crd_builder import (
    DATE_TIME,
    NON_NEGATIVE_INT32,
    STRING,
    crd_version,
    custom_resource_definition,
    described,
    list_of,
    map_of,
    object_schema,
    printer_column,
    resource_list,
    resource_schema,
)

Object = dict[str, Any]

MAX_MIN_RESOURCES: Final = 100
"""How many resources ``minResources`` of a PodGroup may name: the cost of a change of a member grows with it."""
_NAME: Final[Object] = {"type": "string", "maxLength": 253}
_QUEUE_NAME: Final[Object] = {
    **_NAME,
    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$",
}


def _conditions(**further: Object) -> Object:
    return list_of(
        object_schema(
            type=STRING, status=STRING, reason=STRING, message=STRING, lastTransitionTime=DATE_TIME, **further
        )
    )


_NODE_GROUPS: Final = object_schema(
    requiredDuringSchedulingIgnoredDuringExecution=list_of(STRING),
    preferredDuringSchedulingIgnoredDuringExecution=list_of(STRING),
)
_DEVICES: Final = map_of(
    {
        **object_schema(count={"type": "integer", "format": "int64"}, capacity=resource_list()),
        "required": ["count"],
    }
)
_QUEUE_SPEC: Final = object_schema(
    "The limits of a queue. A queue without a parent is a child of the queue root.",
    weight={
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 65535,
        "default": 1,
        "description": "Its weight when the plugin proportion divides the cluster.",
    },
    capability=resource_list(
        "The most that it may use. A resource without an entry is limited only by the queues above."
    ),
    deserved=resource_list("What it may reclaim from other queues; it may use more while they do not need it."),
    guarantee=object_schema(
        "What is reserved for it.", resource=resource_list("No other queue can use this, even if it is idle.")
    ),
    reclaimable={"type": "boolean", "description": "Whether other queues may reclaim what it uses beyond deserved."},
    parent=described(_QUEUE_NAME, "The queue above it."),
    priority=described(NON_NEGATIVE_INT32, "A queue with a higher priority is served first and reclaimed from last."),
    dequeueStrategy={"type": "string", "enum": ["fifo", "traverse"]},
    type=_NAME,
    affinity=object_schema(nodeGroupAffinity=_NODE_GROUPS, nodeGroupAntiAffinity=_NODE_GROUPS),
    extendClusters=list_of(
        object_schema(name=STRING, weight={"type": "integer", "format": "int32"}, capacity=resource_list())
    ),
    dra=object_schema(capability=_DEVICES, deserved=_DEVICES, guarantee=_DEVICES),
)
_QUEUE_STATUS: Final = object_schema(
    state={
        "type": "string",
        "enum": ["", "Open", "Closed", "Closing", "Unknown"],
        "description": "Only an open queue admits new pods.",
    },
    pending=described(NON_NEGATIVE_INT32, "PodGroups that wait to be admitted."),
    inqueue=described(NON_NEGATIVE_INT32, "PodGroups that are admitted and wait for their pods to run."),
    running=described(NON_NEGATIVE_INT32, "PodGroups whose minimum of pods runs."),
    unknown=described(NON_NEGATIVE_INT32, "PodGroups of which some pods run and others are unschedulable."),
    completed=described(NON_NEGATIVE_INT32, "PodGroups whose pods have all ended."),
    allocated=resource_list("What pods on nodes hold, here and in the queues below."),
    reserved=resource_list("What was promised to pods that have no node yet, here and in the queues below."),
    terminating=resource_list(
        "What terminating pods still use on their nodes, here and in the queues below. It is not in allocated: their "
        "share is free from their deletion timestamp on, so allocated and terminating may exceed the capability."
    ),
    reservation=object_schema(nodes=list_of(STRING), resource=resource_list()),
    conditions=_conditions(),
)
_TOPOLOGY: Final = object_schema(
    mode={"type": "string", "enum": ["hard", "soft"], "default": "hard"},
    highestTierAllowed={"type": "integer", "minimum": 0},
    highestTierName=_NAME,
)
_SELECTOR: Final = object_schema(
    matchLabels=map_of(STRING),
    matchExpressions=list_of(
        {**object_schema(key=STRING, operator=STRING, values=list_of(STRING)), "required": ["key", "operator"]}
    ),
)
_GROUP_SPEC: Final = object_schema(
    "Pods that start together or not at all.",
    minMember=described(NON_NEGATIVE_INT32, "The number of pods that start together; fewer do not start."),
    minTaskMember=map_of({"type": "integer", "format": "int32"}, "The same for each role (volcano.sh/task-spec)."),
    queue=described(_QUEUE_NAME, "Default: the queue of its pods, of their namespace, or the queue default."),
    priorityClassName=_NAME,
    minResources=resource_list("What its minimum needs. Its queue admits it when it has capacity for that."),
    preemptable={"type": "boolean"},
    networkTopology=_TOPOLOGY,
    subGroupPolicy=list_of(
        object_schema(
            name=_NAME,
            networkTopology=_TOPOLOGY,
            subGroupSize={"type": "integer", "format": "int32", "minimum": 1},
            minSubGroups=NON_NEGATIVE_INT32,
            labelSelector=_SELECTOR,
            matchLabelKeys=list_of(STRING),
            matchPolicy=list_of(object_schema(labelKey=STRING)),
        )
    ),
)
_GROUP_STATUS: Final = object_schema(
    phase={"type": "string", "enum": ["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]},
    running=described(NON_NEGATIVE_INT32, "Pods that run."),
    succeeded=described(NON_NEGATIVE_INT32, "Pods that succeeded."),
    failed=described(NON_NEGATIVE_INT32, "Pods that failed."),
    conditions=_conditions(transitionID=STRING),
)


_QUEUE_COLUMNS: Final = [
    printer_column("PARENT", ".spec.parent"),
    printer_column("STATE", ".status.state"),
    printer_column("AGE", ".metadata.creationTimestamp", "date"),
    printer_column("WEIGHT", ".spec.weight", "integer", wide=True),
    *(
        printer_column(phase.upper(), f".status.{phase}", "integer", wide=True)
        for phase in ("inqueue", "pending", "running", "unknown", "completed")
    ),
]
_GROUP_COLUMNS: Final = [
    printer_column("STATUS", ".status.phase"),
    printer_column("minMember", ".spec.minMember", "integer"),
    printer_column("RUNNINGS", ".status.running", "integer"),
    printer_column("AGE", ".metadata.creationTimestamp", "date"),
    printer_column("QUEUE", ".spec.queue", wide=True),
]


def _definition(
    kind: str,
    resource: APIResource,
    short_name: str,
    description: str,
    spec: Object,
    status: Object,
    columns: list[Object],
) -> Object:
    schema = resource_schema(description, spec=spec, status=status)
    further: Object = {"subresources": {"status": {}}, "additionalPrinterColumns": columns}
    return custom_resource_definition(
        GROUP,
        kind,
        resource.plural,
        (short_name, f"{kind.lower()}-{VERSION}"),
        namespaced=resource.namespaced,
        versions=[crd_version(VERSION, schema, stored=True, **further)],
    )


DEFINITIONS: Final[tuple[Object, ...]] = (
    _definition(
        "Queue",
        QUEUES,
        "q",
        "A queue: how much its pods may use together, and whether it takes more.",
        _QUEUE_SPEC,
        _QUEUE_STATUS,
        _QUEUE_COLUMNS,
    ),
    _definition(
        "PodGroup",
        POD_GROUPS,
        "pg",
        "Pods that belong together; they name it by the annotation scheduling.k8s.io/group-name.",
        _GROUP_SPEC,
        _GROUP_STATUS,
        _GROUP_COLUMNS,
    ),
)


def _queue(name: str, spec: Object) -> Object:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


DEFAULT_QUEUE: Final = _queue(DEFAULT, {"weight": 1, "reclaimable": True, "parent": ROOT})
"""The queue of pods that name none."""
BUILTIN_QUEUES: Final[tuple[Object, ...]] = (_queue(ROOT, {"weight": 1, "reclaimable": False}), DEFAULT_QUEUE)
"""The queues that always exist: the root and the default queue."""


def group_of_one(namespace: str, name: str, uid: str, queue: str) -> Object:
    """A PodGroup for a pod that names none, with Volcano's generated name. It is deleted with the pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PodGroup",
        "metadata": {"namespace": namespace, "name": f"podgroup-{uid}", "ownerReferences": [owner]},
        "spec": {"minMember": 1, "queue": queue},
    }
