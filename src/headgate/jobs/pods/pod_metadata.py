"""Labels and annotations of a pod for Kueue's queues: its group, the group's size, its role, and its options.

``jobs/validation/pod_validation.py`` validates them; the controller acts on them. The role is a hash of the fields that
matter for admission. It equals Kueue's hash, so that Headgate can continue groups that Kueue began.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs import names
from headgate.jobs.framework.go_values import parse_go_int
from headgate.kube import quantity
from headgate.kube.lenient_reader import find_object, find_text
from headgate.kube.quantity import Quantity
from headgate.kube.scheduling_gates import QUEUE_ALLOCATION_GATE, foreign_gates

Object = dict[str, Any]

_HASH_LENGTH: Final = 8
_ANNOTATIONS: Final = "annotations"


def group_of(pod: Object) -> str:
    """The name of its group; empty if it has none. The annotation has precedence over the label."""
    return _value_of(pod, _ANNOTATIONS, names.POD_GROUP_NAME) or _value_of(pod, "labels", names.POD_GROUP_NAME)


def total_count(pod: Object) -> int | str:
    """The number of pods of its group, or an error text that says why the annotation is invalid."""
    if not group_of(pod):
        return f"pod doesn't have a '{names.POD_GROUP_NAME}' annotation/label"
    text = find_object(pod, "metadata", _ANNOTATIONS).get(names.TOTAL_COUNT)
    if not isinstance(text, str):
        return f"failed to extract '{names.TOTAL_COUNT}' annotation"
    count = parse_go_int(text)
    if isinstance(count, str):
        return count
    if count < 1:
        prefix = f"incorrect annotation value '{names.TOTAL_COUNT}={text}'"
        return f"{prefix}: group total count should be greater than zero"
    return count


def is_managed(pod: Object) -> bool:
    return _value_of(pod, "labels", names.MANAGED) == "true"


def is_gated(pod: Object) -> bool:
    gates = find_object(pod, "spec").get("schedulingGates") or ()
    return any(gate.get("name") == names.ADMISSION_GATE for gate in gates)


def foreign_gates_of(pod: Object) -> tuple[str, ...]:
    """Scheduling gates that other controllers have to remove before the pod can run."""
    return foreign_gates(pod, (*names.OWN_GATES, QUEUE_ALLOCATION_GATE))


def suspending_parent(pod: Object) -> str:
    """The kind of the pod's owner if the pods of that owner wait in a queue: ``deployment``, ``statefulset``, …;
    otherwise empty."""
    return _value_of(pod, _ANNOTATIONS, names.SUSPENDING_PARENT)


def is_unretriable(pod: Object) -> bool:
    """Whether its group ends when all pods have ended, also if some have failed."""
    return _value_of(pod, _ANNOTATIONS, names.RETRIABLE_IN_GROUP) == "false"


def is_serving(pod: Object) -> bool:
    """Whether its group never ends by itself."""
    return _value_of(pod, _ANNOTATIONS, names.SERVING) == "true"


def has_fast_admission(pod: Object) -> bool:
    """Whether its group can be admitted before it is complete."""
    return _value_of(pod, _ANNOTATIONS, names.FAST_ADMISSION) == "true"


def role_of(pod: Object) -> str:
    """The role. Pods of one role are interchangeable. The value that admission recorded has precedence."""
    return _value_of(pod, _ANNOTATIONS, names.ROLE_HASH) or role_hash(find_object(pod, "spec"))


def role_hash(spec: Mapping[str, Any]) -> str:
    text = _go_json({"spec": admission_spec(spec)}).encode()
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH]


def admission_spec(spec: Mapping[str, Any]) -> Object:
    """The fields of a pod that matter for its admission. Absent fields are null, as in Kueue."""
    fields = {
        "initContainers": _containers(spec.get("initContainers")),
        "containers": _containers(spec.get("containers")),
        "nodeSelector": _map(spec.get("nodeSelector")),
        "affinity": _ordered(spec.get("affinity"), _AFFINITY),
        "tolerations": _ordered(spec.get("tolerations"), _TOLERATION) or None,
        "runtimeClassName": spec.get("runtimeClassName"),
        "priority": spec.get("priority"),
        "topologySpreadConstraints": _ordered(spec.get("topologySpreadConstraints"), _SPREAD) or None,
        "overhead": _amounts(spec.get("overhead")),
        "resourceClaims": _ordered(spec.get("resourceClaims"), _CLAIM) or None,
    }
    resources = spec.get("resources")
    if isinstance(resources, dict):
        fields["resources"] = _amounts(resources.get("requests"))
    return {name: fields[name] for name in sorted(fields)}


def _containers(containers: Any) -> list[Object] | None:
    fields = [
        {
            "ports": _ordered(each.get("ports"), _PORT) or None,
            "resources": {"requests": _amounts((each.get("resources") or {}).get("requests"))},
        }
        for each in containers or ()
    ]
    return fields or None


def _amounts(amounts: Any) -> Object | None:
    """Amounts in their canonical form."""
    return _map({name: _canonical(amount) for name, amount in (amounts or {}).items()})


def _canonical(amount: Any) -> Any:
    parsed = quantity.parse(amount)
    return parsed.canonical if isinstance(parsed, Quantity) else amount


def _map(fields: Any) -> Object | None:
    """A map sorted by name, as Go encodes it."""
    return {name: fields[name] for name in sorted(fields)} if fields else None


# The order in which Go encodes the fields of its types; maps are sorted by key.
_PORT: Final = ("name", "hostPort", "containerPort", "protocol", "hostIP")
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")
_CLAIM: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")
_SELECTOR: Final = ("matchLabels", "matchExpressions", "key", "operator", "values")
_AFFINITY: Final = (
    *("nodeAffinity", "podAffinity", "podAntiAffinity"),
    *("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"),
    *("weight", "preference", "podAffinityTerm", "nodeSelectorTerms"),
    *("labelSelector", "namespaces", "topologyKey", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys"),
    *("matchLabels", "matchExpressions", "matchFields", "key", "operator", "values"),
)
_SPREAD: Final = (
    *("maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", "minDomains"),
    *("nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys", *_SELECTOR),
)
_MAPS: Final = frozenset({"matchLabels"})


def _ordered(value: Any, order: tuple[str, ...]) -> Any:
    """The value with its fields in the order of Kueue's Go types, which the hash depends on."""
    if isinstance(value, list):
        return [_ordered(each, order) for each in value]
    if not isinstance(value, dict):
        return value
    known = [name for name in order if name in value]
    names_in_order = known + sorted(value.keys() - set(known))
    return {name: _map(value[name]) if name in _MAPS else _ordered(value[name], order) for name in names_in_order}


def _go_json(fields: Object) -> str:
    """JSON as Go encodes it: without spaces, and with ``<``, ``>`` and ``&`` escaped."""
    text = msgspec.json.encode(fields).decode()
    for sign, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(sign, escaped)
    return text


def _value_of(pod: Object, where: str, name: str) -> str:
    return find_text(pod, "metadata", where, name)
