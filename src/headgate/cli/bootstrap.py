"""What every cluster has from its first moment: namespaces, priority classes, roles, the ``kubernetes`` Service.

The objects are listed in ``apiserver/bootstrap.py`` and ``apiserver/access/defaults/``; here they are created through
the front door, many at a time, so that the disk is waited for once and not for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from headgate.apiserver.access.defaults.reconcile import Step
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.cli.plan import UpProblem
from headgate.client.transport import Request, Response, Transport
from headgate.kube import wire_json
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]


async def create_missing(client: Transport, objects: list[Object]) -> None:
    """In order, for the first of them are namespaces of the others."""
    for obj in objects:
        if not (await client.request(Request("GET", _path(obj)))).ok:
            await _write(client, "POST", obj)


async def bring_up_to_date(
    client: Transport, objects: list[Object], reconcile: Callable[[Object, Object], Step]
) -> None:
    """Create what is missing, and let ``reconcile`` say what becomes of an object that is there."""

    async def one(expected: Object) -> None:
        answer = await client.request(Request("GET", _path(expected)))
        if not answer.ok:
            await _write(client, "POST", expected)
            return
        step = reconcile(wire_json.decode(answer.body), expected)
        if step.what == "update":
            await _write(client, "PUT", step.obj)
        elif step.what == "recreate":
            _checked(await client.request(Request("DELETE", _path(expected))), expected)
            await _write(client, "POST", step.obj)

    await asyncio.gather(*(one(each) for each in objects))


async def _write(client: Transport, method: str, obj: Object) -> None:
    path = _path(obj) if method == "PUT" else _path(obj).rpartition("/")[0]
    headers = {"content-type": "application/json"}
    request = Request(method, path, headers=headers, body=msgspec.json.encode(obj))
    _checked(await client.request(request), obj)


def _checked(answer: Response, obj: Object) -> None:
    if not answer.ok:
        status = wire_json.decode(answer.body)
        why = status.get("message") if isinstance(status, dict) else None
        raise UpProblem(f"cannot write {obj['kind']} {obj['metadata']['name']}: {why or answer.status}")


def _path(obj: Object) -> str:
    """Where one object is served."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = BUILTIN.by_gvk(GroupVersionKind(group, version, obj["kind"]))
    if kind is None:
        raise RuntimeError(f"{obj['apiVersion']} {obj['kind']} is not a kind that is served")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    metadata = obj["metadata"]
    place = f"{root}/namespaces/{metadata['namespace']}" if metadata.get("namespace") else root
    return f"{place}/{kind.plural}/{metadata['name']}"
