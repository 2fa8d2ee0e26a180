"""What the webhook server knows before it says that it is ready."""

from __future__ import annotations

import asyncio

from headgate.admission.book import WATCHED
from headgate.admission.policy import Policy
from headgate.client.inprocess import InProcess
from headgate.client.transport import Request, Response
from headgate.control.webhooks.shell import WebhookServer
from headgate.kube.resource import NAMESPACES

PATIENCE_S = 20.0


def test_the_server_knows_resources_only_when_each_of_them_was_listed() -> None:
    """Not one of them, not all but one; and to know more than is asked for does no harm."""

    async def main() -> None:
        listed: dict[str, asyncio.Event] = {each.collection(): asyncio.Event() for each in WATCHED}

        async def answer(request: Request) -> Response:
            await listed[request.path].wait()
            if "watch=true" in request.query:
                await asyncio.Event().wait()
            return Response(200, {}, b'{"metadata":{"resourceVersion":"1"},"items":[]}')

        server = WebhookServer(InProcess(answer), Policy(frozenset({"s"})))
        await asyncio.wait_for(server.knows(set()), PATIENCE_S)
        following = [asyncio.create_task(server.follow(each)) for each in WATCHED]
        every = asyncio.create_task(server.knows({*WATCHED}))
        for resource in (NAMESPACES, *(each for each in WATCHED if each != NAMESPACES)):
            for _ in range(100):
                await asyncio.sleep(0)
            assert not every.done()
            listed[resource.collection()].set()
            await asyncio.wait_for(server.knows({resource}), PATIENCE_S)
        await asyncio.wait_for(every, PATIENCE_S)
        for task in following:
            task.cancel()
        await asyncio.wait(following)

    asyncio.run(main())
