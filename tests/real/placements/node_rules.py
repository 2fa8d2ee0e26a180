"""Random rules about nodes: tolerations, node selectors, required and preferred node affinity."""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def add_rules(draw: Random, spec: Object, nodes: list[str]) -> None:
    if draw.random() < 0.4:
        spec["tolerations"] = [_toleration(draw) for _ in range(draw.choice([1, 1, 2]))]
    if draw.random() < 0.2:
        spec["nodeSelector"] = {"zone": draw.choice(["x", "y"])}
    affinity: Object = {}
    if draw.random() < 0.25:
        terms = [_term(draw, nodes) for _ in range(draw.choice([1, 1, 2]))]
        affinity[REQUIRED] = {"nodeSelectorTerms": terms}
    if draw.random() < 0.3:
        count = draw.choice([1, 2])
        affinity[PREFERRED] = [
            {"weight": draw.randint(1, 100), "preference": _term(draw, nodes, may_be_empty=False)} for _ in range(count)
        ]
    if affinity:
        spec.setdefault("affinity", {})["nodeAffinity"] = affinity


def _toleration(draw: Random) -> Object:
    if draw.random() < 0.2:
        return {"operator": "Exists"}
    key = draw.choice(["k", "k", "k", "l", "l", "l", "node.kubernetes.io/unschedulable"])
    found: Object = {"key": key, "operator": draw.choice(["Exists", "Equal"])}
    if found["operator"] == "Equal":
        found["value"] = draw.choice(["", "v", "w"])
    if draw.random() < 0.4:
        found["effect"] = draw.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    return found


def _term(draw: Random, nodes: list[str], *, may_be_empty: bool = True) -> Object:
    fields = [
        {"key": "metadata.name", "operator": "In", "values": [draw.choice([*nodes, "no-such-node"])]},
        {"key": "metadata.name", "operator": "NotIn", "values": [draw.choice(nodes)]},
    ]
    expressions = [
        {"key": "zone", "operator": "In", "values": draw.sample(["x", "y", "7"], 2)},
        {"key": "disk", "operator": "NotIn", "values": [draw.choice("xy")]},
        {"key": "disk", "operator": "Exists"},
        {"key": "zone", "operator": "DoesNotExist"},
        {"key": "zone", "operator": "Gt", "values": ["6"]},
        {"key": "disk", "operator": "Lt", "values": ["10"]},
    ]
    term: Object = {}
    if draw.random() < 0.9:
        term["matchExpressions"] = draw.sample(expressions, draw.choice([1, 1, 2]))
    if draw.random() < 0.25:
        term["matchFields"] = [draw.choice(fields)]
    if not term and not may_be_empty:
        term["matchExpressions"] = [draw.choice(expressions)]
    return term
