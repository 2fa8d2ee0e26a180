"""Installs the CustomResourceDefinitions of the queues (Queue, PodGroup, ClusterQueue, …), and that of GatePolicy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.client.installer import DelayedRequest, InstallRefused, InstallResult, install
from headgate.gate_policies.definitions import DEFINITION
from headgate.http.transport import HTTPResponse, Transport
from headgate.install.uninstall_steps import NO_RESPONSE, OmittedWrite, UninstallSteps
from headgate.kube.crd_builder import unless_foreign
from headgate.quota.kinds.definitions import adapted, definitions

R = TypeVar("R")


async def install_definitions(transport: Transport, *, serve_v1beta1: bool) -> list[InstallResult | InstallRefused]:
    """Installs all kinds in parallel. ``serve_v1beta1``: whether v1beta1 of kueue.x-k8s.io is served as well, because
    the API server converts between the two."""
    installs = [install(each, unless_foreign) for each in DEFINITIONS] + [
        install(each, adapted) for each in definitions(with_older=serve_v1beta1)
    ]
    return await asyncio.gather(*(perform_requests(transport, steps) for steps in installs))


async def install_gate_policies(transport: Transport) -> InstallResult | InstallRefused:
    """Installs GatePolicy, for the feature gate GateOwnership."""
    return await perform_requests(transport, install(DEFINITION, unless_foreign))


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


async def perform_steps(transport: Transport, steps: UninstallSteps[R], say: Callable[[str], None]) -> R:
    """The same for steps that also have lines, which are given to ``say``, and writes that a dry run leaves out."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, DelayedRequest):
                await asyncio.sleep(step.wait_s)
                step = steps.send(await transport.request(step.request))
            else:
                say(f"{step.line} (dry run)" if isinstance(step, OmittedWrite) else step)
                step = steps.send(NO_RESPONSE)
    except StopIteration as done:
        result: R = done.value
        return result
