"""One :class:`Strategy` per served kind, by group and kind. The contract is in ``contract.py``.

Binding and the review kinds are requests, not stored objects: they have a row so that every served kind has one.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.strategy.contract import Context, Strategy, UpdateRules
from headgate.kube.strategy.prepare import (
    ISOLATED_STATUS,
    PLAIN_STATUS,
    STATUS,
    count_changes,
    drop_status,
    drop_status_start_generation,
    keep_status,
    keep_status_count_spec,
    start_generation,
)

__all__ = ["STRATEGIES", "Context", "Strategy", "UpdateRules"]

_KEEPS_STATUS = UpdateRules(prepare=keep_status, reset_fields=STATUS)
_COUNTS_SPEC = UpdateRules(prepare=keep_status_count_spec, reset_fields=STATUS)
_COUNTS_SPEC_ONLY = UpdateRules(prepare=count_changes("spec"))
_REQUEST = Strategy(namespaced=False)


def _with_status(namespaced: bool = True) -> Strategy:
    return Strategy(namespaced=namespaced, prepare_create=drop_status, update=_KEEPS_STATUS, subresources=PLAIN_STATUS)


def _counted(namespaced: bool = True) -> Strategy:
    return Strategy(
        namespaced=namespaced,
        prepare_create=drop_status_start_generation,
        update=_COUNTS_SPEC,
        subresources=PLAIN_STATUS,
    )


_CORE: Final = {
    "Binding": Strategy(),
    "ConfigMap": Strategy(),
    "Endpoints": Strategy(allow_create_on_update=True),
    "Event": Strategy(allow_create_on_update=True),
    "LimitRange": Strategy(allow_create_on_update=True),
    "Namespace": _with_status(namespaced=False),
    "Node": Strategy(namespaced=False, update=_KEEPS_STATUS, subresources=PLAIN_STATUS),
    "PersistentVolume": _with_status(namespaced=False),
    "PersistentVolumeClaim": _with_status(),
    "Pod": _counted(),
    "PodTemplate": Strategy(prepare_create=start_generation, update=UpdateRules(prepare=count_changes("template"))),
    "ReplicationController": _counted(),
    "ResourceQuota": _with_status(),
    "Secret": Strategy(),
    "Service": Strategy(
        allow_create_on_update=True, prepare_create=drop_status, update=_KEEPS_STATUS, subresources=PLAIN_STATUS
    ),
    "ServiceAccount": Strategy(),
}

_APPS: Final = {
    "ControllerRevision": Strategy(),
    "DaemonSet": _counted(),
    "Deployment": _counted(),
    "ReplicaSet": _counted(),
    "StatefulSet": _counted(),
}

_BATCH: Final = {"CronJob": _counted(), "Job": _counted()}

_ADMISSION: Final = {
    kind: Strategy(
        namespaced=False,
        prepare_create=start_generation,
        update=UpdateRules(prepare=count_changes("webhooks")),
        unconditional_update=False,
    )
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
} | {
    "ValidatingAdmissionPolicy": Strategy(
        namespaced=False,
        prepare_create=drop_status_start_generation,
        update=_COUNTS_SPEC,
        subresources=ISOLATED_STATUS,
        unconditional_update=False,
    ),
    "ValidatingAdmissionPolicyBinding": Strategy(
        namespaced=False, prepare_create=start_generation, update=_COUNTS_SPEC_ONLY, unconditional_update=False
    ),
}

_NETWORKING: Final = {
    "IPAddress": Strategy(namespaced=False),
    "Ingress": _counted(),
    "IngressClass": Strategy(namespaced=False, prepare_create=start_generation, update=_COUNTS_SPEC_ONLY),
    "NetworkPolicy": Strategy(prepare_create=start_generation, update=_COUNTS_SPEC_ONLY),
    "ServiceCIDR": _with_status(namespaced=False),
}

_RBAC: Final = {
    "ClusterRole": Strategy(namespaced=False, allow_create_on_update=True),
    "ClusterRoleBinding": Strategy(namespaced=False, allow_create_on_update=True),
    "Role": Strategy(allow_create_on_update=True),
    "RoleBinding": Strategy(allow_create_on_update=True),
}

_RESOURCE: Final = {
    "DeviceClass": Strategy(namespaced=False, prepare_create=start_generation, update=_COUNTS_SPEC_ONLY),
    "ResourceClaim": Strategy(prepare_create=drop_status, update=_KEEPS_STATUS, subresources=ISOLATED_STATUS),
    "ResourceClaimTemplate": Strategy(),
    "ResourceSlice": Strategy(namespaced=False, prepare_create=start_generation, update=_COUNTS_SPEC_ONLY),
}

_STORAGE: Final = {
    "CSIDriver": Strategy(namespaced=False, unconditional_update=False),
    "CSINode": Strategy(namespaced=False, unconditional_update=False),
    "CSIStorageCapacity": Strategy(unconditional_update=False),
    "StorageClass": Strategy(namespaced=False),
    "VolumeAttachment": Strategy(
        namespaced=False,
        prepare_create=drop_status,
        update=_KEEPS_STATUS,
        subresources=ISOLATED_STATUS,
        unconditional_update=False,
    ),
    "VolumeAttributesClass": Strategy(namespaced=False),
}

_GROUPS: Final[dict[str, dict[str, Strategy]]] = {
    "": _CORE,
    "admissionregistration.k8s.io": _ADMISSION,
    "apps": _APPS,
    "authentication.k8s.io": {"SelfSubjectReview": _REQUEST, "TokenRequest": Strategy(), "TokenReview": _REQUEST},
    "authorization.k8s.io": {
        "LocalSubjectAccessReview": Strategy(),
        "SelfSubjectAccessReview": _REQUEST,
        "SelfSubjectRulesReview": _REQUEST,
        "SubjectAccessReview": _REQUEST,
    },
    "autoscaling": {"HorizontalPodAutoscaler": _with_status(), "Scale": Strategy()},
    "batch": _BATCH,
    "coordination.k8s.io": {"Lease": Strategy(allow_create_on_update=True, unconditional_update=False)},
    "discovery.k8s.io": {"EndpointSlice": Strategy(prepare_create=start_generation)},
    "events.k8s.io": {"Event": Strategy(allow_create_on_update=True)},
    "networking.k8s.io": _NETWORKING,
    "node.k8s.io": {
        "RuntimeClass": Strategy(namespaced=False, allow_create_on_update=True, unconditional_update=False)
    },
    "policy": {
        "Eviction": Strategy(),
        "PodDisruptionBudget": Strategy(
            prepare_create=drop_status_start_generation,
            update=_COUNTS_SPEC,
            subresources=PLAIN_STATUS,
            unconditional_update=False,
        ),
    },
    "rbac.authorization.k8s.io": _RBAC,
    "resource.k8s.io": _RESOURCE,
    "scheduling.k8s.io": {"PriorityClass": Strategy(namespaced=False, prepare_create=start_generation)},
    "storage.k8s.io": _STORAGE,
}

STRATEGIES: Final[dict[tuple[str, str], Strategy]] = {
    (group, kind): strategy for group, kinds in _GROUPS.items() for kind, strategy in kinds.items()
}
