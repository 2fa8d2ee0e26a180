"""Converts effects of hollow kubelets to HTTP requests. Pure; ``nodes/io/kubelet_runner.py`` sends them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.client import write_requests
from headgate.http.transport import HTTPRequest
from headgate.kube.api_resources import LEASES, NODES, PODS
from headgate.kube.timestamps import format_micro_time
from headgate.nodes import effects
from headgate.nodes.effects import Effect

Object = dict[str, Any]

_LEASE_NAMESPACE: Final = "kube-node-lease"
_USER_AGENT: Final = "headgate-nodes"  # the field manager of all writes
_NO_GRACE: Final = {"gracePeriodSeconds": 0}


def request_for(effect: Effect) -> HTTPRequest:
    return _with_user_agent(_request(effect))


def create_lease(renewal: effects.RenewLease) -> HTTPRequest:
    """For a node that has no lease yet. A renewal is tried first, because there nearly always is one."""
    return _with_user_agent(write_requests.create(LEASES, _LEASE_NAMESPACE, _lease(renewal)))


def _request(effect: Effect) -> HTTPRequest:
    match effect:
        case effects.CreateNode(node=node):
            return write_requests.create(NODES, "", node)
        case effects.PatchNodeStatus(name=name, uid=uid, status=status):
            return write_requests.patch(NODES, "", name, uid, {"status": status}, "strategic", "status")
        case effects.PatchNodeTaints(name=name, uid=uid, taints=taints):
            return write_requests.patch(NODES, "", name, uid, {"spec": {"taints": taints}}, "strategic")
        case effects.DeleteNode(name=name, uid=uid):
            return write_requests.delete(NODES, "", name, uid)
        case effects.PatchPodStatus(namespace=namespace, name=name, uid=uid, status=status):
            return write_requests.patch(PODS, namespace, name, uid, {"status": status}, "strategic", "status")
        case effects.DeletePod(namespace=namespace, name=name, uid=uid):
            return write_requests.delete(PODS, namespace, name, uid, _NO_GRACE)
        case effects.RenewLease(name=name):
            return write_requests.patch(LEASES, _LEASE_NAMESPACE, name, "", _lease(effect), "strategic")


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


def _with_user_agent(request: HTTPRequest) -> HTTPRequest:
    return msgspec.structs.replace(request, headers={**request.headers, "user-agent": _USER_AGENT})
