"""What `headgate uninstall` does with jobs, pods and Workloads, on the server of a test; then a new Headgate starts."""

from __future__ import annotations

from typing import Any

from embedded import TOKEN
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.client.installer import DelayedRequest
from headgate.http.transport import HTTPResponse
from headgate.install.releasing import release_waiting, remove_finalizers
from headgate.install.uninstall_steps import NO_RESPONSE, UninstallSteps
from unit.controllers.world import World
from unit.jobs.queue_fixtures import WORKLOADS


def uninstall(world: World, *, lifts_gates: bool = True, deletes_data: bool = False) -> list[str]:
    """Returns the printed lines. The controllers have stopped: what they knew is gone."""
    lines: list[str] = []
    _perform(world, release_waiting(lifts_gates=lifts_gates, dry_run=False, definitions={}), lines)
    _perform(world, remove_finalizers(dry_run=False, definitions={}), lines)
    if deletes_data:
        for each in world.server.get(WORKLOADS).body["items"]:
            assert world.server.delete(f"{WORKLOADS}/{each['metadata']['name']}").status == 200
    world.crash()
    return lines


def _perform(world: World, steps: UninstallSteps[Any], lines: list[str]) -> None:
    try:
        step = next(steps)
        while True:
            if not isinstance(step, DelayedRequest):
                lines.append(str(step))
                step = steps.send(NO_RESPONSE)
                continue
            request = step.request
            headers = {"authorization": f"Bearer {TOKEN}", "user-agent": "test", **request.headers}
            sent = ServerRequest(request.method, request.path, request.query, headers, request.body)
            answer = world.server.send(sent)
            assert isinstance(answer, ServerResponse)
            step = steps.send(HTTPResponse(answer.status, {}, answer.body))
    except StopIteration:
        return
