"""The built-in kinds of the core group, ``/api/v1``, and of ``events.k8s.io``, whose events are stored in the core
group."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import METADATA_LABELS, FieldLabel, ServedKind
from headgate.apiserver.kinds.rows.row import (
    CONNECT,
    CREATE,
    PROXY,
    READ_WRITE,
    SCALE,
    STATUS,
    alias,
    builtin_kind,
    field,
)

_ALL: Final = ("all",)
_NAME: Final = METADATA_LABELS[:1]
_REFUSAL: Final = "field label not supported: {label}"

_OBJECT_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

_POD_LABELS: Final = (
    *METADATA_LABELS,
    field("spec.nodeName"),
    field("spec.restartPolicy"),
    field("spec.schedulerName"),
    field("spec.serviceAccountName"),
    field("spec.hostNetwork", default="false"),
    field("status.phase"),
    field("status.podIP", "status.podIPs.0.ip"),
    FieldLabel("status.podIPs", ()),
    field("status.nominatedNodeName"),
    alias("spec.host", "spec.nodeName"),
)

_CORE_EVENT_LABELS: Final = (
    *METADATA_LABELS,
    *(field(f"involvedObject.{each}") for each in _OBJECT_REFERENCE),
    field("reason"),
    field("reportingComponent"),
    FieldLabel("source", (("source", "component"), ("reportingComponent",))),
    field("type"),
)

# These read the stored form, which is the core group's.
_EVENT_LABELS: Final = (
    *METADATA_LABELS,
    *(alias(f"regarding.{each}", f"involvedObject.{each}") for each in _OBJECT_REFERENCE),
    field("reason"),
    alias("reportingController", "reportingComponent"),
    field("type"),
)

CORE: Final[tuple[ServedKind, ...]] = (
    builtin_kind("v1", "Binding", "bindings", "Namespaced", verbs=CREATE),
    builtin_kind(
        "v1",
        "ComponentStatus",
        "componentstatuses",
        "Cluster",
        verbs=("get", "list"),
        short_names=("cs",),
        deprecated="v1 ComponentStatus is deprecated in v1.19+",
    ),
    builtin_kind("v1", "ConfigMap", "configmaps", "Namespaced", short_names=("cm",)),
    builtin_kind(
        "v1",
        "Endpoints",
        "endpoints",
        "Namespaced",
        short_names=("ep",),
        deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    builtin_kind(
        "v1",
        "Event",
        "events",
        "Namespaced",
        short_names=("ev",),
        field_labels=_CORE_EVENT_LABELS,
        field_label_refusal=_REFUSAL,
    ),
    builtin_kind("v1", "LimitRange", "limitranges", "Namespaced", short_names=("limits",)),
    builtin_kind(
        "v1",
        "Namespace",
        "namespaces",
        "Cluster",
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        short_names=("ns",),
        subresources=(("finalize", ("update",), None), STATUS),
        field_labels=(*_NAME, field("status.phase")),
        field_label_refusal=_REFUSAL,
    ),
    builtin_kind(
        "v1",
        "Node",
        "nodes",
        "Cluster",
        short_names=("no",),
        subresources=(("proxy", PROXY, ("", "v1", "NodeProxyOptions")), STATUS),
        field_labels=(*_NAME, field("spec.unschedulable", default="false")),
        field_label_refusal=_REFUSAL,
    ),
    builtin_kind(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "Namespaced",
        short_names=("pvc",),
        subresources=(STATUS,),
    ),
    builtin_kind("v1", "PersistentVolume", "persistentvolumes", "Cluster", short_names=("pv",), subresources=(STATUS,)),
    builtin_kind(
        "v1",
        "Pod",
        "pods",
        "Namespaced",
        short_names=("po",),
        categories=_ALL,
        subresources=(
            ("attach", CONNECT, ("", "v1", "PodAttachOptions")),
            ("binding", CREATE, ("", "v1", "Binding")),
            ("ephemeralcontainers", READ_WRITE, None),
            ("eviction", CREATE, ("policy", "v1", "Eviction")),
            ("exec", CONNECT, ("", "v1", "PodExecOptions")),
            ("log", ("get",), None),
            ("portforward", CONNECT, ("", "v1", "PodPortForwardOptions")),
            ("proxy", PROXY, ("", "v1", "PodProxyOptions")),
            ("resize", READ_WRITE, None),
            STATUS,
        ),
        field_labels=_POD_LABELS,
        field_label_refusal=_REFUSAL,
    ),
    builtin_kind("v1", "PodTemplate", "podtemplates", "Namespaced"),
    builtin_kind(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        "Namespaced",
        short_names=("rc",),
        categories=_ALL,
        subresources=(SCALE, STATUS),
        field_labels=(*METADATA_LABELS, field("status.replicas", default="0")),
        field_label_refusal=_REFUSAL,
    ),
    builtin_kind("v1", "ResourceQuota", "resourcequotas", "Namespaced", short_names=("quota",), subresources=(STATUS,)),
    builtin_kind(
        "v1",
        "Secret",
        "secrets",
        "Namespaced",
        field_labels=(*METADATA_LABELS, field("type")),
        field_label_refusal=_REFUSAL,
    ),
    builtin_kind(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        "Namespaced",
        short_names=("sa",),
        subresources=(("token", CREATE, ("authentication.k8s.io", "v1", "TokenRequest")),),
    ),
    builtin_kind(
        "v1",
        "Service",
        "services",
        "Namespaced",
        short_names=("svc",),
        categories=_ALL,
        subresources=(("proxy", PROXY, ("", "v1", "ServiceProxyOptions")), STATUS),
        field_labels=(*METADATA_LABELS, field("spec.clusterIP"), field("spec.type")),
        field_label_refusal=_REFUSAL,
    ),
)

EVENTS: Final[tuple[ServedKind, ...]] = (
    builtin_kind(
        "events.k8s.io/v1",
        "Event",
        "events",
        "Namespaced",
        short_names=("ev",),
        field_labels=_EVENT_LABELS,
        field_label_refusal=_REFUSAL,
        stored_as=("", "v1", "events"),
    ),
)
