"""The built-in kinds of ``apps``, ``batch``, ``autoscaling``, ``policy`` and ``scheduling.k8s.io``, one
:func:`builtin_kind` each."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import METADATA_LABELS, ServedKind
from headgate.apiserver.kinds.rows.row import SCALE, STATUS, alias, builtin_kind

_ALL: Final = ("all",)

APPS: Final[tuple[ServedKind, ...]] = (
    builtin_kind("apps/v1", "ControllerRevision", "controllerrevisions", "Namespaced"),
    builtin_kind(
        "apps/v1",
        "DaemonSet",
        "daemonsets",
        "Namespaced",
        short_names=("ds",),
        categories=_ALL,
        subresources=(STATUS,),
    ),
    builtin_kind(
        "apps/v1",
        "Deployment",
        "deployments",
        "Namespaced",
        short_names=("deploy",),
        categories=_ALL,
        subresources=(SCALE, STATUS),
    ),
    builtin_kind(
        "apps/v1",
        "ReplicaSet",
        "replicasets",
        "Namespaced",
        short_names=("rs",),
        categories=_ALL,
        subresources=(SCALE, STATUS),
    ),
    builtin_kind(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        "Namespaced",
        short_names=("sts",),
        categories=_ALL,
        subresources=(SCALE, STATUS),
    ),
)

BATCH: Final[tuple[ServedKind, ...]] = (
    builtin_kind(
        "batch/v1",
        "CronJob",
        "cronjobs",
        "Namespaced",
        short_names=("cj",),
        categories=_ALL,
        subresources=(STATUS,),
    ),
    builtin_kind(
        "batch/v1",
        "Job",
        "jobs",
        "Namespaced",
        categories=_ALL,
        subresources=(STATUS,),
        field_labels=(*METADATA_LABELS, alias("status.successful", "status.succeeded", default="0")),
        field_label_refusal="field label {quoted} not supported for Job",
    ),
)

AUTOSCALING: Final[tuple[ServedKind, ...]] = tuple(
    builtin_kind(
        f"autoscaling/{version}",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "Namespaced",
        short_names=("hpa",),
        categories=_ALL,
        subresources=(STATUS,),
        stored_as=("autoscaling", "v2", "horizontalpodautoscalers"),
    )
    for version in ("v1", "v2")
)

POLICY: Final[tuple[ServedKind, ...]] = (
    builtin_kind(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "Namespaced",
        short_names=("pdb",),
        subresources=(STATUS,),
    ),
)

SCHEDULING: Final[tuple[ServedKind, ...]] = (
    builtin_kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "Cluster", short_names=("pc",)),
)
