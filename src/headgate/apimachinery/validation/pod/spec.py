"""Validation of a pod spec, in a pod or in a template, in the order of the API server's errors.

Other modules of this package validate the larger fields. ``create.py`` has the rules that apply only to pods,
``update.py`` the rules for changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headgate.apimachinery.validation.pod.affinity import validate_affinity
from headgate.apimachinery.validation.pod.annotations import MIRROR
from headgate.apimachinery.validation.pod.containers import (
    ContainerContext,
    containers_with_paths,
    validate_choice,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from headgate.apimachinery.validation.pod.dns import (
    validate_dns_config,
    validate_host_aliases,
    validate_hostname_override,
)
from headgate.apimachinery.validation.pod.gates import validate_readiness_gates, validate_scheduling_gates
from headgate.apimachinery.validation.pod.options import PodOptions
from headgate.apimachinery.validation.pod.resources import validate_overhead, validate_pod_resources
from headgate.apimachinery.validation.pod.security import validate_pod_security_context
from headgate.apimachinery.validation.pod.topology_spread import validate_spread_constraints
from headgate.apimachinery.validation.pod.volumes import validate_volumes
from headgate.apimachinery.validation.pod.windows import validate_host_process, validate_os
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_found, required
from headgate.kube.names import MAX_INT32, inclusive_range_error, is_dns1123_label, is_dns1123_subdomain
from headgate.kube.validation.go_values import struct
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.taints import validate_tolerations

Object = dict[str, Any]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")

_NAMES: Final[tuple[tuple[str, Callable[[str], list[str]]], ...]] = (
    ("serviceAccountName", is_dns1123_subdomain),
    ("nodeName", is_dns1123_subdomain),
)
_HOST_NAMES: Final[tuple[tuple[str, Callable[[str], list[str]]], ...]] = (
    ("hostname", is_dns1123_label),
    ("subdomain", is_dns1123_label),
)


def validate_pod_spec(spec: Object, meta: Mapping[str, Any] | None, path: str, options: PodOptions) -> FieldErrors:
    """``meta`` is the metadata of a pod; ``None`` for a template."""
    errors: FieldErrors = []
    grace_s = spec.get("terminationGracePeriodSeconds")
    if grace_s is None:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    pod_name = (meta.get("name") or "") if meta else ""
    volumes: dict[str, Object] = {}
    if spec.get("volumes"):
        volumes, found = validate_volumes(spec["volumes"], pod_name, f"{path}.volumes", options)
        errors += found
    claims = spec.get("resourceClaims") or ()
    claim_names = {each["name"] for each in claims if each.get("name")}
    if claims:
        is_mirror = bool(meta) and MIRROR in ((meta or {}).get("annotations") or {})
        errors += _validate_resource_claims(claims, is_mirror, f"{path}.resourceClaims")
    context = ContainerContext(
        volumes,
        claim_names,
        grace_s,
        spec.get("restartPolicy", ""),
        spec.get("hostUsers") is not False,
        options,
    )
    errors += validate_containers(spec, context, f"{path}.containers")
    if spec.get("initContainers"):
        errors += validate_init_containers(spec, context, f"{path}.initContainers")
    if spec.get("ephemeralContainers"):
        errors += validate_ephemeral_containers(spec, context, f"{path}.ephemeralContainers")
    errors += validate_pod_resources(spec, claim_names, path, options)
    errors += _validate_host_network_ports(spec, f"{path}.containers", options)
    errors += validate_choice(spec.get("restartPolicy", ""), _RESTART_POLICIES, f"{path}.restartPolicy")
    errors += validate_choice(spec.get("dnsPolicy", ""), _DNS_POLICIES, f"{path}.dnsPolicy")
    errors += validate_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += validate_pod_security_context(spec, f"{path}.securityContext", options)
    if spec.get("affinity"):
        errors += validate_affinity(spec["affinity"], f"{path}.affinity", options)
    errors += validate_dns_config(spec.get("dnsConfig"), spec.get("dnsPolicy", ""), f"{path}.dnsConfig")
    if spec.get("readinessGates"):
        errors += validate_readiness_gates(spec["readinessGates"], f"{path}.readinessGates")
    if spec.get("schedulingGates"):
        errors += validate_scheduling_gates(spec["schedulingGates"], f"{path}.schedulingGates")
    if spec.get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        errors += validate_spread_constraints(constraints, f"{path}.topologySpreadConstraints", options)
    containers = list(containers_with_paths(spec, path))
    errors += validate_host_process(spec, containers, path, options)
    errors += _validate_host_users(spec, containers, path, options)
    errors += validate_hostname_override(spec, path)
    errors += _validate_small_fields(spec, path, options)
    errors += validate_os(spec, containers, path)
    return errors + _validate_file_key_volumes(spec, containers)


def _validate_small_fields(spec: Object, path: str, options: PodOptions) -> FieldErrors:
    errors = _validate_names(spec, _NAMES, path)
    deadline_s = spec.get("activeDeadlineSeconds")
    if deadline_s is not None and not 1 <= deadline_s <= MAX_INT32:
        detail = inclusive_range_error(1, MAX_INT32)
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline_s, detail))
    errors += _validate_names(spec, _HOST_NAMES, path)
    if spec.get("tolerations"):
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    if spec.get("hostAliases"):
        errors += validate_host_aliases(spec["hostAliases"], f"{path}.hostAliases")
    errors += _validate_names(spec, (("priorityClassName", is_dns1123_subdomain),), path)
    runtime_class = spec.get("runtimeClassName")
    if runtime_class is not None:
        field_path = f"{path}.runtimeClassName"
        errors += [invalid(field_path, runtime_class, message) for message in is_dns1123_subdomain(runtime_class)]
    if spec.get("preemptionPolicy") is not None:
        errors += validate_choice(spec["preemptionPolicy"], _PREEMPTION_POLICIES, f"{path}.preemptionPolicy")
    if spec.get("overhead"):
        errors += validate_overhead(spec["overhead"], f"{path}.overhead", options)
    return errors


def _validate_names(spec: Object, rules: tuple[tuple[str, Callable[[str], list[str]]], ...], path: str) -> FieldErrors:
    return [
        invalid(f"{path}.{field}", spec[field], message)
        for field, rule in rules
        if spec.get(field)
        for message in rule(spec[field])
    ]


def _validate_resource_claims(claims: Sequence[Object], is_mirror: bool, path: str) -> FieldErrors:
    if is_mirror:
        return [forbidden("[]", "static pods do not support resource claims") for _ in claims]
    errors: FieldErrors = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        field_path, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{field_path}.name"))
        elif name in names:
            errors.append(duplicate(f"{field_path}.name", name))
        else:
            errors += [invalid(f"{field_path}.name", name, message) for message in is_dns1123_label(name)]
            names.add(name)
        sources = [
            field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field) is not None
        ]
        if len(sources) == 2:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(field_path, struct("PodResourceClaim", claim), detail))
        if not sources:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(field_path, struct("PodResourceClaim", claim), detail))
        for field in sources:
            errors += [
                invalid(f"{field_path}.{field}", claim[field], each) for each in is_dns1123_subdomain(claim[field])
            ]
    return errors


def _validate_host_network_ports(spec: Object, path: str, options: PodOptions) -> FieldErrors:
    if not spec.get("hostNetwork"):
        return []
    errors: FieldErrors = []
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort", 0)
            if (options.is_pod or host_port) and host_port != port.get("containerPort", 0):
                detail = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid(f"{path}[{index}].ports[{number}].hostPort", host_port, detail))
    return errors


def _validate_host_users(
    spec: Object, containers: list[tuple[Object, str]], path: str, options: PodOptions
) -> FieldErrors:
    """A pod with a user namespace (KEP-127) cannot share the host's namespaces."""
    if spec.get("hostUsers") is not False:
        return []
    errors: FieldErrors = []
    detail = "when `hostUsers` is false"
    if spec.get("hostNetwork"):
        errors.append(forbidden(f"{path}.hostNetwork", detail))
    # These two paths begin with a capital letter, as in Kubernetes.
    errors += [
        forbidden(f"{path}.{shown}", detail)
        for field, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
        if spec.get(field)
    ]
    if not options.users_with_devices:
        errors += [
            forbidden(f"{field_path}.volumeDevices", detail)
            for each, field_path in containers
            if each.get("volumeDevices")
        ]
    return errors


def _validate_file_key_volumes(spec: Object, containers: list[tuple[Object, str]]) -> FieldErrors:
    """A variable can be read only from a file in an ``emptyDir`` of the pod."""
    errors: FieldErrors = []
    sources = {each.get("name", ""): each for each in spec.get("volumes") or ()}
    for container, field_path in containers:
        for index, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            volume, name_path = (
                reference.get("volumeName", ""),
                f"{field_path}.env[{index}].valueFrom.fileKeyRef.volumeName",
            )
            if volume not in sources:
                errors.append(not_found(name_path, volume))
            elif sources[volume].get("emptyDir") is None:
                errors.append(invalid(name_path, volume, "referenced volume must be of type emptyDir"))
    return errors
