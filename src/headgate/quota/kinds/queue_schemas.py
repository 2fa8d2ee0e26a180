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
    MAX_ITEMS,
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
    "pendingWorkloads": described(INT32, "The number of workloads that wait."),
    "reservingWorkloads": described(INT32, "The number of workloads that hold quota."),
    "admittedWorkloads": described(INT32, "The number of workloads that are admitted and not finished."),
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
_OLDER_FLAVOR: Final = with_required(
    object_schema(
        name=REFERENCE,
        nodeLabels=_NODE_LABELS,
        nodeTaints=_TAINTS,
        resources=list_set(STRING, max_items=MAX_ITEMS),
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
    name, flavors = CHECK_NAME, list_set(REFERENCE, max_items=MAX_ITEMS)
    if older:
        rule = with_required(object_schema(name=name, onFlavors=list_of(REFERENCE)), "name")
        return {
            "admissionChecks": list_of(name),
            "admissionChecksStrategy": object_schema(admissionChecks=list_of(rule)),
        }
    rule = with_required(object_schema(name={**name, "minLength": 1}, onFlavors=flavors), "name")
    listed = object_schema(admissionChecks=list_map(rule, "name", max_items=MAX_ITEMS, min_items=1))
    return {"admissionChecksStrategy": with_required(listed, "admissionChecks")}


def cluster_queue(*, older: bool) -> Object:
    newer: dict[str, Object] = {
        "concurrentAdmissionPolicy": with_required(object_schema(migration=_MIGRATION), "migration")
    }
    mode = STRING if older else string_enum("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
    spec = object_schema(
        "The quota of each flavor, and the rules by which workloads get it.",
        **{
            "cohort" if older else "cohortName": described(
                REFERENCE, "The cohort whose queues it borrows from and lends to."
            )
        },
        resourceGroups=RESOURCE_GROUPS,
        queueingStrategy=described(
            string_enum("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
            "Whether a workload that does not fit blocks later workloads.",
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
    version_fields = {"pendingWorkloadsStatus": _PENDING} if older else {}
    status = object_schema(
        conditions=CONDITIONS,
        flavorsReservation=flavor_usage(borrowed=True),
        flavorsUsage=flavor_usage(borrowed=True),
        **_COUNTS,
        **version_fields,
        fairSharing=fair_sharing_status(consumed=older),
    )
    return resource_schema("Quota, and a queue of workloads that wait for it.", spec=spec, status=status)


def cohort(*, older: bool) -> Object:
    spec = object_schema(
        "ClusterQueues that lend each other unused quota; the cohort may have quota, too.",
        parentName=described(REFERENCE, "The parent cohort."),
        resourceGroups=RESOURCE_GROUPS,
        fairSharing=FAIR_SHARING,
    )
    status = object_schema(fairSharing=fair_sharing_status(consumed=older))
    return resource_schema(
        "A cohort: its ClusterQueues and child cohorts share unused quota.", spec=spec, status=status
    )


def local_queue(*, older: bool) -> Object:
    spec = object_schema(
        clusterQueue=described(REFERENCE, "The ClusterQueue in which its workloads wait. It cannot be changed."),
        stopPolicy=STOP_POLICY,
        fairSharing=FAIR_SHARING,
    )
    older_only = {"flavors": list_map(_OLDER_FLAVOR, "name", max_items=MAX_ITEMS)} if older else {}
    status = object_schema(
        conditions=CONDITIONS,
        **_COUNTS,
        flavorsReservation=flavor_usage(borrowed=False),
        **{"flavorUsage" if older else "flavorsUsage": flavor_usage(borrowed=False)},
        **older_only,
        fairSharing=fair_sharing_status(consumed=True),
    )
    return resource_schema("A queue in a namespace; its workloads wait in a ClusterQueue.", spec=spec, status=status)


def resource_flavor(*, older: bool) -> Object:
    spec = object_schema(
        "A group of nodes, selected by labels and taints.",
        nodeLabels=_NODE_LABELS,
        nodeTaints=_TAINTS,
        tolerations=described(list_atomic(TOLERATION, max_items=8), "Added to pods that get this flavor."),
        topologyName=REFERENCE,
    )
    return resource_schema("A group of nodes for which ClusterQueues define quota.", spec=spec)


def cluster_queue_columns(*, older: bool) -> list[Object]:
    path = ".spec.cohort" if older else ".spec.cohortName"
    return [
        printer_column("Cohort", path, description="The cohort it belongs to"),
        printer_column(
            "Strategy",
            ".spec.queueingStrategy",
            description="Whether a workload that does not fit blocks later workloads",
            wide=True,
        ),
        printer_column("Pending Workloads", ".status.pendingWorkloads", "integer", "The number of workloads that wait"),
        printer_column(
            "Admitted Workloads", ".status.admittedWorkloads", "integer", "The number of admitted workloads", wide=True
        ),
    ]


def local_queue_columns(*, older: bool) -> list[Object]:
    return [
        printer_column(
            "ClusterQueue", ".spec.clusterQueue", description="The ClusterQueue in which its workloads wait"
        ),
        printer_column("Pending Workloads", ".status.pendingWorkloads", "integer", "The number of workloads that wait"),
        printer_column(
            "Admitted Workloads", ".status.admittedWorkloads", "integer", "The number of admitted workloads"
        ),
    ]
