"""Settings of an installation for all admission handlers, and the interface to read other objects."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from headgate.admission.assumed_resizes import AssumedResizes
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.api_resources import APIResource
from headgate.kube.feature_gates import DEFAULTS, FeatureGates

Object = dict[str, Any]

OWN_NAMESPACE: Final = "headgate-system"
SYSTEM_NAMESPACE: Final = "kube-system"
SERVICE_ACCOUNTS: Final = (
    f"system:serviceaccount:{OWN_NAMESPACE}:headgate",
    f"system:serviceaccount:{SYSTEM_NAMESPACE}:headgate-scheduler",
)
"""The default users of Headgate on a real cluster: the service accounts of its manifests."""


class AdmissionPolicy(msgspec.Struct, frozen=True):
    """``schedulers``: the scheduler names of this installation. ``trusted``: Headgate's own users, which may write
    stamps. ``gates_all``: every pod of these schedulers opts in unless it, its queue or its namespace says ``"false"``.
    ``exempt``: namespaces whose pods are not changed. ``gates``: the feature gate. ``suspends_jobs``: this installation
    starts jobs when their Workload is admitted; ``jobs`` says which. ``features``: the annotations that are validated.
    """

    schedulers: frozenset[str]
    trusted: frozenset[str] = frozenset(SERVICE_ACCOUNTS)
    gates_all: bool = False
    exempt: frozenset[str] = frozenset({SYSTEM_NAMESPACE, OWN_NAMESPACE})
    gates: bool = True
    suspends_jobs: bool = False
    features: FeatureGates = DEFAULTS
    jobs: JobSettings = DEFAULT


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
        """Allowed resizes that statuses may not show yet."""
        ...

    def tenants(self, queue: str) -> int:
        """How many PodGroups name this queue."""
        ...
