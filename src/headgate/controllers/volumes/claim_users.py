"""Pods by the claims that they use. Claims of ephemeral volumes are named after pod and volume.

The binding and the protection controller each keep one index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.volumes.object_fields import ClaimKey, Object

POD_FIELDS: Final = frozenset(
    {
        *("spec.nodeName", "spec.volumes", "status.phase"),
        *("metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"),
    }
)
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class ClaimUser(msgspec.Struct, frozen=True):
    """A pod that uses claims. ``own``: claims that were created for it."""

    namespace: str
    name: str
    uid: str
    node: str
    has_ended: bool
    is_shut_down: bool
    claims: tuple[str, ...]
    own: tuple[str, ...]

    @property
    def keys(self) -> Iterable[ClaimKey]:
        return ((self.namespace, each) for each in (*self.claims, *self.own))


def read_claim_user(pod: Object) -> ClaimUser:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    volumes: list[dict[str, Any]] = spec.get("volumes") or []
    named = (each["persistentVolumeClaim"]["claimName"] for each in volumes if each.get("persistentVolumeClaim"))
    own = (f"{metadata['name']}-{each['name']}" for each in volumes if each.get("ephemeral"))
    is_deleted = metadata.get("deletionTimestamp") is not None
    return ClaimUser(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName") or "",
        has_ended=(pod.get("status") or {}).get("phase") in _ENDED,
        is_shut_down=is_deleted and metadata.get("deletionGracePeriodSeconds") == 0,
        claims=tuple(dict.fromkeys(named)),
        own=tuple(own),
    )


def uses(pod: ClaimUser, claim: Object) -> bool:
    """Whether a pod on a node needs the claim. A finished pod needs it until it is deleted."""
    name = claim["metadata"]["name"]
    if not pod.node or pod.namespace != claim["metadata"]["namespace"]:
        return False
    return name in pod.claims or (not pod.is_shut_down and name in pod.own and is_made_for(claim, pod.uid))


def is_made_for(claim: Object, pod_uid: str) -> bool:
    """Whether the claim was created for this pod, and not by another client with the same name."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each.get("uid") == pod_uid for each in owners)


class ClaimUserIndex:
    def __init__(self) -> None:
        self._pods: Final[dict[str, ClaimUser]] = {}
        self._users_of: Final[dict[ClaimKey, dict[str, None]]] = {}

    def put(self, pod: Object) -> ClaimUser | None:
        """Returns the pod if it uses claims and has changed."""
        if not (pod.get("spec") or {}).get("volumes"):
            return None  # most pods
        user = read_claim_user(pod)
        if user == self._pods.get(user.uid) or not (user.claims or user.own):
            return None
        if user.uid not in self._pods:
            for key in user.keys:
                self._users_of.setdefault(key, {})[user.uid] = None
        self._pods[user.uid] = user
        return user

    def drop(self, uid: str) -> ClaimUser | None:
        user = self._pods.pop(uid, None)
        for key in () if user is None else user.keys:
            self._users_of[key].pop(uid, None)
            if not self._users_of[key]:
                del self._users_of[key]
        return user

    def of(self, key: ClaimKey) -> list[ClaimUser]:
        """The users of a claim, by name."""
        return sorted((self._pods[uid] for uid in self._users_of.get(key, ())), key=lambda each: each.name)
