"""The transport of commands follows what an overloaded API server asks for, and no longer than client-go does."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from headgate.client.io.patient_transport import PatientTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport

REQUEST = HTTPRequest("GET", "/api/v1/pods", "", {})
BUSY = HTTPResponse(429, {"retry-after": "2"}, b"")
GOOD = HTTPResponse(200, {}, b"{}")


class _Answers:
    def __init__(self, *answers: HTTPResponse) -> None:
        self.left = list(answers)

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        assert request is REQUEST
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def _sent(*answers: HTTPResponse) -> tuple[HTTPResponse, list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    transport = PatientTransport(cast(Transport, _Answers(*answers)), sleep)
    return asyncio.run(transport.request(REQUEST)), slept


def test_a_request_is_repeated_after_the_time_that_the_server_asks_for() -> None:
    assert _sent(BUSY, HTTPResponse(503, {"retry-after": "1"}, b""), GOOD) == (GOOD, [2.0, 1.0])


@pytest.mark.parametrize("answer", [GOOD, HTTPResponse(429, {}, b""), HTTPResponse(403, {"retry-after": "1"}, b"")])
def test_other_responses_are_passed_on_at_once(answer: HTTPResponse) -> None:
    assert _sent(answer) == (answer, [])


def test_a_server_that_is_always_busy_is_reported_after_ten_repeats() -> None:
    assert _sent(BUSY) == (BUSY, [2.0] * 10)
