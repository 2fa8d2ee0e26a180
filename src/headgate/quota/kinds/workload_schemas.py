"""Schemas and printer columns of Workload, WorkloadPriorityClass and AdmissionCheck in both versions.

``older`` selects v1beta1. A pod template is kept without a schema: pods are validated when they are created.
``workload_validation.py`` has the rules that need more than one field.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.crd_builder import (
    BOOLEAN,
    DATE_TIME,
    INT32,
    INT64,
    NON_NEGATIVE_INT32,
    STRING,
    Object,
    described,
    list_atomic,
    list_map,
    list_of,
    map_of,
    object_schema,
    printer_column,
    resource_list,
    resource_schema,
    string_enum,
    with_required,
)
from headgate.quota.kinds.schema_parts import CHECK_NAME, CONDITIONS, PART_NAME, REFERENCE, TOLERATION

_MOST_PARTS: Final = 18
_MAIN: Final[Object] = {**PART_NAME, "default": "main"}
_ANY: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MESSAGE: Final[Object] = {"type": "string", "maxLength": 32768}
_CAUSE: Final[Object] = {"type": "string", "maxLength": 316}
_FIRST: Final[Object] = {**INT32, "minimum": 1}
_CLUSTER: Final[Object] = {"type": "string", "maxLength": 256}
_TOPOLOGY_WORDS: Final = (
    "required",
    "preferred",
    "podIndexLabel",
    "podSetGroupName",
    "podSetSliceRequiredTopology",
    "subGroupIndexLabel",
)
_SOURCES: Final = ("kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", "")

_PRIORITY_CLASS: Final = with_required(
    object_schema(
        group=string_enum("kueue.x-k8s.io", "scheduling.k8s.io"),
        kind=string_enum("WorkloadPriorityClass", "PriorityClass"),
        name={**REFERENCE, "minLength": 1},
    ),
    "group",
    "kind",
    "name",
)
_GATES: Final = list_map(
    with_required(object_schema(name={"type": "string", "minLength": 1, "maxLength": 63}), "name"), "name", max_items=8
)
_GATE_STATES: Final = list_map(
    with_required(
        object_schema(
            name={"type": "string", "minLength": 1, "maxLength": 63},
            position=string_enum("Closed", "Open"),
            lastTransitionTime=DATE_TIME,
        ),
        "name",
        "position",
        "lastTransitionTime",
    ),
    "name",
    max_items=8,
)
_UPDATES: Final = list_atomic(
    with_required(
        object_schema(
            name=PART_NAME,
            labels=map_of(STRING),
            annotations=map_of(STRING),
            nodeSelector=map_of(STRING),
            tolerations=list_atomic(TOLERATION, max_items=8),
        ),
        "name",
    ),
    max_items=_MOST_PARTS,
)
_CHECKS: Final = list_map(
    with_required(
        object_schema(
            name={**CHECK_NAME, "minLength": 1},
            state=string_enum("Pending", "Ready", "Retry", "Rejected"),
            message=_MESSAGE,
            lastTransitionTime=DATE_TIME,
            podSetUpdates=_UPDATES,
            requeueAfterSeconds=NON_NEGATIVE_INT32,
            retryCount=NON_NEGATIVE_INT32,
        ),
        "name",
        "state",
        "message",
        "lastTransitionTime",
    ),
    "name",
    max_items=8,
)
_OLD_TOPOLOGY: Final = with_required(
    object_schema(
        levels=list_atomic(STRING, max_items=16, min_items=1),
        domains=list_of(
            with_required(
                object_schema(count=_FIRST, values=list_atomic(STRING, max_items=16, min_items=1)), "count", "values"
            ),
        ),
    ),
    "levels",
    "domains",
)
_TOPOLOGY: Final = with_required(
    object_schema(levels=list_atomic(STRING, max_items=16, min_items=1), slices=list_atomic(_ANY)), "levels", "slices"
)


def _topology_request(*, older: bool) -> Object:
    constraint = with_required(object_schema(size=_FIRST, topology=STRING), "size", "topology")
    newer: dict[str, Object] = {"podsetSliceRequiredTopologyConstraints": list_atomic(constraint, max_items=3)}
    named = dict.fromkeys(_TOPOLOGY_WORDS, STRING)
    further = {} if older else newer
    return object_schema(
        **named, unconstrained=BOOLEAN, podSetSliceSize=_FIRST, subGroupCount=NON_NEGATIVE_INT32, **further
    )


def _pod_set(*, older: bool) -> Object:
    part = object_schema(
        "A number of pods of one shape.",
        name=_MAIN,
        count={**NON_NEGATIVE_INT32, "default": 1},
        minCount=described(_FIRST, "The number of pods that is enough to start."),
        template=object_schema("The pods.", metadata=_ANY, spec=_ANY),
        topologyRequest=_topology_request(older=older),
    )
    return with_required(part, "template")


def _assignment(*, older: bool) -> Object:
    return object_schema(
        name=_MAIN,
        count=NON_NEGATIVE_INT32,
        flavors=map_of(REFERENCE, "The flavor of each resource."),
        resourceUsage=resource_list("What all its pods use together."),
        topologyAssignment=_OLD_TOPOLOGY if older else _TOPOLOGY,
        delayedTopologyRequest=STRING,
    )


def workload(*, older: bool) -> Object:
    spec = object_schema(
        "Pods that are admitted together.",
        podSets=list_map(_pod_set(older=older), "name", max_items=_MOST_PARTS, min_items=1),
        queueName=described(REFERENCE, "The LocalQueue, in the same namespace."),
        **_priority(older=older),
        priority=described(INT32, "A workload with a higher priority goes first."),
        active={**BOOLEAN, "default": True, "description": "false ends it, and keeps it from being admitted."},
        maximumExecutionTimeSeconds=_FIRST,
        **({} if older else {"preemptionGates": _GATES}),
    )
    request = with_required(object_schema(name=PART_NAME, resources=resource_list()), "name")
    reclaimable = with_required(object_schema(name=PART_NAME, count=NON_NEGATIVE_INT32), "name", "count")
    eviction = with_required(
        object_schema(reason=_CAUSE, underlyingCause=_CAUSE, count=NON_NEGATIVE_INT32),
        "reason",
        "underlyingCause",
        "count",
    )
    past = "accumulatedPastExexcutionTimeSeconds" if older else "accumulatedPastExecutionTimeSeconds"
    admission = object_schema(
        "Where it holds quota, and which.",
        clusterQueue=REFERENCE,
        podSetAssignments=list_map(_assignment(older=older), "name", max_items=_MOST_PARTS),
    )
    status = object_schema(
        conditions=CONDITIONS,
        admission=with_required(admission, "clusterQueue", "podSetAssignments") if older else admission,
        requeueState=object_schema(count=NON_NEGATIVE_INT32, requeueAt=DATE_TIME),
        reclaimablePods=list_map(reclaimable, "name", max_items=_MOST_PARTS),
        admissionChecks=_CHECKS,
        resourceRequests=list_map(request, "name", max_items=_MOST_PARTS),
        **{past: INT32},
        schedulingStats=object_schema(evictions=list_map(eviction, "reason", "underlyingCause")),
        nominatedClusterNames=list_atomic(_CLUSTER, max_items=20),
        clusterName=_CLUSTER,
        unhealthyNodes=list_map(with_required(object_schema(name=STRING), "name"), "name"),
        **({} if older else {"preemptionGates": _GATE_STATES}),
    )
    return resource_schema(
        "What asks for quota: the pods of one job.",
        spec=with_required(spec, "podSets") if older else spec,
        status=status,
    )


def _priority(*, older: bool) -> dict[str, Object]:
    if older:
        return {"priorityClassName": REFERENCE, "priorityClassSource": string_enum(*_SOURCES, default="")}
    return {"priorityClassRef": _PRIORITY_CLASS}


def priority_class(*, older: bool) -> Object:
    text = STRING if older else {**STRING, "maxLength": 2048}
    schema = resource_schema("A priority in lines for quota, by a name.", value=INT32, description=text)
    return with_required(schema, "value")


def admission_check(*, older: bool) -> Object:
    parameters = with_required(
        object_schema(
            apiGroup=REFERENCE,
            kind={"type": "string", "maxLength": 63, "pattern": r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"},
            name=PART_NAME,
        ),
        "apiGroup",
        "kind",
        "name",
    )
    delay: dict[str, Object] = {"retryDelayMinutes": {**INT64, "default": 15}}
    spec = object_schema(
        controllerName=described(
            STRING if older else {**STRING, "minLength": 1, "maxLength": 253}, "Who decides. It cannot be changed."
        ),
        parameters=parameters,
        **(delay if older else {}),
    )
    status = object_schema(conditions=CONDITIONS)
    return resource_schema("What must agree, besides quota.", spec=with_required(spec, "controllerName"), status=status)


def workload_columns(*, older: bool) -> list[Object]:
    def condition(type_: str) -> str:
        return f".status.conditions[?(@.type=='{type_}')].status"

    return [
        printer_column("Queue", ".spec.queueName", description="The LocalQueue it waits in"),
        printer_column(
            "Reserved in", ".status.admission.clusterQueue", description="The ClusterQueue it holds quota of"
        ),
        printer_column("Admitted", condition("Admitted"), description="Whether it may run"),
        printer_column("Finished", condition("Finished"), description="Whether it is done"),
        printer_column("Age", ".metadata.creationTimestamp", "date", "Since it was created"),
    ]


def priority_class_columns(*, older: bool) -> list[Object]:
    return [printer_column("Value", ".value", "integer", "Its priority")]
