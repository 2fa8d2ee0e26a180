"""Removes a gate from pods, several at a time; a pod that fails does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from headgate.client.gate_lifting import GateLiftResult, lift
from headgate.client.gated_pods import GatedPod
from headgate.http.transport import Transport, Unreachable

_MAX_PARALLEL: Final = 8
Progress = Callable[[int, int], None]


async def lift_gate(
    transport: Transport, gate: str, pods: Iterable[GatedPod], *, dry_run: bool, progress: Progress | None = None
) -> list[GateLiftResult]:
    """The results for the pods that have the gate, by the keys of the pods. ``progress`` is told how many of how many
    pods are done."""
    with_gate = [pod for pod in pods if gate in pod.gates]
    limit = asyncio.Semaphore(_MAX_PARALLEL)
    done: list[GateLiftResult] = []

    async def lift_one(pod: GatedPod) -> None:
        async with limit:
            done.append(await _lift(transport, gate, pod, dry_run))
            if progress is not None:
                progress(len(done), len(with_gate))

    async with asyncio.TaskGroup() as tasks:
        for pod in with_gate:
            tasks.create_task(lift_one(pod))
    return sorted(done, key=lambda each: each.pod.key)


async def _lift(transport: Transport, gate: str, pod: GatedPod, dry_run: bool) -> GateLiftResult:
    """Performs the requests for one pod. ``lift`` receives None in place of a response if the server is unreachable."""
    steps = lift(gate, pod, dry_run=dry_run)
    try:
        delayed = next(steps)
        while True:
            await asyncio.sleep(delayed.wait_s)
            try:
                response = await transport.request(delayed.request)
            except Unreachable:
                response = None
            delayed = steps.send(response)
    except StopIteration as finished:
        lifted: GateLiftResult = finished.value
        return lifted
