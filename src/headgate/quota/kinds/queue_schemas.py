"""ClusterQueue, Cohort, LocalQueue and ResourceFlavor: what their two versions may hold, and their columns.

``older`` asks for v1beta1. Rules that need more than one field are ``queue_rules.py``'s.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.structural.building import (
    INT32,
    TEXT,
    TIME,
    Object,
    atomic,
    column,
    fields,
    keyed,
    listing,
    mapping,
    needing,
    resource_schema,
    said,
    unique,
    words,
)
from headgate.quota.kinds.pieces import (
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
    "pendingWorkloads": said(INT32, "How many wait."),
    "reservingWorkloads": said(INT32, "How many hold quota."),
    "admittedWorkloads": said(INT32, "How many are admitted and not finished."),
}
_NODE_LABELS: Final[Object] = {**mapping(TEXT), "maxProperties": 8, "x-kubernetes-map-type": "atomic"}
_TAINTS: Final = atomic(TAINT, most=8)
_PENDING: Final = needing(
    fields(
        clusterQueuePendingWorkload=atomic(needing(fields(name=TEXT, namespace=TEXT), "name", "namespace")),
        lastChangeTime=TIME,
    ),
    "lastChangeTime",
)
_OLD_FLAVOR: Final = needing(
    fields(
        name=REFERENCE,
        nodeLabels=_NODE_LABELS,
        nodeTaints=_TAINTS,
        resources=unique(TEXT, most=MANY),
        topology=needing(fields(name=REFERENCE, levels=atomic(TEXT, most=16, least=1)), "name", "levels"),
    ),
    "name",
)
_MIGRATION: Final = needing(
    fields(
        mode=words("TryPreferredFlavors", "RetainFirstAdmission"),
        constraints=fields(lastAcceptableFlavorName=REFERENCE),
    ),
    "mode",
)
_PREEMPTION: Final[Object] = {
    **fields(
        "Who may be ended to make room. Without a word, nobody.",
        withinClusterQueue=words("Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never"),
        reclaimWithinCohort=words("Never", "LowerPriority", "Any", default="Never"),
        borrowWithinCohort={
            **fields(policy=words("Never", "LowerPriority", default="Never"), maxPriorityThreshold=INT32),
            "default": {},
        },
    ),
    "default": {},
}


def _fungibility(*, older: bool) -> Object:
    borrow, preempt = (("Borrow",), ("Preempt",)) if older else ((), ())
    chosen = fields(
        "Whether the next flavor is tried before something is borrowed or somebody is ended.",
        whenCanBorrow=words("MayStopSearch", "TryNextFlavor", *borrow, default="MayStopSearch"),
        whenCanPreempt=words("MayStopSearch", "TryNextFlavor", *preempt, default="TryNextFlavor"),
        preference=words("BorrowingOverPreemption", "PreemptionOverBorrowing"),
    )
    return {**chosen, "default": {}}


def _checks(*, older: bool) -> dict[str, Object]:
    name, flavors = CHECK_NAME, unique(REFERENCE, most=MANY)
    if older:
        rule = needing(fields(name=name, onFlavors=listing(REFERENCE)), "name")
        return {
            "admissionChecks": listing(name),
            "admissionChecksStrategy": fields(admissionChecks=listing(rule)),
        }
    rule = needing(fields(name={**name, "minLength": 1}, onFlavors=flavors), "name")
    listed = fields(admissionChecks=keyed(rule, "name", most=MANY, least=1))
    return {"admissionChecksStrategy": needing(listed, "admissionChecks")}


def cluster_queue(*, older: bool) -> Object:
    newer: dict[str, Object] = {"concurrentAdmissionPolicy": needing(fields(migration=_MIGRATION), "migration")}
    mode = TEXT if older else words("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
    spec = fields(
        "How much of which flavors its workloads may use, and by which rules they get it.",
        **{"cohort" if older else "cohortName": said(REFERENCE, "The queues it borrows from and lends to.")},
        resourceGroups=RESOURCE_GROUPS,
        queueingStrategy=said(
            words("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
            "Whether who does not fit holds up those behind it.",
        ),
        namespaceSelector=said(SELECTOR, "Whose workloads it takes: unset nobody's, {} everybody's."),
        flavorFungibility=_fungibility(older=older),
        preemption=_PREEMPTION,
        **_checks(older=older),
        stopPolicy=STOP_POLICY,
        fairSharing=FAIR_SHARING,
        admissionScope=needing(fields(admissionMode=mode), "admissionMode"),
        **({} if older else newer),
    )
    further = {"pendingWorkloadsStatus": _PENDING} if older else {}
    status = fields(
        conditions=CONDITIONS,
        flavorsReservation=flavor_usage(borrowed=True),
        flavorsUsage=flavor_usage(borrowed=True),
        **_COUNTS,
        **further,
        fairSharing=fair_sharing_status(consumed=older),
    )
    return resource_schema("Quota, and a line of workloads that wait for it.", spec=spec, status=status)


def cohort(*, older: bool) -> Object:
    spec = fields(
        "Queues that lend each other what they do not use, with quota of its own if it has any.",
        parentName=said(REFERENCE, "The cohort above it."),
        resourceGroups=RESOURCE_GROUPS,
        fairSharing=FAIR_SHARING,
    )
    status = fields(fairSharing=fair_sharing_status(consumed=older))
    return resource_schema("A cohort: cluster queues and cohorts below it share.", spec=spec, status=status)


def local_queue(*, older: bool) -> Object:
    spec = fields(
        clusterQueue=said(REFERENCE, "Where its workloads wait. It cannot be changed."),
        stopPolicy=STOP_POLICY,
        fairSharing=FAIR_SHARING,
    )
    older_only = {"flavors": keyed(_OLD_FLAVOR, "name", most=MANY)} if older else {}
    status = fields(
        conditions=CONDITIONS,
        **_COUNTS,
        flavorsReservation=flavor_usage(borrowed=False),
        **{"flavorUsage" if older else "flavorsUsage": flavor_usage(borrowed=False)},
        **older_only,
        fairSharing=fair_sharing_status(consumed=True),
    )
    return resource_schema("A namespace's way to a cluster queue.", spec=spec, status=status)


def resource_flavor(*, older: bool) -> Object:
    spec = fields(
        "A sort of nodes, told by their labels and taints.",
        nodeLabels=_NODE_LABELS,
        nodeTaints=_TAINTS,
        tolerations=said(atomic(TOLERATION, most=8), "Given to pods that get this flavor."),
        topologyName=REFERENCE,
    )
    return resource_schema("A sort of nodes that quota can be had of.", spec=spec)


def cluster_queue_columns(*, older: bool) -> list[Object]:
    path = ".spec.cohort" if older else ".spec.cohortName"
    return [
        column("Cohort", path, description="The cohort it belongs to"),
        column("Strategy", ".spec.queueingStrategy", description="How its line moves", wide=True),
        column("Pending Workloads", ".status.pendingWorkloads", "integer", "How many wait"),
        column("Admitted Workloads", ".status.admittedWorkloads", "integer", "How many are admitted", wide=True),
    ]


def local_queue_columns(*, older: bool) -> list[Object]:
    return [
        column("ClusterQueue", ".spec.clusterQueue", description="Where its workloads wait"),
        column("Pending Workloads", ".status.pendingWorkloads", "integer", "How many wait"),
        column("Admitted Workloads", ".status.admittedWorkloads", "integer", "How many are admitted"),
    ]
