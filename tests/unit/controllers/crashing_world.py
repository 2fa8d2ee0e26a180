"""A story told to controllers that die: once undisturbed, and once for every write, before it and after it.

`tell_with_deaths` tells the story undisturbed and branches (`branches.py`) at every write into one variant that dies
before the write is sent and one that dies after it was carried out, before the answer. In a batch, every part of it is
such a point. A process that starts afterwards knows what the server says. What `look` returns for the variants is to be
what it returns for the undisturbed story.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headgate.controllers.framework import effects
from headgate.controllers.framework.effects import Discover, EffectResponse, Get, List
from unit.controllers.forked_variants import Branches
from unit.controllers.world import World

T = TypeVar("T")
Object = dict[str, Any]
Story = Callable[["Mortal"], None]


class Died(Exception):
    """The process is gone; whoever runs the world starts another one."""


class Mortal(World):
    """A world whose controllers die at write number ``at``. ``judge`` is asked after every write of anybody; ``counts``
    says which of them are such points, where others' writes are tried elsewhere."""

    at = 0
    sent = False
    writes = 0
    deaths = 0
    judge: Callable[[World], None] = staticmethod(lambda world: None)
    counts: Callable[[effects.RequestEffect], bool] = staticmethod(lambda effect: True)
    before_write: Callable[[int], None] = staticmethod(lambda number: None)
    """Called with the number of each write that counts."""

    def _request(self, effect: effects.RequestEffect) -> EffectResponse:
        if isinstance(effect, Get | List | Discover):
            return super()._request(effect)
        is_counted = self.counts(effect)
        self.writes += is_counted
        if is_counted:
            self.before_write(self.writes)
        dies = is_counted and self.writes == self.at
        if dies and not self.sent:
            raise Died
        answer = super()._request(effect)
        self.judge(self)
        if dies:
            raise Died
        return answer

    def advance(self, seconds: float) -> World:
        """Until that much time has passed, however often somebody dies meanwhile."""
        end_s = self.server.epoch_s + seconds
        while True:
            try:
                return super().advance(end_s - self.server.epoch_s)
            except Died:
                self.deaths += 1
                self.crash()


def tell_with_deaths(
    make: Callable[[], Mortal], story: Story, look: Callable[[str, Mortal], T], stride: int = 1
) -> dict[str, T]:
    """What ``look`` returned for the undisturbed world and for the world of each death, by a title that names it.
    ``stride``: only every so many writes have deaths."""
    branches: Branches[T] = Branches()

    def tell() -> T:
        world = make()

        def before_write(number: int) -> None:
            if (number - 1) % stride:
                return
            for sent in (False, True):
                if branches.begins(f"death at write {number}, {'carried out' if sent else 'not sent'}"):
                    world.at, world.sent = number, sent
                    return

        world.before_write = before_write
        story(world)
        assert world.deaths == bool(world.at)
        return look(branches.title, world)

    return branches.run(tell)
