"""Runs a scenario with controllers that lose their server: once undisturbed, and for every write, before and after it.

`run_with_outages` runs the scenario undisturbed and forks (`forked_variants.py`) at every write into variants in which
the server does not answer from that moment on: the write was performed and its response is lost, or it was not
performed. The controllers keep their memory. Meanwhile a user changes objects. When the server answers again, the
watches of one resource begin to deliver events later than the others, as after the restart of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.controllers.framework.reconcile import Controller, Done, Enqueue, ReconcileSteps
from headgate.kube.api_resources import APIResource
from unit.controllers.crashing_world import CrashingWorld, Scenario
from unit.controllers.forked_variants import UNDISTURBED, ForkedVariants
from unit.controllers.world import World

OUTAGE_S = 3.0
LATE_S = 3.0
"""How much later the watches of one resource begin."""


class _Timer(Controller):
    """Calls functions at their time."""

    name = "timer"

    def reconcile(self, key: Callable[[], None], now_s: float) -> ReconcileSteps:
        yield from ()
        key()
        return Done()


def cut_off(world: World, late: APIResource) -> None:
    """Now the server is away. It is back after ``OUTAGE_S``; the watches of ``late`` after ``LATE_S`` more."""

    def return_() -> None:
        world.is_cut_off, world.silent = False, (late,)
        world.enqueue(timer, [Enqueue(hear_late, LATE_S)])

    def hear_late() -> None:
        world.silent = ()

    timer = _Timer()
    world.is_cut_off = True
    world.enqueue(timer, [Enqueue(return_, OUTAGE_S)])


def run_with_outages(
    make: Callable[[], CrashingWorld],
    scenario: Scenario,
    interfere: Callable[[World], None],
    inspect: Callable[[str, CrashingWorld], None],
    late: Sequence[APIResource],
) -> None:
    """``interfere``: what the user does at the beginning of the outage."""
    variants: ForkedVariants[None] = ForkedVariants()

    def run() -> None:
        world = make()

        def begin(number: int, what: str) -> None:
            for resource in late:
                if variants.begin(f"outage at write {number}, {what}, {resource.plural} are watched last"):
                    cut_off(world, resource)
                    interfere(world)
                    return

        world.before_write = lambda number: begin(number, "not performed")
        world.after_write = lambda number: begin(number, "performed")
        scenario(world)
        world.check(world)
        if variants.title != UNDISTURBED:
            assert not world.is_cut_off, variants.title
        inspect(variants.title, world)

    assert len(variants.run(run)) > 1, "there was no write"
