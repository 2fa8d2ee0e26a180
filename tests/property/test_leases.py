"""Leases against a slow, obvious reference: every answer of the reference is computed anew from all promises.

Pods get promises, nodes and signs of an autoscaler, are deleted, and lose promises whose lease has ended. Queues, pods
and PriorityClasses change their times, the engine restarts, and the feature gate is switched off and on again. At any
time the engine says that the same leases have ended, grants to the same pods in the same order, holds back the same
lapsed pods, and keeps every promise that has not lapsed.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity_builders import a_group, a_queue, stamped
from headgate.capacity.api.lease import DEFAULT_LEASE_S, Lapse, read_lapse, write_lapse
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.engine import QueueEngine, WaitReason
from headgate.capacity.names import GATE, LEASE

_QUEUE, _CLASS, _GROUP = "q", "quick", "g"
_LEASES = (None, None, None, 10.0, 10.0, 30.0, 700.0, math.inf)
_CPU = 4
_LONGEST_S = 1800.0


def annotation(lease_s: float | None) -> dict[str, str]:
    return {} if lease_s is None else {LEASE: "never" if math.isinf(lease_s) else f"{lease_s:g}s"}


class Pod:
    def __init__(self, task: TaskInfo) -> None:
        self.task = task
        self.began_s: float | None = None
        self.is_promised = self.is_placed = False
        self.lapse: Lapse | None = None
        """As this process knows it; the record on the pod is in the task."""


class LeaseWorld:
    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.has_groups = draw(st.booleans())
        self.now_s = 1_000_000.0
        self.number = 0
        self.pods: dict[str, Pod] = {}
        self.queue_lease_s: float | None = 30.0
        self.class_lease_s: float | None = None
        self.is_on = True
        self.new_engine()

    def new_engine(self) -> None:
        self.engine = QueueEngine(msgspec.structs.replace(DEFAULTS, has_leases=self.is_on))
        self.engine.namespace_applied({"metadata": {"name": "ns"}})
        self.show_queue()
        self.show_class()
        if self.has_groups:
            self.engine.group_applied(a_group(_GROUP, _QUEUE, 2, phase="Inqueue"))

    def show_queue(self) -> None:
        self.engine.queue_applied(a_queue(_QUEUE, _CPU, annotations=annotation(self.queue_lease_s)))

    def show_class(self) -> None:
        self.engine.priority_class_applied(
            {"metadata": {"name": _CLASS, "annotations": annotation(self.class_lease_s)}}
        )

    # The reference

    def lease_s(self, pod: Pod) -> float:
        own = pod.task.lease_s
        of_class = self.class_lease_s if pod.task.priority_class else None
        for each in (own, of_class, self.queue_lease_s):
            if each is not None:
                return each
        return DEFAULT_LEASE_S

    def ends_s(self, pod: Pod) -> float:
        return (self.now_s if pod.began_s is None else pod.began_s) + self.lease_s(pod)

    def members(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.task.group]

    def gang_has_nodes(self) -> bool:
        return sum(pod.is_placed for pod in self.members()) >= 2

    def ended_units(self) -> set[tuple[str, ...]]:
        ended: set[tuple[str, ...]] = set()
        for uid, pod in self.pods.items():
            if pod.is_promised and self.ends_s(pod) <= self.now_s:
                if not pod.task.group or self.gang_has_nodes():
                    ended.add((uid,))
                    continue
                promised = [each for each in self.members() if each.is_promised]
                if all(self.ends_s(each) <= self.now_s for each in promised):
                    ended.add(tuple(sorted(each.task.uid for each in promised)))
        return ended | self.partly_lapsed()

    def partly_lapsed(self) -> set[tuple[str, ...]]:
        """The rest of a gang that is too small because others of it have lapsed."""
        rest = tuple(sorted(each.task.uid for each in self.members() if each.is_promised))
        ready = sum(each.is_promised or each.is_placed for each in self.members())
        return {rest} if rest and ready < 2 and any(map(self.is_held, self.members())) else set()

    def is_held(self, pod: Pod) -> bool:
        """It has lapsed, and does not ask yet."""
        if not self.is_on or pod.is_promised or pod.is_placed or pod.lapse is None:
            return False
        return min(pod.lapse.retry_s, pod.lapse.at_s + _LONGEST_S) > self.now_s

    def key(self, pod: Pod) -> tuple[Any, ...]:
        queued_s = (
            pod.task.created_s if pod.lapse is None or not self.is_on else max(pod.task.created_s, pod.lapse.at_s)
        )
        return (-pod.task.priority, queued_s, pod.task.name)

    def next_single(self) -> str | None:
        used = sum(pod.task.requests["cpu"] for pod in self.pods.values() if pod.is_promised or pod.is_placed)
        fitting = [
            (self.key(pod), uid)
            for uid, pod in self.pods.items()
            if not (pod.is_promised or pod.is_placed or self.is_held(pod))
            and used + pod.task.requests["cpu"] <= _CPU * 1000
        ]
        return min(fitting)[1] if fitting else None

    # Events

    def pick(self, wanted: Any) -> Pod | None:
        found = [uid for uid, pod in self.pods.items() if wanted(pod)]
        return self.pods[self.draw(st.sampled_from(sorted(found)))] if found else None

    def tell(self, pod: Pod, **fields: Any) -> None:
        pod.task = msgspec.structs.replace(pod.task, **fields)
        self.engine.task_applied(pod.task)

    def create(self) -> None:
        self.number += 1
        task = TaskInfo(
            uid=f"u-p{self.number:03}",
            namespace="ns",
            name=f"p{self.number:03}",
            requests={"cpu": 1000 * self.draw(st.sampled_from([1, 1, 2]))},
            priority=self.draw(st.sampled_from([0, 0, 5])),
            created_s=self.now_s - self.draw(st.sampled_from([0.0, 0.0, 50.0])),
            group=_GROUP if self.has_groups and self.draw(st.booleans()) else "",
            queue=_QUEUE,
            opted_in=True,
            gates=(GATE,),
            priority_class=self.draw(st.sampled_from(["", "", _CLASS])),
            lease_s=self.draw(st.sampled_from(_LEASES)),
        )
        self.pods[task.uid] = Pod(task)
        self.engine.task_applied(task)

    def do_delete(self) -> None:
        pod = self.pick(lambda each: True)
        if pod is not None:
            del self.pods[pod.task.uid]
            self.engine.task_removed(pod.task.uid)

    def do_place(self) -> None:
        """The scheduler binds it."""
        pod = self.pick(lambda each: each.is_promised)
        if pod is not None:
            pod.is_promised, pod.is_placed, pod.began_s = False, True, None
            self.tell(pod, node_name="n")

    def do_sign(self) -> None:
        """An Event of an autoscaler, new or old."""
        pod = self.pick(lambda each: each.is_promised)
        if pod is not None and pod.began_s is not None:
            age_s, holds_s = self.draw(st.sampled_from([0.0, 5.0, 2000.0])), self.draw(st.sampled_from([0.0, 900.0]))
            self.engine.renew_lease(pod.task.uid, self.now_s - age_s, holds_s)
            if self.is_on:
                self.renew(pod, self.now_s - age_s, holds_s)

    def renew(self, pod: Pod, from_s: float, holds_s: float = 0.0) -> None:
        lease_s = self.lease_s(pod)
        more_s = 0.0 if math.isinf(lease_s) else max(holds_s - lease_s, 0.0)
        pod.began_s = max(pod.began_s or 0.0, from_s + more_s)

    def do_own_time(self) -> None:
        pod = self.pick(lambda each: True)
        if pod is not None:
            self.tell(pod, lease_s=self.draw(st.sampled_from(_LEASES)))

    def do_queue_time(self) -> None:
        self.queue_lease_s = self.draw(st.sampled_from(_LEASES))
        self.show_queue()

    def do_class_time(self) -> None:
        self.class_lease_s = self.draw(st.sampled_from(_LEASES))
        self.show_class()

    def do_touch(self) -> None:
        """The watch shows it again."""
        pod = self.pick(lambda each: True)
        if pod is not None:
            self.tell(pod, role=self.draw(st.sampled_from(["a", "b"])))

    def later(self) -> None:
        """Some time passes, and the scheduler takes a step."""
        self.now_s += self.draw(st.sampled_from([1.0, 10.0, 30.0, 60.0, 600.0]))
        self.step()

    def restart(self) -> None:
        """Only what the API shows is left; now and then the feature gate is another."""
        self.is_on = self.draw(st.sampled_from([True, True, False]))
        self.new_engine()
        for uid in self.draw(st.permutations(sorted(self.pods))):
            pod = self.pods[uid]
            pod.began_s, pod.lapse = None, pod.task.lapse
            self.engine.task_applied(pod.task)

    # Steps

    def step(self) -> None:
        """What the scheduler does in one step."""
        self.engine.update_leases(self.now_s, self.now_s)
        for pod in self.pods.values():
            if pod.is_promised and pod.began_s is None:
                pod.began_s = self.now_s
        expected = self.ended_units() if self.is_on else set()
        found = self.engine.expired_leases(self.now_s)
        assert set(found) == expected
        assert len(found) == len(expected)
        for unit in found:
            if self.draw(st.sampled_from([True, False, False, False])):
                for uid in unit:
                    self.engine.renew_lease(uid, self.now_s)
                    self.renew(self.pods[uid], self.now_s)
            else:
                self.let_lapse(unit)
        self.engine.update_leases(self.now_s, self.now_s)
        self.admit()

    def let_lapse(self, unit: tuple[str, ...]) -> None:
        pods = [self.pods[uid] for uid in unit]
        count = 1 + max(0 if each.lapse is None else each.lapse.count for each in pods)
        reserved = self.engine.usage(_QUEUE).reserved
        lapses = self.engine.begin_lapse(unit, self.now_s)
        assert lapses == dict.fromkeys(unit, Lapse(count, self.now_s))
        assert self.engine.usage(_QUEUE).reserved == reserved, "it is not free before the stamps are removed"
        waits_together = bool(pods[0].task.group) and not self.gang_has_nodes()
        self.engine.lapse_confirmed(unit)
        for pod in pods:
            pod.is_promised, pod.began_s, pod.lapse = False, None, lapses[pod.task.uid]
            recorded = read_lapse(write_lapse(lapses[pod.task.uid], pod.task.uid), pod.task.uid)
            self.tell(pod, stamp=None, lapse=recorded)
        for pod in self.members() if waits_together else ():
            if not pod.is_promised and not pod.is_placed and not self.is_held(pod):
                pod.lapse = lapses[unit[0]]

    def admit(self) -> None:
        self.engine.revoked_pods()
        grants = self.engine.admit(self.now_s, 100)
        for uid in self.engine.promises_to_end():
            self.engine.revocation_confirmed(uid)  # the scheduler has removed the stamp
        for uid in self.engine.revoked_pods():  # the gang has lost members
            assert self.pods[uid].task.group
            self.pods[uid].is_promised, self.pods[uid].began_s = False, None
            self.tell(self.pods[uid], stamp=None)
        for grant in grants:
            if not self.has_groups:
                assert grant.uids == (self.next_single(),)
            for uid in grant.uids:
                pod = self.pods[uid]
                assert not self.is_held(pod), "it lapsed, and does not ask yet"
                pod.is_promised = True
                pod.task = stamped(pod.task, _QUEUE, f"{self.now_s} {uid}")
        if not self.has_groups:
            assert self.next_single() is None
        for pod in self.pods.values():
            if pod.is_promised:
                self.engine.task_applied(pod.task)

    def check(self) -> None:
        for uid, pod in self.pods.items():
            wait = self.engine.peek_wait_reason(uid)
            if pod.is_placed or (pod.is_promised and not pod.task.group):
                assert wait is None, "a promise that has not lapsed is kept"
            elif self.is_held(pod):
                assert wait is not None
                assert wait.why is WaitReason.LAPSED
        reserved = sum(pod.task.requests["cpu"] for pod in self.pods.values() if pod.is_promised)
        assert self.engine.usage(_QUEUE).reserved.get("cpu", 0) == reserved


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_leases_end_as_slow_ones_do(data: Any) -> None:
    world = LeaseWorld(data.draw)
    for _ in range(data.draw(st.integers(10, 60))):
        action = data.draw(
            st.sampled_from(
                ["create"] * 6
                + ["step", "later", "later"] * 4
                + ["do_delete", "do_place", "do_sign", "do_own_time", "do_queue_time", "do_class_time", "do_touch"]
                + ["restart"]
            )
        )
        getattr(world, action)()
        if action in ("step", "later"):
            world.check()
