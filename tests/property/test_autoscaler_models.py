"""Random cluster histories under both autoscaler models: hidden pods change nothing, and every purchase has a pod.

A pod that is hidden by its condition must be as good as absent: the same history runs once with such pods and once
without them, and the model must do exactly the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerFlags
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.autoscalers.karpenter import Karpenter
from headgate.nodes.autoscalers.model import AddMachine, AutoscalerModel, Effect
from headgate.nodes.autoscalers.node_claims import NodePool
from headgate.nodes.autoscalers.node_groups import NodeGroup
from unit.nodes.autoscalers.instance_type_fixtures import FakeCloud

MOST = 4
SHAPE = InstanceType("two-cpu", {"cpu": "2", "memory": "4Gi", "pods": "110"})
SECOND = InstanceType("four-cpu", {"cpu": "4", "memory": "4Gi", "pods": "110"}, price=1.5)
HASTY = ClusterAutoscalerFlags(scale_down_unneeded_time_s=60.0, scale_down_delay_after_add_s=60.0)
MODELS: dict[str, Callable[[], AutoscalerModel]] = {
    "cluster-autoscaler": lambda: ClusterAutoscaler(
        [NodeGroup("a", SHAPE, 0, MOST), NodeGroup("b", SECOND, 0, MOST)], HASTY
    ),
    "karpenter": lambda: Karpenter(
        [NodePool("a", (SHAPE,), limits={"cpu": 2000 * MOST}), NodePool("b", (SECOND,), limits={"cpu": 4000 * MOST})]
    ),
}

hiding = st.sampled_from(["SchedulingGated", "WaitingForQueue", "SchedulerError", ""])
moves = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.sampled_from(["500m", "1", "2", "3", "9"])),
        st.tuples(st.just("hidden"), hiding),
        st.tuples(st.just("promised"), st.just("a-0001")),
        st.tuples(st.just("bind"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("run"), st.sampled_from([1, 5, 20, 120, 1000])),
    ),
    max_size=30,
)


def live(model: AutoscalerModel, story: list[tuple[str, Any]], *, hidden: bool) -> list[Effect]:
    """The effects of the model; `hidden`: whether the pods that it must ignore exist."""
    cloud = FakeCloud(model, join_s=3.0, boot_s=7.0).start()
    out: list[Effect] = []
    for number, (what, how) in enumerate(story):
        seen = [name for name in sorted(cloud.pods) if name.startswith("pod")]
        if what == "pod":
            cloud.pod(f"pod-{number}", cpu=how)
        elif what == "hidden" and hidden:
            cloud.pod(f"hidden-{number}", reason=how)
        elif what == "promised":
            cloud.pod(f"pod-{number}", reason="")
            cloud.change(f"pod-{number}", nominatedNodeName=how)
        elif what == "bind" and seen and cloud.nodes:
            name = seen[how % len(seen)]
            if not cloud.pods[name]["spec"].get("nodeName"):
                cloud.bind(name, sorted(cloud.nodes)[how % len(cloud.nodes)])
        elif what == "delete" and seen:
            cloud.delete_pod(seen[how % len(seen)])
        elif what == "run":
            done = cloud.run(how)
            check(cloud, done)
            out += done
    return out


def check(cloud: FakeCloud, done: list[Effect]) -> None:
    for effect in done:
        if isinstance(effect, AddMachine):
            assert effect.pods
            for key in effect.pods:  # no other component binds, nominates or deletes them while the model runs
                pod = cloud.pods[key.removeprefix("default/")]
                assert pod["status"]["conditions"][0]["reason"] == "Unschedulable"
                assert not pod["spec"].get("nodeName")
                assert not pod["status"].get("nominatedNodeName")
    for group in ("a", "b"):
        assert sum(name.startswith(group) for name in cloud.nodes) <= MOST


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=150)
@given(story=moves)
def test_pods_that_their_condition_hides_change_nothing(model: str, story: list[tuple[str, Any]]) -> None:
    assert live(MODELS[model](), story, hidden=True) == live(MODELS[model](), story, hidden=False)
