"""Copies AppArmor profiles from annotations into the field that replaced them in 1.30 (KEP-24)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.apimachinery.validation.pod.annotations import APP_ARMOR
from headgate.apimachinery.validation.pod.containers import containers_with_paths
from headgate.apimachinery.validation.pod.security import validate_app_armor

Object = dict[str, Any]

_LOCALHOST: Final = "localhost/"


def profile_of_annotation(annotation: str) -> Object | None:
    """The value of the field for an annotation, if it is valid."""
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    file = annotation.removeprefix(_LOCALHOST)
    if annotation.startswith(_LOCALHOST) and file:
        return {"type": "Localhost", "localhostProfile": file}
    return None


def sync_app_armor(pod: Object) -> None:
    for container, profile in _unsynced(pod):
        if profile is not None and profile != _pod_profile(pod):
            container.setdefault("securityContext", {})["appArmorProfile"] = profile


def app_armor_warnings(pod: Object) -> list[str]:
    """Must be called before :func:`sync_app_armor`."""
    return [
        f"metadata.annotations[{APP_ARMOR}{container.get('name', '')}]: deprecated since v1.30; "
        'use the "appArmorProfile" field instead'
        for container, profile in _unsynced(pod)
        if profile is None or profile != _pod_profile(pod)
    ]


def _pod_profile(pod: Object) -> Object | None:
    profile: Object | None = (pod["spec"].get("securityContext") or {}).get("appArmorProfile")
    return profile


def _unsynced(pod: Object) -> Iterator[tuple[Object, Object | None]]:
    """Containers with the annotation and without the field, each with the profile of the annotation."""
    annotations = pod["metadata"].get("annotations")
    if not annotations or (pod["spec"].get("os") or {}).get("name") == "windows":
        return
    for container, _ in containers_with_paths(pod["spec"], ""):
        annotation = annotations.get(f"{APP_ARMOR}{container.get('name', '')}")
        if annotation is None or (container.get("securityContext") or {}).get("appArmorProfile") is not None:
            continue
        profile = profile_of_annotation(annotation)
        yield container, None if profile is not None and validate_app_armor(profile, "") else profile
