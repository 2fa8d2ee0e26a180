"""A refusal because of queues or PodGroups holds for the present objects, also if the watch has not shown them yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.request_handler import HandlerResponse
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable
from headgate.kube.api_resources import APIResource
from headgate.runtime.webhooks.server import WebhookServer

Object = dict[str, Any]
PATIENCE_S = 5.0


def a_queue(name: str, parent: str = "", **spec: Any) -> Object:
    return {"metadata": _metadata(name), "spec": {**({"parent": parent} if parent else {}), **spec}}


def a_group(name: str, queue: str) -> Object:
    return {"metadata": {**_metadata(name), "namespace": "t"}, "spec": {"queue": queue}}


def _metadata(name: str) -> Object:
    return {"name": name, "uid": f"uid of {name}", "resourceVersion": "1"}


class LateWatch:
    """An API server whose first lists show ``shown``, whose watches show nothing, and whose later reads show
    ``present``."""

    def __init__(self, shown: Iterable[Object], present: Iterable[Object]) -> None:
        self._shown = [*shown]
        self._present = {_path(each): each for each in present}
        self.reads: list[str] | None = None  # None until the caches are filled
        self.is_reachable = True

    async def answer(self, request: HTTPRequest) -> HTTPResponse:
        if "watch=true" in request.query:
            await asyncio.Event().wait()
        resource = next((each for each in (QUEUES, POD_GROUPS) if request.path == each.collection_path()), None)
        if self.reads is not None:
            self.reads.append(request.path.rsplit("/", 1)[-1])
            if not self.is_reachable:
                raise Unreachable("no route")
        if resource is not None:
            objects = self._shown if self.reads is None else [*self._present.values()]
            items = [each for each in objects if _resource(each) == resource]
            return _ok({"metadata": {"resourceVersion": "1"}, "items": items})
        found = self._present.get(request.path)
        return HTTPResponse(404, {}, b"{}") if found is None else _ok(found)


def _resource(obj: Object) -> APIResource:
    return POD_GROUPS if "namespace" in obj["metadata"] else QUEUES


def _path(obj: Object) -> str:
    return _resource(obj).object_path(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _ok(body: Object) -> HTTPResponse:
    return HTTPResponse(200, {}, msgspec.json.encode(body))


def review(
    api: LateWatch,
    operation: str,
    *,
    obj: Object | None = None,
    old: Object | None = None,
    path: str = "/queues/validate",
) -> str:
    """Why the webhook refuses the write; empty if it allows it."""

    async def main() -> str:
        server = WebhookServer(InProcessTransport(api.answer), AdmissionSettings(frozenset({"s"})))
        following = [asyncio.create_task(server.watch(each)) for each in (QUEUES, POD_GROUPS)]
        await asyncio.wait_for(server.wait_for_lists({QUEUES, POD_GROUPS}), PATIENCE_S)
        api.reads = []
        metadata = (obj or old or {})["metadata"]
        request = {"uid": "u", "operation": operation, "object": obj, "oldObject": old, **metadata}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        answer = server._review(path, msgspec.json.encode(body))
        response = answer if isinstance(answer, HandlerResponse) else await answer
        for task in following:
            task.cancel()
        await asyncio.wait(following)
        assert isinstance(response.body, bytes)
        status = json.loads(response.body)["response"].get("status") or {}
        return str(status.get("message") or "")

    return asyncio.run(main())


def test_a_queue_below_one_that_was_created_a_moment_ago_is_allowed() -> None:
    api = LateWatch([], [a_queue("parent")])
    assert review(api, "CREATE", obj=a_queue("child", "parent")) == ""
    assert api.reads == ["parent"]


def test_a_limit_below_a_parent_that_was_raised_a_moment_ago_is_allowed() -> None:
    limits = [a_queue("parent", capability={"cpu": limit}) for limit in ("1", "4")]
    api = LateWatch(limits[:1], limits[1:])
    assert review(api, "CREATE", obj=a_queue("child", "parent", capability={"cpu": "2"})) == ""


def test_a_queue_below_one_that_does_not_exist_is_refused() -> None:
    api = LateWatch([], [])
    assert review(api, "CREATE", obj=a_queue("child", "parent")).startswith("spec.parent: ")
    assert api.reads == ["parent"]


def test_a_queue_whose_child_and_group_were_deleted_a_moment_ago_can_be_deleted() -> None:
    parent = a_queue("parent")
    shown = [parent, a_queue("child", "parent"), a_group("a", "parent"), a_group("b", "parent")]
    assert review(LateWatch(shown, [parent]), "DELETE", old=parent) == ""


def test_a_queue_with_a_group_that_exists_cannot_be_deleted_and_other_groups_are_not_read() -> None:
    parent, first, second = a_queue("parent"), a_group("a", "parent"), a_group("b", "parent")
    api = LateWatch([parent, first, second], [parent, first, second])
    assert "there are 2 PodGroups or pods in it" in review(api, "DELETE", old=parent)
    assert api.reads == ["a"]


def test_a_group_in_a_queue_that_was_opened_a_moment_ago_is_allowed() -> None:
    closed = {**a_queue("q"), "status": {"state": "Unknown"}}
    api = LateWatch([closed], [{**closed, "status": {"state": "Open"}}])
    assert review(api, "CREATE", obj=a_group("g", "q"), path="/podgroups/validate") == ""


def test_many_queues_are_listed_at_once() -> None:
    parent = a_queue("parent")
    children = [a_queue(f"child-{number}", "parent") for number in range(40)]
    api = LateWatch([parent, *children], [parent])
    assert review(api, "DELETE", old=parent) == ""
    assert api.reads == ["queues"]


def test_the_cache_counts_if_the_api_server_cannot_be_reached() -> None:
    parent, child = a_queue("parent"), a_queue("child", "parent")
    api = LateWatch([parent, child], [])
    api.is_reachable = False
    assert "queue child is below it" in review(api, "DELETE", old=parent)


def test_an_allowed_write_reads_nothing() -> None:
    api = LateWatch([a_queue("parent")], [])
    assert review(api, "CREATE", obj=a_queue("child", "parent")) == ""
    assert api.reads == []
