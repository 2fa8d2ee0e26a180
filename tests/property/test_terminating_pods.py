"""Queues on small random clusters whose pods terminate slowly: which pods are unschedulable, and the order of
admission.

After every step the API objects are checked with sums. An admitted pod without a node is ``Unschedulable`` if and only
if it would not fit when the terminating pods that are not overdue are gone, beside all pods that stay and all pods of
equal or higher priority that are nominated there. Otherwise it waits with a nominated node on which it fits. A gang
does so as a whole. A gang that cannot start, because its minimum was raised, its PodGroup is gone, or its pods are
gone, has no promise, no nominated node and no ``Unschedulable``. No grant exceeds a queue's limit, the first pod of a
queue does not wait behind promises of lower priority without a node, and no pod is preempted where retracting such
promises would be enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.capacity.api.stamp import Stamp, read_stamp
from headgate.capacity.names import GROUP_NAMES, OPT_IN, STAMP
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.kube.timestamps import parse_time
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from headgate.scheduling.framework.effects import Effect, Preempt
from property.named_steps import named_steps
from terminating_pods import DAY_S, TerminatingCluster, a_group, a_queue, a_queued_pod

Object = dict[str, Any]

NODES = {"n0": 4, "n1": 4, "n2": 2}
LIMITS = {"q": 8, "p": 5}
GANGS = {"g2": 2, "g3": 3}
NOWHERE = {"zone": "nowhere"}
LONGEST_BACKOFF_S = 11.0


class Judged(TerminatingCluster):
    def __init__(self, sizes: Mapping[str, int] = NODES, limits: Mapping[str, int] = LIMITS) -> None:
        groups = [a_group(name, minimum) for name, minimum in GANGS.items()]
        super().__init__(sizes, [a_queue(name, str(cpu)) for name, cpu in limits.items()], groups)
        self.sizes = sizes
        self.limits = dict(limits)

    # What happens

    def come(self, name: str, cpu: int, queue: str, how: str, priority: int, kind: str) -> None:
        if name in self.pods:
            return
        more: Object = {"nodeSelector": NOWHERE} if kind == "nowhere" else {}
        group = kind if kind in GANGS else ""
        pod = a_queued_pod(name, 2 if group else cpu, how, "q" if group else queue, group, priority=priority, **more)
        pod["metadata"]["uid"] = f"{name}-{self.now_s}"
        if group:
            pod["spec"]["priority"] = 1
        self.create(pod)

    def end(self, name: str, grace_s: int, stops_after_s: float) -> None:
        if name in self.pods:
            self.delete(name, grace_s=grace_s, stops_after_s=stops_after_s)

    def set_minimum(self, group: str, minimum: int) -> None:
        """0: the PodGroup is deleted."""
        if minimum:
            self.set_group(a_group(group, minimum))
        elif group in self.groups:
            self.remove_group(group)

    def regroup(self, name: str, group: str) -> None:
        """Only pods that ask for as much as those of gangs do."""
        if name in self.pods and cpu_of(self.pods[name]) == 2 and "nodeSelector" not in self.pods[name]["spec"]:
            self.pods[name]["spec"]["priority"] = 1
            self.move(name, group)

    def change_size(self, name: str, cpu: int) -> None:
        if name in self.pods and not group_of(self.pods[name]) and not node_of(self.pods[name]):
            self.resize(name, cpu)

    def minimum(self, group: str) -> int:
        """0: there is no such group."""
        return int(self.groups[group]["spec"]["minMember"]) if group in self.groups else 0

    def cordon(self, name: str, cordoned: bool) -> None:
        self.change_node(name, cpu=str(self.sizes[name]), cordoned=cordoned)

    def limit(self, queue: str, cpu: int) -> None:
        self.limits[queue] = cpu
        self.set_limit(queue, cpu)

    def pass_time(self, for_s: float) -> None:
        self.run(for_s)

    def restart(self) -> None:
        self.start()
        self.settle()

    # What the API shows

    def used(self, queue: str) -> int:
        return sum(share_of(each) for each in self.pods.values() if place_of(each) == queue and holds(each))

    def _lift(self, name: str, stamp: str) -> list[Effect]:
        said = super()._lift(name, stamp)
        queue = place_of(self.pods[name])
        assert self.used(queue) <= self.limits[queue], f"{name} lifts {queue} to {self.used(queue)}"
        return said

    def _preempt(self, effect: Preempt, names: list[str]) -> None:
        wire = self.pods[effect.pod.name]
        if not holds(wire) and is_opted_in(wire):
            queue, asked = queue_of(wire), cpu_of(wire)
            idle = sum(share_of(each) for unit in self.idle_below(wire) for each in unit)
            assert self.used(queue) - idle + asked > self.limits[queue], f"{names} need not go for {effect.pod.name}"
        super()._preempt(effect, names)

    def idle_below(self, wire: Object) -> Iterator[list[Object]]:
        """Promises of the same queue that have no node and lower priority; of a gang all of them or none."""
        held = [each for each in self.pods.values() if place_of(each) == queue_of(wire) and holds(each)]
        units: dict[str, list[Object]] = {}
        for each in held:
            units.setdefault(group_of(each) or each["metadata"]["name"], []).append(each)
        for key, unit in units.items():
            gang_is_placed = key in GANGS and sum(bool(node_of(each)) for each in unit) >= self.minimum(key)
            parts = [[each] for each in unit] if gang_is_placed else [unit]
            for part in parts:
                is_lower = max(priority_of(each) for each in unit) < priority_of(wire)
                if is_lower and all(self._is_idle(each) for each in part):
                    yield part

    def _is_idle(self, wire: Object) -> bool:
        name = wire["metadata"]["name"]
        is_told = self.reason(name) == "Unschedulable" and not self.promise(name)
        return STAMP in wire["metadata"]["annotations"] and not node_of(wire) and is_told

    # What must be so

    def check(self) -> None:
        self.run(LONGEST_BACKOFF_S)
        for name, wire in self.pods.items():
            if group_of(wire) and not node_of(wire) and is_opted_in(wire):
                self._check_can_start(name, wire)
            if not node_of(wire) and STAMP in wire["metadata"]["annotations"]:
                self._check_gang(group_of(wire)) if group_of(wire) else self._check_single(name, wire)
            elif not node_of(wire) and is_opted_in(wire) and not group_of(wire):
                self._check_waits(name, wire)

    def _check_can_start(self, name: str, wire: Object) -> None:
        alive = [each for each in self.pods.values() if group_of(each) == group_of(wire) and not is_leaving(each)]
        minimum = self.minimum(group_of(wire))
        if not minimum or sum(bool(node_of(each)) or is_let_in(each) for each in alive) < minimum:
            assert not self.promise(name), f"{name} keeps {self.promise(name)}, and its gang cannot start"
            assert self.reason(name) not in ("Unschedulable", WAITING_FOR_TERMINATING_PODS), (
                f"{name}: {self.reason(name)}"
            )
            assert STAMP not in wire["metadata"]["annotations"], f"{name} keeps its share, and its gang cannot start"

    def _check_single(self, name: str, wire: Object) -> None:
        if cpu_of(wire) > share_of(wire):
            assert self.reason(name) == "WaitingForQueue", f"{name} asks for more, and says {self.reason(name)!r}"
            return
        fits = [node for node in self.sizes if self._fits(node, [wire], [wire])]
        if self.reason(name) == WAITING_FOR_TERMINATING_PODS:
            assert self.promise(name) in fits, f"{name} waits for {self.promise(name)!r}, and fits on {fits}"
        elif not self.promise(name):
            assert self.reason(name) == "Unschedulable", f"{name} has a share, no node, and says {self.reason(name)!r}"
            assert not fits, f"{name} is called a shortage, and will fit on {fits}"

    def _check_gang(self, group: str) -> None:
        """Its pods ask for the same and are equally important, so to give them nodes one by one is as good as any."""
        alive = [each for each in self.pods.values() if group_of(each) == group and not is_leaving(each)]
        promised = [each for each in alive if STAMP in each["metadata"]["annotations"] and not node_of(each)]
        least = self.minimum(group) - sum(bool(node_of(each)) for each in alive)
        if not promised or len(promised) < least or least <= 0:
            return
        if any(not is_opted_in(each) and not node_of(each) for each in alive):
            return  # it may be one of those that wait, or not, as its queue has capacity for it
        reasons = {self.reason(each["metadata"]["name"]) for each in promised}
        if (
            any(self.promise(each["metadata"]["name"]) for each in promised)
            and WAITING_FOR_TERMINATING_PODS not in reasons
        ):
            return
        whole = any(
            all(self._fits(node, [promised[0]] * nodes.count(node), promised) for node in set(nodes))
            for nodes in product(self.sizes, repeat=least)
        )
        waits = sum(self.reason(each["metadata"]["name"]) == WAITING_FOR_TERMINATING_PODS for each in promised)
        assert waits >= least if whole else not waits, f"{waits} of {group} wait; it will fit: {whole}"

    def _fits(self, node: str, pods: list[Object], own: list[Object]) -> bool:
        """``own``: whose promises do not count: they are the pods themselves."""
        if self.nodes[node]["spec"].get("unschedulable") or "nodeSelector" in pods[0]["spec"]:
            return False
        there = sum(map(cpu_of, pods))
        for each in self.pods.values():
            if node_of(each) == node:
                there += 0 if self._leaves_in_time(each) else cpu_of(each)
            elif not node_of(each) and self.promise(each["metadata"]["name"]) == node:
                is_own = any(each is other for other in own)
                there += cpu_of(each) if not is_own and priority_of(each) >= priority_of(pods[0]) else 0
        return there <= self.sizes[node]

    def _leaves_in_time(self, wire: Object) -> bool:
        told = parse_time(wire["metadata"].get("deletionTimestamp", ""))
        return not isinstance(told, str) and told - DAY_S + OVERDUE_AFTER_S > self.now_s

    def _check_waits(self, name: str, wire: Object) -> None:
        if self.scheduler.queues.position(wire["metadata"]["uid"]) == 0:
            idle = sum(share_of(each) for unit in self.idle_below(wire) for each in unit)
            queue = queue_of(wire)
            fits = self.used(queue) - idle + cpu_of(wire) <= self.limits[queue]
            assert not idle or not fits, f"{name} waits behind promises that have no node"


def cpu_of(wire: Object) -> int:
    return int(wire["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def node_of(wire: Object) -> str:
    return str(wire["spec"].get("nodeName", ""))


def queue_of(wire: Object) -> str:
    return str(wire["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"])


def stamp_of(wire: Object) -> Stamp | None:
    return read_stamp(wire["metadata"]["annotations"].get(STAMP), wire["metadata"]["uid"])


def share_of(wire: Object) -> int:
    """What a pod counts with: on a node what it asks for, before that what it was promised."""
    stamp = stamp_of(wire)
    return cpu_of(wire) if node_of(wire) or stamp is None else stamp.requests["cpu"] // 1000


def place_of(wire: Object) -> str:
    """The queue in which it counts."""
    stamp = stamp_of(wire)
    return queue_of(wire) if stamp is None else stamp.queue


def is_let_in(wire: Object) -> bool:
    """Pods that did not opt in have no stamp, and are granted something whenever they are tried."""
    return STAMP in wire["metadata"]["annotations"] or not is_opted_in(wire)


def group_of(wire: Object) -> str:
    return str(wire["metadata"]["annotations"].get(GROUP_NAMES[0], ""))


def priority_of(wire: Object) -> int:
    return int(wire["spec"].get("priority", 0))


def is_opted_in(wire: Object) -> bool:
    return bool(wire["metadata"]["annotations"].get(OPT_IN) == "true")


def is_leaving(wire: Object) -> bool:
    return "deletionTimestamp" in wire["metadata"]


def holds(wire: Object) -> bool:
    return not is_leaving(wire) and bool(node_of(wire) or STAMP in wire["metadata"]["annotations"])


RUNNING = [f"r{number}" for number in range(5)]
NAMES = st.sampled_from([f"p{number}" for number in range(6)])
KINDS = ["", "", "nowhere", "nowhere", "g2", "g2", "g3"]
STEPS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "come": st.tuples(
        NAMES,
        st.integers(1, 4),
        st.sampled_from(["q", "q", "p"]),
        st.sampled_from(["gated", "gated", "bare", "plain"]),
        st.integers(0, 2),
        st.sampled_from(KINDS),
    ),
    "end": st.tuples(
        st.one_of(st.sampled_from(RUNNING), NAMES),
        st.sampled_from([15, 60, 3600, 3600]),
        st.sampled_from([0.0, 14.0, 60.0, float("inf"), float("inf")]),
    ),
    "pass_time": st.tuples(st.sampled_from([1.0, 20.0, 70.0])),
    "set_minimum": st.tuples(st.sampled_from(list(GANGS)), st.integers(0, 3)),
    "regroup": st.tuples(NAMES, st.sampled_from(["", *GANGS])),
    "change_size": st.tuples(NAMES, st.integers(1, 4)),
    "cordon": st.tuples(st.sampled_from(list(NODES)), st.booleans()),
    "restart": st.just(()),
}
OFTEN = ["come"] * 8 + ["end"] * 6
steps = named_steps([*OFTEN, *STEPS], STEPS)
residents = st.lists(
    st.tuples(st.sampled_from(list(NODES)), st.integers(1, 4), st.sampled_from(["q", "p"]), st.integers(0, 3)),
    min_size=2,
    max_size=len(RUNNING),
)


@settings(max_examples=250, deadline=None)
@example(  # a less important pod is crowded out before its gate is off
    [("n2", 4, "q", 2), ("n1", 4, "p", 0), ("n0", 4, "q", 2)],
    0,
    [
        ("come", ("p0", 4, "q", "gated", 0, "")),
        ("end", ("r0", 15, 60.0)),
        ("come", ("p1", 2, "q", "gated", 2, "")),
        ("end", ("r2", 15, float("inf"))),
    ],
)
@example(  # a member that is only tried gives its share back, so that no pod has to go for another member
    [("n0", 1, "q", 0), ("n0", 3, "q", 0), ("n1", 1, "q", 0)],
    1,
    [
        ("come", ("p0", 1, "q", "gated", 0, "")),
        ("end", ("r0", 15, 0.0)),
        ("come", ("p1", 1, "q", "gated", 0, "g2")),
        ("come", ("p3", 1, "q", "plain", 0, "g2")),
        ("come", ("p2", 1, "q", "gated", 0, "g2")),
        ("end", ("r1", 15, 0.0)),
    ],
)
@given(residents, st.integers(0, 4), st.lists(steps, min_size=4, max_size=16))
def test_only_true_shortages_are_unschedulable_and_promises_without_nodes_block_no_pod(
    there: list[tuple[str, int, str, int]], room: int, taken: list[tuple[str, tuple[Any, ...]]]
) -> None:
    cluster = Judged()
    free = dict(NODES)
    for name, (node, cpu, queue, priority) in zip(RUNNING, there, strict=False):
        cpu = min(cpu, free[node])
        if cpu:
            free[node] -= cpu
            cluster.run_pod(name, cpu, node, queue=queue, priority=priority)
    for queue in LIMITS:
        cluster.limit(queue, cluster.used(queue) + room)
    for name, args in taken:
        getattr(cluster, name)(*args)
        cluster.check()


leaving = st.sampled_from([None, 20, 60, 3600])
clusters = st.lists(
    st.tuples(st.integers(2, 4), st.lists(st.tuples(st.integers(1, 3), leaving), min_size=1, max_size=3)),
    min_size=1,
    max_size=3,
)
arrivals = st.lists(
    st.tuples(st.sampled_from(["", "g2", "g2", "g3", "g3"]), st.integers(1, 3), st.sampled_from(["gated", "bare"])),
    min_size=2,
    max_size=7,
)


@settings(max_examples=300, deadline=None)
@given(clusters, arrivals, st.sampled_from([0.0, 15.0, 50.0]))
def test_gangs_and_pods_wait_for_terminating_pods_if_and_only_if_they_fit_then(
    drawn: list[tuple[int, list[tuple[int, int | None]]]], wanted: list[tuple[str, int, str]], later_s: float
) -> None:
    sizes = {f"n{number}": size for number, (size, _) in enumerate(drawn)}
    cluster = Judged(sizes, {"q": 100})
    for node, (size, residents) in zip(sizes, drawn, strict=True):
        for number, (cpu, grace_s) in enumerate(residents):
            cpu = min(cpu, size)
            size -= cpu
            if cpu:
                cluster.run_pod(f"{node}-{number}", cpu, node, priority=9)
                if grace_s is not None:
                    cluster.delete(f"{node}-{number}", grace_s=grace_s, stops_after_s=float("inf"))
    for number, (kind, cpu, how) in enumerate(wanted):
        cluster.come(f"p{number}", cpu, "q", how, 1, kind)
        cluster.check()
    cluster.run(later_s)
    cluster.check()
    cluster.restart()
    cluster.check()
