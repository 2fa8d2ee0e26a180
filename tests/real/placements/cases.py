"""A case: a small cluster and some pods, drawn from a number, which is all that is needed to draw it again."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from real.placements import pod_affinity, pods, topology_spread, volumes
from real.placements.node_rules import add_rules
from real.placements.nodes import draw_node
from real.placements.pod_affinity import add_rules_between
from real.placements.pods import draw_pod
from real.placements.profiles import PREEMPTING, WEIGHTS
from real.placements.sizes import CLIMATES
from real.placements.topology_spread import add_spread
from real.placements.volumes import Storage, add_volumes

Object = dict[str, Any]

STANDING: tuple[Object, ...] = (*pods.STANDING, *topology_spread.STANDING, *pod_affinity.STANDING, *volumes.STANDING)
"""Objects that are there from the beginning, in every case."""
LAST = 2
NAMESPACES = ("default", "default", "default", topology_spread.SERVED, topology_spread.SERVED, pod_affinity.APART)


class Case(NamedTuple):
    number: int
    name: str
    profile: str
    storage: list[Object]
    """To be there before anything else."""
    nodes: list[Object]
    batches: list[list[Object]]
    """Pods of a batch are there at once, those of the next when all of them are decided."""
    leaving: frozenset[str]
    """Pods of the first batch that are deleted before the second batch is created, and terminate as long as they
    may."""


def draw_case(number: int, again: int = 0) -> Case:
    """``again``: the same cluster under other names, since a name is used once."""
    draw = Random(number)
    prefix = f"c{number}" if not again else f"c{number}-again-{again}"
    names = [f"{prefix}-{letter}" for letter in "abcde"[: draw.choice([1, 2, 3, 3, 4, 4, 5, 5])]]
    profile = _choose(draw, WEIGHTS)
    sizes = CLIMATES[_choose(draw, {"roomy": 4, "snug": 6 if profile == PREEMPTING else 2, "harsh": 3})]
    nodes = [draw_node(draw, name, sizes) for name in names]
    chances = {"rules": 0.45, "spread": 0.45, "between": 0.7 if profile == "packing" else 0.45, "volumes": 0.3}
    families = {each for each, chance in chances.items() if draw.random() < chance}
    storage = Storage(draw, prefix, names) if "volumes" in families else None
    if storage and profile == PREEMPTING:
        storage.waiting.clear()  # a pod that waits for its volume is not preempted like the others
    drawn: list[Object] = []
    for i, priority in enumerate(_priorities(draw, profile)):
        namespace = "default" if storage else draw.choice(NAMESPACES)
        pod = draw_pod(draw, f"{prefix}-{i}", namespace, priority, sizes)
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
    batches = _batches(draw, profile, drawn)
    may_leave = profile != PREEMPTING and len(batches) > 1
    leaving = [each for each in batches[0] if may_leave and draw.random() < 0.4]
    for each in leaving:
        each["spec"]["terminationGracePeriodSeconds"] = 30
    gone = frozenset(each["metadata"]["name"] for each in leaving)
    return Case(number, prefix, profile, storage.objects if storage else [], nodes, batches, gone)


def _choose(draw: Random, weights: dict[str, int]) -> str:
    return draw.choices(list(weights), list(weights.values()))[0]


def _priorities(draw: Random, profile: str) -> list[str]:
    """Where pods may preempt, the preemptors are created last; no pod before them can preempt."""
    count = draw.randint(4, 7)
    if profile != PREEMPTING:
        return [draw.choice(["", "", *pods.PRIORITY_CLASSES]) for _ in range(count)]
    first = [draw.choice(["low", "low", "middle"]) for _ in range(count)]
    return [*first, *(draw.choice(["", "high"]) for _ in range(LAST))]


def _batches(draw: Random, profile: str, drawn: list[Object]) -> list[list[Object]]:
    """Those that may preempt come one by one."""
    if profile == PREEMPTING:
        return [drawn[:-LAST], *([each] for each in drawn[-LAST:])]
    return [drawn[:-LAST], drawn[-LAST:]] if draw.random() < 0.3 else [drawn]
