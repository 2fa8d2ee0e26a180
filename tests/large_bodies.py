"""Clients that send the largest accepted bodies as fast as they can, and one client that measures meanwhile.

``python -m large_bodies URL TOKEN CA CLIENTS SECONDS`` is the process of the greedy clients. :func:`measure` starts it
and times reads of a small object, for ``tests/wire/test_responsiveness.py`` and ``bench/responsiveness.py``.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from headgate.apiserver.handler import MAX_BODY_BYTES

NAMESPACE: Final = "large"
SMALL: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/small"
_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_THINGS: Final = f"/apis/large.example/v1/namespaces/{NAMESPACE}/things"
_LEFT: Final = 16 * 1024  # for what is around the long part
_PAUSE_S: Final = 0.01

Object = dict[str, Any]


class Large(msgspec.Struct, frozen=True):
    """One request with a body near the limit; ``{}`` in the path and the body is replaced by a fresh name."""

    method: str
    path: str
    body: bytes
    content_type: str = "application/json"


def _filled(item: Callable[[int], Any], whole: Callable[[list[Any]], Any], limit: int) -> bytes:
    """As many items as the limit allows."""
    size, items = 0, list[Any]()
    while size < limit - _LEFT:
        items.append(item(len(items)))
        size += len(msgspec.json.encode(items[-1])) + 1
    return msgspec.json.encode(whole(items))


def _named(**metadata: Any) -> Object:
    return {"metadata": {"name": "{}", **metadata}}


def _pod(spec: Object) -> Object:
    return {**_named(), "spec": spec}


def _definition(plural: str, schema: Object) -> Object:
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural[:-1].title(),
        "listKind": f"{plural.title()}List",
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "large.example", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.large.example"}, "spec": spec}


_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def bodies(limit: int = MAX_BODY_BYTES) -> dict[str, Large]:
    stored = limit // 3  # what becomes longer on its way into the store
    dense = limit // 2  # what consists of short keys and values: of longer bodies the number of these is bounded
    return {
        "one long value": Large(
            "POST", _MAPS, json.dumps({**_named(), "data": {"k": "v" * (stored - _LEFT)}}).encode()
        ),
        "keys of a ConfigMap": Large(
            "POST",
            _MAPS,
            _filled(
                lambda i: f"k{i}:_v_",
                lambda items: {**_named(), "data": {f"k{i}": "v" for i in range(len(items))}},
                stored,
            ),
        ),
        "containers": Large(
            "POST",
            _PODS,
            _filled(
                lambda i: {"name": f"c{i}", "image": "i"},
                lambda items: _pod({"containers": items}),
                stored,
            ),
        ),
        "environment": Large(
            "POST",
            _PODS,
            _filled(
                lambda i: {"name": f"E{i}", "value": "v"},
                lambda items: _pod({"containers": [{"name": "c", "image": "i", "env": items}]}),
                stored,
            ),
        ),
        "a schema": Large(
            "POST",
            _DEFINITIONS,
            _filled(
                lambda i: {f"p{i}": {"type": "string"}},
                lambda items: _definition(
                    "{}s", {"type": "object", "properties": {name: each[name] for each in items for name in each}}
                ),
                stored,
            ),
        ),
        "a custom object": Large(
            "POST",
            _THINGS,
            _filled(
                lambda i: {"a": i, "b": f"text {i}"},
                lambda items: {"apiVersion": "large.example/v1", "kind": "Thing", **_named(), "spec": {"items": items}},
                dense,
            ),
        ),
        "an apply configuration": Large(
            "PATCH",
            f"{_MAPS}/{{}}?fieldManager=m&force=true",
            _filled(
                lambda i: f"k{i}:_v_",
                lambda items: {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    **_named(),
                    "data": {f"k{i}": "v" for i in range(len(items))},
                },
                stored,
            ),
            "application/apply-patch+yaml",
        ),
        "a JSON patch": Large(
            "PATCH",
            SMALL.replace("/small", "/patched"),
            json.dumps(
                [{"op": "add", "path": f"/data/k{i}", "value": "v" * (limit // 10_000 - 60)} for i in range(10_000)],
                separators=(",", ":"),
            ).encode(),  # more operations are refused
            "application/json-patch+json",
        ),
        "owner references": Large(
            "POST",
            _MAPS,
            _filled(
                lambda i: {"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}"},
                lambda items: _named(ownerReferences=items),
                dense,
            ),
        ),
    }


class Client:
    """One connection; the requests of one user, one after the other."""

    def __init__(self, url: str, token: str, ca: str) -> None:
        address = urlsplit(url)
        context = ssl.create_default_context(cafile=ca)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port or 443, timeout=120, context=context
        )
        self._headers = {"Authorization": f"Bearer {token}"}

    def send(self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json") -> int:
        headers = {**self._headers, "Content-Type": content_type}
        self._connection.request(method, path, body=body, headers=headers)
        response = self._connection.getresponse()
        response.read()
        return response.status

    def close(self) -> None:
        self._connection.close()


PREPARED: Final = (
    ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
    (_MAPS, {"metadata": {"name": "small"}, "data": {"a": "b"}}),
    (_MAPS, {"metadata": {"name": "patched"}, "data": {"a": "b"}}),
    (_DEFINITIONS, _definition("things", {"type": "object", "properties": {"spec": _OPEN}})),
)
"""What the large requests need."""


def prepare(client: Client) -> None:
    for path, body in PREPARED:
        assert client.send("POST", path, json.dumps(body).encode()) == 201, path


def _be_greedy(client: Client, number: int, until_s: float, wanted: Mapping[str, Large], told: Counter[str]) -> None:
    rows = list(wanted.items())
    turn = number
    while time.monotonic() < until_s:
        name, large = rows[turn % len(rows)]
        fresh = f"x{os.getpid()}x{number}x{turn}"
        turn += 1
        body = large.body.replace(b"{}", fresh.encode())
        status = client.send(large.method, large.path.replace("{}", fresh), body, large.content_type)
        told[f"{name}: {status}"] += 1
        if status == 201 and large.method == "POST":
            created = f"{fresh}s.large.example" if large.path == _DEFINITIONS else fresh
            client.send("DELETE", f"{large.path}/{created}?gracePeriodSeconds=0")
    client.close()


def _main(url: str, token: str, ca: str, clients: str, seconds: str, *kinds: str) -> None:
    wanted = {name: each for name, each in bodies().items() if not kinds or name in kinds}
    told: Counter[str] = Counter()
    _say("ready")
    until_s = time.monotonic() + float(seconds)
    threads = [
        threading.Thread(target=_be_greedy, args=(Client(url, token, ca), number, until_s, wanted, told))
        for number in range(int(clients))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _say(json.dumps(told))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Measured(msgspec.Struct, frozen=True):
    """How long reads of a small object took, in order of length, and what the greedy clients were answered."""

    latencies_s: list[float]
    answers: dict[str, int]

    def percentile_s(self, percent: float) -> float:
        return self.latencies_s[min(len(self.latencies_s) - 1, int(len(self.latencies_s) * percent / 100))]


def measure(url: str, token: str, ca: Path, *, clients: int, seconds: float, kinds: tuple[str, ...] = ()) -> Measured:
    reader = Client(url, token, str(ca))
    latencies: list[float] = []
    command = [sys.executable, __file__, url, token, str(ca), str(clients), str(seconds), *kinds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as greedy:
        try:
            assert greedy.stdout is not None
            assert greedy.stdout.readline() == "ready\n"
            while greedy.poll() is None:
                began = time.monotonic()
                assert reader.send("GET", SMALL) == 200
                latencies.append(time.monotonic() - began)
                time.sleep(_PAUSE_S)
            answers: dict[str, int] = json.loads(greedy.stdout.read())
        finally:
            greedy.kill()
            reader.close()
    return Measured(sorted(latencies), answers)


if __name__ == "__main__":
    _main(*sys.argv[1:])
