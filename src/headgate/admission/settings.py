"""Settings of an installation for all admission handlers, and the interface to read other objects."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from headgate.admission.assumed_resizes import AssumedResizes
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.names import WORKLOAD_CONTROLLERS
from headgate.gate_policies.pod_counts import GatedPodCounts
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.api_resources import APIResource
from headgate.kube.feature_gates import DEFAULTS, FeatureGates

Object = dict[str, Any]

OWN_NAMESPACE: Final = "headgate-system"
SYSTEM_NAMESPACE: Final = "kube-system"
SERVICE_ACCOUNTS: Final = (
    f"system:serviceaccount:{OWN_NAMESPACE}:headgate",
    f"system:serviceaccount:{OWN_NAMESPACE}:headgate-gates-only",
    f"system:serviceaccount:{SYSTEM_NAMESPACE}:headgate-scheduler",
)
"""The default users of Headgate on a real cluster: the service accounts of its manifests."""


class AdmissionSettings(msgspec.Struct, frozen=True):
    """``schedulers``: the values of ``spec.schedulerName`` that Headgate serves. ``trusted_users``: Headgate's own
    users, which may write stamps. ``gates_all_pods``: every pod of these schedulers opts in to the queue gate, unless
    its own annotation, or that of its queue or its namespace, is ``"false"``. ``exempt_namespaces``: their pods are not
    changed. ``queue_gate_enabled``: the feature gate QueueAllocationGate is on. ``suspends_jobs``: new jobs in Kueue's
    queues are suspended, because this installation starts a job when its Workload is admitted; ``jobs`` says which jobs
    these are. ``features``: the feature gates, which also say which annotations are validated, and whether GatePolicies
    are in effect. ``workload_controllers``: the users that create pods from the templates of others."""

    schedulers: frozenset[str]
    trusted_users: frozenset[str] = frozenset(SERVICE_ACCOUNTS)
    gates_all_pods: bool = False
    exempt_namespaces: frozenset[str] = frozenset({SYSTEM_NAMESPACE, OWN_NAMESPACE})
    queue_gate_enabled: bool = True
    suspends_jobs: bool = False
    features: FeatureGates = DEFAULTS
    jobs: JobSettings = DEFAULT
    workload_controllers: frozenset[str] = WORKLOAD_CONTROLLERS


class ClusterView(Protocol):
    """The cluster at the time of the write. Callers must not change the returned objects."""

    def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
        """``uid``: of the expected object. An implementation with a cache reads again if the cached uid differs."""
        ...

    @property
    def queues(self) -> QueueLister:
        """All queues, for their validation."""
        ...

    @property
    def resizes(self) -> AssumedResizes:
        """Allowed resizes that the statuses of the queues may not include yet."""
        ...

    def group_count(self, queue: str) -> int:
        """How many PodGroups name this queue."""
        ...

    @property
    def gate_policies(self) -> GatePolicyIndex:
        """All GatePolicies; none while the feature gate GateOwnership is off."""
        ...

    @property
    def gated_pods(self) -> GatedPodCounts:
        """How many pods wait behind each gate, by namespace."""
        ...
