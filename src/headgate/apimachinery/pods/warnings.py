"""Warnings about pods for the ``Warning`` header: deprecated, dangerous or ineffective fields.

Also for pod templates. Warnings about volumes and ports have their own modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from headgate.apimachinery.ip_addresses import warnings_for_ip
from headgate.apimachinery.pods.app_armor import profile_of_annotation
from headgate.apimachinery.pods.port_warnings import port_warnings
from headgate.apimachinery.pods.volume_warnings import volume_warnings
from headgate.apimachinery.validation.pod.affinity import PREFERRED, REQUIRED
from headgate.apimachinery.validation.pod.annotations import APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD
from headgate.apimachinery.validation.pod.containers import containers_with_paths
from headgate.kube import quantity
from headgate.kube.field_errors import quote
from headgate.kube.names import is_dns1123_label, is_valid_label_value

Object = dict[str, Any]

_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": ('deprecated since v1.17; use "topology.kubernetes.io/region" instead'),
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_MAX_WARNINGS: Final = 1_000
_BYTES: Final = ("memory", "ephemeral-storage")
_PLACEMENT_FIELDS: Final = frozenset(("nodeSelector", "affinity", "topologySpreadConstraints"))
_UNIQUE: Final = frozenset(("hostAliases", "imagePullSecrets"))
_NO_MATCH: Final = "a null labelSelector results in matching no pod"
_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APP_ARMOR: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def pod_warnings(obj: Object, old: Object | None = None) -> list[str]:
    """For a new, valid pod. An update gives no warnings, because users rarely update pods."""
    if old is not None:
        return []
    name = obj["metadata"].get("name", "")
    messages = is_dns1123_label(name)
    warnings = []
    if messages:
        warnings.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label "
            f"is recommended: [{' '.join(messages)}]"
        )
    return warnings + _limited(_warnings(obj["spec"], obj["metadata"], ""))


def pod_template_warnings(template: Object, path: str) -> list[str]:
    return _limited(_warnings(template.get("spec") or {}, template.get("metadata") or {}, f"{path}."))


def _limited(warnings: Iterator[str]) -> list[str]:
    """Limits the number of warnings: there may be one per pair of ports, and a response contains at most 4,096
    characters of warnings."""
    return list(islice(warnings, _MAX_WARNINGS))


def _warnings(spec: Object, meta: Object, prefix: str) -> Iterator[str]:
    """``prefix`` is empty for a pod, otherwise the template's path with a dot."""
    field_path, annotations = f"{prefix}spec", meta.get("annotations") or {}
    if not _PLACEMENT_FIELDS.isdisjoint(spec):
        yield from _node_label_warnings(spec, field_path)
    for key, text in _ANNOTATIONS.items() if annotations else ():
        if key in annotations:
            yield f"{prefix}metadata.annotations[{key}]: {text}"
    if volumes := spec.get("volumes"):
        yield from volume_warnings(volumes, f"{field_path}.volumes")
    if not _UNIQUE.isdisjoint(spec):
        yield from _duplicate_warnings(spec, field_path)
    if overhead := spec.get("overhead"):
        yield from _fraction_warnings(overhead, f"{field_path}.overhead")
    if SECCOMP_POD in annotations and (spec.get("securityContext") or {}).get("seccompProfile") is None:
        yield f"{prefix}metadata.annotations[{SECCOMP_POD}]: {_SECCOMP}"
    for container, path in containers_with_paths(spec, field_path):
        if annotations:
            yield from _profile_warnings(container, spec, annotations, prefix)
        resources = container.get("resources") or {}
        for name in _BYTES if resources else ():
            for which in ("limits", "requests"):
                amounts = resources.get(which)
                if amounts and name in amounts:
                    yield from _fraction_warnings(amounts, f"{path}.resources.{which}", name)
        if env := container.get("env"):
            yield from _env_warnings(env, f"{path}.env")
    yield from port_warnings(spec, field_path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{field_path}.terminationGracePeriodSeconds: {text}"
    if affinity := spec.get("affinity"):
        yield from _pod_affinity_warnings(affinity, f"{field_path}.affinity")
    for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from warnings_for_ip(f"{field_path}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from warnings_for_ip(f"{field_path}.hostAliases[{index}].ip", alias.get("ip", ""))


def _node_label_warnings(spec: Object, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _NODE_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    field_path = f"{path}.affinity.nodeAffinity"
    for index, term in enumerate((node.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from _node_term_warnings(term, f"{field_path}.{REQUIRED}.nodeSelectorTerms[{index}]", check_values=False)
    for index, weighted in enumerate(node.get(PREFERRED) or ()):
        term = weighted.get("preference") or {}
        yield from _node_term_warnings(term, f"{field_path}.{PREFERRED}[{index}].preference", check_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        field_path, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in _NODE_LABELS:
            yield f"{field_path}.topologyKey: {key} is {_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{field_path}.labelSelector: {_NO_MATCH}"


def _node_term_warnings(term: Object, path: str, *, check_values: bool) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        field_path, key = f"{path}.matchExpressions[{index}]", expression.get("key", "")
        if key in _NODE_LABELS:
            yield f"{field_path}.key: {key} is {_NODE_LABELS[key]}"
        if check_values:
            for number, value in enumerate(expression.get("values") or ()):
                for message in is_valid_label_value(value):
                    yield f"{field_path}.values[{number}]: {value} is invalid, {message}"


def _duplicate_warnings(spec: Object, path: str) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(field) or ()):
            text = item.get(key, "")
            if text in seen:
                yield f"{path}.{field}[{index}].{key}: duplicate {key} {quote(text)}"
            seen.add(text)
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _fraction_warnings(amounts: Object | None, path: str, *names: str) -> Iterator[str]:
    for name in names or _BYTES:
        if amounts and name in amounts:
            value = quantity.amount(amounts[name])
            if value.milli_value() % 1000:
                shown = quote(value.canonical)
                yield f"{path}[{name}]: fractional byte value {shown} is invalid, must be an integer"


def _profile_warnings(container: Object, spec: Object, annotations: Object, prefix: str) -> Iterator[str]:
    context, name = container.get("securityContext") or {}, container.get("name", "")
    key = f"{SECCOMP_CONTAINER}{name}"
    if key in annotations and context.get("seccompProfile") is None:
        yield f"{prefix}metadata.annotations[{key}]: {_SECCOMP}"
    # app_armor.py converts the annotation of a pod to the field, and warns.
    key = f"{APP_ARMOR}{name}"
    if prefix and key in annotations and context.get("appArmorProfile") is None:
        pod_wide = (spec.get("securityContext") or {}).get("appArmorProfile")
        if pod_wide is None or pod_wide != profile_of_annotation(annotations[key]):
            yield f"{prefix}metadata.annotations[{key}]: {_APP_ARMOR}"


def _env_warnings(variables: list[Object], path: str) -> Iterator[str]:
    """A second definition of a variable gets no warning if it extends the first: ``PATH=$(PATH):/opt``."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        if name in seen:
            reference = f"$({name})"
            if variable.get("valueFrom") is not None or value == reference or reference not in value:
                hides = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
                yield f"{path}[{index}]: {hides}"
        seen.add(name)


def _pod_affinity_warnings(affinity: Object, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for index, term in enumerate(pods.get(REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{kind}.{REQUIRED}[{index}].labelSelector: {_NO_MATCH}"
        for index, weighted in enumerate(pods.get(PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{kind}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_MATCH}"
