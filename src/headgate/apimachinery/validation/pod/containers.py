"""Validation of the containers of a pod: init containers, regular and ephemeral ones.

``env.py``, ``mounts.py``, ``probes.py``, ``resources.py`` and ``security.py`` validate the fields of a container; this
module calls them in the order of the API server's errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from headgate.apimachinery.validation.pod.env import validate_env, validate_env_from
from headgate.apimachinery.validation.pod.mounts import validate_volume_devices, validate_volume_mounts
from headgate.apimachinery.validation.pod.options import PodOptions
from headgate.apimachinery.validation.pod.probes import validate_lifecycle, validate_probes
from headgate.apimachinery.validation.pod.resources import validate_container_resources
from headgate.apimachinery.validation.pod.restart import (
    validate_init_restart_policy,
    validate_resize_policies,
    validate_restart_policy,
)
from headgate.apimachinery.validation.pod.security import validate_security_context
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_found, not_supported, required
from headgate.kube.names import is_dns1123_label, is_valid_port_name, is_valid_port_num
from headgate.kube.pod_resources import is_sidecar
from headgate.kube.validation.go_values import go_named_string

Object = dict[str, Any]

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_HOOKS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
# Fields that an ephemeral container may not have, because the pod already runs.
_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


class ContainerContext(msgspec.Struct, frozen=True):
    """What the validation of a container needs from its pod."""

    volumes: Mapping[str, Object]
    claim_names: AbstractSet[str]
    grace_s: int | None
    restart_policy: str
    host_users: bool
    options: PodOptions


def containers_with_paths(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    """Every container: init containers first, ephemeral ones last."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield container, f"{path}.{field}[{index}]"


def validate_containers(spec: Object, context: ContainerContext, path: str) -> FieldErrors:
    containers = spec.get("containers")
    if not containers:
        return [required(path)]
    errors: FieldErrors = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        field_path, name = f"{path}[{index}]", container.get("name", "")
        errors += _validate_container(container, context, field_path)
        if name in names:
            errors.append(duplicate(f"{field_path}.name", name))
        names.add(name)
        errors += _validate_hooks(container, context, field_path)
        errors += validate_restart_policy(container, field_path)
    return errors + _validate_host_ports(containers, path)


def validate_init_containers(spec: Object, context: ContainerContext, path: str) -> FieldErrors:
    errors: FieldErrors = []
    names = {each.get("name", "") for each in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        field_path, name = f"{path}[{index}]", container.get("name", "")
        errors += _validate_container(container, context, field_path)
        errors += validate_init_restart_policy(container, field_path)
        if name in names:
            errors.append(duplicate(f"{field_path}.name", name))
        elif name:
            names.add(name)
        # One at a time, because init containers do not run together; the path of each has [0].
        errors += _validate_host_ports([container], path)
        if is_sidecar(container):
            errors += _validate_hooks(container, context, field_path)
        else:
            errors += [
                forbidden(f"{field_path}.{field}", "may not be set for init containers without restartPolicy=Always")
                for field in _HOOKS
                if container.get(field) is not None
            ]
    return errors


def validate_ephemeral_containers(spec: Object, context: ContainerContext, path: str) -> FieldErrors:
    errors: FieldErrors = []
    others = {each.get("name", "") for field in ("containers", "initContainers") for each in spec.get(field) or ()}
    names = set(others)
    detail = "cannot be set for an Ephemeral Container"
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        field_path, name = f"{path}[{index}]", container.get("name", "")
        errors += _validate_container(container, context, field_path)
        errors += validate_image_text(container, field_path)
        if name in names:
            errors.append(duplicate(f"{field_path}.name", name))
        names.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in others:
            errors.append(not_found(f"{field_path}.targetContainerName", target))
        errors += [forbidden(f"{field_path}.{field}", detail) for field in _NOT_EPHEMERAL if _is_set(container, field)]
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            errors += [
                forbidden(f"{field_path}.volumeMounts[{number}].{field}", detail)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
    return errors


def _is_set(container: Object, field: str) -> bool:
    # resources is a plain struct: {} means absent.
    return bool(container.get(field)) if field == "resources" else container.get(field) is not None


def validate_image_text(container: Object, path: str) -> FieldErrors:
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _validate_hooks(container: Object, context: ContainerContext, path: str) -> FieldErrors:
    errors: FieldErrors = []
    lifecycle = container.get("lifecycle")
    if lifecycle is not None:
        errors += validate_lifecycle(lifecycle, context.grace_s, f"{path}.lifecycle")
    return errors + validate_probes(container, context.grace_s, path)


def _validate_container(container: Object, container_context: ContainerContext, path: str) -> FieldErrors:
    """The rules for all three kinds of containers."""
    errors: FieldErrors = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += [invalid(f"{path}.name", name, message) for message in is_dns1123_label(name)]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    message_policy = container.get("terminationMessagePolicy", "")
    errors += validate_choice(message_policy, _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy")
    if container.get("ports"):
        errors += _validate_ports(container["ports"], f"{path}.ports")
    if container.get("env"):
        errors += validate_env(container["env"], f"{path}.env")
    if container.get("envFrom"):
        errors += validate_env_from(container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts"):
        errors += validate_volume_mounts(container, container_context.volumes, f"{path}.volumeMounts")
    if container.get("volumeDevices"):
        errors += validate_volume_devices(container, container_context.volumes, f"{path}.volumeDevices")
    errors += validate_choice(container.get("imagePullPolicy", ""), _PULL_POLICIES, f"{path}.imagePullPolicy")
    resources = container.get("resources")
    errors += validate_container_resources(
        resources, container_context.claim_names, f"{path}.resources", container_context.options
    )
    if container.get("resizePolicy"):
        policies = container["resizePolicy"]
        errors += validate_resize_policies(policies, container_context.restart_policy, f"{path}.resizePolicy")
    if container.get("securityContext") is not None:
        context, field_path = container["securityContext"], f"{path}.securityContext"
        errors += validate_security_context(
            context, container_context.host_users, field_path, container_context.options
        )
    return errors


def validate_choice(text: str, choices: Sequence[str], path: str) -> FieldErrors:
    """A required enumeration; the error lists the values in their given order."""
    if text in choices:
        return []
    return [not_supported(path, go_named_string(text), choices)] if text else [required(path)]


def _validate_ports(ports: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        field_path, name = f"{path}[{index}]", port.get("name", "")
        if name:
            messages = is_valid_port_name(name)
            errors += [invalid(f"{field_path}.name", name, message) for message in messages]
            if not messages:
                if name in names:
                    errors.append(duplicate(f"{field_path}.name", name))
                names.add(name)
        number, host_port = port.get("containerPort", 0), port.get("hostPort", 0)
        if number == 0:
            errors.append(required(f"{field_path}.containerPort"))
        else:
            errors += [invalid(f"{field_path}.containerPort", number, message) for message in is_valid_port_num(number)]
        if host_port != 0:
            errors += [
                invalid(f"{field_path}.hostPort", host_port, message) for message in is_valid_port_num(host_port)
            ]
        errors += validate_choice(port.get("protocol", ""), _PROTOCOLS, f"{field_path}.protocol")
    return errors


def _validate_host_ports(containers: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            host_port = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if host_port in seen:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", host_port))
            seen.add(host_port)
    return errors
