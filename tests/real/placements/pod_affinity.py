"""Random rules between pods: near which others a pod must, must not, or would like (not) to run."""

from __future__ import annotations

from random import Random
from typing import Any

from real.placements.node_rules import PREFERRED, REQUIRED
from real.placements.nodes import HOSTNAME, ZONE
from real.placements.topology_spread import SERVED

Object = dict[str, Any]

APART = "apart"
STANDING: tuple[Object, ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APART, "labels": {"team": "blue"}}},
)


def add_rules_between(draw: Random, spec: Object) -> None:
    rules: Object = {}
    for kind, chance in (("podAffinity", 0.35), ("podAntiAffinity", 0.4)):
        found: Object = {}
        if draw.random() < chance:
            found[REQUIRED] = [_term(draw) for _ in range(draw.choice([1, 1, 1, 2]))]
        if draw.random() < chance:
            count = draw.choice([1, 1, 2])
            found[PREFERRED] = [{"weight": draw.randint(1, 100), "podAffinityTerm": _term(draw)} for _ in range(count)]
        if found:
            rules[kind] = found
    if rules:
        spec.setdefault("affinity", {}).update(rules)


def _term(draw: Random) -> Object:
    found: Object = {"topologyKey": draw.choice([HOSTNAME, HOSTNAME, ZONE, ZONE, "zone", "no-such-key"])}
    selector = draw.choice(
        [
            {"matchLabels": {"app": "a"}},
            {"matchLabels": {"app": "b"}},
            {"matchLabels": {"app": "a", "tier": "b"}},
            {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"]}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            {},
            None,
        ]
    )
    if selector is not None:
        found["labelSelector"] = selector
        free = [key for key in ("app", "tier", "absent") if key not in str(selector)]
        if draw.random() < 0.15:
            found[draw.choice(["matchLabelKeys", "mismatchLabelKeys"])] = [draw.choice(free)]
    if draw.random() < 0.25:
        found["namespaces"] = draw.sample(["default", SERVED, APART, "no-such-namespace"], draw.choice([1, 2]))
    if draw.random() < 0.25:
        excluding = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]}
        picking = {"matchLabels": {"team": draw.choice(["red", "blue"])}}
        found["namespaceSelector"] = draw.choice([{}, picking, picking, excluding])
    return found
