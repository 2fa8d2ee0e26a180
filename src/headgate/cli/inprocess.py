"""A client of the embedded server in its own process: same requests, same checks, no socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from headgate.apiserver import messages
from headgate.apiserver.shell import Endpoint
from headgate.apiserver.watching import Watch
from headgate.client.inprocess import InProcess
from headgate.client.transport import Request, Response


def in_process(endpoint: Endpoint, token: str, user_agent: str) -> InProcess:
    async def handle(request: Request) -> Response | AsyncGenerator[bytes, None]:
        asked = messages.Request(request.method, request.path, request.query, request.headers, request.body)
        answer = await endpoint.answer(asked)
        if isinstance(answer, Watch):
            return endpoint.events(answer)
        headers = {name.lower(): value for name, value in answer.headers}
        return Response(answer.status, {**headers, "content-type": answer.content_type}, answer.body)

    return InProcess(handle, {"authorization": f"Bearer {token}", "user-agent": user_agent})
