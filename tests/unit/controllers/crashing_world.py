"""Runs a scenario with controllers that crash: once undisturbed, and once for every write, before it and after it.

`run_with_crashes` runs the scenario undisturbed and forks (`forked_variants.py`) at every write into one variant that
crashes before the write is sent and one that crashes after it was performed, before the response. In a batch, every
request is such a point. The next process knows only the state of the server. What `inspect` returns for the variants
must equal what it returns for the undisturbed scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headgate.controllers.framework import effects
from headgate.controllers.framework.effects import Discover, EffectResponse, Get, List
from unit.controllers.forked_variants import ForkedVariants
from unit.controllers.world import World

T = TypeVar("T")
Object = dict[str, Any]
Scenario = Callable[["CrashingWorld"], None]


class Crashed(Exception):
    """The process has crashed; the world starts another one."""


class CrashingWorld(World):
    """A world whose controllers crash at write number ``crash_at``. ``check`` is called after every write;
    ``is_counted_write`` selects the writes that count."""

    crash_at = 0
    sent = False
    writes = 0
    crashes = 0
    check: Callable[[World], None] = staticmethod(lambda world: None)
    is_counted_write: Callable[[effects.RequestEffect], bool] = staticmethod(lambda effect: True)
    before_write: Callable[[int], None] = staticmethod(lambda number: None)
    """Called with the number of each write that counts."""
    after_write: Callable[[int], None] = staticmethod(lambda number: None)
    """Called with the number of each write that counts, after it was performed. If it cuts the controllers off, they do
    not get the response."""

    def _request(self, effect: effects.RequestEffect) -> EffectResponse:
        if isinstance(effect, Get | List | Discover):
            return super()._request(effect)
        is_counted = self.is_counted_write(effect)
        self.writes += is_counted
        if is_counted:
            self.before_write(self.writes)
        crashes_here = is_counted and self.writes == self.crash_at
        if crashes_here and not self.sent:
            raise Crashed
        response = super()._request(effect)
        self.check(self)
        if crashes_here:
            raise Crashed
        if is_counted:
            self.after_write(self.writes)
        return self._unreachable() if self.is_cut_off else response

    def advance(self, seconds: float) -> World:
        """Lets time pass, and restarts the controllers after each crash."""
        end_s = self.server.epoch_s + seconds
        while True:
            try:
                return super().advance(end_s - self.server.epoch_s)
            except Crashed:
                self.crashes += 1
                self.crash()


def run_with_crashes(
    make: Callable[[], CrashingWorld], scenario: Scenario, inspect: Callable[[str, CrashingWorld], T], stride: int = 1
) -> dict[str, T]:
    """What ``inspect`` returned for the undisturbed world and for each crash, by title. ``stride``: only every so many
    writes have crashes."""
    variants: ForkedVariants[T] = ForkedVariants()

    def run() -> T:
        world = make()

        def before_write(number: int) -> None:
            if (number - 1) % stride:
                return
            for sent in (False, True):
                if variants.begin(f"death at write {number}, {'carried out' if sent else 'not sent'}"):
                    world.crash_at, world.sent = number, sent
                    return

        world.before_write = before_write
        scenario(world)
        assert world.crashes == bool(world.crash_at)
        return inspect(variants.title, world)

    return variants.run(run)
