"""Strategies of the core group and of ``events.k8s.io``, including pods and services."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    StrategyContext,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.pod import POD, TEMPLATES
from headgate.apimachinery.strategy.prepare import SPEC, STATUS, drop_status, keep_field, keep_spec, keep_status
from headgate.apimachinery.strategy.service import SERVICE
from headgate.apimachinery.strategy.workloads import CONTROLLERS
from headgate.apimachinery.validation.config import (
    validate_config_map,
    validate_config_map_update,
    validate_secret,
    validate_secret_update,
    validate_service_account,
    validate_service_account_update,
)
from headgate.apimachinery.validation.event import (
    validate_event,
    validate_strict_event_create,
    validate_strict_event_update,
)
from headgate.apimachinery.validation.limit_range import validate_limit_range
from headgate.apimachinery.validation.namespace import (
    validate_namespace_create,
    validate_namespace_finalize_update,
    validate_namespace_status_update,
    validate_namespace_update,
)
from headgate.apimachinery.validation.networking.endpoints import (
    endpoints_warnings,
    validate_endpoints,
    validate_endpoints_update,
)
from headgate.apimachinery.validation.node import (
    node_warnings,
    validate_node_create,
    validate_node_status_update,
    validate_node_update,
)
from headgate.apimachinery.validation.persistent_volume import (
    validate_volume_create,
    validate_volume_status_update,
    validate_volume_update,
)
from headgate.apimachinery.validation.persistent_volume_claim import (
    validate_claim_create,
    validate_claim_status_update,
    validate_claim_update,
)
from headgate.apimachinery.validation.pod_security import pod_security_warnings
from headgate.apimachinery.validation.resource_quota import (
    validate_resource_quota,
    validate_resource_quota_status_update,
    validate_resource_quota_update,
)
from headgate.apimachinery.validation.warnings import (
    claim_warnings,
    secret_warnings,
    service_account_warnings,
    volume_warnings,
)
from headgate.apimachinery.validation.workloads.pod_template import validate_binding

_FINALIZER: Final = "kubernetes"


def _label_namespace(obj: Object) -> None:
    metadata = obj["metadata"]
    labels = dict(metadata.get("labels") or {})
    metadata["labels"] = labels | {"kubernetes.io/metadata.name": metadata.get("name", "")}


def _prepare_namespace_create(obj: Object, ctx: StrategyContext) -> None:
    _label_namespace(obj)
    obj["status"] = {"phase": "Active"}
    spec = obj.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    if _FINALIZER not in finalizers:
        spec["finalizers"] = [*finalizers, _FINALIZER]


def _prepare_namespace_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    _label_namespace(new)
    keep_field("finalizers", new.setdefault("spec", {}), old.get("spec") or {})
    keep_field("status", new, old)


def _prepare_node_create(obj: Object, ctx: StrategyContext) -> None:
    (obj.get("spec") or {}).pop("configSource", None)
    status = obj.get("status") or {}
    status.pop("config", None)
    # Behind a gate that is off in v1.35.
    status.pop("declaredFeatures", None)


def _prepare_node_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)
    if "configSource" not in (old.get("spec") or {}):
        (new.get("spec") or {}).pop("configSource", None)


def _prepare_node_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("spec", new, old)
    for field in ("config", "declaredFeatures"):
        if field not in (old.get("status") or {}):
            (new.get("status") or {}).pop(field, None)


def _prepare_volume_create(obj: Object, ctx: StrategyContext) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}


def _prepare_volume_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("spec", new, old)
    field = "lastPhaseTransitionTime"
    status, stored = new.setdefault("status", {}), old.get("status") or {}
    if status.get("phase") == stored.get("phase"):
        if field not in status:
            keep_field(field, status, stored)
    elif status.get(field) in (None, stored.get(field)):
        status[field] = ctx.now


def _prepare_claim_create(obj: Object, ctx: StrategyContext) -> None:
    obj["status"] = {"phase": "Pending"}
    _sync_data_sources(obj.get("spec") or {}, {})


def _prepare_claim_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)
    _sync_data_sources(new.get("spec") or {}, old.get("spec") or {})


def _sync_data_sources(spec: Object, old: Object) -> None:
    """Keeps ``dataSource`` and ``dataSourceRef`` equal (KEP-1495). The old field supports only two kinds."""
    reference = spec.get("dataSourceRef") or {}
    if reference.get("namespace") and "dataSourceRef" not in old:
        # Sources in other namespaces are behind a gate that is off in v1.35.
        del spec["dataSourceRef"]
    source = spec.get("dataSource") or {}
    is_new = "dataSourceRef" not in spec and bool(source) and "dataSource" not in old
    if is_new and (source.get("apiGroup") or "", source.get("kind")) not in _SUPPORTED_SOURCES:
        del spec["dataSource"]
    if "dataSource" in spec and "dataSourceRef" not in spec:
        spec["dataSourceRef"] = dict(spec["dataSource"])
    elif "dataSourceRef" in spec and "dataSource" not in spec and not spec["dataSourceRef"].get("namespace"):
        spec["dataSource"] = {name: value for name, value in spec["dataSourceRef"].items() if name != "namespace"}


_SUPPORTED_SOURCES: Final = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _generated_name(uid: str) -> str:
    """A name in the form of a uid, derived from the object's uid, but different."""
    digest = hashlib.sha256(uid.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _name_limit_range(obj: Object, ctx: StrategyContext) -> None:
    """LimitRange is the only kind that may be created without a name."""
    if not obj["metadata"].get("name"):
        obj["metadata"]["name"] = _generated_name(obj["metadata"].get("uid", ""))


def _clean_secret_references(obj: Object) -> None:
    """A service account refers to secrets of its own namespace; only the name of a reference is kept."""
    if obj.get("secrets"):
        obj["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in obj["secrets"]]


_EVENT: Final = Strategy(
    allow_create_on_update=True,
    validate_create=lambda obj, ctx: validate_event(obj, strict=False),
    update=UpdateRules(validate=lambda new, old, ctx: validate_event(new, strict=False)),
)

# The strict rules use the field names of the core group; events.k8s.io has other names for some fields.
_CORE_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def _as_core_event(event: Object) -> Object:
    return {_CORE_NAMES.get(name, name): value for name, value in event.items()}


EVENTS: Final[dict[str, Strategy]] = {
    "Event": Strategy(
        allow_create_on_update=True,
        validate_create=lambda obj, ctx: validate_strict_event_create(_as_core_event(obj)),
        update=UpdateRules(
            validate=lambda new, old, ctx: validate_strict_event_update(_as_core_event(new), _as_core_event(old))
        ),
    )
}


def _labels(obj: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


CORE: Final[dict[str, Strategy]] = {
    **TEMPLATES,
    **CONTROLLERS,
    "Binding": Strategy(validate_create=validate_create_without_context(validate_binding)),
    "ConfigMap": Strategy(
        validate_create=validate_create_without_context(validate_config_map),
        update=UpdateRules(validate=validate_update_without_context(validate_config_map_update)),
    ),
    "Endpoints": Strategy(
        allow_create_on_update=True,
        validate_create=validate_create_without_context(validate_endpoints),
        warnings_create=lambda obj, ctx: endpoints_warnings(obj),
        update=UpdateRules(
            validate=validate_update_without_context(validate_endpoints_update),
            warnings=lambda new, old, ctx: endpoints_warnings(new),
        ),
    ),
    "Event": _EVENT,
    "LimitRange": Strategy(
        allow_create_on_update=True,
        prepare_create=_name_limit_range,
        validate_create=validate_create_without_context(validate_limit_range),
        update=UpdateRules(validate=lambda new, old, ctx: validate_limit_range(new)),
    ),
    "Namespace": Strategy(
        namespaced=False,
        prepare_create=_prepare_namespace_create,
        validate_create=validate_create_without_context(validate_namespace_create),
        warnings_create=lambda obj, ctx: pod_security_warnings(_labels(obj), {}),
        update=UpdateRules(
            prepare=_prepare_namespace_update,
            validate=validate_update_without_context(validate_namespace_update),
            warnings=lambda new, old, ctx: pod_security_warnings(_labels(new), _labels(old)),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_namespace_status_update),
                reset_fields=SPEC,
            ),
            "finalize": UpdateRules(
                prepare=keep_status,
                validate=validate_update_without_context(validate_namespace_finalize_update),
                reset_fields=STATUS,
            ),
        },
    ),
    "Node": Strategy(
        namespaced=False,
        prepare_create=_prepare_node_create,
        validate_create=validate_create_without_context(validate_node_create),
        warnings_create=lambda obj, ctx: node_warnings(obj),
        update=UpdateRules(
            prepare=_prepare_node_update,
            validate=validate_update_without_context(validate_node_update),
            warnings=lambda new, old, ctx: node_warnings(new),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=_prepare_node_status,
                validate=validate_update_without_context(validate_node_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "PersistentVolume": Strategy(
        namespaced=False,
        prepare_create=_prepare_volume_create,
        validate_create=validate_create_without_context(validate_volume_create),
        warnings_create=lambda obj, ctx: volume_warnings(obj),
        update=UpdateRules(
            warnings=lambda new, old, ctx: volume_warnings(new),
            prepare=keep_status,
            validate=validate_update_without_context(validate_volume_update),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=_prepare_volume_status,
                validate=validate_update_without_context(validate_volume_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "PersistentVolumeClaim": Strategy(
        prepare_create=_prepare_claim_create,
        validate_create=validate_create_without_context(validate_claim_create),
        warnings_create=lambda obj, ctx: claim_warnings(obj),
        update=UpdateRules(
            warnings=lambda new, old, ctx: claim_warnings(new),
            prepare=_prepare_claim_update,
            validate=validate_update_without_context(validate_claim_update),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_claim_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "Pod": POD,
    "ResourceQuota": Strategy(
        prepare_create=drop_status,
        validate_create=validate_create_without_context(validate_resource_quota),
        update=UpdateRules(
            prepare=keep_status,
            validate=validate_update_without_context(validate_resource_quota_update),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_resource_quota_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "Secret": Strategy(
        validate_create=validate_create_without_context(validate_secret),
        warnings_create=lambda obj, ctx: secret_warnings(obj),
        update=UpdateRules(
            validate=validate_update_without_context(validate_secret_update),
            warnings=lambda new, old, ctx: secret_warnings(new),
        ),
    ),
    "Service": SERVICE,
    "ServiceAccount": Strategy(
        prepare_create=lambda obj, ctx: _clean_secret_references(obj),
        validate_create=validate_create_without_context(validate_service_account),
        warnings_create=lambda obj, ctx: service_account_warnings(obj),
        update=UpdateRules(
            prepare=lambda new, old, ctx: _clean_secret_references(new),
            validate=validate_update_without_context(validate_service_account_update),
            warnings=lambda new, old, ctx: service_account_warnings(new, old),
        ),
    ),
}
