"""Sums over containers and the QoS class, compared with slow references."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.kube.pod_resources import compute_qos_class, sum_containers

NAMES = ("cpu", "memory", "example.com/gpu")
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4).map(str), max_size=3)
CONTAINERS = st.lists(AMOUNTS.map(lambda each: {"resources": {"requests": each}}), min_size=1, max_size=3)
INIT_CONTAINERS = st.lists(
    st.tuples(AMOUNTS, st.booleans()).map(
        lambda pair: {"resources": {"requests": pair[0]}, **({"restartPolicy": "Always"} if pair[1] else {})}
    ),
    max_size=4,
)


def slow_sum(spec: dict[str, Any], name: str) -> int:
    """The largest amount in use at the same time during the life of the pod."""

    def of(container: dict[str, Any]) -> int:
        return int(container["resources"]["requests"].get(name, "0"))

    at_each_moment = []
    sidecars = 0
    for container in spec["initContainers"]:
        if container.get("restartPolicy") == "Always":
            sidecars += of(container)
            at_each_moment.append(sidecars)
        else:
            at_each_moment.append(sidecars + of(container))
    at_each_moment.append(sidecars + sum(of(container) for container in spec["containers"]))
    return max(at_each_moment)


@given(CONTAINERS, INIT_CONTAINERS)
def test_the_sum_is_the_largest_amount_at_any_time(containers: list[Any], init_containers: list[Any]) -> None:
    spec = {"containers": containers, "initContainers": init_containers}
    total = sum_containers(spec, "requests")
    for name in NAMES:
        asked = total[name].value() if name in total else 0
        assert asked == slow_sum(spec, name)


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"example.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": BOTH, "limits": BOTH}], "Guaranteed"),
        ([{"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": BOTH}], "Guaranteed"),
        ([{"requests": BOTH, "limits": BOTH}, {}], "Burstable"),
        ([{"requests": BOTH, "limits": {**BOTH, "cpu": "2"}}], "Burstable"),
    ],
)
def test_the_qos_class_of_a_pod(containers: list[dict[str, Any]], qos: str) -> None:
    assert compute_qos_class({"containers": [{"resources": each} for each in containers]}) == qos


@pytest.mark.parametrize(
    ("resources", "qos"),
    [({}, "BestEffort"), ({"requests": BOTH}, "Burstable"), ({"requests": BOTH, "limits": BOTH}, "Guaranteed")],
)
def test_pod_level_resources_alone_decide_the_qos_class(resources: dict[str, Any], qos: str) -> None:
    containers = [{"resources": {"requests": {"cpu": "1"}}}]
    assert compute_qos_class({"containers": containers, "resources": resources}) == qos
