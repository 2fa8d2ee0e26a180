"""What every cluster has from its first moment: namespaces, priority classes, the ``kubernetes`` Service.

The objects are listed in ``apiserver/bootstrap.py``; here they are created through the front door, once.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.messages import Request, Response
from headgate.apiserver.shell import Endpoint
from headgate.kube.schema import GroupVersionKind

_ALREADY_THERE: Final = 409


async def create_missing(endpoint: Endpoint, token: str, objects: list[dict[str, Any]]) -> None:
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "user-agent": "kube-apiserver/headgate",
    }
    for obj in objects:
        answer = await endpoint.answer(Request("POST", _path(obj), headers=headers, body=msgspec.json.encode(obj)))
        if isinstance(answer, Response) and answer.status >= 400 and answer.status != _ALREADY_THERE:
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
