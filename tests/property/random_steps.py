"""A simulated cluster with random steps: deliver one event, do one piece of work, advance the clock, cut a watch,
crash.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headgate.controllers.framework import effects
from headgate.controllers.framework.effects import EffectResponse
from headgate.kube.api_resources import PODS
from unit.controllers.world import World

MOMENT_S = 0.05


class Drawn(World):
    """``judge`` is called before every request of the controllers."""

    judge: Callable[[effects.RequestEffect], None] = staticmethod(lambda effect: None)

    def _request(self, effect: effects.RequestEffect) -> EffectResponse:
        self.judge(effect)
        return super()._request(effect)

    def pass_a_moment(self) -> None:
        """Makes delayed keys due; performs no work."""
        self.server.epoch_s += MOMENT_S
        while self._later and self._later[0][0] <= self.server.epoch_s:
            self._due[heapq.heappop(self._later)[2]] = None

    def move(self, choose: Callable[[Sequence[Any]], Any]) -> None:
        """One step of the controllers."""
        self.settle(choose, steps=1)

    def die(self) -> None:
        self.crash()
        self.deliver_all()

    def cut_pods(self) -> None:
        self.break_watch(PODS)


def chooser(tape: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """Choices from drawn numbers; when these are used up, always the first choice."""
    numbers: Iterator[int] = iter(tape)

    def choose(options: Sequence[Any]) -> Any:
        return options[next(numbers, 0) % len(options)]

    return choose
