"""Creates the objects that every cluster has: namespaces, priority classes, roles, the ``kubernetes`` Service.

``apiserver/bootstrap_objects.py`` and ``apiserver/authz/bootstrap_policy/`` list the objects. They are created with
ordinary requests, many at a time, so that one commit writes many of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from headgate.apiserver.authz.bootstrap_policy.reconciliation import RoleReconciliation
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.cli.embedded.cluster_options import StartupError
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.kube.schema import GroupVersionKind
from headgate.kube.serializer import wire_json

Object = dict[str, Any]


async def create_missing(client: Transport, objects: list[Object]) -> None:
    """Creates the objects one after another: the first ones are the namespaces of the others."""
    for obj in objects:
        if not (await client.request(HTTPRequest("GET", _path(obj)))).ok:
            await _write(client, "POST", obj)


async def reconcile_objects(
    client: Transport, objects: list[Object], reconcile: Callable[[Object, Object], RoleReconciliation]
) -> None:
    """Creates missing objects; ``reconcile`` decides about existing ones."""

    async def one(expected: Object) -> None:
        response = await client.request(HTTPRequest("GET", _path(expected)))
        if not response.ok:
            await _write(client, "POST", expected)
            return
        reconciliation = reconcile(wire_json.decode(response.body), expected)
        if reconciliation.action == "update":
            await _write(client, "PUT", reconciliation.obj)
        elif reconciliation.action == "recreate":
            _raise_if_refused(await client.request(HTTPRequest("DELETE", _path(expected))), expected)
            await _write(client, "POST", reconciliation.obj)

    await asyncio.gather(*(one(each) for each in objects))


async def _write(client: Transport, method: str, obj: Object) -> None:
    path = _path(obj) if method == "PUT" else _path(obj).rpartition("/")[0]
    headers = {"content-type": "application/json"}
    request = HTTPRequest(method, path, headers=headers, body=msgspec.json.encode(obj))
    _raise_if_refused(await client.request(request), obj)


def _raise_if_refused(response: HTTPResponse, obj: Object) -> None:
    if not response.ok:
        status = wire_json.decode(response.body)
        why = status.get("message") if isinstance(status, dict) else None
        raise StartupError(f"cannot write {obj['kind']} {obj['metadata']['name']}: {why or response.status}")


def _path(obj: Object) -> str:
    """The path of an object."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = BUILTIN.by_gvk(GroupVersionKind(group, version, obj["kind"]))
    if kind is None:
        raise RuntimeError(f"{obj['apiVersion']} {obj['kind']} is not a kind that is served")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    metadata = obj["metadata"]
    prefix = f"{root}/namespaces/{metadata['namespace']}" if metadata.get("namespace") else root
    return f"{prefix}/{kind.plural}/{metadata['name']}"
