"""Queue and PodGroup as CustomResourceDefinitions, and the two queues that are always there.

Data in Volcano's shape: whatever a manifest written for Volcano may say is kept, also what nobody here acts on (who
says so to the user: ``unsupported.py``). No CEL: rules that need more than one field, or another queue, are
``rules.py``'s. Ours beside Volcano's are ``status.reserved`` and the conditions of a queue. ``client/installing.py``
brings them to a server.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.capacity.names import DEFAULT, GROUP, POD_GROUPS, QUEUES, ROOT, VERSION

Object = dict[str, Any]

_QUANTITY: Final[Object] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$",
}
_NAME: Final[Object] = {"type": "string", "maxLength": 253}
_QUEUE_NAME: Final[Object] = {
    **_NAME,
    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$",
}
_TEXT: Final[Object] = {"type": "string"}
_COUNT: Final[Object] = {"type": "integer", "format": "int32", "minimum": 0}


def _said(schema: Object, description: str) -> Object:
    return {**schema, "description": description}


def _fields(description: str = "", /, **properties: Object) -> Object:
    told = {"description": description} if description else {}
    return {"type": "object", **told, "properties": properties}


def _map(values: Object, description: str = "") -> Object:
    told = {"description": description} if description else {}
    return {"type": "object", **told, "additionalProperties": values}


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


def _resources(description: str = "") -> Object:
    return _map(_QUANTITY, description)


def _conditions(**further: Object) -> Object:
    time = {"type": "string", "format": "date-time"}
    return _list(_fields(type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT, lastTransitionTime=time, **further))


_NODE_GROUPS: Final = _fields(
    requiredDuringSchedulingIgnoredDuringExecution=_list(_TEXT),
    preferredDuringSchedulingIgnoredDuringExecution=_list(_TEXT),
)
_DEVICES: Final = _map(
    {
        **_fields(count={"type": "integer", "format": "int64"}, capacity=_resources()),
        "required": ["count"],
    }
)
_QUEUE_SPEC: Final = _fields(
    "Who may use how much. A queue without a parent is a child of the queue root.",
    weight={
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 65535,
        "default": 1,
        "description": "Its part of what is shared by the plugin proportion.",
    },
    capability=_resources("Never more than this. What is not named here is limited by the queues above only."),
    deserved=_resources("What it gets back from others if it needs it; it may use more while nobody else does."),
    guarantee=_fields("What is kept for it.", resource=_resources("Nobody else can use this, needed or not.")),
    reclaimable={"type": "boolean", "description": "Whether others may take back what it uses beyond deserved."},
    parent=_said(_QUEUE_NAME, "The queue above it."),
    priority=_said(_COUNT, "Served before queues with less, and reclaimed from after them."),
    dequeueStrategy={"type": "string", "enum": ["fifo", "traverse"]},
    type=_NAME,
    affinity=_fields(nodeGroupAffinity=_NODE_GROUPS, nodeGroupAntiAffinity=_NODE_GROUPS),
    extendClusters=_list(_fields(name=_TEXT, weight={"type": "integer", "format": "int32"}, capacity=_resources())),
    dra=_fields(capability=_DEVICES, deserved=_DEVICES, guarantee=_DEVICES),
)
_QUEUE_STATUS: Final = _fields(
    state={
        "type": "string",
        "enum": ["", "Open", "Closed", "Closing", "Unknown"],
        "description": "Only an open queue takes anything new.",
    },
    pending=_said(_COUNT, "PodGroups that wait for their turn."),
    inqueue=_said(_COUNT, "PodGroups whose pods may come."),
    running=_said(_COUNT, "PodGroups that have their minimum."),
    unknown=_said(_COUNT, "PodGroups of which some run and the others find no place."),
    completed=_said(_COUNT, "PodGroups whose pods are all done."),
    allocated=_resources("What pods on nodes hold, here and in the queues below."),
    reserved=_resources("What was promised to pods that have no node yet, here and in the queues below."),
    reservation=_fields(nodes=_list(_TEXT), resource=_resources()),
    conditions=_conditions(),
)
_TOPOLOGY: Final = _fields(
    mode={"type": "string", "enum": ["hard", "soft"], "default": "hard"},
    highestTierAllowed={"type": "integer", "minimum": 0},
    highestTierName=_NAME,
)
_SELECTOR: Final = _fields(
    matchLabels=_map(_TEXT),
    matchExpressions=_list(
        {**_fields(key=_TEXT, operator=_TEXT, values=_list(_TEXT)), "required": ["key", "operator"]}
    ),
)
_GROUP_SPEC: Final = _fields(
    "Pods that start together or not at all.",
    minMember=_said(_COUNT, "So many of its pods are placed at once, or none."),
    minTaskMember=_map({"type": "integer", "format": "int32"}, "So many of each role (volcano.sh/task-spec)."),
    queue=_said(_QUEUE_NAME, "Without one its pods, their namespace or the queue default decide."),
    priorityClassName=_NAME,
    minResources=_resources("What its minimum needs: it is let into its queue when there is room for that."),
    preemptable={"type": "boolean"},
    networkTopology=_TOPOLOGY,
    subGroupPolicy=_list(
        _fields(
            name=_NAME,
            networkTopology=_TOPOLOGY,
            subGroupSize={"type": "integer", "format": "int32", "minimum": 1},
            minSubGroups=_COUNT,
            labelSelector=_SELECTOR,
            matchLabelKeys=_list(_TEXT),
            matchPolicy=_list(_fields(labelKey=_TEXT)),
        )
    ),
)
_GROUP_STATUS: Final = _fields(
    phase={"type": "string", "enum": ["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]},
    running=_said(_COUNT, "Pods that run."),
    succeeded=_said(_COUNT, "Pods that ended well."),
    failed=_said(_COUNT, "Pods that failed."),
    conditions=_conditions(transitionID=_TEXT),
)


def _column(name: str, path: str, type_: str = "string", *, wide: bool = False) -> Object:
    column = {"name": name, "type": type_, "jsonPath": path}
    return {**column, "priority": 1} if wide else column


_QUEUE_COLUMNS: Final = [
    _column("PARENT", ".spec.parent"),
    _column("STATE", ".status.state"),
    _column("AGE", ".metadata.creationTimestamp", "date"),
    _column("WEIGHT", ".spec.weight", "integer", wide=True),
    *(
        _column(phase.upper(), f".status.{phase}", "integer", wide=True)
        for phase in ("inqueue", "pending", "running", "unknown", "completed")
    ),
]
_GROUP_COLUMNS: Final = [
    _column("STATUS", ".status.phase"),
    _column("minMember", ".spec.minMember", "integer"),
    _column("RUNNINGS", ".status.running", "integer"),
    _column("AGE", ".metadata.creationTimestamp", "date"),
    _column("QUEUE", ".spec.queue", wide=True),
]


def _definition(
    kind: str,
    plural: str,
    short: str,
    scope: str,
    description: str,
    spec: Object,
    status: Object,
    columns: list[Object],
) -> Object:
    singular = kind.lower()
    schema = _fields(description, apiVersion=_TEXT, kind=_TEXT, metadata={"type": "object"}, spec=spec, status=status)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [short, f"{singular}-{VERSION}"],
            },
            "scope": scope,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


DEFINITIONS: Final[tuple[Object, ...]] = (
    _definition(
        "Queue",
        QUEUES.plural,
        "q",
        "Cluster",
        "A queue: how much its pods may use together, and whether it takes more.",
        _QUEUE_SPEC,
        _QUEUE_STATUS,
        _QUEUE_COLUMNS,
    ),
    _definition(
        "PodGroup",
        POD_GROUPS.plural,
        "pg",
        "Namespaced",
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
