"""A process that crashes at any write starts no pod while terminating pods use its quota."""

from __future__ import annotations

from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World
from unit.jobs.audited import of_quota_and_pods
from unit.jobs.pods.fixtures import SlowKubelet, a_world, add, add_group, is_gated, pods, started
from unit.jobs.queue_fixtures import PREEMPTION

ENDED = ("Succeeded", "Failed")


def test_a_crash_at_any_write_starts_no_pod_early() -> None:
    def judge(world: World) -> None:
        used = [name for name, pod in pods(world).items() if not is_gated(pod) and pod["status"]["phase"] not in ENDED]
        assert len(used) <= 2, used

    def make() -> CrashingWorld:
        world = a_world(cpu=2, kubelet=SlowKubelet, **PREEMPTION)
        world.check, world.is_counted_write = judge, of_quota_and_pods
        return world

    def scenario(world: CrashingWorld) -> None:
        add(world, "slow", priority="low", grace_s=30)
        add(world, "quick", priority="low", grace_s=10)
        world.advance(2)
        add_group(world, "gang", priority="high")
        world.advance(60)

    def look(title: str, world: CrashingWorld) -> None:
        assert started(world) == ["gang-0", "gang-1"], title

    run_with_crashes(make, scenario, look, stride=3)
