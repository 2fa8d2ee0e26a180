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
            return _request("POST", NODES.collection_path(), node)
        case effects.PatchNodeStatus(name=name, uid=uid, status=status):
            return _request(
                "PATCH", NODES.object_path("", name, "status"), {"metadata": {"uid": uid}, "status": status}
            )
        case effects.PatchNodeTaints(name=name, uid=uid, taints=taints):
            return _request(
                "PATCH", NODES.object_path("", name), {"metadata": {"uid": uid}, "spec": {"taints": taints}}
            )
        case effects.DeleteNode(name=name, uid=uid):
            return _request("DELETE", NODES.object_path("", name), {"preconditions": {"uid": uid}})
        case effects.PatchPodStatus(namespace=namespace, name=name, uid=uid, status=status):
            path = PODS.object_path(namespace, name, "status")
            return _request("PATCH", path, {"metadata": {"uid": uid}, "status": status})
        case effects.DeletePod(namespace=namespace, name=name, uid=uid):
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            return _request("DELETE", PODS.object_path(namespace, name), body)
        case effects.RenewLease(name=name):
            return _request("PATCH", LEASES.object_path(_LEASE_NAMESPACE, name), _lease(effect))


def create_lease(renewal: effects.RenewLease) -> HTTPRequest:
    """For a node that has no lease yet. A renewal is tried first, because there nearly always is one."""
    return _request("POST", LEASES.collection_path(_LEASE_NAMESPACE), _lease(renewal))


def _lease(renewal: effects.RenewLease) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": renewal.name, "uid": renewal.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": renewal.name, "namespace": _LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": renewal.name,
            "leaseDurationSeconds": renewal.duration_s,
            "renewTime": format_micro_time(renewal.renewed_s),
        },
    }


def _request(method: str, path: str, body: Object) -> HTTPRequest:
    headers = _STRATEGIC if method == "PATCH" else _JSON
    return HTTPRequest(method, path, "", headers, msgspec.json.encode(body))
