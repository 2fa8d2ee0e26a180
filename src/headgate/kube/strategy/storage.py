"""Strategies of storage and of devices: classes, drivers, attachments, claims and slices."""

from __future__ import annotations

from typing import Final

from headgate.kube.strategy.adapt import checks, checks_update
from headgate.kube.strategy.contract import Context, Object, Strategy, UpdateRules
from headgate.kube.strategy.prepare import (
    ISOLATED_STATUS,
    SPEC_AND_METADATA,
    STATUS,
    bump_generation,
    count_changes,
    drop_status,
    keep_spec_and_metadata,
    keep_status,
    start_generation,
)
from headgate.kube.validation.resource_claim import (
    validate_claim_template_create,
    validate_claim_template_update,
    validate_device_class,
    validate_device_class_update,
    validate_resource_claim_create,
    validate_resource_claim_update,
    validate_resource_slice,
    validate_resource_slice_update,
)
from headgate.kube.validation.storage import (
    validate_csi_driver_create,
    validate_csi_driver_update,
    validate_csi_node,
    validate_csi_node_update,
    validate_csi_storage_capacity,
    validate_csi_storage_capacity_update,
    validate_storage_class_create,
    validate_storage_class_update,
    validate_volume_attachment_create,
    validate_volume_attachment_update,
    validate_volume_attributes_class,
    validate_volume_attributes_class_update,
)
from headgate.kube.validation.warnings import (
    storage_capacity_warnings,
    storage_class_warnings,
)


def _stamp_taints(obj: Object, ctx: Context) -> None:
    for device in (obj.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", ctx.now)


def _prepare_resource_slice_create(obj: Object, ctx: Context) -> None:
    obj["metadata"]["generation"] = 1
    _stamp_taints(obj, ctx)


def _prepare_resource_slice_update(new: Object, old: Object, ctx: Context) -> None:
    _stamp_taints(new, ctx)
    if new.get("spec") != old.get("spec"):
        bump_generation(new, old)


RESOURCE: Final[dict[str, Strategy]] = {
    "DeviceClass": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=checks(validate_device_class),
        update=UpdateRules(prepare=count_changes("spec"), validate=checks_update(validate_device_class_update)),
    ),
    "ResourceClaim": Strategy(
        prepare_create=drop_status,
        validate_create=checks(validate_resource_claim_create),
        update=UpdateRules(
            prepare=keep_status, validate=checks_update(validate_resource_claim_update), reset_fields=STATUS
        ),
        subresources=ISOLATED_STATUS,
    ),
    "ResourceClaimTemplate": Strategy(
        validate_create=checks(validate_claim_template_create),
        update=UpdateRules(validate=checks_update(validate_claim_template_update)),
    ),
    "ResourceSlice": Strategy(
        namespaced=False,
        prepare_create=_prepare_resource_slice_create,
        validate_create=checks(validate_resource_slice),
        update=UpdateRules(
            prepare=_prepare_resource_slice_update, validate=checks_update(validate_resource_slice_update)
        ),
    ),
}

STORAGE: Final[dict[str, Strategy]] = {
    "CSIDriver": Strategy(
        namespaced=False,
        validate_create=checks(validate_csi_driver_create),
        update=UpdateRules(prepare=count_changes("spec"), validate=checks_update(validate_csi_driver_update)),
        unconditional_update=False,
    ),
    "CSINode": Strategy(
        namespaced=False,
        validate_create=checks(validate_csi_node),
        update=UpdateRules(validate=checks_update(validate_csi_node_update)),
        unconditional_update=False,
    ),
    "CSIStorageCapacity": Strategy(
        validate_create=checks(validate_csi_storage_capacity),
        warnings_create=lambda obj, ctx: storage_capacity_warnings(obj),
        update=UpdateRules(
            validate=checks_update(validate_csi_storage_capacity_update),
            warnings=lambda new, old, ctx: storage_capacity_warnings(new),
        ),
        unconditional_update=False,
    ),
    "StorageClass": Strategy(
        namespaced=False,
        validate_create=checks(validate_storage_class_create),
        warnings_create=lambda obj, ctx: storage_class_warnings(obj),
        update=UpdateRules(
            warnings=lambda new, old, ctx: storage_class_warnings(new),
            validate=lambda new, old, ctx: validate_storage_class_create(new) + validate_storage_class_update(new, old),
        ),
    ),
    "VolumeAttachment": Strategy(
        namespaced=False,
        prepare_create=drop_status,
        validate_create=checks(validate_volume_attachment_create),
        update=UpdateRules(
            prepare=keep_status, validate=checks_update(validate_volume_attachment_update), reset_fields=STATUS
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec_and_metadata,
                validate=checks_update(validate_volume_attachment_update),
                reset_fields=SPEC_AND_METADATA,
            )
        },
        unconditional_update=False,
    ),
    "VolumeAttributesClass": Strategy(
        namespaced=False,
        validate_create=checks(validate_volume_attributes_class),
        update=UpdateRules(validate=checks_update(validate_volume_attributes_class_update)),
    ),
}
