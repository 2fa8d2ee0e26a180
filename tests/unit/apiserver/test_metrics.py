"""Metrics of the embedded API server: what is counted, under which labels, and that clients cannot add labels."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from embedded import TOKEN, Embedded
from harness.metrics_page import families_of, value
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.metrics import FAMILIES, APIServerMetrics, request_labels
from headgate.apiserver.request.request_info import request_info
from headgate.cli.embedded.server import data_bytes, in_process
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.store.io.committer import Committer
from headgate.store.io.journal import Journal

MAPS = "/api/v1/namespaces/default/configmaps"


def labels(method: str, path: str, query: str = "") -> tuple[str, ...]:
    info = request_info(method, path, query)
    kind = BUILTIN.by_resource(info.group, info.version, info.resource) if info.is_resource_request else None
    return request_labels(info, kind)


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (("GET", "/api/v1/pods"), ("LIST", "", "v1", "pods", "", "cluster")),
        (("GET", "/api/v1/namespaces/a/pods"), ("LIST", "", "v1", "pods", "", "namespace")),
        (("GET", "/api/v1/pods", "watch=true"), ("WATCH", "", "v1", "pods", "", "cluster")),
        (("GET", "/apis/batch/v1/namespaces/a/jobs/b"), ("GET", "batch", "v1", "jobs", "", "resource")),
        (("POST", "/apis/batch/v1/namespaces/a/jobs"), ("POST", "batch", "v1", "jobs", "", "namespace")),
        (("PUT", "/apis/batch/v1/namespaces/a/jobs/b/status"), ("PUT", "batch", "v1", "jobs", "status", "resource")),
        (("PATCH", "/apis/batch/v1/namespaces/a/jobs/b/x"), ("PATCH", "batch", "v1", "jobs", "other", "resource")),
        (("DELETE", "/api/v1/namespaces/a/pods"), ("DELETECOLLECTION", "", "v1", "pods", "", "namespace")),
        (("GET", "/apis/nobody.example/v1/things/a"), ("GET", "", "", "", "", "")),
        (("GET", "/healthz"), ("GET", "", "", "", "", "")),
        (("MADE-UP", "/anything"), ("other", "", "", "", "", "")),
    ],
)
def test_labels_are_those_of_kube_apiserver_and_never_text_of_a_client(
    request_line: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert labels(*request_line) == expected


def test_requests_watches_objects_and_commits_are_measured() -> None:
    async def scenario() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal.open(Path(folder))
            embedded = Embedded(store=journal.load(lambda done, total: None), namespace="")
            store = embedded.api.store
            metrics = APIServerMetrics(store, lambda: data_bytes(Path(folder)))
            endpoint = APIServer(embedded.api, metrics=metrics)
            committer = Committer(store, journal, publish=endpoint.publish, ended=metrics.commit_ended)
            endpoint.attach(committer)
            client = in_process(endpoint, TOKEN, "test")

            async def ask(method: str, path: str, body: object = None) -> int:
                data = b"" if body is None else msgspec.json.encode(body)
                request = HTTPRequest(method, path, "", {"content-type": "application/json"}, data)
                return (await client.request(request)).status

            try:
                assert await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}}) == 201
                assert await ask("POST", MAPS, {"metadata": {"name": "a"}}) == 201
                assert await ask("POST", MAPS, {"metadata": {"name": "a"}}) == 409
                assert await ask("GET", MAPS) == 200
                watching = HTTPRequest("GET", MAPS, "watch=true")
                stream = await client.stream(watching, idle_s=10)
                assert not isinstance(stream, HTTPResponse)
                taking = asyncio.ensure_future(anext(aiter(stream)))
                while not metrics.watches():
                    await asyncio.sleep(0)
                page = metrics.page()
                taking.cancel()
                return families_of(page.decode())
            finally:
                endpoint.stop()
                await committer.close()

    found = asyncio.run(scenario())
    assert set(found) == {each.removesuffix("_total") for each in FAMILIES}
    maps = {"group": "", "version": "v1", "resource": "configmaps", "subresource": "", "scope": "namespace"}
    assert value(found, "apiserver_request_total", verb="POST", code="201", **maps) == 1
    assert value(found, "apiserver_request_total", verb="POST", code="409", **maps) == 1
    assert value(found, "apiserver_request_total", verb="WATCH", code="200", **maps) == 1
    assert value(found, "apiserver_request_duration_seconds_count", verb="POST", **maps) == 2
    assert value(found, "apiserver_request_duration_seconds_count", verb="LIST", **maps) == 1
    assert value(found, "apiserver_longrunning_requests", verb="WATCH", group="", resource="configmaps") == 1
    assert value(found, "apiserver_resource_objects", group="", resource="configmaps") == 1
    assert value(found, "apiserver_storage_size_bytes") > 4096
    assert value(found, "headgate_store_commit_duration_seconds_count") >= 2
    assert value(found, "headgate_store_committed_changes_total") >= 2
    assert value(found, "headgate_store_failed_commits_total") == 0
    assert value(found, "headgate_store_revision") > 0


def test_a_failed_commit_is_counted_and_not_measured() -> None:
    metrics = APIServerMetrics(Embedded().api.store, lambda: 0)
    metrics.commit_ended(0.1, 3, False)
    found = families_of(metrics.page().decode())
    assert value(found, "headgate_store_failed_commits_total") == 1
    assert value(found, "headgate_store_commit_duration_seconds_count") == 0
    assert value(found, "headgate_store_committed_changes_total") == 0
