"""Queue and PodGroup as CustomResourceDefinitions, and the two queues that are always there.

Data in Volcano's shape: whatever a manifest written for Volcano may say is kept, also what nobody here acts on (who
says so to the user: ``unsupported.py``). No CEL: rules that need more than one field, or another queue, are
``rules.py``'s. Ours beside Volcano's are ``status.reserved``, ``status.terminating`` and the conditions of a queue.
``client/installing.py`` brings them to a server.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.capacity.names import DEFAULT, GROUP, POD_GROUPS, QUEUES, ROOT, VERSION
from headgate.kube.resource import Resource
from headgate.kube.structural.building import (
    COUNT,
    TEXT,
    TIME,
    column,
    definition,
    fields,
    listing,
    mapping,
    resource_schema,
    resources,
    said,
    version,
)

Object = dict[str, Any]

_NAME: Final[Object] = {"type": "string", "maxLength": 253}
_QUEUE_NAME: Final[Object] = {
    **_NAME,
    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$",
}


def _conditions(**further: Object) -> Object:
    return listing(fields(type=TEXT, status=TEXT, reason=TEXT, message=TEXT, lastTransitionTime=TIME, **further))


_NODE_GROUPS: Final = fields(
    requiredDuringSchedulingIgnoredDuringExecution=listing(TEXT),
    preferredDuringSchedulingIgnoredDuringExecution=listing(TEXT),
)
_DEVICES: Final = mapping(
    {
        **fields(count={"type": "integer", "format": "int64"}, capacity=resources()),
        "required": ["count"],
    }
)
_QUEUE_SPEC: Final = fields(
    "Who may use how much. A queue without a parent is a child of the queue root.",
    weight={
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 65535,
        "default": 1,
        "description": "Its part of what is shared by the plugin proportion.",
    },
    capability=resources("Never more than this. What is not named here is limited by the queues above only."),
    deserved=resources("What it gets back from others if it needs it; it may use more while nobody else does."),
    guarantee=fields("What is kept for it.", resource=resources("Nobody else can use this, needed or not.")),
    reclaimable={"type": "boolean", "description": "Whether others may take back what it uses beyond deserved."},
    parent=said(_QUEUE_NAME, "The queue above it."),
    priority=said(COUNT, "Served before queues with less, and reclaimed from after them."),
    dequeueStrategy={"type": "string", "enum": ["fifo", "traverse"]},
    type=_NAME,
    affinity=fields(nodeGroupAffinity=_NODE_GROUPS, nodeGroupAntiAffinity=_NODE_GROUPS),
    extendClusters=listing(fields(name=TEXT, weight={"type": "integer", "format": "int32"}, capacity=resources())),
    dra=fields(capability=_DEVICES, deserved=_DEVICES, guarantee=_DEVICES),
)
_QUEUE_STATUS: Final = fields(
    state={
        "type": "string",
        "enum": ["", "Open", "Closed", "Closing", "Unknown"],
        "description": "Only an open queue takes anything new.",
    },
    pending=said(COUNT, "PodGroups that wait for their turn."),
    inqueue=said(COUNT, "PodGroups whose pods may come."),
    running=said(COUNT, "PodGroups that have their minimum."),
    unknown=said(COUNT, "PodGroups of which some run and the others find no place."),
    completed=said(COUNT, "PodGroups whose pods are all done."),
    allocated=resources("What pods on nodes hold, here and in the queues below."),
    reserved=resources("What was promised to pods that have no node yet, here and in the queues below."),
    terminating=resources(
        "What terminating pods still use on their nodes, here and in the queues below. It is not in allocated: their "
        "share is free from their deletion timestamp on, so allocated and terminating may exceed the capability."
    ),
    reservation=fields(nodes=listing(TEXT), resource=resources()),
    conditions=_conditions(),
)
_TOPOLOGY: Final = fields(
    mode={"type": "string", "enum": ["hard", "soft"], "default": "hard"},
    highestTierAllowed={"type": "integer", "minimum": 0},
    highestTierName=_NAME,
)
_SELECTOR: Final = fields(
    matchLabels=mapping(TEXT),
    matchExpressions=listing(
        {**fields(key=TEXT, operator=TEXT, values=listing(TEXT)), "required": ["key", "operator"]}
    ),
)
_GROUP_SPEC: Final = fields(
    "Pods that start together or not at all.",
    minMember=said(COUNT, "So many of its pods are placed at once, or none."),
    minTaskMember=mapping({"type": "integer", "format": "int32"}, "So many of each role (volcano.sh/task-spec)."),
    queue=said(_QUEUE_NAME, "Without one its pods, their namespace or the queue default decide."),
    priorityClassName=_NAME,
    minResources=resources("What its minimum needs: it is let into its queue when there is room for that."),
    preemptable={"type": "boolean"},
    networkTopology=_TOPOLOGY,
    subGroupPolicy=listing(
        fields(
            name=_NAME,
            networkTopology=_TOPOLOGY,
            subGroupSize={"type": "integer", "format": "int32", "minimum": 1},
            minSubGroups=COUNT,
            labelSelector=_SELECTOR,
            matchLabelKeys=listing(TEXT),
            matchPolicy=listing(fields(labelKey=TEXT)),
        )
    ),
)
_GROUP_STATUS: Final = fields(
    phase={"type": "string", "enum": ["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]},
    running=said(COUNT, "Pods that run."),
    succeeded=said(COUNT, "Pods that ended well."),
    failed=said(COUNT, "Pods that failed."),
    conditions=_conditions(transitionID=TEXT),
)


_QUEUE_COLUMNS: Final = [
    column("PARENT", ".spec.parent"),
    column("STATE", ".status.state"),
    column("AGE", ".metadata.creationTimestamp", "date"),
    column("WEIGHT", ".spec.weight", "integer", wide=True),
    *(
        column(phase.upper(), f".status.{phase}", "integer", wide=True)
        for phase in ("inqueue", "pending", "running", "unknown", "completed")
    ),
]
_GROUP_COLUMNS: Final = [
    column("STATUS", ".status.phase"),
    column("minMember", ".spec.minMember", "integer"),
    column("RUNNINGS", ".status.running", "integer"),
    column("AGE", ".metadata.creationTimestamp", "date"),
    column("QUEUE", ".spec.queue", wide=True),
]


def _definition(
    kind: str,
    resource: Resource,
    short: str,
    description: str,
    spec: Object,
    status: Object,
    columns: list[Object],
) -> Object:
    schema = resource_schema(description, spec=spec, status=status)
    further: Object = {"subresources": {"status": {}}, "additionalPrinterColumns": columns}
    return definition(
        GROUP,
        kind,
        resource.plural,
        (short, f"{kind.lower()}-{VERSION}"),
        namespaced=resource.namespaced,
        versions=[version(VERSION, schema, stored=True, **further)],
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
"""Where pods belong that name none."""
FIRST_QUEUES: Final[tuple[Object, ...]] = (_queue(ROOT, {"weight": 1, "reclaimable": False}), DEFAULT_QUEUE)
"""The one above all others, and that one."""


def group_of_one(namespace: str, name: str, uid: str, queue: str) -> Object:
    """A PodGroup for a pod that names none, by the name that Volcano gives it. It goes when the pod goes."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PodGroup",
        "metadata": {"namespace": namespace, "name": f"podgroup-{uid}", "ownerReferences": [owner]},
        "spec": {"minMember": 1, "queue": queue},
    }
