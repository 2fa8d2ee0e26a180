"""A case: a small cluster and some pods, drawn from a number, which is all that is needed to draw it again."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from real.placements import between, pods, spread, volumes
from real.placements.between import add_rules_between
from real.placements.nodes import draw_node
from real.placements.pods import draw_pod
from real.placements.rules import add_rules
from real.placements.spread import add_spread
from real.placements.volumes import Storage, add_volumes

Object = dict[str, Any]

_NOT_HERE = [{"name": "DynamicResources"}]
PROFILES: dict[str, Object] = {
    "without-preemption": {"plugins": {"multiPoint": {"disabled": [*_NOT_HERE, {"name": "DefaultPreemption"}]}}},
}
"""By the name of the scheduler that pods ask for, as in a configuration."""
STANDING: tuple[Object, ...] = (*pods.STANDING, *spread.STANDING, *between.STANDING, *volumes.STANDING)
"""Objects that are there from the beginning, in every case."""
NAMESPACES = ("default", "default", "default", spread.SERVED, spread.SERVED, between.APART)


class Case(NamedTuple):
    number: int
    name: str
    profile: str
    storage: list[Object]
    """To be there before anything else."""
    nodes: list[Object]
    pods: list[Object]


def draw_case(number: int, again: int = 0) -> Case:
    """``again``: the same cluster under other names, since a name is used once."""
    draw = Random(number)
    prefix = f"c{number}" if not again else f"c{number}-again-{again}"
    names = [f"{prefix}-{letter}" for letter in "abcde"[: draw.choice([1, 2, 3, 3, 4, 4, 5, 5])]]
    is_roomy = draw.random() < 0.6
    nodes = [draw_node(draw, name, is_roomy=is_roomy) for name in names]
    profile = draw.choice(list(PROFILES))
    families = {each for each in ("rules", "spread", "between", "volumes") if draw.random() < 0.45}
    storage = Storage(draw, prefix, names) if "volumes" in families else None
    drawn = []
    for i in range(draw.randint(4, 7)):
        pod = draw_pod(draw, f"{prefix}-{i}", "default" if storage else draw.choice(NAMESPACES), is_modest=is_roomy)
        pod["spec"]["schedulerName"] = profile
        if "rules" in families:
            add_rules(draw, pod["spec"], names)
        if "spread" in families:
            add_spread(draw, pod)
        if "between" in families:
            add_rules_between(draw, pod["spec"])
        if storage:
            add_volumes(draw, pod["spec"], storage)
        drawn.append(pod)
    return Case(number, prefix, profile, storage.objects if storage else [], nodes, drawn)
