"""Defaults of CustomResourceDefinitions: names that follow from the kind, the conversion, the stored versions."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def default_custom_resource_definition(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443
    status = obj.setdefault("status", {})
    if not status.get("storedVersions"):
        add_stored_version(obj)


def add_stored_version(obj: Object) -> None:
    """Records the storage version in the status."""
    for version in obj["spec"].get("versions") or ():
        if version.get("storage"):
            stored = obj.setdefault("status", {}).get("storedVersions") or []
            name = version.get("name") or ""
            if name not in stored:
                obj["status"]["storedVersions"] = [*stored, name]
            return
