"""The hands that call webhooks: what they trust, what they refuse, and how a failure reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hooks import HookServer, Raw, make_certificates
from harness.processes import free_ports
from headgate.apiserver.io.webhook_client import MAX_ANSWER_BYTES, WebhookClient
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookServer]:
    with HookServer(Path(tmp_path_factory.mktemp("hook"))) as running:
        running.hooks["/echo"] = lambda review: {"got": review}
        running.hooks["/moved"] = lambda review: Raw(status=307, headers={"Location": running.url("/echo")})
        running.hooks["/huge"] = lambda review: Raw(b"x" * (MAX_ANSWER_BYTES + 1))
        running.hooks["/late"] = lambda review: Raw(late=True)
        running.hooks["/once"] = lambda review: Raw(b"{}", once=True)
        running.hooks["/cut"] = lambda review: Raw(cut=True)
        yield running


def called(*calls: WebhookCall) -> tuple[WebhookAnswer, ...]:
    async def run() -> tuple[WebhookAnswer, ...]:
        webhooks = WebhookClient()
        try:
            return await webhooks.call(calls)
        finally:
            await webhooks.close()

    return asyncio.run(run())


def a_call(server: HookServer, path: str, ca: bytes | None = None, timeout_s: float = 5) -> WebhookCall:
    return WebhookCall(server.url(path), b"{}", timeout_s, server.ca if ca is None else ca)


def test_an_answer_comes_back_whole(server: HookServer) -> None:
    (answer,) = called(a_call(server, "/echo?timeout=5s"))
    assert (answer.status, answer.body, answer.content_type) == (200, b'{"got": {}}', "application/json")
    assert (answer.problem, answer.no_client) == ("", "")


def test_calls_are_made_together_and_answered_in_order(server: HookServer) -> None:
    waiting = [a_call(server, "/late", timeout_s=0.5), a_call(server, "/echo"), a_call(server, "/late", timeout_s=0.5)]
    late, prompt, late_too = called(*waiting)
    assert prompt.status == 200
    assert late.problem == late_too.problem == f'Post "{server.url("/late")}": context deadline exceeded'
    assert late.took_s + late_too.took_s < 2


def test_a_connection_is_used_again(server: HookServer) -> None:
    async def run() -> None:
        webhooks = WebhookClient()
        before = server.connections
        for _ in range(3):
            (answer,) = await webhooks.call((a_call(server, "/echo"),))
            assert answer.status == 200
        assert server.connections == before + 1
        await webhooks.close()

    asyncio.run(run())


def test_a_kept_connection_that_the_webhook_closes_is_no_failure(server: HookServer) -> None:
    async def run() -> None:
        webhooks = WebhookClient()
        before = server.connections
        for _ in range(3):
            (answer,) = await webhooks.call((a_call(server, "/once"),))
            assert (answer.status, answer.problem) == (200, "")
        assert server.connections == before + 3
        await webhooks.close()

    asyncio.run(run())


def test_a_redirect_is_an_answer_and_is_not_followed(server: HookServer) -> None:
    asked = len(server.asked)
    (answer,) = called(a_call(server, "/moved"))
    assert answer.status == 307
    assert [path for path, _ in server.asked[asked:]] == ["/moved"]


def test_an_answer_without_end_is_cut_off(server: HookServer) -> None:
    (answer,) = called(a_call(server, "/huge"))
    assert answer.problem == f'Post "{server.url("/huge")}": the answer is longer than {MAX_ANSWER_BYTES} bytes'


def test_a_webhook_that_hangs_up_is_an_eof(server: HookServer) -> None:
    (answer,) = called(a_call(server, "/cut"))
    assert answer.problem == f'Post "{server.url("/cut")}": EOF'


def test_a_stranger_is_not_believed(server: HookServer) -> None:
    for ca in (b"", make_certificates("another-authority")[0]):
        (answer,) = called(a_call(server, "/echo", ca))
        reason = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        assert answer.problem == f'Post "{server.url("/echo")}": {reason}'


def test_a_name_that_the_certificate_does_not_have_is_not_believed(server: HookServer) -> None:
    port = server.address.rpartition(":")[2]
    (answer,) = called(WebhookCall(f"https://127.0.0.2:{port}/echo", b"{}", 5, server.ca))
    assert "failed to verify certificate" in answer.problem or "connection refused" in answer.problem
    (answer,) = called(WebhookCall(f"https://localhost:{port}/echo", b"{}", 5, server.ca))
    assert answer.status == 200


def test_a_bundle_that_is_none_gives_no_client(server: HookServer) -> None:
    (answer,) = called(a_call(server, "/echo", b"nonsense"))
    assert answer.no_client == "unable to load root certificates: unable to parse bytes as PEM block"
    (answer,) = called(a_call(server, "/echo", b"-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n"))
    assert answer.no_client == "unable to load root certificates: no valid certificate authority data seen"


def test_nobody_there_is_a_refused_connection() -> None:
    (port,) = free_ports(1)
    (answer,) = called(WebhookCall(f"https://127.0.0.1:{port}/x", b"{}", 5, make_certificates("a")[0]))
    assert answer.problem == (
        f'Post "https://127.0.0.1:{port}/x": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )


def test_only_https_is_spoken(server: HookServer) -> None:
    (answer,) = called(WebhookCall(f"http://{server.address}/echo", b"{}", 5, server.ca))
    assert answer.problem.endswith("only https is allowed")
