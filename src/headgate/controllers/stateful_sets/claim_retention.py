"""Which object owns the claims of a StatefulSet's pods, by ``persistentVolumeClaimRetentionPolicy``.

A claim that has to be deleted together with the StatefulSet is owned by the StatefulSet. A claim that has to be deleted
on scale-down is owned by its pod. The garbage collector then deletes the claim after its owner. A claim that has
another controller, or an owner of the same name with another uid, is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.controllers.stateful_sets.identity import KIND
from headgate.kube.object_meta import OwnerReference, controller_reference, owner_references
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

POD: Final = GroupVersionKind("", "v1", "Pod")
_RETAIN: Final = "Retain"
_DELETE: Final = "Delete"

# (whenScaled, whenDeleted, whether the pod is scaled down): (the StatefulSet owns the claim, the pod owns the claim)
_OWNERS: Final = {
    (_RETAIN, _RETAIN, False): (False, False),
    (_RETAIN, _RETAIN, True): (False, False),
    (_RETAIN, _DELETE, False): (True, False),
    (_RETAIN, _DELETE, True): (True, False),
    (_DELETE, _RETAIN, False): (False, False),
    (_DELETE, _RETAIN, True): (False, True),
    (_DELETE, _DELETE, False): (True, False),
    (_DELETE, _DELETE, True): (False, True),
}


def policy_of(set_: Object) -> tuple[str, str]:
    """What happens to claims when their pod is scaled down, and when the StatefulSet is deleted."""
    policy = set_["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenScaled") or _RETAIN, policy.get("whenDeleted") or _RETAIN


def wanted_owners(claim: Object, set_: Object, pod: Object, *, is_scaled_down: bool) -> list[OwnerReference] | None:
    """The claim's new owner references; ``None`` if they are correct or must not be changed."""
    references = owner_references(claim)
    if _is_stale(references, set_, KIND) or _is_stale(references, pod, POD):
        return None
    others = [each for each in references if not (_names(each, set_, KIND) or _names(each, pod, POD))]
    ours = [each for each in references if each.get("uid") in (_uid(set_), _uid(pod))]
    if has_conflict(claim, set_, pod):
        return others if ours else None
    by_set, by_pod = _OWNERS.get((*policy_of(set_), is_scaled_down), (False, False))
    owner_uids = {each.get("uid") for each in ours}
    is_right = (_uid(set_) in owner_uids, _uid(pod) in owner_uids) == (by_set, by_pod)
    if is_right and all(each.get("controller") is True for each in ours):
        return None
    wanted = list(others)
    if by_set:
        wanted.append(controller_reference(set_, KIND))
    if by_pod:
        wanted.append(controller_reference(pod, POD))
    return wanted


def has_conflict(claim: Object, set_: Object, pod: Object) -> bool:
    """Whether another controller owns a claim that the set's policy would have deleted."""
    if policy_of(set_) == (_RETAIN, _RETAIN):
        return False
    for each in owner_references(claim):
        if _names(each, set_, KIND):
            if each.get("uid") != _uid(set_):
                return True
        elif _names(each, pod, POD):
            if each.get("uid") != _uid(pod):
                return True
        elif each.get("controller") is True:
            return True
    return False


def belongs_to_deleted_pod(claim: Object, set_: Object, pod_name: str) -> bool:
    """Whether the claim is owned by a pod of this name that was scaled down, so that it will be deleted. A new pod of
    this name is created after that."""
    if policy_of(set_)[0] == _RETAIN:
        return False
    return any(
        (each.get("apiVersion"), each.get("kind"), each.get("name")) == (POD.api_version, POD.kind, pod_name)
        for each in owner_references(claim)
    )


def _is_stale(references: Sequence[OwnerReference], owner: Object, kind: GroupVersionKind) -> bool:
    for each in references:
        if _names(each, owner, kind):
            return bool(each.get("uid") != _uid(owner))
    return False


def _names(reference: OwnerReference, owner: Object, kind: GroupVersionKind) -> bool:
    named = reference.get("apiVersion"), reference.get("kind"), reference.get("name")
    return named == (kind.api_version, kind.kind, owner["metadata"]["name"])


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid
