"""Every RBAC rule of an installation, per component, with the scenario that needs it.

This is the only place where rights are decided. ``roles.py`` makes roles of the table, and
``tests/unit/install/test_rights.py`` compares ``examples/*-rights.yaml`` with it. A rule that no scenario needs is
removed; ``tests/real/test_documented_rights.py`` and ``tests/real/test_install.py`` fail on every refused request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.capacity.names import GROUP as VOLCANO
from headgate.gate_policies.names import GROUP as HEADGATE
from headgate.quota.kinds.definitions import definitions
from headgate.quota.names import GROUP as KUEUE


class RightScope(Enum):
    """Where a rule applies: everywhere, in the namespace of the installation, or in that of the Leases."""

    CLUSTER = "cluster"
    OWN_NAMESPACE = "own namespace"
    LEASE_NAMESPACE = "kube-system"


class RightRule(msgspec.Struct, frozen=True):
    """``reason``: the scenario in which the verbs are used."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    reason: str
    names: tuple[str, ...] = ()
    scope: RightScope = RightScope.CLUSTER


READ: Final = ("get", "list", "watch")
WATCH: Final = ("list", "watch")
KUEUE_DEFINITIONS: Final = tuple(sorted(each["metadata"]["name"] for each in definitions(with_older=False)))
ALL_DEFINITIONS: Final = (*sorted(each["metadata"]["name"] for each in DEFINITIONS), *KUEUE_DEFINITIONS)
WEBHOOK_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CONFIGURATION_NAME: Final = "headgate"
SECRET_NAME: Final = "headgate-webhooks"
LEASES: Final[Mapping[str, str]] = {
    "scheduler": "headgate-scheduler",
    "gates": "headgate-gates",
    "quota": "headgate-quota",
    "jobs": "headgate-jobs",
    "gate-policies": "headgate-gate-policies",
}
"""The Lease of each component that elects a leader, and that of the controller of GatePolicies. All are in kube-system:
there is one leader per cluster, whatever the namespace of the installation."""
LEASE_NAMESPACE: Final = "kube-system"
COMPONENT_ROLE: Final = "headgate-component"
"""The names differ from those of ``examples/*-rights.yaml``, so that both can exist beside each other."""
KUEUE_LEASE: Final = "c1f6bfd2.kueue.x-k8s.io"
_REGISTRATION: Final = "admissionregistration.k8s.io"
_EXTENSIONS: Final = "apiextensions.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"


def _election(component: str) -> tuple[RightRule, ...]:
    scope = RightScope.LEASE_NAMESPACE
    return (
        RightRule("coordination.k8s.io", ("leases",), ("create",), "The first replica creates the Lease.", scope=scope),
        RightRule(
            "coordination.k8s.io",
            ("leases",),
            ("get", "update"),
            "A replica becomes the leader, renews the Lease, and releases it when it stops.",
            (LEASES[component],),
            scope,
        ),
    )


_EVENTS: Final = RightRule("", ("events",), ("create", "patch"), "Events about pods, jobs and Workloads are emitted.")

_SCHEDULER: Final = (
    RightRule("", ("nodes",), WATCH, "Every cycle: on which nodes a pod fits."),
    RightRule("", ("pods",), WATCH, "Pods that wait, and those that use the nodes."),
    RightRule("", ("namespaces",), WATCH, "Namespace selectors of pod affinity; the queue of a namespace."),
    RightRule("", ("services", "replicationcontrollers"), WATCH, "Default topology spread of the pods of a Service."),
    RightRule("apps", ("replicasets", "statefulsets"), WATCH, "Default topology spread of the pods of an owner."),
    RightRule("policy", ("poddisruptionbudgets",), WATCH, "Preemption selects victims by their budgets."),
    RightRule("", ("persistentvolumes", "persistentvolumeclaims"), WATCH, "A pod with volumes."),
    RightRule(
        "",
        ("persistentvolumes", "persistentvolumeclaims"),
        ("patch",),
        "A pod with an unbound claim: the volume is assigned, or its provisioning is requested on a node.",
    ),
    RightRule(
        "storage.k8s.io",
        ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
        WATCH,
        "A pod with volumes: binding mode, limits and capacity of its storage.",
    ),
    RightRule("", ("pods",), ("get",), "The response to a binding was lost: has the pod been bound?"),
    RightRule("", ("pods/binding",), ("create",), "A pod is bound to a node."),
    RightRule("", ("pods",), ("patch",), "The queue gate is removed; the admission stamp is written or removed."),
    RightRule("", ("pods/status",), ("patch",), "A pod is Unschedulable, waits for its queue, or is a victim."),
    RightRule("", ("pods",), ("delete",), "Preemption deletes a victim."),
    RightRule(VOLCANO, ("queues", "podgroups"), WATCH, "Pods of queues and gangs."),
    RightRule(VOLCANO, ("queues",), ("create",), "The first start: the queues root and default are created."),
    RightRule(VOLCANO, ("podgroups",), ("create",), "A pod without a group, with --podgroups-for-bare-pods."),
    RightRule(VOLCANO, ("queues/status", "podgroups/status"), ("patch",), "The usage of a queue or a gang changes."),
    RightRule(
        VOLCANO,
        ("podgroups",),
        ("patch",),
        "The usage of a gang changes, and Volcano's own definition of PodGroup has no status subresource.",
    ),
    RightRule("", ("events",), WATCH, "With ReservationLease: Events of an autoscaler that adds a node for a pod."),
    RightRule("karpenter.sh", ("nodeclaims",), WATCH, "With ReservationLease: nodes that Karpenter adds."),
    RightRule("scheduling.k8s.io", ("priorityclasses",), WATCH, "With ReservationLease: the lease of a PriorityClass."),
    RightRule(
        "coordination.k8s.io",
        ("leases",),
        ("get",),
        "The start: does another scheduler, or the component gates, serve the same pods?",
        ("headgate-gates", "kube-scheduler", "volcano"),
    ),
    _EVENTS,
    *_election("scheduler"),
)

_GATES: Final = (
    RightRule("", ("pods",), WATCH, "Pods that wait, and those that use capacity of their queue."),
    RightRule("", ("namespaces",), WATCH, "The queue of a namespace."),
    RightRule("", ("pods",), ("patch",), "The queue gate is removed, and the admission stamp is written."),
    RightRule("", ("pods/status",), ("patch",), "The condition of a pod with the gate says why it waits."),
    RightRule(VOLCANO, ("queues", "podgroups"), WATCH, "Pods of queues and gangs."),
    RightRule(VOLCANO, ("queues",), ("create",), "The first start: the queues root and default are created."),
    RightRule(VOLCANO, ("queues/status", "podgroups/status"), ("patch",), "The usage of a queue or a gang changes."),
    RightRule(
        VOLCANO,
        ("podgroups",),
        ("patch",),
        "The usage of a gang changes, and Volcano's own definition of PodGroup has no status subresource.",
    ),
    RightRule(
        "coordination.k8s.io",
        ("leases",),
        ("get",),
        "The start: does a Headgate scheduler or Volcano serve the same pods?",
        ("headgate-scheduler", "volcano"),
    ),
    *_election("gates"),
)

_WEBHOOKS: Final = (
    RightRule("", ("namespaces",), READ, "A pod is created: does its namespace opt in, which queue does it name?"),
    RightRule(VOLCANO, ("podgroups",), READ, "A pod is created or resized, a queue or a group is written."),
    RightRule(VOLCANO, ("queues",), WATCH, "The same."),
    RightRule("batch", ("jobs",), READ, "With jobs: a pod or a job is created; is it part of a job that has a queue?"),
    RightRule("apps", ("deployments", "replicasets", "statefulsets"), READ, "With jobs: the same for their pods."),
    RightRule(KUEUE, ("localqueues",), WATCH, "With jobs: a job that names no queue, in a namespace with a default."),
    RightRule(
        _REGISTRATION,
        WEBHOOK_CONFIGURATIONS,
        ("create",),
        "The first start, and the repair of a deleted configuration. Creation cannot be limited by name.",
    ),
    RightRule(
        _REGISTRATION,
        WEBHOOK_CONFIGURATIONS,
        (*READ, "update"),
        "A changed configuration is repaired; a new certificate authority is added.",
        (CONFIGURATION_NAME,),
    ),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), READ, "Which definitions of Kueue's kinds are Headgate's."),
    RightRule(
        _EXTENSIONS,
        ("customresourcedefinitions",),
        ("update",),
        "The conversion webhook is set in the definitions that Headgate installed.",
        KUEUE_DEFINITIONS,
    ),
    RightRule(
        "",
        ("secrets",),
        ("create",),
        "The Secret of the certificates was deleted, or does not exist yet.",
        scope=RightScope.OWN_NAMESPACE,
    ),
    RightRule(
        "",
        ("secrets",),
        (*READ, "update"),
        "Replicas share certificates; a certificate is renewed.",
        (SECRET_NAME,),
        RightScope.OWN_NAMESPACE,
    ),
)

_QUOTA: Final = (
    RightRule(
        KUEUE,
        (
            *("admissionchecks", "clusterqueues", "cohorts", "localqueues"),
            *("resourceflavors", "workloadpriorityclasses", "workloads"),
        ),
        WATCH,
        "Every admission cycle.",
    ),
    RightRule(
        KUEUE,
        ("admissionchecks", "clusterqueues", "resourceflavors"),
        ("patch",),
        "The finalizer is set while the object is in use, and removed afterwards.",
    ),
    RightRule(
        KUEUE,
        ("clusterqueues/status", "localqueues/status", "workloads/status"),
        ("patch",),
        "A Workload is admitted or evicted; usage and conditions of queues change.",
    ),
    RightRule(KUEUE, ("workloads",), ("patch",), "A Workload with a deadline or a lost owner is deactivated."),
    RightRule(KUEUE, ("workloads",), ("get",), "The response to an admission was lost, or another client wrote, too."),
    RightRule("", ("namespaces", "limitranges"), WATCH, "Namespace selectors; requests that a LimitRange adds."),
    RightRule("node.k8s.io", ("runtimeclasses",), WATCH, "The overhead of pods with a RuntimeClass."),
    RightRule("", ("pods",), WATCH, "Terminating pods that still use the quota of a Workload."),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), ("list", "watch"), "Which of the kinds are served."),
    RightRule("coordination.k8s.io", ("leases",), ("get",), "The start: is Kueue alive?", (KUEUE_LEASE,)),
    _EVENTS,
    *_election("quota"),
)

_JOBS: Final = (
    RightRule(
        KUEUE,
        ("workloads",),
        (*WATCH, "create", "patch", "delete"),
        "A job gets its Workload; a job that changes or ends loses it.",
    ),
    RightRule(KUEUE, ("workloads",), ("get",), "A new Workload exists already, or the response to a write was lost."),
    RightRule(KUEUE, ("workloads/status",), ("patch",), "A Workload is finished, or its pods are ready."),
    RightRule(
        KUEUE,
        (
            *("admissionchecks", "clusterqueues", "cohorts", "localqueues"),
            *("resourceflavors", "workloadpriorityclasses"),
        ),
        WATCH,
        "An admitted job gets the node selectors of its flavors; the priority of a Workload.",
    ),
    RightRule(KUEUE, ("localqueues/status",), ("patch",), "The condition GatedJobs of a LocalQueue."),
    RightRule(VOLCANO, ("queues",), WATCH, "Volcano's queues that gated jobs name."),
    RightRule(VOLCANO, ("queues/status",), ("patch",), "The condition GatedJobs of a Queue."),
    RightRule("batch", ("jobs",), (*WATCH, "patch"), "A job is suspended or started."),
    RightRule("batch", ("jobs",), ("get",), "The response to a write was lost, or another client wrote, too."),
    RightRule("batch", ("jobs/status",), ("patch",), "The start time of a job that is stopped is removed."),
    RightRule(
        "batch", ("jobs/finalizers",), ("update",), "A Workload blocks the deletion of its job (blockOwnerDeletion)."
    ),
    RightRule("", ("pods",), ("get",), "Is a pod that a Workload names as its owner gone?"),
    RightRule("", ("pods",), (*WATCH, "patch", "delete"), "Pods in queues: the gate is removed, an eviction deletes."),
    RightRule("", ("pods/status",), ("patch",), "An evicted pod gets the condition TerminationTarget."),
    RightRule("", ("pods/finalizers",), ("update",), "The Workload of a pod blocks the deletion of the pod."),
    RightRule(
        "apps", ("deployments", "replicasets", "statefulsets"), WATCH, "Pods in queues: to which owner they belong."
    ),
    RightRule("", ("nodes",), WATCH, "Failure recovery: can the node of a terminating pod be reached?"),
    RightRule("", ("namespaces", "limitranges"), WATCH, "Namespace selectors; requests that a LimitRange adds."),
    RightRule("node.k8s.io", ("runtimeclasses",), WATCH, "The overhead of pods with a RuntimeClass."),
    RightRule(
        "scheduling.k8s.io", ("priorityclasses",), WATCH, "The priority of a job without a WorkloadPriorityClass."
    ),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), ("list", "watch"), "Which job kinds are served."),
    RightRule("coordination.k8s.io", ("leases",), ("get",), "The start: is Kueue alive?", (KUEUE_LEASE,)),
    _EVENTS,
    *_election("jobs"),
)

RULES: Final[Mapping[str, tuple[RightRule, ...]]] = {
    "scheduler": _SCHEDULER,
    "gates": _GATES,
    "webhooks": _WEBHOOKS,
    "quota": _QUOTA,
    "jobs": _JOBS,
}
"""By component."""
COMPONENT_BINDINGS: Final = tuple(f"{COMPONENT_ROLE}-{component}" for component in RULES)
"""The names of the ClusterRoles of the components, and of their bindings."""

GATE_POLICY_RULES: Final = (
    RightRule(
        HEADGATE, ("gatepolicies",), WATCH, "A pod with a gate is created, or a gate is lifted: is the user allowed to?"
    ),
    RightRule(HEADGATE, ("gatepolicies/status",), ("patch",), "A policy is accepted or not; the pods behind a gate."),
    RightRule("", ("pods",), WATCH, "How many pods wait behind a gate, and for how long (maxPods, maxAge)."),
    RightRule("", ("pods",), ("get",), "A pod waits too long: has its gate been lifted a moment ago?"),
    RightRule("", ("pods",), ("patch",), "A pod waits too long, and its policy says onMaxAge: Lift."),
    RightRule("", ("pods",), ("delete",), "A pod waits too long, and its policy says onMaxAge: Delete."),
    RightRule("coordination.k8s.io", ("leases",), ("get",), "Does the owner of a gate renew its Lease (ownerLease)?"),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), WATCH, "Is GatePolicy served?"),
    RightRule("", ("events",), ("create", "patch"), "A pod waits too long: an Event says so."),
    *_election("gate-policies"),
)
"""Of a process with the feature gate GateOwnership, beside those of the component webhooks."""

GATE_POLICY_USER_RULES: Final = (
    RightRule(HEADGATE, ("gatepolicies",), READ, "`headgate gates list` with the owner and the health of a gate."),
)
"""For people. Only cluster administrators may write policies: `onMaxAge` lifts gates and deletes pods."""

METRICS_RULES: Final = (
    RightRule("authentication.k8s.io", ("tokenreviews",), ("create",), "Secure metrics: which user asks for them?"),
    RightRule("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "Secure metrics: may this user read?"),
)
"""Of a process with ``--metrics-secure``."""

DASHBOARD_RULES: Final = (
    RightRule("", ("pods",), READ, "What waits and runs; the explanation of one pod."),
    RightRule("", ("nodes", "namespaces", "limitranges"), WATCH, "How full nodes are; what a queue selects."),
    RightRule("", ("events",), ("list",), "What is recorded about one pod or Workload."),
    RightRule("policy", ("poddisruptionbudgets",), ("list",), "When a pod will probably start."),
    RightRule("node.k8s.io", ("runtimeclasses",), WATCH, "The overhead of pods with a RuntimeClass."),
    RightRule(VOLCANO, ("queues", "podgroups"), WATCH, "Queues, their line, and gangs."),
    RightRule(KUEUE, ("workloads",), READ, "What waits for quota; the explanation of one Workload."),
    RightRule(
        KUEUE,
        ("clusterqueues", "localqueues", "cohorts", "resourceflavors", "admissionchecks"),
        WATCH,
        "Quota, and who uses it.",
    ),
    RightRule(HEADGATE, ("gatepolicies",), WATCH, "The owners of gates."),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), WATCH, "Which of the kinds are served."),
    RightRule("authentication.k8s.io", ("tokenreviews",), ("create",), "Which user is the viewer?"),
    RightRule("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "What may this viewer list?"),
)
"""Of `headgate dashboard`. docs/dashboard.md prints them, and the Deployment of the page has them."""

UNINSTALL_RULES: Final = (
    RightRule(
        _RBAC,
        ("clusterrolebindings",),
        ("get",),
        "Is the installation in this namespace?",
        COMPONENT_BINDINGS,
    ),
    RightRule(
        _REGISTRATION,
        WEBHOOK_CONFIGURATIONS,
        ("get", "update", "delete"),
        "The webhooks go first; entries of other programs stay.",
        (CONFIGURATION_NAME,),
    ),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), ("get", "list"), "Which definitions are Headgate's."),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), ("update",), "End the conversion.", KUEUE_DEFINITIONS),
    RightRule(
        "",
        ("secrets",),
        ("get", "patch"),
        "Replicas learn that the webhooks are not to be restored.",
        (SECRET_NAME,),
        RightScope.OWN_NAMESPACE,
    ),
    RightRule(
        "apps",
        ("deployments",),
        ("get", "patch"),
        "The pods are stopped before gates are lifted.",
        ("headgate",),
        RightScope.OWN_NAMESPACE,
    ),
    RightRule(
        "", ("pods",), ("list", "patch"), "Gates and finalizers of pods are removed, and pods are marked as released."
    ),
    RightRule("", ("pods",), ("get",), "Another client changed the pod at the same time."),
    RightRule("batch", ("jobs",), ("list", "patch"), "Jobs that wait for quota are started, and marked as released."),
    RightRule(
        KUEUE,
        ("workloads", "clusterqueues", "resourceflavors", "admissionchecks"),
        ("list", "patch"),
        "Finalizers of Workloads, queues and flavors are removed.",
    ),
    RightRule(
        KUEUE,
        ("workloads", "clusterqueues", "resourceflavors", "admissionchecks"),
        ("get",),
        "Another client changed the object at the same time.",
    ),
    RightRule(
        "coordination.k8s.io",
        ("leases",),
        ("get", "delete"),
        "The Leases are deleted when no process renews them.",
        tuple(LEASES.values()),
        RightScope.LEASE_NAMESPACE,
    ),
)
"""`headgate uninstall --prepare`, which `helm uninstall` runs first."""

STATUS_RULES: Final = (
    RightRule(_RBAC, ("clusterroles", "clusterrolebindings"), ("get",), "Do the pods have rights?", COMPONENT_BINDINGS),
    RightRule(_EXTENSIONS, ("customresourcedefinitions",), ("get",), "Are the queue kinds served?", ALL_DEFINITIONS),
    RightRule(
        "", ("services",), ("get",), "Can API servers call the webhooks?", ("headgate",), RightScope.OWN_NAMESPACE
    ),
    RightRule(
        "discovery.k8s.io",
        ("endpointslices",),
        ("list",),
        "Does a ready pod answer the webhooks?",
        scope=RightScope.OWN_NAMESPACE,
    ),
    RightRule("apps", ("deployments",), ("get",), "Are all replicas ready?", ("headgate",), RightScope.OWN_NAMESPACE),
    RightRule(_REGISTRATION, WEBHOOK_CONFIGURATIONS, ("get",), "Are the webhooks registered?", (CONFIGURATION_NAME,)),
    RightRule(
        "coordination.k8s.io",
        ("leases",),
        ("get",),
        "Does each component have a leader?",
        tuple(LEASES.values()),
        RightScope.LEASE_NAMESPACE,
    ),
)
"""`headgate install --status`, which `helm test` runs."""

_WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")
USER_RULES: Final[Mapping[str, tuple[RightRule, ...]]] = {
    "view": (
        RightRule(KUEUE, ("localqueues", "workloads"), READ, "A user looks at the queues of a namespace."),
        RightRule(KUEUE, ("localqueues/status", "workloads/status"), ("get",), "The same, through the subresource."),
        RightRule(VOLCANO, ("podgroups", "podgroups/status"), READ, "A user looks at gangs."),
    ),
    "edit": (RightRule(VOLCANO, ("podgroups",), _WRITE, "A user creates a gang for own pods."),),
    "admin": (RightRule(KUEUE, ("workloads",), ("patch", "update"), "A namespace admin deactivates a Workload."),),
    "queue-viewer": (
        RightRule(
            KUEUE,
            ("admissionchecks", "clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses"),
            READ,
            "`headgate explain` and `headgate workloads` with amounts and positions.",
        ),
        RightRule(VOLCANO, ("queues",), READ, "`headgate queues`."),
    ),
    "queue-admin": (
        RightRule(
            KUEUE,
            (
                *("admissionchecks", "clusterqueues", "cohorts", "localqueues"),
                *("resourceflavors", "workloadpriorityclasses", "workloads"),
            ),
            (*READ, *_WRITE),
            "A queue administrator divides the cluster.",
        ),
        RightRule(VOLCANO, ("queues", "podgroups"), (*READ, *_WRITE), "The same, with Volcano's kinds."),
    ),
}
"""For users: view, edit and admin are aggregated to the roles of the same names; the other two are bound by hand."""


def atoms(rules: Iterable[RightRule]) -> set[tuple[str, str, str, str, str]]:
    """Each single right: scope, group, resource, name (empty: all), verb."""
    return {
        (rule.scope.value, rule.group, resource, name, verb)
        for rule in rules
        for resource in rule.resources
        for name in rule.names or ("",)
        for verb in rule.verbs
    }
