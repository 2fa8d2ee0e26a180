"""Creates the claims of ephemeral volumes: one for each volume, owned by the pod, and deleted with it.

The claim is named after pod and volume. An existing claim of that name that does not belong to the pod is left alone,
and an Event is emitted on the pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Create, EmitEvent, Get
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.volumes.claim_users import is_made_for
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, PODS, APIResource

_COMPONENT: Final = "ephemeral_volume"


class _Uid(msgspec.Struct, frozen=True):
    uid: str


class _Pod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    templates: dict[str, Any]
    """Claim templates by the name of the claim."""


class EphemeralVolumeController(Controller):
    name = "ephemeral-claims"

    def __init__(self) -> None:
        self._pods: Final[dict[str, _Pod]] = {}
        self._by_claim: Final[dict[ClaimKey, str]] = {}

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(PODS, frozenset({"spec.volumes", "metadata.deletionTimestamp"})),
            WatchSpec(PERSISTENT_VOLUME_CLAIMS, frozenset({"metadata.ownerReferences"})),
        )

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        metadata = obj["metadata"]
        if resource != PODS or metadata["uid"] in self._pods:
            return ()
        templates = {
            f"{metadata['name']}-{each['name']}": each["ephemeral"].get("volumeClaimTemplate") or {}
            for each in (obj.get("spec") or {}).get("volumes") or ()
            if each.get("ephemeral")
        }
        if not templates or metadata.get("deletionTimestamp"):
            return ()
        self._pods[metadata["uid"]] = _Pod(metadata["namespace"], metadata["name"], metadata["uid"], templates)
        self._by_claim.update({(metadata["namespace"], each): metadata["uid"] for each in templates})
        return (Enqueue(_Uid(metadata["uid"])),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PERSISTENT_VOLUME_CLAIMS:
            owner = self._by_claim.get((namespace, name))
            return () if owner is None else (Enqueue(_Uid(owner)),)
        pod = self._pods.pop(uid, None)
        for each in () if pod is None else pod.templates:
            if self._by_claim.get((namespace, each)) == uid:
                del self._by_claim[namespace, each]
        return ()

    def reconcile(self, key: _Uid, now_s: float) -> ReconcileSteps:
        pod = self._pods.get(key.uid)
        if pod is None:
            return Done()
        for name, template in pod.templates.items():
            response = yield Create(PERSISTENT_VOLUME_CLAIMS, pod.namespace, _claim(pod, name, template))
            problem = "" if response.ok else f"create PVC {name}: {response.message}"
            if response.conflict:
                existing = yield Get(PERSISTENT_VOLUME_CLAIMS, pod.namespace, name, ("metadata.ownerReferences",))
                if existing.ok and is_made_for(existing.body, pod.uid):
                    continue
                problem = (
                    f"PVC {pod.namespace}/{name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
                )
            if problem:
                text = f"ephemeral volume {name.removeprefix(pod.name + '-')}: {problem}"
                reference = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "uid": pod.uid,
                }
                yield EmitEvent(reference, "Warning", "FailedBinding", text, _COMPONENT)
                return RequeueWithBackoff(problem)
        return Done()


def _claim(pod: _Pod, name: str, template: Object) -> Object:
    metadata = template.get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            **{each: metadata[each] for each in ("annotations", "labels") if metadata.get(each)},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": template.get("spec") or {},
    }
