"""A case: a small cluster and some pods, drawn from a number, which is all that is needed to draw it again."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from real.placements import pods
from real.placements.nodes import draw_node
from real.placements.pods import draw_pod
from real.placements.rules import add_rules

Object = dict[str, Any]

_NOT_HERE = [{"name": "DynamicResources"}]
PROFILES: dict[str, Object] = {
    "without-preemption": {"plugins": {"multiPoint": {"disabled": [*_NOT_HERE, {"name": "DefaultPreemption"}]}}},
}
"""By the name of the scheduler that pods ask for, as in a configuration."""
STANDING: tuple[Object, ...] = pods.STANDING


class Case(NamedTuple):
    number: int
    profile: str
    nodes: list[Object]
    pods: list[Object]


def draw_case(number: int, again: int = 0) -> Case:
    """``again``: the same cluster under other names, since a name is used once."""
    draw = Random(number)
    prefix = f"c{number}" if not again else f"c{number}-again-{again}"
    names = [f"{prefix}-{letter}" for letter in "abcdef"[: draw.randint(1, 5)]]
    nodes = [draw_node(draw, name) for name in names]
    profile = draw.choice(list(PROFILES))
    drawn = []
    for i in range(draw.randint(3, 7)):
        pod = draw_pod(draw, f"{prefix}-{i}", "default")
        pod["spec"]["schedulerName"] = profile
        add_rules(draw, pod["spec"], names)
        drawn.append(pod)
    return Case(number, profile, nodes, drawn)
