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
    """Installs all kinds in parallel. ``both``: the server converts between the versions of kueue.x-k8s.io itself."""
    installs = [install(each) for each in DEFINITIONS] + [
        install(each, adapted) for each in definitions(with_older=both)
    ]
    return await asyncio.gather(*(perform_requests(transport, steps) for steps in installs))


async def perform_requests(transport: Transport, steps: Generator[DelayedRequest, HTTPResponse, R]) -> R:
    """Sends the requests of a generator, each after its delay, and returns its result."""
    try:
        delayed = next(steps)
        while True:
            await asyncio.sleep(delayed.wait_s)
            delayed = steps.send(await transport.request(delayed.request))
    except StopIteration as done:
        result: R = done.value
        return result
