"""A whole ``headgate up`` is killed while it deletes dependents: the next one finishes the work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.embedded_server import EmbeddedServer
from harness.server import JSON_TYPE, Server

FLAGS = ("--components", "apiserver,controllers")
COUNT = 80
PATIENCE_S = 60.0


def make(server: Server, path: str, body: str) -> str:
    answer = server.request("POST", path, JSON_TYPE, body.encode())
    assert answer.status == 201, answer
    uid: str = answer.json()["metadata"]["uid"]
    return uid


def until_gone(server: Server, path: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while server.request("GET", path).status != 404:
        assert time.monotonic() < deadline_s, f"{path} is still there"
        time.sleep(0.05)


@pytest.mark.parametrize("wait_s", [0.0, 0.1])
def test_a_killed_process_is_finished_by_the_next(tmp_path: Path, wait_s: float) -> None:
    """How far it comes before it is killed is left to chance; where it ends is not."""
    server = EmbeddedServer(tmp_path, flags=FLAGS)
    make(server, "/api/v1/namespaces", '{"metadata":{"name":"x"}}')
    maps = "/api/v1/namespaces/default/configmaps"
    uid = make(server, maps, '{"metadata":{"name":"owner"}}')
    owner = f'{{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{uid}","blockOwnerDeletion":true}}'
    for number in range(COUNT):
        make(server, "/api/v1/namespaces/x/configmaps", f'{{"metadata":{{"name":"m{number}"}}}}')
        make(server, maps, f'{{"metadata":{{"name":"m{number}","ownerReferences":[{owner}]}}}}')
    server.request("DELETE", f"{maps}/owner", JSON_TYPE, b'{"propagationPolicy":"Foreground"}')
    server.request("DELETE", "/api/v1/namespaces/x")
    time.sleep(wait_s)
    server.kill()
    server.disconnect()
    server.restart(FLAGS)
    try:
        until_gone(server, f"{maps}/owner")
        until_gone(server, "/api/v1/namespaces/x")
        left = [each["metadata"] for each in server.request("GET", "/api/v1/configmaps").json()["items"]]
        assert [each["name"] for each in left if each["namespace"] == "x" or each["name"].startswith("m")] == []
    finally:
        server.disconnect()
        server.stop()
