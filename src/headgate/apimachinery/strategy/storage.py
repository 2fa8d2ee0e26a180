"""Strategies of storage: classes, drivers, attachments and capacities."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Strategy,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import (
    SPEC_AND_METADATA,
    STATUS,
    bump_generation_on_change,
    drop_status,
    keep_spec_and_metadata,
    keep_status,
)
from headgate.apimachinery.validation.storage import (
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
from headgate.apimachinery.validation.warnings import storage_capacity_warnings, storage_class_warnings

STORAGE: Final[dict[str, Strategy]] = {
    "CSIDriver": Strategy(
        namespaced=False,
        validate_create=validate_create_without_context(validate_csi_driver_create),
        update=UpdateRules(
            prepare=bump_generation_on_change("spec"),
            validate=validate_update_without_context(validate_csi_driver_update),
        ),
        unconditional_update=False,
    ),
    "CSINode": Strategy(
        namespaced=False,
        validate_create=validate_create_without_context(validate_csi_node),
        update=UpdateRules(validate=validate_update_without_context(validate_csi_node_update)),
        unconditional_update=False,
    ),
    "CSIStorageCapacity": Strategy(
        validate_create=validate_create_without_context(validate_csi_storage_capacity),
        warnings_create=lambda obj, ctx: storage_capacity_warnings(obj),
        update=UpdateRules(
            validate=validate_update_without_context(validate_csi_storage_capacity_update),
            warnings=lambda new, old, ctx: storage_capacity_warnings(new),
        ),
        unconditional_update=False,
    ),
    "StorageClass": Strategy(
        namespaced=False,
        validate_create=validate_create_without_context(validate_storage_class_create),
        warnings_create=lambda obj, ctx: storage_class_warnings(obj),
        update=UpdateRules(
            warnings=lambda new, old, ctx: storage_class_warnings(new),
            validate=lambda new, old, ctx: validate_storage_class_create(new) + validate_storage_class_update(new, old),
        ),
    ),
    "VolumeAttachment": Strategy(
        namespaced=False,
        prepare_create=drop_status,
        validate_create=validate_create_without_context(validate_volume_attachment_create),
        update=UpdateRules(
            prepare=keep_status,
            validate=validate_update_without_context(validate_volume_attachment_update),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec_and_metadata,
                validate=validate_update_without_context(validate_volume_attachment_update),
                reset_fields=SPEC_AND_METADATA,
            )
        },
        unconditional_update=False,
    ),
    "VolumeAttributesClass": Strategy(
        namespaced=False,
        validate_create=validate_create_without_context(validate_volume_attributes_class),
        update=UpdateRules(validate=validate_update_without_context(validate_volume_attributes_class_update)),
    ),
}
