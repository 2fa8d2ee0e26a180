"""Workload, WorkloadPriorityClass and AdmissionCheck: what their two versions may hold, and their columns.

``older`` asks for v1beta1. A pod template is kept as it comes, without a schema: pods are checked when they are made.
Rules that need more than one field are ``workload_rules.py``'s.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.structural.building import (
    COUNT,
    INT32,
    INT64,
    TEXT,
    TIME,
    TRUTH,
    Object,
    atomic,
    column,
    fields,
    keyed,
    listing,
    mapping,
    needing,
    resource_schema,
    resources,
    said,
    words,
)
from headgate.quota.kinds.pieces import CHECK_NAME, CONDITIONS, PART_NAME, REFERENCE, TOLERATION

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

_PRIORITY_CLASS: Final = needing(
    fields(
        group=words("kueue.x-k8s.io", "scheduling.k8s.io"),
        kind=words("WorkloadPriorityClass", "PriorityClass"),
        name={**REFERENCE, "minLength": 1},
    ),
    "group",
    "kind",
    "name",
)
_GATES: Final = keyed(needing(fields(name={"type": "string", "minLength": 1, "maxLength": 63}), "name"), "name", most=8)
_GATE_STATES: Final = keyed(
    needing(
        fields(
            name={"type": "string", "minLength": 1, "maxLength": 63},
            position=words("Closed", "Open"),
            lastTransitionTime=TIME,
        ),
        "name",
        "position",
        "lastTransitionTime",
    ),
    "name",
    most=8,
)
_UPDATES: Final = atomic(
    needing(
        fields(
            name=PART_NAME,
            labels=mapping(TEXT),
            annotations=mapping(TEXT),
            nodeSelector=mapping(TEXT),
            tolerations=atomic(TOLERATION, most=8),
        ),
        "name",
    ),
    most=_MOST_PARTS,
)
_CHECKS: Final = keyed(
    needing(
        fields(
            name={**CHECK_NAME, "minLength": 1},
            state=words("Pending", "Ready", "Retry", "Rejected"),
            message=_MESSAGE,
            lastTransitionTime=TIME,
            podSetUpdates=_UPDATES,
            requeueAfterSeconds=COUNT,
            retryCount=COUNT,
        ),
        "name",
        "state",
        "message",
        "lastTransitionTime",
    ),
    "name",
    most=8,
)
_OLD_TOPOLOGY: Final = needing(
    fields(
        levels=atomic(TEXT, most=16, least=1),
        domains=listing(
            needing(fields(count=_FIRST, values=atomic(TEXT, most=16, least=1)), "count", "values"),
        ),
    ),
    "levels",
    "domains",
)
_TOPOLOGY: Final = needing(fields(levels=atomic(TEXT, most=16, least=1), slices=atomic(_ANY)), "levels", "slices")


def _topology_request(*, older: bool) -> Object:
    constraint = needing(fields(size=_FIRST, topology=TEXT), "size", "topology")
    newer: dict[str, Object] = {"podsetSliceRequiredTopologyConstraints": atomic(constraint, most=3)}
    named = dict.fromkeys(_TOPOLOGY_WORDS, TEXT)
    further = {} if older else newer
    return fields(**named, unconstrained=TRUTH, podSetSliceSize=_FIRST, subGroupCount=COUNT, **further)


def _pod_set(*, older: bool) -> Object:
    part = fields(
        "So many pods of one shape.",
        name=_MAIN,
        count={**COUNT, "default": 1},
        minCount=said(_FIRST, "So many are enough to begin with."),
        template=fields("The pods.", metadata=_ANY, spec=_ANY),
        topologyRequest=_topology_request(older=older),
    )
    return needing(part, "template")


def _assignment(*, older: bool) -> Object:
    return fields(
        name=_MAIN,
        count=COUNT,
        flavors=mapping(REFERENCE, "The flavor of each resource."),
        resourceUsage=resources("What all its pods use together."),
        topologyAssignment=_OLD_TOPOLOGY if older else _TOPOLOGY,
        delayedTopologyRequest=TEXT,
    )


def workload(*, older: bool) -> Object:
    spec = fields(
        "Pods that are admitted together.",
        podSets=keyed(_pod_set(older=older), "name", most=_MOST_PARTS, least=1),
        queueName=said(REFERENCE, "The LocalQueue, in the same namespace."),
        **_priority(older=older),
        priority=said(INT32, "Who has more goes first."),
        active={**TRUTH, "default": True, "description": "false ends it, and keeps it from being admitted."},
        maximumExecutionTimeSeconds=_FIRST,
        **({} if older else {"preemptionGates": _GATES}),
    )
    request = needing(fields(name=PART_NAME, resources=resources()), "name")
    reclaimable = needing(fields(name=PART_NAME, count=COUNT), "name", "count")
    eviction = needing(fields(reason=_CAUSE, underlyingCause=_CAUSE, count=COUNT), "reason", "underlyingCause", "count")
    past = "accumulatedPastExexcutionTimeSeconds" if older else "accumulatedPastExecutionTimeSeconds"
    admission = fields(
        "Where it holds quota, and which.",
        clusterQueue=REFERENCE,
        podSetAssignments=keyed(_assignment(older=older), "name", most=_MOST_PARTS),
    )
    status = fields(
        conditions=CONDITIONS,
        admission=needing(admission, "clusterQueue", "podSetAssignments") if older else admission,
        requeueState=fields(count=COUNT, requeueAt=TIME),
        reclaimablePods=keyed(reclaimable, "name", most=_MOST_PARTS),
        admissionChecks=_CHECKS,
        resourceRequests=keyed(request, "name", most=_MOST_PARTS),
        **{past: INT32},
        schedulingStats=fields(evictions=keyed(eviction, "reason", "underlyingCause")),
        nominatedClusterNames=atomic(_CLUSTER, most=20),
        clusterName=_CLUSTER,
        unhealthyNodes=keyed(needing(fields(name=TEXT), "name"), "name"),
        **({} if older else {"preemptionGates": _GATE_STATES}),
    )
    return resource_schema(
        "What asks for quota: the pods of one job.", spec=needing(spec, "podSets") if older else spec, status=status
    )


def _priority(*, older: bool) -> dict[str, Object]:
    if older:
        return {"priorityClassName": REFERENCE, "priorityClassSource": words(*_SOURCES, default="")}
    return {"priorityClassRef": _PRIORITY_CLASS}


def priority_class(*, older: bool) -> Object:
    text = TEXT if older else {**TEXT, "maxLength": 2048}
    schema = resource_schema("A priority in lines for quota, by a name.", value=INT32, description=text)
    return needing(schema, "value")


def admission_check(*, older: bool) -> Object:
    parameters = needing(
        fields(
            apiGroup=REFERENCE,
            kind={"type": "string", "maxLength": 63, "pattern": r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"},
            name=PART_NAME,
        ),
        "apiGroup",
        "kind",
        "name",
    )
    delay: dict[str, Object] = {"retryDelayMinutes": {**INT64, "default": 15}}
    spec = fields(
        controllerName=said(
            TEXT if older else {**TEXT, "minLength": 1, "maxLength": 253}, "Who decides. It cannot be changed."
        ),
        parameters=parameters,
        **(delay if older else {}),
    )
    status = fields(conditions=CONDITIONS)
    return resource_schema("What must agree, besides quota.", spec=needing(spec, "controllerName"), status=status)


def workload_columns(*, older: bool) -> list[Object]:
    def condition(type_: str) -> str:
        return f".status.conditions[?(@.type=='{type_}')].status"

    return [
        column("Queue", ".spec.queueName", description="The LocalQueue it waits in"),
        column("Reserved in", ".status.admission.clusterQueue", description="The ClusterQueue it holds quota of"),
        column("Admitted", condition("Admitted"), description="Whether it may run"),
        column("Finished", condition("Finished"), description="Whether it is done"),
        column("Age", ".metadata.creationTimestamp", "date", "Since it was created"),
    ]


def priority_class_columns(*, older: bool) -> list[Object]:
    return [column("Value", ".value", "integer", "Its priority")]
