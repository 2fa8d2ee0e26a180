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

_MAX_POD_SETS: Final = 18
_POD_SET_NAME: Final[Object] = {**PART_NAME, "default": "main"}
_ANY: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MESSAGE: Final[Object] = {"type": "string", "maxLength": 32768}
_CAUSE: Final[Object] = {"type": "string", "maxLength": 316}
_POSITIVE_INT32: Final[Object] = {**INT32, "minimum": 1}
_CLUSTER_NAME: Final[Object] = {"type": "string", "maxLength": 256}
_TOPOLOGY_TEXT_FIELDS: Final = (
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
_PREEMPTION_GATES: Final = list_map(
    with_required(object_schema(name={"type": "string", "minLength": 1, "maxLength": 63}), "name"), "name", max_items=8
)
_PREEMPTION_GATE_STATES: Final = list_map(
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
_POD_SET_UPDATES: Final = list_atomic(
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
    max_items=_MAX_POD_SETS,
)
_CHECKS: Final = list_map(
    with_required(
        object_schema(
            name={**CHECK_NAME, "minLength": 1},
            state=string_enum("Pending", "Ready", "Retry", "Rejected"),
            message=_MESSAGE,
            lastTransitionTime=DATE_TIME,
            podSetUpdates=_POD_SET_UPDATES,
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
_OLDER_TOPOLOGY: Final = with_required(
    object_schema(
        levels=list_atomic(STRING, max_items=16, min_items=1),
        domains=list_of(
            with_required(
                object_schema(count=_POSITIVE_INT32, values=list_atomic(STRING, max_items=16, min_items=1)),
                "count",
                "values",
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
    constraint = with_required(object_schema(size=_POSITIVE_INT32, topology=STRING), "size", "topology")
    newer: dict[str, Object] = {"podsetSliceRequiredTopologyConstraints": list_atomic(constraint, max_items=3)}
    named = dict.fromkeys(_TOPOLOGY_TEXT_FIELDS, STRING)
    version_fields = {} if older else newer
    return object_schema(
        **named,
        unconstrained=BOOLEAN,
        podSetSliceSize=_POSITIVE_INT32,
        subGroupCount=NON_NEGATIVE_INT32,
        **version_fields,
    )


def _pod_set(*, older: bool) -> Object:
    part = object_schema(
        "Pods with the same template.",
        name=_POD_SET_NAME,
        count={**NON_NEGATIVE_INT32, "default": 1},
        minCount=described(
            _POSITIVE_INT32, "With partial admission, the smallest number of pods that can be admitted."
        ),
        template=object_schema("The pods.", metadata=_ANY, spec=_ANY),
        topologyRequest=_topology_request(older=older),
    )
    return with_required(part, "template")


def _assignment(*, older: bool) -> Object:
    return object_schema(
        name=_POD_SET_NAME,
        count=NON_NEGATIVE_INT32,
        flavors=map_of(REFERENCE, "The flavor of each resource."),
        resourceUsage=resource_list("The total use of its pods."),
        topologyAssignment=_OLDER_TOPOLOGY if older else _TOPOLOGY,
        delayedTopologyRequest=STRING,
    )


def workload(*, older: bool) -> Object:
    spec = object_schema(
        "Pods that are admitted together.",
        podSets=list_map(_pod_set(older=older), "name", max_items=_MAX_POD_SETS, min_items=1),
        queueName=described(REFERENCE, "The LocalQueue, in the same namespace."),
        **_priority(older=older),
        priority=described(INT32, "Workloads with a higher priority are admitted first."),
        active={**BOOLEAN, "default": True, "description": "false evicts the workload and prevents its admission."},
        maximumExecutionTimeSeconds=_POSITIVE_INT32,
        **({} if older else {"preemptionGates": _PREEMPTION_GATES}),
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
        podSetAssignments=list_map(_assignment(older=older), "name", max_items=_MAX_POD_SETS),
    )
    status = object_schema(
        conditions=CONDITIONS,
        admission=with_required(admission, "clusterQueue", "podSetAssignments") if older else admission,
        requeueState=object_schema(count=NON_NEGATIVE_INT32, requeueAt=DATE_TIME),
        reclaimablePods=list_map(reclaimable, "name", max_items=_MAX_POD_SETS),
        admissionChecks=_CHECKS,
        resourceRequests=list_map(request, "name", max_items=_MAX_POD_SETS),
        **{past: INT32},
        schedulingStats=object_schema(evictions=list_map(eviction, "reason", "underlyingCause")),
        nominatedClusterNames=list_atomic(_CLUSTER_NAME, max_items=20),
        clusterName=_CLUSTER_NAME,
        unhealthyNodes=list_map(with_required(object_schema(name=STRING), "name"), "name"),
        **({} if older else {"preemptionGates": _PREEMPTION_GATE_STATES}),
    )
    return resource_schema(
        "A request for quota: the pods of one job.",
        spec=with_required(spec, "podSets") if older else spec,
        status=status,
    )


def _priority(*, older: bool) -> dict[str, Object]:
    if older:
        return {"priorityClassName": REFERENCE, "priorityClassSource": string_enum(*_SOURCES, default="")}
    return {"priorityClassRef": _PRIORITY_CLASS}


def priority_class(*, older: bool) -> Object:
    text = STRING if older else {**STRING, "maxLength": 2048}
    schema = resource_schema("A named priority of workloads.", value=INT32, description=text)
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
            STRING if older else {**STRING, "minLength": 1, "maxLength": 253},
            "The controller that decides about the check. It cannot be changed.",
        ),
        parameters=parameters,
        **(delay if older else {}),
    )
    status = object_schema(conditions=CONDITIONS)
    return resource_schema(
        "A condition for admission besides quota; a controller decides about it.",
        spec=with_required(spec, "controllerName"),
        status=status,
    )


def workload_columns(*, older: bool) -> list[Object]:
    def condition(type_: str) -> str:
        return f".status.conditions[?(@.type=='{type_}')].status"

    return [
        printer_column("Queue", ".spec.queueName", description="The LocalQueue in which it waits"),
        printer_column(
            "Reserved in", ".status.admission.clusterQueue", description="The ClusterQueue whose quota it holds"
        ),
        printer_column("Admitted", condition("Admitted"), description="Whether it is admitted"),
        printer_column("Finished", condition("Finished"), description="Whether it is finished"),
        printer_column("Age", ".metadata.creationTimestamp", "date", "Since it was created"),
    ]


def priority_class_columns(*, older: bool) -> list[Object]:
    return [printer_column("Value", ".value", "integer", "Its priority")]
