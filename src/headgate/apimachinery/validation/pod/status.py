"""Validation of a pod's status, which kubelets, schedulers and other clients write to ``pods/status``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any, Final

from headgate.apimachinery.ip_addresses import is_valid_ip_for_legacy_field, parse_ip
from headgate.apimachinery.validation.pod.annotations import validate_annotation_updates
from headgate.apimachinery.validation.pod.update import options_of
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, internal, invalid
from headgate.kube.names import is_dns1123_subdomain, is_qualified_name, is_valid_group_id, is_valid_user_id
from headgate.kube.validation.go_values import go_named_string, structs
from headgate.kube.validation.object_meta import IMMUTABLE, validate_object_meta_update

Object = dict[str, Any]

# The most errors about container states in one response. There is an error for each pair of an old and a new status
# with the same container name, so a request with many statuses of one name could cause millions of errors.
_MAX_TRANSITIONS: Final = 10_000
_NOT_NEGATIVE: Final = "must be a non-negative integer"
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_CONTAINERS: Final = {"containerStatuses": "containers", "initContainerStatuses": "initContainers"}


def validate_pod_status_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    options = options_of(old, features)
    meta, old_meta, spec = new["metadata"], old["metadata"], new["spec"]
    status, old_status = new.get("status") or {}, old.get("status") or {}
    errors = validate_object_meta_update(meta, old_meta)
    errors += validate_annotation_updates(
        meta.get("annotations"), old_meta.get("annotations"), spec, "metadata.annotations", options
    )
    errors += _validate_conditions(status.get("conditions") or ())
    if (spec.get("nodeName") or "") != (old["spec"].get("nodeName") or ""):
        errors.append(forbidden("status.nodeName", "may not be changed directly"))
    errors += _validate_nomination(status, old_status, bool(old["spec"].get("nodeName")))
    if (status.get("observedGeneration") or 0) < 0:
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE))
    if (status.get("qosClass") or "") != (old_status.get("qosClass") or ""):
        errors.append(invalid("status.qosClass", go_named_string(status.get("qosClass") or ""), IMMUTABLE))
    for field in _STATUSES:
        errors += _validate_transitions(status.get(field) or (), old_status.get(field) or (), old["spec"], field)
    errors += _validate_claim_statuses(status.get("resourceClaimStatuses") or (), spec.get("resourceClaims") or ())
    errors += _validate_addresses(status, old_status, "podIPs")
    errors += _validate_addresses(status, old_status, "hostIPs")
    is_windows = (spec.get("os") or {}).get("name") == "windows"
    for field in _STATUSES:
        errors += _validate_users(status.get(field) or (), is_windows, f"status.{field}")
    return errors


def _validate_conditions(conditions: Sequence[Object]) -> FieldErrors:
    errors: FieldErrors = []
    for index, condition in enumerate(conditions):
        path, kind = f"status.conditions[{index}]", condition.get("type", "")
        generation = condition.get("observedGeneration") or 0
        if generation < 0:
            errors.append(invalid(f"{path}.observedGeneration", generation, _NOT_NEGATIVE))
        if kind not in _SYSTEM_CONDITIONS:
            errors += [invalid(f"{path}.Type", kind, message) for message in is_qualified_name(kind)]
    return errors


def _validate_nomination(status: Object, old_status: Object, is_bound: bool) -> FieldErrors:
    node, path = status.get("nominatedNodeName") or "", "status.nominatedNodeName"
    if not node or node == (old_status.get("nominatedNodeName") or ""):
        return []
    errors = [invalid(path, node, message) for message in is_dns1123_subdomain(node)]
    if is_bound:
        errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    return errors


def _validate_transitions(new: Sequence[Object], old: Sequence[Object], spec: Object, field: str) -> FieldErrors:
    """A terminated container cannot run again, unless its restart policy allows it."""
    errors: FieldErrors = []
    containers = {each.get("name", ""): each for each in spec.get(_CONTAINERS.get(field, "")) or ()}
    restarted = Counter(each.get("name", "") for each in new if (each.get("state") or {}).get("terminated") is None)
    remaining = _MAX_TRANSITIONS
    for index, before in enumerate(old):
        name, terminated = before.get("name", ""), (before.get("state") or {}).get("terminated")
        if terminated is None:
            continue
        if not restarted[name]:
            continue
        container = containers.get(name)
        if container is not None and _may_restart(container, spec, terminated.get("exitCode", 0)):
            continue
        count = min(restarted[name] if field == "ephemeralContainerStatuses" else 1, remaining)
        remaining -= count
        detail = "may not be transitioned to non-terminated state"
        errors += [forbidden(f"status.{field}[{index}].state", detail)] * count
    return errors


def _may_restart(container: Mapping[str, Any], spec: Object, exit_code: int) -> bool:
    """The first rule that matches the exit code decides, else the container's policy, else the pod's."""
    policy = container.get("restartPolicy")
    if policy is not None:
        for rule in container.get("restartPolicyRules") or ():
            codes = rule.get("exitCodes") or {}
            wanted = {"In": True, "NotIn": False}.get(codes.get("operator", ""))
            if wanted is (exit_code in (codes.get("values") or ())):
                return True
    else:
        policy = spec.get("restartPolicy", "")
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code != 0))


def _validate_claim_statuses(statuses: Sequence[Object], claims: Sequence[Object]) -> FieldErrors:
    errors: FieldErrors = []
    known, seen = {each.get("name", "") for each in claims}, set()
    for index, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{index}].name", status.get("name", "")
        if name not in known:
            errors.append(invalid(path, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            errors += [invalid(path, go_named_string(claim), message) for message in is_dns1123_subdomain(claim)]
    return errors


def _validate_addresses(status: Object, old_status: Object, field: str) -> FieldErrors:
    errors: FieldErrors = []
    listed, path = status.get(field) or (), f"status.{field}"
    addresses = [each.get("ip", "") for each in listed]
    if field == "hostIPs" and addresses and addresses[0] != (status.get("hostIP") or ""):
        errors.append(invalid(f"{path}[0].ip", addresses[0], "must be equal to `hostIP`"))
    before = {each.get("ip", "") for each in old_status.get(field) or ()}
    for index, address in enumerate(addresses):
        if address not in before:
            errors += [
                invalid(f"{path}[{index}]", address, message) for message in is_valid_ip_for_legacy_field(address)
            ]
    if len(addresses) < 2:
        return errors
    parsed = [parse_ip(each) for each in addresses]
    bad = next((i for i, each in enumerate(parsed) if each is None), None)
    if bad is not None:
        detail = f"failed to check for dual stack with error:invalid IP[{bad}]: {addresses[bad]}"
        errors.append(internal(path, detail))
    families = {isinstance(each, IPv4Address) for each in parsed if each is not None}
    if bad is not None or len(families) < 2 or len(addresses) > 2:
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid(path, structs("PodIP", listed), detail))
    return errors


def _validate_users(statuses: Sequence[Object], is_windows: bool, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, status in enumerate(statuses):
        linux, field_path = (status.get("user") or {}).get("linux"), f"{path}[{index}].user.linux"
        if linux is None:
            continue
        if is_windows:
            errors.append(forbidden(field_path, "cannot be set for a windows pod"))
            continue
        for field, rule in (("uid", is_valid_user_id), ("gid", is_valid_group_id)):
            number = linux.get(field, 0)
            errors += [invalid(f"{field_path}.{field}", number, message) for message in rule(number)]
        for number, group in enumerate(linux.get("supplementalGroups") or ()):
            errors += [
                invalid(f"{field_path}.supplementalGroups[{number}]", group, message)
                for message in is_valid_group_id(group)
            ]
    return errors
