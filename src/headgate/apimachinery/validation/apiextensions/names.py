"""Validation of the names of a CustomResourceDefinition, and of the approval annotation of protected groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid, quote, required

Object = dict[str, Any]

_APPROVED: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def check_names(crd_names: Object, path: str) -> FieldErrors:
    problems: FieldErrors = []
    for field in ("plural", "singular"):
        if crd_names.get(field) and (messages := names.is_dns1035_label(crd_names[field])):
            problems.append(invalid(f"{path}.{field}", crd_names[field], ",".join(messages)))
    for field in ("kind", "listKind"):
        if crd_names.get(field) and (messages := names.is_dns1035_label(crd_names[field].lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(messages)}"
            problems.append(invalid(f"{path}.{field}", crd_names[field], text))
    problems += _check_labels(crd_names.get("shortNames") or [], f"{path}.shortNames")
    if crd_names.get("kind") and crd_names["kind"] == crd_names.get("listKind"):
        problems.append(invalid(f"{path}.listKind", crd_names["listKind"], "kind and listKind may not be the same"))
    return problems + _check_labels(crd_names.get("categories") or [], f"{path}.categories")


def _check_labels(labels: list[str], path: str) -> FieldErrors:
    return [
        invalid(f"{path}[{index}]", label, ",".join(messages))
        for index, label in enumerate(labels)
        if (messages := names.is_dns1035_label(label))
    ]


def check_required(crd_names: Object, path: str) -> FieldErrors:
    fields = ("plural", "singular", "kind", "listKind")
    return [required(f"{path}.{field}") for field in fields if not crd_names.get(field)]


def check_group(group: str, path: str) -> FieldErrors:
    if not group:
        return [required(path)]
    if messages := names.is_dns1123_subdomain(group):
        return [invalid(path, group, ",".join(messages))]
    return [] if "." in group else [invalid(path, group, "should be a domain with at least one dot")]


def is_protected(group: str) -> bool:
    return any(group == domain or group.endswith(f".{domain}") for domain in ("k8s.io", "kubernetes.io"))


def approval(annotations: Mapping[str, str]) -> tuple[str, str]:
    """The state of the annotation (Missing, Unapproved, Approved, Invalid), and a message."""
    text = annotations.get(_APPROVED) or ""
    needed = f"protected groups must have approval annotation {quote(_APPROVED)}"
    if not text:
        return "Missing", f"{needed}, {_SEE}"
    if text.startswith("unapproved"):
        return "Unapproved", f"not approved: {quote(text)}"
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme and parts.netloc:
        return "Approved", f"approved in {text}"
    return "Invalid", f'{needed} with either a URL or a reason starting with "unapproved", {_SEE}'


def check_approval(new: Object, old: Object | None) -> FieldErrors:
    if not is_protected(new["spec"].get("group") or ""):
        return []
    annotations = new["metadata"].get("annotations") or {}
    state, reason = approval(annotations)
    if old is not None and approval(old["metadata"].get("annotations") or {})[0] == state:
        return []
    path = f"metadata.annotations[{_APPROVED}]"
    if state == "Missing":
        return [required(path, reason)]
    return [invalid(path, annotations[_APPROVED], reason)] if state == "Invalid" else []
