"""What the suites of scheduling gates share: gates by name, and one change made in two ways."""

from __future__ import annotations

from typing import Any

from harness.objects import PODS
from harness.request_cases import TABLE, Case, Edited, case, get, patch, post, put

P = f"{PODS}/p"


def gates(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def changed(sentence: str, before: dict[str, Any], change: Any) -> Case:
    """The same change as an update and as a merge patch, each on a pod of its own."""
    second = {**before, "metadata": {"name": "q"}}
    return case(
        sentence,
        post(PODS, before).named("made"),
        put(P, Edited("made", {"spec": change})),
        get(P),
        post(PODS, second),
        patch(f"{PODS}/q", {"spec": change}),
        get(f"{PODS}/q", TABLE),
    )


def on_node(expressions: list[Any] | None = None, fields: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    term = {"matchExpressions": expressions, "matchFields": fields}
    return required({key: value for key, value in term.items() if value is not None}, **more)


def required(*terms: Any, preferred: list[Any] | None = None) -> dict[str, Any]:
    affinity: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    if preferred is not None:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"affinity": {"nodeAffinity": affinity}}


def key(name: str, *values: str) -> dict[str, Any]:
    return {"key": name, "operator": "In", "values": list(values)}


NAMED = {"key": "metadata.name", "operator": "In", "values": ["foo"]}
OTHER = {"key": "metadata.name", "operator": "In", "values": ["bar"]}
PREFERRED = [{"weight": 5, "preference": {"matchExpressions": [key("disk", "ssd")]}}]
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
}
BAD_VALUE = {"key": "a", "operator": "In", "values": ["-bad-"]}
SELECTOR = {"nodeSelector": {"foo": "bar"}}
BOTH_PARTS = on_node([key("a", "x")], [NAMED])
