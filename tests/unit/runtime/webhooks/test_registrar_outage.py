"""The registrar and an API server that stops and starts again, on a virtual clock."""

from __future__ import annotations

import asyncio

import pytest

from headgate.admission.settings import AdmissionSettings
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable
from headgate.runtime.webhooks.certificates import WebhookCertificates
from headgate.runtime.webhooks.registrar import WebhookRegistrar
from headgate.runtime.webhooks.target import WebhookTarget
from unit.nodes.virtual_loop import run

GOAL_S = 3.0
EMPTY = HTTPResponse(200, {}, b'{"metadata":{"resourceVersion":"1"},"items":[]}')


class StartingServer:
    """A server without objects. It refuses connections until ``starts_s``, and answers 403 until ``ready_s``."""

    def __init__(self, starts_s: float, ready_s: float) -> None:
        self._starts_s, self._ready_s = starts_s, ready_s

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self._check()
        if asyncio.get_running_loop().time() < self._ready_s:
            return HTTPResponse(403, {}, b"{}")
        if request.method == "POST":
            return HTTPResponse(201, {}, request.body)
        return EMPTY if "Selector" in request.query else HTTPResponse(404, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        self._check()
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None: ...

    def _check(self) -> None:
        if asyncio.get_running_loop().time() < self._starts_s:
            raise Unreachable("connection refused", sent=False, connected=False)


@pytest.mark.parametrize(("outage_s", "starting_s"), [(5.0, 0.0), (600.0, 0.0), (600.0, 10.0)])
def test_the_objects_are_written_within_three_seconds_of_the_end_of_an_outage(
    outage_s: float, starting_s: float
) -> None:
    used: list[WebhookCertificates] = []

    async def use(certificates: WebhookCertificates) -> None:
        used.append(certificates)

    async def main() -> None:
        server = StartingServer(outage_s, outage_s + starting_s)
        target, settings = WebhookTarget(url="https://h"), AdmissionSettings(schedulers=frozenset({"headgate"}))
        registrar = WebhookRegistrar(server, ("ours", "secret"), target, settings, use)
        running = asyncio.create_task(registrar.run())
        await registrar.registered.wait()
        late_s = asyncio.get_running_loop().time() - outage_s - starting_s
        running.cancel()
        await asyncio.wait([running])
        assert 0.0 <= late_s <= GOAL_S
        assert len(used) == 1

    run(main())


@pytest.mark.parametrize(("conflicts", "warnings"), [(1, 0), (2, 1)])
def test_a_conflict_is_a_warning_only_if_it_repeats(
    conflicts: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Replicas that start together write at the same time."""

    class OtherReplica(StartingServer):
        left = conflicts

        async def request(self, request: HTTPRequest) -> HTTPResponse:
            if request.method == "POST" and "webhookconfigurations" in request.path and self.left:
                self.left -= 1
                return HTTPResponse(409, {}, b"{}")
            return await super().request(request)

    async def use(certificates: WebhookCertificates) -> None: ...

    async def main() -> None:
        target, settings = WebhookTarget(url="https://h"), AdmissionSettings(schedulers=frozenset({"headgate"}))
        registrar = WebhookRegistrar(OtherReplica(0.0, 0.0), ("ours", "secret"), target, settings, use)
        running = asyncio.create_task(registrar.run())
        await registrar.registered.wait()
        running.cancel()
        await asyncio.wait([running])

    with caplog.at_level("WARNING"):
        run(main())
    said = [each.getMessage() for each in caplog.records]
    assert [each.endswith("was changed by another client at the same time") for each in said] == [True] * warnings
