"""A scheduler with a plugin that takes long for each pod: it keeps its Lease, and other tasks of its loop get turns."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

from clusters import a_node, a_pod
from headgate.client.io.leader_elector import LeaderElector
from headgate.client.leader_election import LeaderElectionConfig
from headgate.runtime.scheduler.runner import SchedulerRunner, run_scheduler
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.scheduler import Scheduler
from unit.client.test_leader_elector import Server as LeaseServer
from unit.runtime.serving import a_server, ask, until
from unit.runtime.test_scheduler_runner import writer
from unit.scheduling.world import configured

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
COUNT = 80
TIMING = LeaderElectionConfig(lease_s=2, renew_s=1.5, retry_s=0.1)


class Slow:
    """A plugin that blocks the scheduler's loop."""

    name = "Slow"

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.calls = 0

    def block(self) -> None:
        self.calls += 1
        time.sleep(self.takes_s)


class SlowPreEnqueue(Slow):
    def pre_enqueue(self, pod: PodInfo, /) -> Rejection | None:
        self.block()
        return None


class SlowPermit(Slow):
    def permit(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        self.block()
        return None


def make(plugin: Slow) -> Callable[[Callable[[str], None]], Scheduler]:
    return lambda report: Scheduler(*configured([plugin]), report=report)


async def with_pods(transport: Any, count: int) -> None:
    await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    await ask(transport, "POST", "/api/v1/nodes", a_node("a", cpu="1k", pods="1k"))
    for number in range(count):
        pod = a_pod(f"p{number}", {"cpu": "1m"})
        del pod["metadata"]["uid"]
        status, told = await ask(transport, "POST", PODS, pod)
        assert status == 201, told


def test_a_plugin_that_takes_longer_for_all_pods_than_the_lease_lasts_does_not_lose_the_lease() -> None:
    async def scenario() -> None:
        leases = LeaseServer()
        elector = LeaderElector(leases.connect("slow"), "kube-system", "headgate", "slow", TIMING)
        slow = SlowPreEnqueue(2 * TIMING.lease_s / COUNT)
        elected = 0
        async with a_server() as transport:
            await with_pods(transport, COUNT)

            async def lead() -> None:
                nonlocal elected
                elected += 1
                await run_scheduler(
                    make(slow), transport, write_budget_s=elector.write_budget_s, write_queue_status=False
                )

            running = asyncio.create_task(elector.run(lead))

            async def all_bound() -> bool:
                _, listed = await ask(transport, "GET", PODS)
                return all(each["spec"].get("nodeName") for each in listed["items"])

            await until(all_bound)
            running.cancel()
            await asyncio.wait([running])
        assert elected == 1
        assert slow.calls == COUNT
        assert leases.lease is not None
        assert leases.lease["spec"]["leaseTransitions"] == 0

    asyncio.run(scenario())


def test_other_tasks_of_the_loop_get_turns_while_a_slow_plugin_is_asked_about_a_list_of_pods() -> None:
    async def scenario() -> None:
        slow = SlowPreEnqueue(0.002)
        asked_at_turns: list[int] = []
        async with a_server() as transport:
            await with_pods(transport, COUNT)
            runner = SchedulerRunner(make(slow), transport, writer(transport))
            running = asyncio.create_task(runner.run())
            while not runner.synced.is_set():
                asked_at_turns.append(slow.calls)
                await asyncio.sleep(0)
            asked_at_turns.append(slow.calls)
            running.cancel()
            await asyncio.wait([running])
        steps = [after - before for before, after in itertools.pairwise(asked_at_turns)]
        assert max(steps) <= 16

    asyncio.run(scenario())


def test_other_tasks_of_the_loop_get_a_turn_after_each_pod_for_which_a_plugin_is_slow() -> None:
    async def scenario() -> None:
        slow = SlowPermit(0.012)
        asked_at_turns: list[int] = []
        async with a_server() as transport:
            await with_pods(transport, 16)
            runner = SchedulerRunner(make(slow), transport, writer(transport))
            running = asyncio.create_task(runner.run())
            while slow.calls < 16:
                asked_at_turns.append(slow.calls)
                await asyncio.sleep(0)
            asked_at_turns.append(slow.calls)
            running.cancel()
            await asyncio.wait([running])
        steps = [after - before for before, after in itertools.pairwise(asked_at_turns)]
        assert max(steps) == 1

    asyncio.run(scenario())
