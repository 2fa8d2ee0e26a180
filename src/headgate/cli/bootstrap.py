"""What every cluster has from its first moment: namespaces, priority classes, the ``kubernetes`` Service.

The objects are listed in ``apiserver/bootstrap.py``; here they are created through the front door, once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.client.transport import Request, Transport
from headgate.kube.schema import GroupVersionKind


async def create_missing(client: Transport, objects: list[dict[str, Any]]) -> None:
    headers = {"content-type": "application/json"}
    for obj in objects:
        if (await client.request(Request("GET", f"{_path(obj)}/{obj['metadata']['name']}"))).ok:
            continue
        answer = await client.request(Request("POST", _path(obj), headers=headers, body=msgspec.json.encode(obj)))
        if not answer.ok:
            name = obj["metadata"]["name"]
            raise RuntimeError(f"cannot create {obj['kind']} {name}: {answer.body.decode(errors='replace')}")


def _path(obj: dict[str, Any]) -> str:
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = BUILTIN.by_gvk(GroupVersionKind(group, version, obj["kind"]))
    if kind is None:
        raise RuntimeError(f"{obj['apiVersion']} {obj['kind']} is not a kind that is served")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = obj["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{kind.plural}" if namespace else f"{root}/{kind.plural}"
