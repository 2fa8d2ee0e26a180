"""Pods with inter-pod affinity, with the scheduler's runner and the embedded server: placed, parked, woken."""

from __future__ import annotations

import asyncio
from typing import Any

from affinity_pods import AFFINITY, app, term
from clusters import a_node
from headgate.http.transport import Transport
from headgate.runtime.scheduler.runner import SchedulerRunner
from unit.runtime.serving import a_server, ask, until
from unit.runtime.test_scheduler_runner import a_scheduler, writer

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"


async def create(transport: Transport, pod: Object) -> None:
    del pod["metadata"]["uid"]
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    status, told = await ask(transport, "POST", path, pod)
    assert status == 201, told


def test_a_pod_waits_for_the_pod_it_has_to_be_near_in_a_namespace_chosen_by_labels_and_follows_it() -> None:
    async def scenario() -> None:
        async with a_server() as transport, asyncio.TaskGroup() as group:
            for metadata in ({"name": "default"}, {"name": "blue", "labels": {"team": "one"}}):
                await ask(transport, "POST", "/api/v1/namespaces", {"metadata": metadata})
            for name in "abc":
                await ask(transport, "POST", "/api/v1/nodes", a_node(name, labels={HOSTNAME: name}))
            running = group.create_task(SchedulerRunner(a_scheduler, transport, writer(transport)).run())
            chosen = {"matchLabels": {"team": "one"}}
            await create(transport, app("web", near=[term("db", HOSTNAME, namespaceSelector=chosen)]))

            async def web() -> Object:
                _, found = await ask(transport, "GET", "/api/v1/namespaces/default/pods/web")
                return found

            async def is_told() -> bool:
                conditions = (await web())["status"].get("conditions") or [{}]
                return AFFINITY in conditions[0].get("message", "")

            async def is_placed() -> bool:
                return bool((await web())["spec"].get("nodeName") == "b")

            await until(is_told)
            await create(transport, app("stranger", "db", nodeName="c"))
            await create(transport, app("db", "db", namespace="blue", nodeName="b"))
            await until(is_placed)
            running.cancel()

    asyncio.run(scenario())


def test_replicas_that_keep_apart_take_the_nodes_one_by_one_and_the_last_waits_until_one_goes() -> None:
    async def scenario() -> None:
        async with a_server() as transport, asyncio.TaskGroup() as group:
            await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            for name in "ab":
                await ask(transport, "POST", "/api/v1/nodes", a_node(name, labels={HOSTNAME: name}))
            for i in range(3):
                await create(transport, app(f"web-{i}", "web", apart=[term("web", HOSTNAME)]))
            running = group.create_task(SchedulerRunner(a_scheduler, transport, writer(transport)).run())

            async def places() -> dict[str, str]:
                _, found = await ask(transport, "GET", "/api/v1/namespaces/default/pods")
                return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in found["items"]}

            async def two_are_placed() -> bool:
                return sorted((await places()).values()) == ["", "a", "b"]

            async def the_others_are_placed() -> bool:
                return sorted((await places()).values()) == ["a", "b"]

            await until(two_are_placed)
            gone = next(name for name, node in (await places()).items() if node == "a")
            await ask(transport, "DELETE", f"/api/v1/namespaces/default/pods/{gone}", {"gracePeriodSeconds": 0})
            await until(the_others_are_placed)
            running.cancel()

    asyncio.run(scenario())
