"""What an installation says once for all writes, and how an answer looks at other objects."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from headgate.capacity.rules import Known
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.features import DEFAULTS, Features
from headgate.kube.resource import Resource

Object = dict[str, Any]

OWN_NAMESPACE: Final = "headgate-system"
ALWAYS_EXEMPT: Final = "kube-system"
SERVICE_ACCOUNTS: Final = (
    f"system:serviceaccount:{OWN_NAMESPACE}:headgate",
    f"system:serviceaccount:{ALWAYS_EXEMPT}:headgate-scheduler",
)
"""Who Headgate is on a real cluster, unless it is told otherwise: the accounts of our own manifests."""


class Policy(msgspec.Struct, frozen=True):
    """``schedulers``: the names that pods ask for us by. ``trusted``: the users that Headgate itself is, who may write
    stamps. ``gates_all``: every pod of our schedulers opts in unless it, its queue or its namespace says ``"false"``.
    ``exempt``: namespaces whose pods are left alone. ``gates``: the feature gate. ``suspends_jobs``: somebody here
    starts jobs when their Workload is admitted; which ones, ``jobs`` says. ``features``: which annotations have
    rules."""

    schedulers: frozenset[str]
    trusted: frozenset[str] = frozenset(SERVICE_ACCOUNTS)
    gates_all: bool = False
    exempt: frozenset[str] = frozenset({ALWAYS_EXEMPT, OWN_NAMESPACE})
    gates: bool = True
    suspends_jobs: bool = False
    features: Features = DEFAULTS
    jobs: JobSettings = DEFAULT


class View(Protocol):
    """The cluster as the write finds it. What it returns must not be changed."""

    def get(self, resource: Resource, namespace: str, name: str, uid: str = "") -> Object | None:
        """``uid``: of the very one that is meant. Who may be late looks again when it knows but a namesake."""
        ...

    @property
    def queues(self) -> Known:
        """All of them, for their rules."""
        ...

    def tenants(self, queue: str) -> int:
        """How many PodGroups name this queue."""
        ...
