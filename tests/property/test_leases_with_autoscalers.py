"""Leases beside the models of both autoscalers: nothing is bought twice, and nothing is missed.

Pods that a machine fits wait in one queue with pods that no machine fits. Machines take their time, often many times
the lease of a pod. Each pod that a machine fits gets one, its promise never lapses, and no machine is bought for a pod
that waits for its queue; the promises of the others lapse, so that they delay no pod for longer than their lease.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.capacity.conf import DEFAULTS
from headgate.capacity.names import GATE, LAPSED, LEASE, OPT_IN, QUEUE_NAME, QUEUES, STAMP
from headgate.kube.api_resources import EVENTS
from headgate.kube.timestamps import format_time
from headgate.nodes.autoscalers.model import EmitAutoscalerEvent
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    RemoveSchedulingGate,
    RemoveStamp,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.gates.autoscaler_signs import PROVISIONING_S
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.scheduler import Scheduler
from unit.nodes.autoscalers.instance_type_fixtures import FakeCloud
from unit.nodes.autoscalers.test_gate_scenarios import MODELS
from unit.scheduling.queued_world import a_queue
from unit.scheduling.world import configured

Object = dict[str, Any]
TICK_S = 2.0


class LeasedCloud:
    """A scheduler with leases, on the API and the cloud that the models of autoscalers use. Writes are executed and
    shown at once."""

    def __init__(self, model: str, cpu: int, join_s: float, boot_s: float) -> None:
        self.cloud = FakeCloud(MODELS[model](), join_s=join_s, boot_s=boot_s).start()
        read, makers = configured([])
        queues = msgspec.structs.replace(DEFAULTS, has_leases=True)
        profiles = tuple(msgspec.structs.replace(each, name="headgate", queues=queues) for each in read.profiles)
        queueing = QueueAdmissionSettings(time_of_day=lambda: self.cloud.now_s)
        self.scheduler = Scheduler(msgspec.structs.replace(read, profiles=profiles), makers, queueing=queueing)
        self.scheduler.object_applied(QUEUES, a_queue("q", str(cpu)), self.cloud.now_s)
        self._shown_nodes: set[str] = set()
        self.visible_s: dict[str, float] = {}
        """How long each pod has been reported as unschedulable, since that began."""

    def submit(self, name: str, lease: str, **spec: Any) -> None:
        annotations = {OPT_IN: "true", QUEUE_NAME: "q", LEASE: lease}
        gates = [{"name": GATE}]
        self.cloud.pod(name, reason="SchedulingGated", annotations=annotations, schedulingGates=gates, **spec)
        self.show(name)

    def show(self, name: str) -> None:
        self.scheduler.pod_applied(self.cloud.pods[name], self.cloud.now_s)

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / TICK_S)):
            for effect in self.cloud.run(TICK_S):
                if isinstance(effect, EmitAutoscalerEvent):
                    self.scheduler.leases.object_applied(EVENTS, self._event(effect), self.cloud.now_s)
            for name, node in self.cloud.nodes.items():
                is_ready = any(each["status"] == "True" for each in node["status"].get("conditions") or ())
                if is_ready and name not in self._shown_nodes:
                    self._shown_nodes.add(name)
                    self.scheduler.node_applied({**node, "spec": {}}, self.cloud.now_s)
            self.work()
            self._measure()

    def work(self) -> None:
        now_s = self.cloud.now_s
        pending = deque(self.scheduler.step(now_s, 100))
        while pending:
            pending.extend(self._perform(pending.popleft()))
            if not pending:
                pending.extend(self.scheduler.step(now_s, 100))

    def _event(self, effect: EmitAutoscalerEvent) -> Object:
        return {
            "metadata": {"name": f"{effect.name}.1", "namespace": effect.namespace},
            "involvedObject": {"kind": "Pod", "name": effect.name, "uid": effect.uid},
            "reason": effect.reason,
            "lastTimestamp": format_time(self.cloud.now_s),
        }

    def _perform(self, effect: Effect) -> list[Effect]:
        now_s = self.cloud.now_s
        if isinstance(effect, RemoveSchedulingGate):
            self._change(effect.pod.name, {STAMP: effect.stamp})
            return self.scheduler.gate_removed(effect.pod.uid, WriteResult.DONE, "", now_s)
        if isinstance(effect, RemoveStamp):
            self._change(effect.pod.name, {STAMP: None, LAPSED: effect.lapse})
            return self.scheduler.stamp_removed(effect.pod.uid, effect.stamp, WriteResult.DONE, now_s)
        if isinstance(effect, SetStatus) and effect.condition is not None:
            self.cloud.set_scheduled_condition(effect.pod.name, effect.condition["reason"])
            self.show(effect.pod.name)
        elif isinstance(effect, Bind):
            self.cloud.bind(effect.pod.name, effect.node_name)
            self.show(effect.pod.name)
            return self.scheduler.bound(effect.pod.uid, WriteResult.DONE, "", now_s)
        return []

    def _change(self, name: str, annotations: dict[str, str | None]) -> None:
        pod = self.cloud.pods[name]
        known = {**pod["metadata"]["annotations"], **annotations}
        kept = {key: value for key, value in known.items() if value}
        spec = {**pod["spec"], "schedulingGates": []}
        self.cloud.pods[name] = {**pod, "metadata": {**pod["metadata"], "annotations": kept}, "spec": spec}
        self.cloud.deliver_pod(name)
        self.show(name)

    def _measure(self) -> None:
        for name, pod in self.cloud.pods.items():
            reasons = {each["reason"] for each in pod["status"].get("conditions") or ()}
            self.visible_s[name] = self.visible_s.get(name, 0.0) + TICK_S if "Unschedulable" in reasons else 0.0

    def lapses(self, name: str) -> bool:
        return LAPSED in self.cloud.pods[name]["metadata"]["annotations"]

    def node_of(self, name: str) -> str:
        return str(self.cloud.pods[name]["spec"].get("nodeName") or "")


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=12, deadline=None)  # an example is an hour of a cluster with an autoscaler, in steps of 2 s
@given(data=st.data())
def test_served_promises_never_lapse_and_nothing_is_bought_twice(model: str, data: Any) -> None:
    lease_s = data.draw(st.sampled_from([30, 60, 200]), label="lease")
    join_s, boot_s = data.draw(st.sampled_from([5.0, 60.0, 400.0])), data.draw(st.sampled_from([10.0, 60.0, 400.0]))
    cpu = data.draw(st.integers(1, 3), label="cpu")
    kinds = data.draw(st.permutations(["served", "served", "stuck", "stuck"]), label="in order")
    names = [f"{number}-{kind}" for number, kind in enumerate(kinds)]
    served, stuck = ([name for name in names if kind in name] for kind in ("served", "stuck"))
    world = LeasedCloud(model, cpu, join_s, boot_s)
    for name in names:
        world.submit(name, f"{lease_s}s", **({"nodeSelector": {"disk": "fast"}} if name in stuck else {}))
    expected = served[:cpu]  # those that the queue has capacity for
    for _ in range(40):
        world.run(100.0)
        for name in stuck:
            assert world.visible_s[name] <= lease_s + 2 * TICK_S, "it is hidden when its lease has ended"
        if all(map(world.node_of, expected)):
            break
    assert all(map(world.node_of, expected)), "a pod was missed"
    assert not any(map(world.lapses, served))
    assert len(world.cloud.bought) == len(expected)


@pytest.mark.parametrize("model", MODELS)
def test_a_promise_lapses_when_its_machine_does_not_come_in_the_time_of_the_autoscaler(model: str) -> None:
    world = LeasedCloud(model, 1, join_s=1e9, boot_s=0.0)
    world.submit("served", "30s")
    world.run(PROVISIONING_S - 30.0)
    assert not world.lapses("served")
    world.run(100.0)
    assert world.lapses("served")
