"""Validation of a container's volume mounts and block devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headgate.apimachinery.file_paths import validate_descending, validate_no_backsteps
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_found, not_supported, required
from headgate.kube.validation.go_values import go_named_string

Object = dict[str, Any]

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def validate_volume_mounts(container: Object, volumes: Mapping[str, Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    devices = {each.get("name", ""): each.get("devicePath", "") for each in container.get("volumeDevices") or ()}
    device_paths = set(devices.values())
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        field_path = f"{path}[{index}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{field_path}.name"))
        if name not in volumes:
            errors.append(not_found(f"{field_path}.name", name))
        if not target:
            errors.append(required(f"{field_path}.mountPath"))
        if target in seen:
            errors.append(invalid(f"{field_path}.mountPath", target, "must be unique"))
        seen.add(target)
        if name in devices:
            errors.append(invalid(f"{field_path}.name", name, "must not already exist in volumeDevices"))
        if target in device_paths:
            errors.append(
                invalid(f"{field_path}.mountPath", target, "must not already exist as a path in volumeDevices")
            )
        errors += _validate_sub_paths(mount, path, field_path)
        propagation = mount.get("mountPropagation")
        if propagation is not None:
            errors += _validate_propagation(propagation, container, f"{path}.mountPropagation")
        recursive = mount.get("recursiveReadOnly")
        if recursive is not None:
            errors += _validate_recursive(recursive, mount, f"{path}.recursiveReadOnly")
    return errors


def _validate_sub_paths(mount: Object, path: str, mount_path: str) -> FieldErrors:
    """Errors of sub paths have the path of the list, not of the mount."""
    errors: FieldErrors = []
    sub_path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if sub_path:
        errors += validate_descending(sub_path, f"{path}.subPath")
    if expression:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{mount_path}.subPathExpr", expression, detail))
        errors += validate_descending(expression, f"{path}.subPathExpr")
    return errors


def _validate_propagation(propagation: str, container: Object, path: str) -> FieldErrors:
    if propagation not in _PROPAGATIONS:
        return [not_supported(path, go_named_string(propagation), _PROPAGATIONS)]
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        return [forbidden(path, "Bidirectional mount propagation is available only to privileged containers")]
    return []


def _validate_recursive(mode: str, mount: Object, path: str) -> FieldErrors:
    if mode not in _RECURSIVE:
        return [not_supported(path, go_named_string(mode), _RECURSIVE)]
    errors: FieldErrors = []
    if mode != "Disabled":
        if not mount.get("readOnly"):
            errors.append(forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation") not in (None, "None"):
            errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def validate_volume_devices(container: Object, volumes: Mapping[str, Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    mounts = {each.get("name", ""): each.get("mountPath", "") for each in container.get("volumeMounts") or ()}
    mount_paths = set(mounts.values())
    paths: set[str] = set()
    names: set[str] = set()
    devices: Sequence[Object] = container.get("volumeDevices") or ()
    for index, device in enumerate(devices):
        field_path = f"{path}[{index}]"
        name, target = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(f"{field_path}.name"))
        if name in names:
            errors.append(invalid(f"{field_path}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(not_found(f"{field_path}.name", name))
        elif all(volumes[name].get(source) is None for source in ("persistentVolumeClaim", "ephemeral")):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{field_path}.name", name, detail))
        if not target:
            errors.append(required(f"{field_path}.devicePath"))
        if target in paths:
            errors.append(invalid(f"{field_path}.devicePath", target, "must be unique"))
        if target and validate_no_backsteps(target, ""):
            errors.append(invalid(f"{field_path}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mounts:
            errors.append(invalid(f"{field_path}.name", name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            errors.append(
                invalid(f"{field_path}.devicePath", target, "must not already exist as a path in volumeMounts")
            )
        if name:
            names.add(name)
    return errors
