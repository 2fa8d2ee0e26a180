"""Random spread constraints, hard and soft, and what pods are spread by when they state none.

In the namespace `SERVED` there are services and controllers, which select pods and so spread them by default.
"""

from __future__ import annotations

from random import Random
from typing import Any

from real.placements.nodes import HOSTNAME, ZONE

Object = dict[str, Any]

SERVED = "served"
_NO_PORTS = {"ports": [{"port": 80}]}
_TEMPLATE = {
    "metadata": {"labels": {"app": "a", "tier": "b"}},
    "spec": {"containers": [{"name": "main", "image": "app"}]},
}
OWNERS: dict[str, tuple[str, Object]] = {
    "ReplicaSet": ("apps/v1", {"selector": {"matchLabels": {"app": "a"}}}),
    "StatefulSet": (
        "apps/v1",
        {"selector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, "serviceName": "by-app"},
    ),
    "ReplicationController": ("v1", {"selector": {"tier": "b"}}),
}

STANDING: tuple[Object, ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SERVED, "labels": {"team": "red"}}},
    *(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": SERVED}, "spec": spec}
        for name, spec in (
            ("by-app", {"selector": {"app": "a"}, **_NO_PORTS}),
            ("by-both", {"selector": {"app": "a", "tier": "b"}, **_NO_PORTS}),
            ("by-none", _NO_PORTS),
        )
    ),
    *(
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": kind.lower(), "namespace": SERVED},
            "spec": {"replicas": 0, "template": _TEMPLATE, **spec},
        }
        for kind, (version, spec) in OWNERS.items()
    ),
)


def add_spread(draw: Random, pod: Object) -> None:
    if pod["metadata"]["namespace"] == SERVED and draw.random() < 0.5:
        kind = draw.choice(list(OWNERS))
        owner = {"apiVersion": OWNERS[kind][0], "kind": kind, "name": draw.choice([kind.lower(), "gone"])}
        pod["metadata"]["ownerReferences"] = [{**owner, "uid": "u", "controller": draw.random() < 0.9}]
    if draw.random() < 0.7:
        wanted = (_constraint(draw) for _ in range(draw.choice([1, 1, 2, 3])))
        kept = {(each["topologyKey"], each["whenUnsatisfiable"]): each for each in wanted}
        pod["spec"]["topologySpreadConstraints"] = list(kept.values())


def _constraint(draw: Random) -> Object:
    found: Object = {
        "maxSkew": draw.choice([1, 1, 1, 2, 3]),
        "topologyKey": draw.choice([*4 * [HOSTNAME, ZONE], "zone", "disk", "no-such-key"]),
        "whenUnsatisfiable": draw.choice(["DoNotSchedule", "ScheduleAnyway"]),
    }
    selector = draw.choice(
        [
            {"matchLabels": {"app": "a"}},
            {"matchLabels": {"app": "a", "tier": "b"}},
            {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            {},
            None,
        ]
    )
    if selector is not None:
        found["labelSelector"] = selector
        free = [key for key in ("app", "tier", "absent") if key not in str(selector)]
        if draw.random() < 0.2:
            found["matchLabelKeys"] = [draw.choice(free)]
    if found["whenUnsatisfiable"] == "DoNotSchedule" and draw.random() < 0.3:
        found["minDomains"] = draw.randint(1, 4)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.random() < 0.3:
            found[policy] = draw.choice(["Honor", "Ignore"])
    return found
