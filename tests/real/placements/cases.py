"""A case: a small cluster and some pods, drawn from a number, which is all that is needed to draw it again."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from real.placements import between, pods, spread, volumes
from real.placements.between import add_rules_between
from real.placements.climates import CLIMATES
from real.placements.nodes import draw_node
from real.placements.pods import draw_pod
from real.placements.rules import add_rules
from real.placements.spread import add_spread
from real.placements.volumes import Storage, add_volumes

Object = dict[str, Any]

_NOT_HERE = [{"name": "DynamicResources"}]
PROFILES: dict[str, Object] = {
    "without-preemption": {"plugins": {"multiPoint": {"disabled": [*_NOT_HERE, {"name": "DefaultPreemption"}]}}},
    "with-preemption": {"plugins": {"multiPoint": {"disabled": _NOT_HERE}}},
}
"""By the name of the scheduler that pods ask for, as in a configuration."""
STANDING: tuple[Object, ...] = (*pods.STANDING, *spread.STANDING, *between.STANDING, *volumes.STANDING)
"""Objects that are there from the beginning, in every case."""
PREEMPTING = ("", "high")
NAMESPACES = ("default", "default", "default", spread.SERVED, spread.SERVED, between.APART)


class Case(NamedTuple):
    number: int
    name: str
    profile: str
    storage: list[Object]
    """To be there before anything else."""
    nodes: list[Object]
    batches: list[list[Object]]
    """Pods of a batch are there at once, those of the next when all of them are decided."""


def draw_case(number: int, again: int = 0) -> Case:
    """``again``: the same cluster under other names, since a name is used once."""
    draw = Random(number)
    prefix = f"c{number}" if not again else f"c{number}-again-{again}"
    names = [f"{prefix}-{letter}" for letter in "abcde"[: draw.choice([1, 2, 3, 3, 4, 4, 5, 5])]]
    profile = draw.choice(list(PROFILES))
    weights = {"roomy": 4, "snug": 6 if profile == "with-preemption" else 2, "harsh": 3}
    climate = CLIMATES[draw.choices(list(weights), list(weights.values()))[0]]
    nodes = [draw_node(draw, name, climate) for name in names]
    families = {each for each in ("rules", "spread", "between", "volumes") if draw.random() < 0.45}
    storage = Storage(draw, prefix, names) if "volumes" in families else None
    if storage and profile == "with-preemption":
        storage.waiting.clear()  # nobody preempts a pod that waits for its volume as it would any other
    batches: list[list[Object]] = []
    for i, priority in enumerate(_priorities(draw, profile)):
        namespace = "default" if storage else draw.choice(NAMESPACES)
        pod = draw_pod(draw, f"{prefix}-{i}", namespace, priority, climate)
        pod["spec"]["schedulerName"] = profile
        if "rules" in families:
            add_rules(draw, pod["spec"], names)
        if "spread" in families:
            add_spread(draw, pod)
        if "between" in families:
            add_rules_between(draw, pod["spec"])
        if storage:
            add_volumes(draw, pod["spec"], storage)
        if not batches or (profile == "with-preemption" and priority in PREEMPTING):
            batches.append([])
        batches[-1].append(pod)
    return Case(number, prefix, profile, storage.objects if storage else [], nodes, batches)


def _priorities(draw: Random, profile: str) -> list[str]:
    """Where pods may preempt, those that do come last and one by one; before them nobody can."""
    count = draw.randint(4, 7)
    if profile == "without-preemption":
        return [draw.choice(["", "", *pods.PRIORITY_CLASSES]) for _ in range(count)]
    first = [draw.choice(["low", "low", "middle"]) for _ in range(count)]
    return [*first, *(draw.choice(PREEMPTING) for _ in range(3))]
