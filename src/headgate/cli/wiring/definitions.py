"""Installs the CustomResourceDefinitions of the queue kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.client.installer import DelayedRequest, InstallRefused, InstallResult, install
from headgate.http.transport import HTTPResponse, Transport
from headgate.quota.kinds.definitions import adapted, definitions

R = TypeVar("R")


async def install_definitions(transport: Transport, *, both: bool) -> list[InstallResult | InstallRefused]:
    """All kinds, at once. ``both``: whether the server converts between the versions of kueue.x-k8s.io itself."""
    asked = [install(each) for each in DEFINITIONS] + [install(each, adapted) for each in definitions(both=both)]
    return await asyncio.gather(*(perform_requests(transport, asking) for asking in asked))


async def perform_requests(transport: Transport, asking: Generator[DelayedRequest, HTTPResponse, R]) -> R:
    """Sends what a generator asks for, when it asks for it, until it has its answer."""
    try:
        ask = next(asking)
        while True:
            await asyncio.sleep(ask.wait_s)
            ask = asking.send(await transport.request(ask.request))
    except StopIteration as done:
        result: R = done.value
        return result
