"""Names of ``kueue.x-k8s.io`` that this package uses: policies, conditions and reasons.

The modules that use a name document what it does.
"""

from __future__ import annotations

from typing import Final

from headgate.kube import conditions

GROUP: Final = "kueue.x-k8s.io"
ADMISSION_GATED_BY: Final = f"{GROUP}/admission-gated-by"
QUEUE_LABEL: Final = f"{GROUP}/queue-name"
ACTIVATE: Final = f"{GROUP}/activate"
DEACTIVATE: Final = f"{GROUP}/deactivate"
"""The last two: labels with which a user activates and deactivates a suspended job (``api/activation.py``)."""
DEACTIVATED_BY_LABEL: Final = "headgate.dev/deactivated-by-label"
"""The annotation of a Workload whose ``spec.active`` is false because of the label ``deactivate``."""
JOB_UID_LABEL: Final = f"{GROUP}/job-uid"
RESOURCE_IN_USE: Final = f"{GROUP}/resource-in-use"
"""The finalizer of Workloads whose job has not stopped, and of objects that quota in use depends on."""
QUOTA_RESERVATION: Final = "headgate.dev/quota-reservation"
"""The annotation of a pod that was started with quota: its Workload, ClusterQueue and flavors."""
DEQUEUE_STRATEGY: Final = "headgate.dev/dequeue-strategy"
"""The annotation of a ClusterQueue with which it protects the first workload in its line; ``backfill`` is its only
value."""
BACKFILL: Final = "backfill"

# Queueing strategies.
STRICT_FIFO: Final = "StrictFIFO"
BEST_EFFORT_FIFO: Final = "BestEffortFIFO"

# Stop policies.
NONE: Final = "None"
HOLD: Final = "Hold"
HOLD_AND_DRAIN: Final = "HoldAndDrain"

# Flavor fungibility.
MAY_STOP_SEARCH: Final = "MayStopSearch"
TRY_NEXT_FLAVOR: Final = "TryNextFlavor"
BORROWING_OVER_PREEMPTION: Final = "BorrowingOverPreemption"
PREEMPTION_OVER_BORROWING: Final = "PreemptionOverBorrowing"

# Preemption policies.
NEVER: Final = "Never"
LOWER_PRIORITY: Final = "LowerPriority"
LOWER_OR_NEWER_EQUAL_PRIORITY: Final = "LowerOrNewerEqualPriority"
ANY: Final = "Any"

# Conditions of a Workload.
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"
REQUEUED: Final = "Requeued"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"
WAITING_FOR_TERMINATING_PODS: Final = conditions.WAITING_FOR_TERMINATING_PODS
"""Headgate's own: the workload has quota, and starts when terminating pods that still use it have left."""

# Why a workload waits for terminating pods, and why it does so no longer.
QUOTA_RELEASED_EARLY: Final = "QuotaReleasedEarly"
TERMINATING_PODS_LEFT: Final = "TerminatingPodsLeft"
TERMINATING_PODS_OVERDUE: Final = "TerminatingPodsOverdue"
TERMINATING_PODS_MAX_WAIT: Final = "TerminatingPodsMaxWaitExceeded"
TERMINATING_PODS_NOT_COUNTED: Final = "TerminatingPodsNotCounted"
FITS_BESIDE_TERMINATING_PODS: Final = "FitsBesideTerminatingPods"
START_AFTER_TERMINATING_PODS_DISABLED: Final = "StartAfterTerminatingPodsDisabled"

# Why quota is not reserved.
PENDING_EVALUATION: Final = "PendingEvaluation"
WAITING_FOR_QUOTA: Final = "WaitingForQuota"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
FIRST_IN_LINE_PROTECTED: Final = "FirstInLineProtected"
"""Headgate's own: there is quota for the workload, and it would delay the first in the line of a ClusterQueue."""
WAITING_FOR_PREEMPTED: Final = "WaitingForPreemptedWorkloads"
MISCONFIGURED: Final = "Misconfigured"
SUSPENDED: Final = "Suspended"
ADMISSION_GATED: Final = "AdmissionGated"
ON_HOLD: Final = "OnHold"

# Why a workload is not admitted though it may have quota.
NO_RESERVATION: Final = "NoReservation"
UNSATISFIED_CHECKS: Final = "UnsatisfiedAdmissionChecks"

# Why a workload is evicted.
BY_PREEMPTION: Final = "Preempted"
BY_PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
BY_ADMISSION_CHECK: Final = "AdmissionCheck"
BY_CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
BY_LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
DEACTIVATED: Final = "Deactivated"
BY_REFUSED_START: Final = "StartRefused"
"""Headgate's own: the API server, or an admission plugin of it, does not let an admitted job or pod run."""
BY_DEACTIVATE_LABEL: Final = "DeactivateLabel"
"""Headgate's own cause of a deactivation: the label ``deactivate``."""
REQUEUING_LIMIT_EXCEEDED: Final = "RequeuingLimitExceeded"
MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"

ACTIVATION_LABEL_IGNORED: Final = "ActivationLabelIgnored"
"""The reason of an Event: a label ``activate`` or ``deactivate`` was removed without an effect."""

# Why a workload is finished though its job is not.
OWNER_NOT_FOUND: Final = "OwnerNotFound"

# Why a workload is preempted, and how Kueue says it in a sentence.
IN_CLUSTER_QUEUE: Final = "InClusterQueue"
IN_COHORT_RECLAMATION: Final = "InCohortReclamation"
IN_COHORT_RECLAIM_WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"
PREEMPTION_WORDS: Final = {
    IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT_RECLAMATION: "reclamation within the cohort",
    IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}

# States of an admission check.
CHECK_PENDING: Final = "Pending"
CHECK_READY: Final = "Ready"
CHECK_RETRY: Final = "Retry"
CHECK_REJECTED: Final = "Rejected"
