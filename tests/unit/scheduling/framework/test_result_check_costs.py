"""The cost of result checks for a profile of built-in plugins: their results are not checked per pod."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

from headgate.scheduling.framework import result_checks
from unit.scheduling.world import World, a_node, a_pod

PODS = 50
CHEAP = {"is_built_in", "rejection"}
"""One comparison each."""


def test_answers_of_built_in_plugins_are_not_checked_for_each_pod() -> None:
    world = World(nodes=[a_node("node-a", cpu="100", pods="1000")])
    world.show(a_pod("first", {"cpu": "1"}))
    world.step()
    called: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == result_checks.__file__:
            called[frame.f_code.co_name] += 1

    world.show(*(a_pod(f"p{number}", {"cpu": "1"}) for number in range(PODS)))
    sys.setprofile(count)
    try:
        world.step()
    finally:
        sys.setprofile(None)
    assert len(world.binds) == PODS
    assert {name: number for name, number in called.items() if name not in CHEAP} == {}
