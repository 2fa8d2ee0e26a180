"""Validation of file paths in a pod: relative, without ``..``, outside reserved names."""

from __future__ import annotations

from headgate.kube.field_errors import FieldErrors, invalid


def validate_no_backsteps(target: str, path: str) -> FieldErrors:
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def validate_descending(target: str, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if target.startswith("/"):
        errors.append(invalid(path, target, "must be a relative path"))
    return errors + validate_no_backsteps(target, path)


def validate_file_path(target: str, path: str) -> FieldErrors:
    """A file in a volume, where names with ``..`` are reserved for the kubelet."""
    errors = validate_descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def validate_mode(mode: int | None, path: str) -> FieldErrors:
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")]
