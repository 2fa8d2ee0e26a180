"""A story told to controllers that die: once undisturbed, then once for every write, before it and after it.

`tell_with_deaths` counts the writes of an undisturbed telling, then tells the story again and again, each time with one
death at the next write: it was not sent, or it was carried out and nobody heard of it. In a batch, every part of it is
such a point. A process that starts afterwards knows what the server says. The end must be the end of the first telling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headgate.owners import effects
from headgate.owners.effects import Answer, Discover, Get, List
from unit.owners.world import World

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
    counts: Callable[[effects.Request], bool] = staticmethod(lambda effect: True)

    def _request(self, effect: effects.Request) -> Answer:
        if isinstance(effect, Get | List | Discover):
            return super()._request(effect)
        is_counted = self.counts(effect)
        self.writes += is_counted
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


def tell(make: Callable[[], Mortal], story: Story, at: int = 0, *, sent: bool = False) -> Mortal:
    world = make()
    world.at, world.sent = at, sent
    story(world)
    return world


def tell_with_deaths(make: Callable[[], Mortal], story: Story, stride: int = 1) -> Iterator[tuple[str, Mortal]]:
    """The undisturbed world first, then one per death, each with a name for who reads a failure."""
    first = tell(make, story)
    assert first.deaths == 0
    yield "undisturbed", first
    for at in range(1, first.writes + 1, stride):
        for sent in (False, True):
            world = tell(make, story, at, sent=sent)
            assert world.deaths == 1, f"nobody died at write {at}"
            yield f"death at write {at} of {first.writes}, {'carried out' if sent else 'not sent'}", world
