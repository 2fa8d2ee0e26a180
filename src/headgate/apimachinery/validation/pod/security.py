"""Validation of security contexts of pods and containers: users, seccomp, AppArmor, sysctls, privileges."""

from __future__ import annotations

import re
from typing import Any, Final

from headgate.apimachinery.file_paths import validate_descending
from headgate.apimachinery.validation.pod.options import PodOptions, shares_host_namespace
from headgate.apimachinery.validation.pod.windows import validate_windows_options
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_supported, required, too_long
from headgate.kube.names import is_valid_group_id, is_valid_user_id
from headgate.kube.validation.go_values import go_named_string, struct

Object = dict[str, Any]

_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PROFILE_BYTES: Final = 4095
_MAX_SYSCTL_BYTES: Final = 253
_SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_PATTERN: Final = rf"^({_SYSCTL_PART}[\./])*{_SYSCTL_PART}$"
# Possessive quantifiers: the pattern in the error text can take exponential time on a long invalid name.
_SYSCTL: Final = re.compile(r"[a-z0-9](?:[-_a-z0-9]*+(?<![-_]))?(?:[./][a-z0-9](?:[-_a-z0-9]*+(?<![-_]))?)*+")


def validate_pod_security_context(spec: Object, path: str, options: PodOptions) -> FieldErrors:
    context = spec.get("securityContext")
    if not context and not (spec.get("shareProcessNamespace") and spec.get("hostPID")):
        return []
    context = context or {}
    errors: FieldErrors = []
    for field, check in (
        ("fsGroup", is_valid_group_id),
        ("runAsUser", is_valid_user_id),
        ("runAsGroup", is_valid_group_id),
    ):
        if context.get(field) is not None:
            errors += [invalid(f"{path}.{field}", context[field], message) for message in check(context[field])]
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        field_path = f"{path}.supplementalGroups[{index}]"
        errors += [invalid(field_path, group, message) for message in is_valid_group_id(group)]
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    errors += _validate_sysctls(context, spec, f"{path}.sysctls", options)
    errors += _validate_optional_choice(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path)
    errors += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += validate_windows_options(context.get("windowsOptions"), f"{path}.windowsOptions")
    errors += validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    errors += _validate_optional_choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path)
    policies = ("MountOption", "Recursive") if options.any_selinux_policy else ("Recursive",)
    return errors + _validate_optional_choice(context, "seLinuxChangePolicy", policies, path)


def validate_security_context(context: Object, host_users: bool, path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    privileged = bool(context.get("privileged"))
    if privileged and not options.allow_privileged:
        errors.append(forbidden(f"{path}.privileged", "disallowed by cluster policy"))
    for field, check in (("runAsUser", is_valid_user_id), ("runAsGroup", is_valid_group_id)):
        if context.get(field) is not None:
            errors += [invalid(f"{path}.{field}", context[field], message) for message in check(context[field])]
    errors += _validate_optional_choice(context, "procMount", ("Default", "Unmasked"), path)
    if host_users and context.get("procMount") == "Unmasked":
        detail = "`hostUsers` must be false to use `Unmasked`"
        errors.append(invalid(f"{path}.procMount", go_named_string("Unmasked"), detail))
    errors += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        errors += _validate_no_escalation(context, privileged, path)
    errors += validate_windows_options(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _validate_no_escalation(context: Object, privileged: bool, path: str) -> FieldErrors:
    problems = ["`privileged` to true"] if privileged else []
    added = (context.get("capabilities") or {}).get("add") or ()
    problems += ["`capabilities.Add` CAP_SYS_ADMIN" for each in added if each == "CAP_SYS_ADMIN"]
    shown = struct("SecurityContext", context)
    return [invalid(path, shown, f"cannot set `allowPrivilegeEscalation` to false and {each}") for each in problems]


def _validate_optional_choice(context: Object, field: str, choices: tuple[str, ...], path: str) -> FieldErrors:
    text = context.get(field)
    return [] if text is None or text in choices else [not_supported(f"{path}.{field}", go_named_string(text), choices)]


def _validate_sysctls(context: Object, spec: Object, path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        field_path, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            errors.append(required(field_path))
        elif len(name) > _MAX_SYSCTL_BYTES or _SYSCTL.fullmatch(name) is None:
            detail = f"must have at most {_MAX_SYSCTL_BYTES} characters and match regex {_SYSCTL_PATTERN}"
            errors.append(invalid(field_path, name, detail))
        elif name in seen:
            errors.append(duplicate(field_path, name))
        shared = "" if options.host_sysctls else shares_host_namespace(name, spec)
        if shared:
            errors.append(invalid(field_path, name, f"may not be specified when '{shared}' is true"))
        seen.add(name)
    return errors


def _validate_seccomp(profile: Object | None, path: str) -> FieldErrors:
    if profile is None:
        return []
    errors: FieldErrors = []
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", go_named_string(kind), _PROFILE_TYPES))
    if kind == "Localhost":
        if file is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            errors += validate_descending(file, f"{path}.localhostProfile")
    elif file is not None:
        detail = "can only be set when seccomp type is Localhost"
        errors.append(invalid(f"{path}.localhostProfile", struct("SeccompProfile", profile), detail))
    return errors


def validate_app_armor(profile: Object | None, path: str) -> FieldErrors:
    if profile is None:
        return []
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    field_path = f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILE_TYPES:
        return [not_supported(f"{path}.type", go_named_string(kind), _PROFILE_TYPES)]
    if kind != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [] if file is None else [invalid(field_path, go_named_string(file), detail)]
    if file is None:
        return [required(field_path, "must be set when AppArmor type is Localhost")]
    errors: FieldErrors = []
    if file.strip() != file:
        errors.append(invalid(field_path, file, "must not be padded with whitespace"))
    elif not file:
        errors.append(required(field_path, "must be set when AppArmor type is Localhost"))
    if len(file.encode("utf-8", "surrogatepass")) > _MAX_PROFILE_BYTES:
        errors.append(too_long(field_path, _MAX_PROFILE_BYTES))
    return errors
