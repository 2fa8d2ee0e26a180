"""Strategies of dynamic resource allocation: classes, claims, templates and slices of devices.

Fields that belong to gates which are off in Kubernetes v1.35 (consumable capacity, taints, partitions, binding
conditions, extended resources) are dropped on every write, so nothing stored ever has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    StrategyContext,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import (
    SPEC_AND_METADATA,
    STATUS,
    bump_generation,
    drop_status,
    keep_spec_and_metadata,
    keep_status,
)
from headgate.apimachinery.validation.devices.resource_claim import (
    validate_claim_template_create,
    validate_claim_template_update,
    validate_device_class,
    validate_device_class_update,
    validate_resource_claim_create,
    validate_resource_claim_update,
)
from headgate.apimachinery.validation.devices.resource_claim_status import (
    allocated_devices,
    device_id,
    validate_resource_claim_status,
)
from headgate.apimachinery.validation.devices.resource_slice import (
    validate_resource_slice,
    validate_resource_slice_update,
)

_DISABLED_SLICE_FIELDS: Final = ("sharedCounters", "perDeviceNodeSelection")
_DISABLED_DEVICE_FIELDS: Final = (
    "taints",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
    "allowMultipleAllocations",
)
_DISABLED_REQUEST_FIELDS: Final = ("tolerations", "capacity")
_DISABLED_RESULT_FIELDS: Final = ("shareID", "consumedCapacity", "bindingConditions", "bindingFailureConditions")


def _drop(obj: Object, fields: Iterable[str]) -> None:
    for field in fields:
        obj.pop(field, None)


def _drop_from_claim(spec: Object) -> None:
    devices = spec.get("devices") or {}
    for constraint in devices.get("constraints") or ():
        constraint.pop("distinctAttribute", None)
    for request in devices.get("requests") or ():
        for device in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            _drop(device, _DISABLED_REQUEST_FIELDS)


def _drop_from_slice(obj: Object) -> None:
    spec = obj.get("spec") or {}
    _drop(spec, _DISABLED_SLICE_FIELDS)
    for device in spec.get("devices") or ():
        _drop(device, _DISABLED_DEVICE_FIELDS)
        for capacity in (device.get("capacity") or {}).values():
            capacity.pop("requestPolicy", None)


def _prepare_claim_create(obj: Object, ctx: StrategyContext) -> None:
    drop_status(obj, ctx)
    _drop_from_claim(obj.get("spec") or {})


def _prepare_claim_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_status(new, old, ctx)
    _drop_from_claim(new.get("spec") or {})


def _prepare_claim_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    """Removes the status of devices that this write deallocates."""
    keep_spec_and_metadata(new, old, ctx)
    status = new.get("status") or {}
    for result in allocated_devices(status):
        _drop(result, _DISABLED_RESULT_FIELDS)
    reports = status.get("devices") or ()
    for report in reports:
        report.pop("shareID", None)
    deallocated = {device_id(each) for each in allocated_devices(old.get("status") or {})}
    deallocated -= {device_id(each) for each in allocated_devices(status)}
    if any(device_id(each) in deallocated for each in reports):
        status["devices"] = [each for each in reports if device_id(each) not in deallocated]


def _prepare_template_create(obj: Object, ctx: StrategyContext) -> None:
    _drop_from_claim((obj.get("spec") or {}).get("spec") or {})


def _prepare_template_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    _prepare_template_create(new, ctx)


def _prepare_class_create(obj: Object, ctx: StrategyContext) -> None:
    obj["metadata"]["generation"] = 1
    (obj.get("spec") or {}).pop("extendedResourceName", None)


def _prepare_class_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    (new.get("spec") or {}).pop("extendedResourceName", None)
    if new.get("spec") != old.get("spec"):
        bump_generation(new, old)


def _prepare_slice_create(obj: Object, ctx: StrategyContext) -> None:
    obj["metadata"]["generation"] = 1
    _drop_from_slice(obj)


def _prepare_slice_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    # kube-apiserver compares before it drops fields: a dropped field counts as a change.
    if new.get("spec") != old.get("spec"):
        bump_generation(new, old)
    _drop_from_slice(new)


def _slice_warnings(obj: Object) -> list[str]:
    driver = (obj.get("spec") or {}).get("driver", "")
    if driver == driver.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


RESOURCE: Final[dict[str, Strategy]] = {
    "DeviceClass": Strategy(
        namespaced=False,
        prepare_create=_prepare_class_create,
        validate_create=validate_create_without_context(validate_device_class),
        update=UpdateRules(
            prepare=_prepare_class_update, validate=validate_update_without_context(validate_device_class_update)
        ),
    ),
    "ResourceClaim": Strategy(
        prepare_create=_prepare_claim_create,
        validate_create=lambda obj, ctx: validate_resource_claim_create(obj, ctx.namespace_labels),
        update=UpdateRules(
            prepare=_prepare_claim_update,
            validate=validate_update_without_context(validate_resource_claim_update),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=_prepare_claim_status,
                validate=lambda new, old, ctx: validate_resource_claim_status(new, old, ctx.namespace_labels),
                reset_fields=SPEC_AND_METADATA,
            )
        },
    ),
    "ResourceClaimTemplate": Strategy(
        prepare_create=_prepare_template_create,
        validate_create=lambda obj, ctx: validate_claim_template_create(obj, ctx.namespace_labels),
        update=UpdateRules(
            prepare=_prepare_template_update, validate=validate_update_without_context(validate_claim_template_update)
        ),
    ),
    "ResourceSlice": Strategy(
        namespaced=False,
        prepare_create=_prepare_slice_create,
        validate_create=validate_create_without_context(validate_resource_slice),
        warnings_create=lambda obj, ctx: _slice_warnings(obj),
        update=UpdateRules(
            prepare=_prepare_slice_update,
            validate=validate_update_without_context(validate_resource_slice_update),
            warnings=lambda new, old, ctx: _slice_warnings(new),
        ),
    ),
}
