"""Effects of a hollow kubelet as requests: the method, path and body of each effect. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.http.transport import HTTPRequest
from headgate.kube.api_resources import LEASES, NODES, PODS
from headgate.kube.timestamps import format_micro_time
from headgate.nodes import effects
from headgate.nodes.effects import Effect

Object = dict[str, Any]

_LEASE_NAMESPACE: Final = "kube-node-lease"
_JSON: Final = {"content-type": "application/json", "accept": "application/json", "user-agent": "headgate-nodes"}
_STRATEGIC: Final = {**_JSON, "content-type": "application/strategic-merge-patch+json"}


def request_for(effect: Effect) -> HTTPRequest:
    match effect:
        case effects.CreateNode(node=node):
            return _ask("POST", NODES.collection_path(), node)
        case effects.PatchNodeStatus(name=name, uid=uid, status=status):
            return _ask("PATCH", NODES.object_path("", name, "status"), {"metadata": {"uid": uid}, "status": status})
        case effects.PatchNodeTaints(name=name, uid=uid, taints=taints):
            return _ask("PATCH", NODES.object_path("", name), {"metadata": {"uid": uid}, "spec": {"taints": taints}})
        case effects.DeleteNode(name=name, uid=uid):
            return _ask("DELETE", NODES.object_path("", name), {"preconditions": {"uid": uid}})
        case effects.PatchPodStatus(namespace=namespace, name=name, uid=uid, status=status):
            path = PODS.object_path(namespace, name, "status")
            return _ask("PATCH", path, {"metadata": {"uid": uid}, "status": status})
        case effects.DeletePod(namespace=namespace, name=name, uid=uid):
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            return _ask("DELETE", PODS.object_path(namespace, name), body)
        case effects.RenewLease(name=name):
            return _ask("PATCH", LEASES.object_path(_LEASE_NAMESPACE, name), _lease(effect))


def create_lease(beat: effects.RenewLease) -> HTTPRequest:
    """For a node that has no lease yet. Nearly always there is one to renew, so that is tried first."""
    return _ask("POST", LEASES.collection_path(_LEASE_NAMESPACE), _lease(beat))


def _lease(beat: effects.RenewLease) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": beat.name, "uid": beat.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": beat.name, "namespace": _LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": beat.name,
            "leaseDurationSeconds": beat.duration_s,
            "renewTime": format_micro_time(beat.renewed_s),
        },
    }


def _ask(method: str, path: str, body: Object) -> HTTPRequest:
    headers = _STRATEGIC if method == "PATCH" else _JSON
    return HTTPRequest(method, path, "", headers, msgspec.json.encode(body))
