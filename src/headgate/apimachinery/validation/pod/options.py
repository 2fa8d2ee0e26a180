"""The violations that an update tolerates because the stored pod has them, and the namespaces of sysctls.

An object that was valid before a rule existed must stay writable. Each option is computed from the *old* pod; a new pod
has none. The other modules of ``apimachinery/validation/pod/`` receive a :class:`PodOptions`. A pod that shares the
host's namespace must not change the sysctls of that namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.file_paths import validate_file_path
from headgate.apimachinery.validation.pod.resources import is_whole_pages
from headgate.apimachinery.validation.pod.topology_spread import validate_label_keys
from headgate.kube import quantity
from headgate.kube.names import is_valid_label_value
from headgate.kube.pod_resources import is_huge_page
from headgate.kube.validation.labels import validate_label_selector

_IPC_NAMES: Final = frozenset(
    {"kernel.sem", "kernel.shm", "kernel.msg"}
    | {f"kernel.shm{each}" for each in ("all", "max", "mni", "_rmid_forced")}
    | {f"kernel.msg{each}" for each in ("max", "mnb", "mni")}
)


def shares_host_namespace(name: str, spec: dict[str, Any]) -> str:
    """The field (``hostNetwork``, ``hostIPC``) with which this sysctl would change the host; empty if there is none."""
    name = _normalize(name).partition("*")[0]
    if name.startswith("net.") and spec.get("hostNetwork"):
        return "hostNetwork"
    if (name in _IPC_NAMES or name.startswith("fs.mqueue.")) and spec.get("hostIPC"):
        return "hostIPC"
    return ""


def _normalize(name: str) -> str:
    """The parts may be separated by slashes instead of dots; then dots and slashes are swapped."""
    first = next((char for char in name if char in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))


Object = dict[str, Any]

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_TERMS: Final = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


class PodOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The first two describe the object; each of the others tolerates one violation."""

    is_pod: bool = False  # for a pod; false for the template of a workload
    allow_privileged: bool = False  # the flag --allow-privileged of kube-apiserver
    any_deletion_cost: bool = False  # an invalid pod-deletion-cost annotation
    any_affinity_value: bool = False  # invalid label values in selectors of pod affinity
    any_node_affinity_value: bool = False  # invalid label values in required node affinity
    partial_huge_pages: bool = False  # an amount of huge pages that is not a multiple of the page size
    any_spread_selector: bool = False  # invalid selectors in topology spread constraints
    legacy_spread_keys: bool = False  # label keys of topology spread constraints by the rule before Kubernetes 1.34
    any_token_path: bool = False  # invalid paths of service account tokens in projected volumes
    host_sysctls: bool = False  # sysctls of a namespace that the pod shares with the host
    any_selinux_policy: bool = False  # the policy MountOption, which new pods may not have
    users_with_devices: bool = False  # block devices in a pod with a user namespace


def options_for_create(*, is_pod: bool, allow_privileged: bool = False) -> PodOptions:
    return PodOptions(is_pod=is_pod, allow_privileged=allow_privileged)


def options_for_update(
    old_spec: Object,
    old_annotations: Mapping[str, str] | None,
    *,
    is_pod: bool,
    allow_privileged: bool = False,
) -> PodOptions:
    security = old_spec.get("securityContext") or {}
    affinity = old_spec.get("affinity") or {}
    spread = old_spec.get("topologySpreadConstraints") or ()
    own_users = old_spec.get("hostUsers") is False
    return PodOptions(
        is_pod=is_pod,
        allow_privileged=allow_privileged,
        any_deletion_cost=not is_deletion_cost(old_annotations),
        any_affinity_value=bool(affinity) and _has_invalid_selector(affinity),
        any_node_affinity_value=bool(affinity) and _has_invalid_node_value(affinity),
        partial_huge_pages=_has_partial_huge_pages(old_spec),
        any_spread_selector=any(validate_label_selector(each.get("labelSelector"), "") for each in spread),
        legacy_spread_keys=any(
            validate_label_keys(each.get("matchLabelKeys"), None, each.get("labelSelector"), "") for each in spread
        ),
        any_token_path=any(validate_file_path(path, "") for path in _token_paths(old_spec)),
        host_sysctls=any(
            shares_host_namespace(each.get("name", ""), old_spec) for each in security.get("sysctls") or ()
        ),
        any_selinux_policy=security.get("seLinuxChangePolicy") is not None,
        users_with_devices=own_users and any(each.get("volumeDevices") for each in _containers(old_spec)),
    )


def is_deletion_cost(annotations: Mapping[str, str] | None) -> bool:
    """Whether the annotation is absent or a 32-bit integer without a plus sign or leading zeros (``-01`` is valid)."""
    text = (annotations or {}).get(DELETION_COST)
    if text is None:
        return True
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        return False
    if text[0] == "0" and text != "0":
        return False
    return -(1 << 31) <= int(text) < 1 << 31


def _containers(spec: Object) -> Iterator[Object]:
    for field in _CONTAINERS:
        yield from spec.get(field) or ()


def _has_invalid_selector(affinity: Object) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        for field in _TERMS:
            for term in (affinity.get(kind) or {}).get(field) or ():
                inner = term.get("podAffinityTerm", term)
                for selector in ("labelSelector", "namespaceSelector"):
                    if validate_label_selector(inner.get(selector), ""):
                        return True
    return False


def _has_invalid_node_value(affinity: Object) -> bool:
    required = (affinity.get("nodeAffinity") or {}).get(_TERMS[0]) or {}
    return any(
        is_valid_label_value(value)
        for term in required.get("nodeSelectorTerms") or ()
        for expression in term.get("matchExpressions") or ()
        for value in expression.get("values") or ()
    )


def _has_partial_huge_pages(spec: Object) -> bool:
    holders = [spec.get("overhead") or {}]
    for container in _containers(spec):
        resources = container.get("resources") or {}
        holders += [resources.get("limits") or {}, resources.get("requests") or {}]
    return any(
        is_huge_page(name) and not is_whole_pages(name, quantity.amount(value))
        for owner in holders
        for name, value in owner.items()
    )


def _token_paths(spec: Object) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"].get("path", "")
