"""The default order of queues, jobs and tasks, and what a gang, a limit or a large pod keeps back: data."""

from __future__ import annotations

import pytest

from headgate.scheduling.framework.effects import Bind, RemoveSchedulingGate, WriteResult
from unit.scheduling.queue_scenarios import SCENARIOS, Scenario, opted_in
from unit.scheduling.queued_world import QueuedWorld


def placed(scenario: Scenario, *, gated: bool) -> dict[str, str]:
    """Where pods go, in the order in which they were bound; every removal and binding succeeds."""
    world = QueuedWorld(*scenario.queues, nodes=scenario.nodes, settings=scenario.settings)
    world.show_groups(*scenario.groups)
    world.show(*map(opted_in, scenario.pods) if gated else scenario.pods)
    found: dict[str, str] = {}
    for _ in range(5):
        todo = world.step(1.0)
        while todo:
            effect, *todo = todo
            if isinstance(effect, RemoveSchedulingGate):
                todo = [*todo, *world.lifted(effect.pod.name)]
            elif isinstance(effect, Bind):
                found[effect.pod.name] = effect.node_name
                todo = [*todo, *world.answer(effect.pod.name, WriteResult.DONE)]
    return found


@pytest.mark.parametrize("gated", [False, True], ids=["plain", "opted-in"])
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_pods_are_placed_as_volcanos_users_expect(scenario: Scenario, gated: bool) -> None:
    found = placed(scenario, gated=gated)
    assert tuple(found) == scenario.placed
    assert {name: found[name] for name in scenario.nodes_of} == scenario.nodes_of


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_the_order_in_which_objects_are_heard_of_does_not_matter(scenario: Scenario) -> None:
    """A restarted scheduler hears of everything at once, in any order."""
    turned = Scenario(
        nodes=scenario.nodes,
        queues=scenario.queues[::-1],
        groups=scenario.groups[::-1],
        pods=scenario.pods[::-1],
        placed=scenario.placed,
        nodes_of=scenario.nodes_of,
    )
    assert placed(turned, gated=True) == placed(scenario, gated=True)
