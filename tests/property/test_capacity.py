"""The queues against a slow, obvious reference, under all changes of pods, groups and queues.

After every event both have the same state. Every grant is the one that the reference would make next, within all
limits; a gang is granted as a whole, and no pod is granted twice. Watches may show old versions again, and the engine
may restart from what the API shows. A second engine with the same events gives exactly the same results.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity_builders import a_group, a_queue
from headgate.capacity.api.queue import Queue, read_queue
from headgate.capacity.api.stamp import Stamp
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.engine import QueueEngine, WaitReason
from headgate.capacity.names import GATE, MAX_PODS_WITHOUT_NODE
from headgate.kube.timestamps import format_micro_time
from property.reference_queues import ROOT, Group, Pod, SlowQueues

_FOREIGN = "example.com/hold"
_DEFAULT = Queue("default")
"""It exists also if no client created it."""
_QUEUES = ("default", "a", "b", "a1", "a2", "deep")
_LEAVES = ("default", "a1", "deep", "deep")
_GROUPS = ("g", "h")
_MOST = {ROOT: 12, "default": 4, "a": 8, "b": 8, "a1": 3, "a2": 6, "deep": 4}
"""Enough for the queues below it: a queue with a larger capability than an ancestor grants nothing."""
_PLACES = {"default": ROOT, "a": ROOT, "b": ROOT, "a1": "a", "a2": "a", "deep": "a2"}


class World:
    """The objects of the API, the engine, a second engine with the same events, and the reference."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.now_s = 1_000_000.0
        self.versions: dict[str, list[TaskInfo]] = {}
        self.wires: dict[str, dict[str, Any]] = {}
        self.group_wires: dict[str, dict[str, Any]] = {}
        self.engines = [QueueEngine(), QueueEngine()]
        self.lines = [engine.new_granted_pod_queue() for engine in self.engines]
        self.in_line: set[str] = set()
        self.slow = SlowQueues()
        self.granted: dict[str, int] = {}
        self.number = 0
        self.each("namespace_applied", {"metadata": {"name": "ns"}})
        for name in _QUEUES:
            self.plant(name, is_new=True)

    def each(self, method: str, *arguments: Any) -> Any:
        first, second = (getattr(engine, method)(*arguments) for engine in self.engines)
        assert msgspec.json.encode(first) == msgspec.json.encode(second), method
        return first

    def pick(self, of: Any) -> Any:
        return self.draw(st.sampled_from(sorted(of)))

    # Queues and groups.

    def plant(self, name: str, is_new: bool = False) -> None:
        """A queue is created or changed."""
        amount = st.sampled_from([None, None, None, 0, 1, 2, 3])
        deserved, guarantee = self.draw(amount), self.draw(amount)
        most = _MOST[name] if is_new else self.draw(st.integers(0, _MOST[name]))
        capability = self.draw(st.sampled_from([None, most]))
        known = sorted(each for each in (capability, deserved, guarantee) if each is not None)
        # The limits are valid, otherwise the queue would grant nothing; invalid queues are covered by unit tests.
        guarantee = None if guarantee is None else known[0]
        capability = None if capability is None else known[-1]
        deserved = None if deserved is None else known[len(known) // 2]
        window = self.draw(st.sampled_from([None, None, None, 1, 2, 3]))
        places = [_PLACES.get(name, "")] * 6
        parent = self.draw(st.sampled_from(places if is_new else [*places, "nowhere", ROOT]))
        wire = a_queue(
            name,
            cpu=capability,
            capability=self.draw(st.sampled_from([{}, {}, {"memory": 2}])),
            parent="" if name == ROOT else parent,
            deserved=None if deserved is None else {"cpu": deserved},
            guarantee=None if guarantee is None else {"cpu": guarantee},
            state="Open" if is_new else self.draw(st.sampled_from(["Open"] * 9 + ["Closed"])),
            priority=self.draw(st.sampled_from([0, 0, 1])),
            annotations={} if window is None else {MAX_PODS_WITHOUT_NODE: str(window)},
        )
        queue = read_queue(wire)
        self.wires[name] = wire
        self.slow.queues[name] = queue
        self.each("queue_applied", wire)

    def fell(self, name: str) -> None:
        if name in self.wires:
            del self.wires[name], self.slow.queues[name]
            if name == _DEFAULT.name:
                self.slow.queues[name] = _DEFAULT
            self.each("queue_removed", name)

    def regroup(self, name: str) -> None:
        before = self.slow.groups.get(name)
        queue = self.pick(_LEAVES)
        if before is not None:
            queue = self.draw(st.sampled_from([before.queue, before.queue, queue]))
            if queue != before.queue and not self.slow.ready(name):
                self.slow.let_in.discard(name)
        minimum, least = self.draw(st.integers(0, 4)), self.draw(st.sampled_from([None, None, 1, 3]))
        phase = self.draw(st.sampled_from(["Pending", "Pending", "Inqueue"]))
        wire = a_group(name, queue, minimum, phase, **({} if least is None else {"minResources": {"cpu": least}}))
        self.group_wires[name] = wire
        self.slow.groups[name] = Group(queue, minimum, {} if least is None else {"cpu": least * 1000}, 0.0, phase)
        self.each("group_applied", wire)

    def ungroup(self, name: str) -> None:
        if name in self.slow.groups:
            del self.slow.groups[name], self.group_wires[name]
            self.slow.let_in.discard(name)
            self.each("group_removed", "ns", name)

    # Pods.

    def create(self) -> None:
        self.number += 1
        gates = self.draw(st.sampled_from([(GATE,), (GATE,), (GATE,), (_FOREIGN, GATE), ()]))
        group = self.draw(st.sampled_from(["", *_GROUPS]))
        task = TaskInfo(
            uid=f"u{self.number}",
            namespace="ns",
            name=f"p{self.draw(st.integers(0, 4))}-{self.number}",
            requests=self.draw(st.sampled_from([{}, {"cpu": 1000}, {"cpu": 1000, "memory": 1}, {"cpu": 2000}])),
            priority=self.draw(st.sampled_from([0, 0, 5])),
            created_s=float(self.number // 3),
            group=group,
            queue=self.pick(_LEAVES) if not group else "",
            opted_in=self.draw(st.sampled_from([True, True, True, False])),
            gates=gates,
        )
        self.versions[task.uid] = []
        self.slow.pods[task.uid] = Pod(task)
        self.tell(task)

    def tell(self, task: TaskInfo) -> None:
        self.versions[task.uid].append(task)
        self.hear(task)

    def hear(self, task: TaskInfo) -> None:
        pod = self.slow.pods[task.uid]
        pod.hear(task)
        if not task.opted_in and not pod.promised_at:  # a pod that did not opt in requests more than it was promised
            self.granted.pop(task.uid, None)
        self.each("task_applied", task)

    def replace(self, uid: str, **fields: Any) -> None:
        self.tell(msgspec.structs.replace(self.versions[uid][-1], **fields))

    def of_state(self, *states: str) -> list[str]:
        return [uid for uid, pod in self.slow.pods.items() if pod.state() in states]

    def act(self, action: str) -> None:
        states = _ACTS.get(action, ())
        chosen = self.of_state(*states) if states else list(self.slow.pods)
        if chosen:
            getattr(self, f"do_{action}")(self.pick(chosen))

    def do_delete(self, uid: str) -> None:
        del self.slow.pods[uid], self.versions[uid]
        self.in_line.discard(uid)
        self.each("task_removed", uid)

    def do_end(self, uid: str) -> None:
        succeeded = self.draw(st.booleans())
        self.replace(
            uid, is_terminal_or_terminating=True, succeeded=succeeded, is_terminal=succeeded or self.draw(st.booleans())
        )

    def do_free(self, uid: str) -> None:
        self.replace(uid, gates=tuple(gate for gate in self.versions[uid][-1].gates if gate == GATE))

    def do_resize(self, uid: str) -> None:
        self.replace(uid, requests={"cpu": 1000 * self.draw(st.integers(1, 3))})

    def do_rename(self, uid: str) -> None:
        """The pod names another group or queue."""
        group = self.draw(st.sampled_from(["", *_GROUPS]))
        self.replace(uid, group=group, queue=self.pick(_LEAVES) if not group else "")

    def do_opt(self, uid: str) -> None:
        self.replace(uid, opted_in=not self.versions[uid][-1].opted_in)

    def do_withdraw(self, uid: str) -> None:
        """A pod of higher priority is granted before it."""
        self.slow.pods[uid].take_back()
        self.granted.pop(uid, None)
        self.each("revoke", uid, "for another")
        for each in self.each("promises_to_end"):  # a stamp that was sent is removed
            self.each("revocation_confirmed", each)

    def do_stamp(self, uid: str) -> None:
        """The watch delivers the patch that lifted the gate."""
        pod, task = self.slow.pods[uid], self.versions[uid][-1]
        if task.opted_in and not task.is_terminal_or_terminating:
            stamp = Stamp(uid, pod.queue, pod.promised, pod.promised_at)
            self.each("stamped", uid, stamp)
            pod.is_sent = True
            if self.draw(st.booleans()):
                self.replace(uid, gates=(), stamp=stamp)

    def do_place(self, uid: str) -> None:
        self.slow.pods[uid].is_placed = True
        self.each("placed", uid)

    def do_bind(self, uid: str) -> None:
        """A pod cannot be bound before its gate is lifted, and then the API shows the stamp, too."""
        pod, task = self.slow.pods[uid], self.versions[uid][-1]
        has_promise = task.opted_in and pod.promised_at
        stamp = Stamp(uid, pod.queue, pod.promised, pod.promised_at) if has_promise else None
        self.replace(uid, node_name="n1", gates=(), stamp=task.stamp or stamp)

    def do_unplace(self, uid: str) -> None:
        pod = self.slow.pods[uid]
        if not pod.is_bound:
            pod.is_placed = False
            if pod.is_tentative() and pod.promised_at:
                pod.promised_at, pod.is_resting = "", True
                self.granted.pop(uid, None)
        self.each("unplaced", uid)

    def do_ask(self, uid: str) -> None:
        pod = self.slow.pods[uid]
        for each in self.slow.members(pod.task.group) if pod.task.group else [pod]:
            each.is_resting = False
        self.each("wait_reason", uid)

    def do_refuse(self, uid: str) -> None:
        pod = self.slow.pods[uid]
        until_s = self.now_s + self.draw(st.integers(1, 3))
        if not pod.is_stamped and not pod.is_bound:
            pod.promised_at, pod.is_sent, pod.is_placed, pod.put_off_s = "", False, False, until_s
            self.granted.pop(uid, None)
        self.each("refused", uid, until_s, "no")

    def do_evict(self, uid: str) -> None:
        self.slow.pods[uid].is_evicted = True
        self.each("evicted", uid)

    def do_unevict(self, uid: str) -> None:
        self.slow.pods[uid].is_evicted = False
        self.each("unevicted", uid)

    def do_stale(self, uid: str) -> None:
        """The watch shows an old version again."""
        self.hear(self.draw(st.sampled_from(self.versions[uid])))

    # Admission.

    def time_between_steps_s(self) -> float:
        return 1.0

    def admit(self) -> None:
        self.now_s += self.time_between_steps_s()
        self.slow.step_s = self.now_s
        most = self.draw(st.sampled_from([1, 2, 100]))
        slow = self.slow
        for pod in slow.pods.values():
            if pod.put_off_s is not None and pod.put_off_s <= self.now_s:
                pod.put_off_s = None
        for uid in slow.lost():
            if slow.pods[uid].end_promise():
                self.granted.pop(uid, None)
        while (group := slow.next_group()) is not None:
            slow.let_in.add(group)
        left = most
        for grant in self.each("admit", self.now_s, most):
            self.let_grow()
            assert (grant.queue, grant.uids) == slow.next_grant()
            self.check_windows(grant.queue, grant.uids)
            for uid in grant.uids:
                pod = slow.pods[uid]
                assert uid not in self.granted or pod.state() == "growing", "granted twice"
                self.granted[uid] = 1
                assert not set(pod.task.gates) - {GATE}
                pod.promise(grant.queue, pod.task.requests, format_micro_time(self.now_s))
                self.in_line.add(uid)
                for line in self.lines:
                    line.put(uid)
            left -= len(grant.uids)
        if left > 0:
            self.let_grow()
            assert slow.next_grant() is None
        self.remove_stamps()

    def remove_stamps(self) -> None:
        """The stamps of promises that end are removed. Only now is their capacity free."""
        ending = self.each("promises_to_end")
        assert sorted(ending) == sorted(pod.task.uid for pod in self.slow.being_revoked())
        for uid in ending:
            self.each("revocation_confirmed", uid)
            self.slow.pods[uid].take_back()
            self.granted.pop(uid, None)

    def check_windows(self, queue: str, uids: tuple[str, ...]) -> None:
        """No grant makes the number of pods that count in the window of a queue exceed it, unless a gang is larger
        than that."""
        many = sum(not self.slow.pods[uid].is_tentative() for uid in uids)
        for name in self.slow.path(queue) if many else ():
            window, count = self.slow.window(name), self.slow.in_window(name)
            assert window is None or count + many <= window or not count, name

    def let_grow(self) -> None:
        while self.slow.next_grant() is None:
            lost = self.slow.end_short() or self.slow.let_grow()
            if not lost:
                break
            for uid in lost:
                self.granted.pop(uid, None)

    def pop(self) -> None:
        """The pod that is tried next gets a node, if its grant still exists."""
        first, second = (line.pop() for line in self.lines)
        assert first == second == self.slow.next_try(self.in_line)
        if first is not None:
            self.in_line.discard(first)
            if self.slow.pods[first].state() == "reserved":
                self.do_place(first)

    def restart(self) -> None:
        """New engines get the objects of the API, in any order, and nothing else."""
        heard: list[tuple[str, Any]] = [("task_applied", versions[-1]) for versions in self.versions.values()]
        heard += [("queue_applied", wire) for wire in self.wires.values()]
        heard += [("group_applied", wire) for wire in self.group_wires.values()]
        self.engines = [QueueEngine(), QueueEngine()]
        self.lines, self.in_line = [engine.new_granted_pod_queue() for engine in self.engines], set()
        self.each("namespace_applied", {"metadata": {"name": "ns"}})
        for method, shown in self.draw(st.permutations(heard)):
            self.each(method, shown)
        before, self.slow = self.slow, SlowQueues()
        self.slow.queues, self.slow.groups = before.queues, before.groups
        for uid, versions in self.versions.items():
            pod = self.slow.pods[uid] = Pod(versions[-1])
            pod.hear(versions[-1])
        self.granted = {uid: 1 for uid, pod in self.slow.pods.items() if pod.promised_at}

    def check(self) -> None:
        engine, slow = self.engines[0], self.slow
        for name in {*slow.queues, *(slow.place(pod) for pod in slow.pods.values()), ROOT}:
            usage = engine.usage(name)
            assert usage.allocated == slow.held(name, "allocated"), name
            assert usage.reserved == slow.held(name, "reserved"), name
            assert usage.terminating == slow.terminating(name), name
            assert usage.inqueue == slow.inqueue(name)[0], name
            assert usage.pods_without_node == slow.without_node(name), name
            limits = engine.limits(name).capability if name in {*slow.queues, ROOT} else {}
            assert limits.get("cpu") == slow.limit(name, "cpu"), name
        lost = slow.lost()
        for uid, pod in slow.pods.items():
            held = engine.peek_wait_reason(uid)
            if uid in lost:
                assert held is not None
                assert held.why is WaitReason.LOST_TURN
            elif pod.state() == "reserved" and pod.task.group and not slow.can_start(pod.task.group):
                assert held is not None
                assert held.why is (
                    WaitReason.NOT_ENOUGH_PODS if pod.task.group in slow.groups else WaitReason.NO_GROUP
                )
            else:
                assert (held is None) == (pod.state() in ("allocated", "reserved", "gone", "done")), held


_ACTS: dict[str, tuple[str, ...]] = {
    "delete": (),
    "end": (),
    "free": ("foreign",),
    "resize": (),
    "rename": (),
    "opt": ("waiting", "foreign", "not asked"),
    "withdraw": ("reserved", "growing"),
    "stamp": ("reserved",),
    "place": ("reserved",),
    "bind": ("allocated", "reserved"),
    "unplace": ("allocated", "reserved"),
    "ask": ("resting",),
    "refuse": ("reserved",),
    "evict": ("allocated",),
    "unevict": ("gone",),
    "stale": (),
}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_queues_hold_grant_and_refuse_as_slow_ones_do(data: Any) -> None:
    world = World(data.draw)
    for _ in range(data.draw(st.integers(10, 60))):
        action = data.draw(
            st.sampled_from(
                ["create"] * 8
                + ["admit"] * 6
                + ["pop"] * 4
                + ["plant", "fell", "regroup", "regroup", "ungroup", "restart", *_ACTS]
            )
        )
        if action in ("create", "admit", "pop", "restart"):
            getattr(world, action)()
        elif action in ("plant", "fell"):
            getattr(world, action)(world.pick((*_QUEUES, ROOT)))
        elif action in ("regroup", "ungroup"):
            getattr(world, action)(world.pick(_GROUPS))
        else:
            world.act(action)
        world.check()


def test_the_reference_keeps_a_promise_until_its_stamp_is_removed() -> None:
    """A case that random steps find rarely: a gang below its minimum, and the stamp of one member was sent."""
    slow = SlowQueues()
    slow.queues["default"] = _DEFAULT
    slow.groups["g"] = Group("default", 3, {}, 0.0, "Inqueue")
    for uid in ("u1", "u2"):
        slow.pods[uid] = Pod(TaskInfo(uid=uid, namespace="ns", name=uid, requests={}, group="g", opted_in=True))
        slow.pods[uid].promise("default", {}, format_micro_time(1_000_000.0))
    slow.pods["u1"].is_sent = True
    assert slow.end_short() == ["u2"]
    assert (slow.without_node("default"), slow.being_revoked()) == (1, [slow.pods["u1"]])
    assert slow.end_short() == []
