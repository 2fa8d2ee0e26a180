"""One :class:`Strategy` per served kind, by group and kind. The contract is in ``contract.py``.

Binding and the review kinds are requests, not stored objects: they have an entry so that every served kind has one.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy import devices, networking, storage
from headgate.apimachinery.strategy.admissionregistration import ADMISSION
from headgate.apimachinery.strategy.apiextensions import EXTENSIONS
from headgate.apimachinery.strategy.autoscaling import AUTOSCALING
from headgate.apimachinery.strategy.contract import AllocationPool, Strategy, StrategyContext, UpdateRules
from headgate.apimachinery.strategy.coordination import COORDINATION
from headgate.apimachinery.strategy.core import CORE, EVENTS
from headgate.apimachinery.strategy.node import NODE
from headgate.apimachinery.strategy.policy import POLICY
from headgate.apimachinery.strategy.rbac import RBAC
from headgate.apimachinery.strategy.scheduling import SCHEDULING
from headgate.apimachinery.strategy.workloads import APPS, BATCH

__all__ = ["STRATEGIES", "AllocationPool", "Strategy", "StrategyContext", "UpdateRules"]

_REQUEST: Final = Strategy(namespaced=False)

_GROUPS: Final[dict[str, dict[str, Strategy]]] = {
    "": CORE,
    "admissionregistration.k8s.io": ADMISSION,
    "apiextensions.k8s.io": EXTENSIONS,
    "apps": APPS,
    "authentication.k8s.io": {"SelfSubjectReview": _REQUEST, "TokenRequest": Strategy(), "TokenReview": _REQUEST},
    "authorization.k8s.io": {
        "LocalSubjectAccessReview": Strategy(),
        "SelfSubjectAccessReview": _REQUEST,
        "SelfSubjectRulesReview": _REQUEST,
        "SubjectAccessReview": _REQUEST,
    },
    "autoscaling": AUTOSCALING,
    "batch": BATCH,
    "coordination.k8s.io": COORDINATION,
    "discovery.k8s.io": networking.DISCOVERY,
    "events.k8s.io": EVENTS,
    "networking.k8s.io": networking.NETWORKING,
    "node.k8s.io": NODE,
    "policy": POLICY,
    "rbac.authorization.k8s.io": RBAC,
    "resource.k8s.io": devices.RESOURCE,
    "scheduling.k8s.io": SCHEDULING,
    "storage.k8s.io": storage.STORAGE,
}

STRATEGIES: Final[dict[tuple[str, str], Strategy]] = {
    (group, kind): strategy for group, kinds in _GROUPS.items() for kind, strategy in kinds.items()
}
