"""Schemas and printer columns of ClusterQueue, Cohort, LocalQueue and ResourceFlavor in both versions.

``older`` selects v1beta1. ``queue_validation.py`` has the rules that need more than one field.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.crd_builder import (
    DATE_TIME,
    INT32,
    STRING,
    Object,
    described,
    list_atomic,
    list_map,
    list_of,
    list_set,
    map_of,
    object_schema,
    printer_column,
    resource_schema,
    string_enum,
    with_required,
)
from headgate.quota.kinds.schema_parts import (
    CHECK_NAME,
    CONDITIONS,
    FAIR_SHARING,
    MANY,
    REFERENCE,
    RESOURCE_GROUPS,
    SELECTOR,
    STOP_POLICY,
    TAINT,
    TOLERATION,
    fair_sharing_status,
    flavor_usage,
)

_COUNTS: Final = {
    "pendingWorkloads": described(INT32, "How many wait."),
    "reservingWorkloads": described(INT32, "How many hold quota."),
    "admittedWorkloads": described(INT32, "How many are admitted and not finished."),
}
_NODE_LABELS: Final[Object] = {**map_of(STRING), "maxProperties": 8, "x-kubernetes-map-type": "atomic"}
_TAINTS: Final = list_atomic(TAINT, max_items=8)
_PENDING: Final = with_required(
    object_schema(
        clusterQueuePendingWorkload=list_atomic(
            with_required(object_schema(name=STRING, namespace=STRING), "name", "namespace")
        ),
        lastChangeTime=DATE_TIME,
    ),
    "lastChangeTime",
)
_OLD_FLAVOR: Final = with_required(
    object_schema(
        name=REFERENCE,
        nodeLabels=_NODE_LABELS,
        nodeTaints=_TAINTS,
        resources=list_set(STRING, max_items=MANY),
        topology=with_required(
            object_schema(name=REFERENCE, levels=list_atomic(STRING, max_items=16, min_items=1)), "name", "levels"
        ),
    ),
    "name",
)
_MIGRATION: Final = with_required(
    object_schema(
        mode=string_enum("TryPreferredFlavors", "RetainFirstAdmission"),
        constraints=object_schema(lastAcceptableFlavorName=REFERENCE),
    ),
    "mode",
)
_PREEMPTION: Final[Object] = {
    **object_schema(
        "Which workloads may be preempted. Default: none.",
        withinClusterQueue=string_enum("Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never"),
        reclaimWithinCohort=string_enum("Never", "LowerPriority", "Any", default="Never"),
        borrowWithinCohort={
            **object_schema(policy=string_enum("Never", "LowerPriority", default="Never"), maxPriorityThreshold=INT32),
            "default": {},
        },
    ),
    "default": {},
}


def _fungibility(*, older: bool) -> Object:
    borrow, preempt = (("Borrow",), ("Preempt",)) if older else ((), ())
    chosen = object_schema(
        "Whether the next flavor is tried before quota is borrowed or workloads are preempted.",
        whenCanBorrow=string_enum("MayStopSearch", "TryNextFlavor", *borrow, default="MayStopSearch"),
        whenCanPreempt=string_enum("MayStopSearch", "TryNextFlavor", *preempt, default="TryNextFlavor"),
        preference=string_enum("BorrowingOverPreemption", "PreemptionOverBorrowing"),
    )
    return {**chosen, "default": {}}


def _checks(*, older: bool) -> dict[str, Object]:
    name, flavors = CHECK_NAME, list_set(REFERENCE, max_items=MANY)
    if older:
        rule = with_required(object_schema(name=name, onFlavors=list_of(REFERENCE)), "name")
        return {
            "admissionChecks": list_of(name),
            "admissionChecksStrategy": object_schema(admissionChecks=list_of(rule)),
        }
    rule = with_required(object_schema(name={**name, "minLength": 1}, onFlavors=flavors), "name")
    listed = object_schema(admissionChecks=list_map(rule, "name", max_items=MANY, min_items=1))
    return {"admissionChecksStrategy": with_required(listed, "admissionChecks")}


def cluster_queue(*, older: bool) -> Object:
    newer: dict[str, Object] = {
        "concurrentAdmissionPolicy": with_required(object_schema(migration=_MIGRATION), "migration")
    }
    mode = STRING if older else string_enum("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
    spec = object_schema(
        "How much of which flavors its workloads may use, and by which rules they get it.",
        **{"cohort" if older else "cohortName": described(REFERENCE, "The queues it borrows from and lends to.")},
        resourceGroups=RESOURCE_GROUPS,
        queueingStrategy=described(
            string_enum("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
            "Whether a workload that does not fit blocks those behind it.",
        ),
        namespaceSelector=described(SELECTOR, "The namespaces whose workloads it admits: unset none, {} all."),
        flavorFungibility=_fungibility(older=older),
        preemption=_PREEMPTION,
        **_checks(older=older),
        stopPolicy=STOP_POLICY,
        fairSharing=FAIR_SHARING,
        admissionScope=with_required(object_schema(admissionMode=mode), "admissionMode"),
        **({} if older else newer),
    )
    further = {"pendingWorkloadsStatus": _PENDING} if older else {}
    status = object_schema(
        conditions=CONDITIONS,
        flavorsReservation=flavor_usage(borrowed=True),
        flavorsUsage=flavor_usage(borrowed=True),
        **_COUNTS,
        **further,
        fairSharing=fair_sharing_status(consumed=older),
    )
    return resource_schema("Quota, and a line of workloads that wait for it.", spec=spec, status=status)


def cohort(*, older: bool) -> Object:
    spec = object_schema(
        "Queues that lend each other what they do not use, with quota of its own if it has any.",
        parentName=described(REFERENCE, "The cohort above it."),
        resourceGroups=RESOURCE_GROUPS,
        fairSharing=FAIR_SHARING,
    )
    status = object_schema(fairSharing=fair_sharing_status(consumed=older))
    return resource_schema("A cohort: cluster queues and cohorts below it share.", spec=spec, status=status)


def local_queue(*, older: bool) -> Object:
    spec = object_schema(
        clusterQueue=described(REFERENCE, "Where its workloads wait. It cannot be changed."),
        stopPolicy=STOP_POLICY,
        fairSharing=FAIR_SHARING,
    )
    older_only = {"flavors": list_map(_OLD_FLAVOR, "name", max_items=MANY)} if older else {}
    status = object_schema(
        conditions=CONDITIONS,
        **_COUNTS,
        flavorsReservation=flavor_usage(borrowed=False),
        **{"flavorUsage" if older else "flavorsUsage": flavor_usage(borrowed=False)},
        **older_only,
        fairSharing=fair_sharing_status(consumed=True),
    )
    return resource_schema("A namespace's way to a cluster queue.", spec=spec, status=status)


def resource_flavor(*, older: bool) -> Object:
    spec = object_schema(
        "A group of nodes, selected by labels and taints.",
        nodeLabels=_NODE_LABELS,
        nodeTaints=_TAINTS,
        tolerations=described(list_atomic(TOLERATION, max_items=8), "Given to pods that get this flavor."),
        topologyName=REFERENCE,
    )
    return resource_schema("A sort of nodes that quota can be had of.", spec=spec)


def cluster_queue_columns(*, older: bool) -> list[Object]:
    path = ".spec.cohort" if older else ".spec.cohortName"
    return [
        printer_column("Cohort", path, description="The cohort it belongs to"),
        printer_column("Strategy", ".spec.queueingStrategy", description="How its line moves", wide=True),
        printer_column("Pending Workloads", ".status.pendingWorkloads", "integer", "How many wait"),
        printer_column(
            "Admitted Workloads", ".status.admittedWorkloads", "integer", "How many are admitted", wide=True
        ),
    ]


def local_queue_columns(*, older: bool) -> list[Object]:
    return [
        printer_column("ClusterQueue", ".spec.clusterQueue", description="Where its workloads wait"),
        printer_column("Pending Workloads", ".status.pendingWorkloads", "integer", "How many wait"),
        printer_column("Admitted Workloads", ".status.admittedWorkloads", "integer", "How many are admitted"),
    ]
