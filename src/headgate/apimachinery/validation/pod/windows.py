"""Validation of Windows security options, host process containers, and fields that an operating system excludes."""

from __future__ import annotations

import re
from typing import Any, Final

from headgate.apimachinery.validation.pod.options import PodOptions
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.names import is_dns1123_subdomain
from headgate.kube.validation.go_values import go_named_string

Object = dict[str, Any]

_MAX_CREDENTIAL_KIB: Final = 64
_MAX_DOMAIN_BYTES: Final = 256
_MAX_USER_BYTES: Final = 104

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_BAD_USER: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_DOTS_AND_SPACES: Final = re.compile("[. ]+")

# The parent field and the field, in the order of the API server.
_NOT_ON_WINDOWS: Final = (
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)
_CONTAINER_NOT_ON_WINDOWS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
# Plain booleans and lists: their zero value counts as absent. Other fields count if they are present.
_ZERO_IS_ABSENT: Final = frozenset({"hostPID", "hostIPC", "sysctls"})


def validate_os(spec: Object, containers: list[tuple[Object, str]], path: str) -> FieldErrors:
    """``spec.os`` and the fields that it excludes. ``containers`` are all containers of the pod, with their paths."""
    os = spec.get("os")
    if os is None:
        return []
    name = os.get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name == "linux":
        return _validate_linux(spec, containers, path)
    if name == "windows":
        return _validate_windows(spec, containers, path)
    return [not_supported(f"{path}.os", go_named_string(name), ("linux", "windows"))]


def _validate_linux(spec: Object, containers: list[tuple[Object, str]], path: str) -> FieldErrors:
    return [
        forbidden(f"{field_path}.securityContext.windowsOptions", "windows options cannot be set for a linux pod")
        for owner, field_path in ((spec, path), *containers)
        if (owner.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def _validate_windows(spec: Object, containers: list[tuple[Object, str]], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for parent_field, field in _NOT_ON_WINDOWS:
        owner = (spec.get(parent_field) or {}) if parent_field else spec
        value = owner.get(field)
        if value if field in _ZERO_IS_ABSENT else value is not None:
            field_path = f"{path}.{parent_field}.{field}" if parent_field else f"{path}.{field}"
            errors.append(forbidden(field_path, "cannot be set for a windows pod"))
    for container, field_path in containers:
        context = container.get("securityContext") or {}
        errors += [
            forbidden(f"{field_path}.securityContext.{field}", "cannot be set for a windows pod")
            for field in _CONTAINER_NOT_ON_WINDOWS
            if context.get(field) is not None
        ]
    return errors


def validate_host_process(
    spec: Object, containers: list[tuple[Object, str]], path: str, options: PodOptions
) -> FieldErrors:
    """All containers of a pod must be host process containers, or none."""
    pod_wide = _host_process(spec)
    errors: FieldErrors = []
    count = 0
    for container, field_path in containers:
        own = _host_process(container)
        if pod_wide is not None and own is not None and pod_wide != own:
            pod_value = "true" if pod_wide else "false"
            detail = f"pod hostProcess value must be identical if both are specified, was {pod_value}"
            errors.append(invalid(f"{field_path}.securityContext.windowsOptions.hostProcess", own, detail))
        count += bool(pod_wide if own is None else own)
    if count == 0:
        return errors
    if count != len(containers):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, detail))
    if not options.allow_privileged:
        errors.append(forbidden(path, "hostProcess containers are disallowed by cluster policy"))
    return errors


def _host_process(pod_or_container: Object) -> bool | None:
    options = (pod_or_container.get("securityContext") or {}).get("windowsOptions") or {}
    value = options.get("hostProcess")
    return None if value is None else bool(value)


def validate_windows_options(options: Object | None, path: str) -> FieldErrors:
    if not options:
        return []
    errors: FieldErrors = []
    name, credential = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is not None:
        field_path = f"{path}.gmsaCredentialSpecName"
        errors += [invalid(field_path, go_named_string(name), message) for message in is_dns1123_subdomain(name)]
    if credential is not None:
        detail = ""
        if not credential:
            detail = "gmsaCredentialSpec cannot be an empty string"
        elif _byte_length(credential) > _MAX_CREDENTIAL_KIB * 1024:
            detail = f"gmsaCredentialSpec size must be under {_MAX_CREDENTIAL_KIB} KiB"
        if detail:
            errors.append(invalid(f"{path}.gmsaCredentialSpec", go_named_string(credential), detail))
    user = options.get("runAsUserName")
    if user is not None:
        field_path = f"{path}.runAsUserName"
        errors += [
            invalid(field_path, go_named_string(user), f"runAsUserName{message}") for message in _user_name_errors(user)
        ]
    return errors


def _user_name_errors(name: str) -> list[str]:
    if not name:
        return [" cannot be an empty string"]
    if _CONTROL.search(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    messages = []
    if _byte_length(domain) >= _MAX_DOMAIN_BYTES:
        messages.append(f"'s Domain length must be under {_MAX_DOMAIN_BYTES} characters")
    if backslash and not (_NETBIOS.fullmatch(domain) or _DNS_DOMAIN.fullmatch(domain)):
        messages.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        messages.append("'s User cannot be empty")
    elif _byte_length(user) > _MAX_USER_BYTES:
        messages.append(f"'s User length must not be longer than {_MAX_USER_BYTES} characters")
    if _DOTS_AND_SPACES.fullmatch(user):
        messages.append("'s User cannot contain only periods or spaces")
    if _BAD_USER.search(user):
        messages.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return messages


def _byte_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
