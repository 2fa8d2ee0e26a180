"""Objects that are written into etcd behind the API server, with whatever metadata they have.

API servers read JSON from etcd also where they write protobuf. Keys are those of kube-apiserver.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

Object = dict[str, Any]

_TIMEOUT_S = 30.0


def put(etcd_url: str, objects: Iterable[tuple[str, Object]]) -> None:
    """By the JSON gateway of etcd. Each object with its place below `/registry`."""
    address = urlsplit(etcd_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_TIMEOUT_S)
    for place, obj in objects:
        body = {"key": _base64(f"/registry/{place}"), "value": _base64(json.dumps(obj))}
        connection.request("POST", "/v3/kv/put", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said
    connection.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
