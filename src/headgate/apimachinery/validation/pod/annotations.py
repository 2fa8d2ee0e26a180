"""Validation of annotations with a meaning for pods: mirror pods, deletion cost, and those that fields have replaced.

Seccomp and AppArmor profiles and tolerations were annotations before they were fields; both must be consistent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.apimachinery.file_paths import validate_descending
from headgate.apimachinery.validation.pod.containers import containers_with_paths
from headgate.apimachinery.validation.pod.options import DELETION_COST, PodOptions, is_deletion_cost
from headgate.apimachinery.validation.pod.toleration_annotation import read_tolerations
from headgate.kube.field_errors import FieldError, FieldErrors, forbidden, invalid, quote
from headgate.kube.validation.taints import validate_tolerations

Object = dict[str, Any]
Annotations = Mapping[str, str]

MIRROR: Final = "kubernetes.io/config.mirror"
TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST: Final = "localhost/"
_SECCOMP_DEFAULTS: Final = ("runtime/default", "docker/default")


def validate_pod_annotations(
    annotations: Annotations | None, spec: Object, path: str, options: PodOptions
) -> FieldErrors:
    if not annotations:
        return []
    errors: FieldErrors = []
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], detail))
    if annotations.get(TOLERATIONS):
        errors += _validate_tolerations(annotations[TOLERATIONS], path)
    if not options.any_deletion_cost and not is_deletion_cost(annotations):
        errors.append(invalid(f"{path}[{DELETION_COST}]", annotations[DELETION_COST], "must be a 32bit integer"))
    if SECCOMP_POD in annotations:
        errors += _validate_seccomp(annotations[SECCOMP_POD], f"{path}.{SECCOMP_POD}")
    for key, profile in annotations.items():
        if key.startswith(SECCOMP_CONTAINER):
            errors += _validate_seccomp(profile, f"{path}.{key}")
    profiles = {key: profile for key, profile in annotations.items() if key.startswith(APP_ARMOR)}
    names = {each.get("name", "") for each, _ in containers_with_paths(spec, "")} if profiles else set[str]()
    for key, profile in profiles.items():
        errors += _validate_app_armor(key, profile, names, f"{path}[{key}]")
    return errors


def _validate_tolerations(text: str, path: str) -> FieldErrors:
    tolerations = read_tolerations(text)
    if isinstance(tolerations, str):
        return [invalid(path, TOLERATIONS, tolerations)]
    return validate_tolerations(tolerations, f"{path}.{TOLERATIONS}")


def _validate_seccomp(profile: str, path: str) -> FieldErrors:
    if profile in _SECCOMP_DEFAULTS or profile == "unconfined":
        return []
    if profile.startswith(_LOCALHOST):
        return validate_descending(profile.removeprefix(_LOCALHOST), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def _validate_app_armor(key: str, profile: str, containers: set[str], path: str) -> FieldErrors:
    errors: FieldErrors = []
    container = key.removeprefix(APP_ARMOR)
    if container not in containers:
        errors.append(invalid(path, container, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCALHOST):
        errors.append(invalid(path, profile, f"invalid AppArmor profile name: {quote(profile)}"))
    return errors


def validate_annotation_updates(
    new: Annotations | None, old: Annotations | None, spec: Object, path: str, options: PodOptions
) -> FieldErrors:
    errors: FieldErrors = []
    new, old = new or {}, old or {}
    for key in old:
        if new.get(key) == old[key]:
            continue
        if key.startswith(APP_ARMOR):
            errors.append(forbidden(f"{path}[{key}]", "may not remove or update AppArmor annotations"))
        if key == MIRROR:
            errors.append(forbidden(f"{path}[{key}]", "may not remove or update mirror pod annotation"))
    for key in new:
        if key in old:
            continue
        if key.startswith(APP_ARMOR):
            errors.append(forbidden(f"{path}[{key}]", "may not add AppArmor annotations"))
        if key == MIRROR:
            errors.append(forbidden(f"{path}[{key}]", "may not add mirror pod annotation"))
    return errors + validate_pod_annotations(new, spec, path, options)


def validate_profiles_match(annotations: Annotations | None, spec: Object, path: str) -> FieldErrors:
    """If annotation and field are both set, they must be the same profile."""
    if not annotations:
        return []
    return _validate_seccomp_matches(annotations, spec, path) + _validate_app_armor_matches(annotations, spec, path)


def _validate_seccomp_matches(annotations: Annotations, spec: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    owners = [(spec, path, SECCOMP_POD)]
    owners += [
        (each, container_path, f"{SECCOMP_CONTAINER}{each.get('name', '')}")
        for each, container_path in containers_with_paths(spec, path)
    ]
    for owner, field_path, key in owners:
        profile = (owner.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            field_path = f"{field_path}.securityContext.seccompProfile"
            errors += _validate_profile_matches(annotations[key], profile, _SECCOMP_DEFAULTS, "seccomp", field_path)
    return errors


def _validate_app_armor_matches(annotations: Annotations, spec: Object, path: str) -> FieldErrors:
    if (spec.get("os") or {}).get("name") == "windows":
        return []
    errors: FieldErrors = []
    pod_profile = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, field_path in containers_with_paths(spec, path):
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or pod_profile
        key = f"{APP_ARMOR}{container.get('name', '')}"
        if profile is not None and key in annotations:
            field_path = f"{field_path}.securityContext.appArmorProfile"
            errors += _validate_profile_matches(annotations[key], profile, ("runtime/default",), "apparmor", field_path)
    return errors


def _validate_profile_matches(
    annotation: str, profile: Object, defaults: tuple[str, ...], what: str, path: str
) -> list[FieldError]:
    kind = profile.get("type", "")
    wrong_type = forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    if kind == "Unconfined":
        return [] if annotation == "unconfined" else [wrong_type]
    if kind == "RuntimeDefault":
        return [] if annotation in defaults else [wrong_type]
    if kind != "Localhost":
        return []
    if not annotation.startswith(_LOCALHOST):
        return [wrong_type]
    if annotation.removeprefix(_LOCALHOST) == profile.get("localhostProfile"):
        return []
    return [forbidden(f"{path}.localhostProfile", f"{what} profile in annotation and field must match")]
