"""What the webhook server knows before it says that it is ready."""

from __future__ import annotations

import asyncio

from headgate.admission.admission_cache import ALWAYS_WATCHED
from headgate.admission.settings import AdmissionSettings
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import NAMESPACES
from headgate.runtime.webhooks.server import WebhookServer

PATIENCE_S = 20.0


def test_the_server_knows_resources_only_when_each_of_them_was_listed() -> None:
    """Not one of them, not all but one; and to know more than is asked for does no harm."""

    async def main() -> None:
        listed: dict[str, asyncio.Event] = {each.collection_path(): asyncio.Event() for each in ALWAYS_WATCHED}

        async def answer(request: HTTPRequest) -> HTTPResponse:
            await listed[request.path].wait()
            if "watch=true" in request.query:
                await asyncio.Event().wait()
            return HTTPResponse(200, {}, b'{"metadata":{"resourceVersion":"1"},"items":[]}')

        server = WebhookServer(InProcessTransport(answer), AdmissionSettings(frozenset({"s"})))
        await asyncio.wait_for(server.wait_for_lists(set()), PATIENCE_S)
        following = [asyncio.create_task(server.watch(each)) for each in ALWAYS_WATCHED]
        every = asyncio.create_task(server.wait_for_lists({*ALWAYS_WATCHED}))
        for resource in (NAMESPACES, *(each for each in ALWAYS_WATCHED if each != NAMESPACES)):
            for _ in range(100):
                await asyncio.sleep(0)
            assert not every.done()
            listed[resource.collection_path()].set()
            await asyncio.wait_for(server.wait_for_lists({resource}), PATIENCE_S)
        await asyncio.wait_for(every, PATIENCE_S)
        for task in following:
            task.cancel()
        await asyncio.wait(following)

    asyncio.run(main())
